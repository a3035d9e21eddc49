package llm

import (
	"encoding/json"
	"net/http"

	"github.com/placet-dev/placet/record"
)

// refusal is why a request is not passed on. Its text holds no value of the request
// but names and places.
type refusal struct {
	status  int
	code    string
	message string
	header  http.Header
}

func (r *refusal) as(code string) *refusal {
	r.code = code
	return r
}

// with adds a header.
func (r *refusal) with(name, value string) *refusal {
	if r.header == nil {
		r.header = http.Header{}
	}
	r.header.Set(name, value)
	return r
}

// surfaced is what an error of the boundary or the verifier means here.
func surfaced(err error) *refusal {
	kind := record.KindOf(err)
	r := &refusal{status: record.SurfaceOf(kind).HTTP, code: string(kind), message: record.PublicMessage(err)}
	if kind == record.Internal {
		// A client tries a 500 again, and nothing was sent: it is the same as unavailable.
		r.status = http.StatusServiceUnavailable
	}
	return r
}

// words by which providers name kinds of errors. Clients look at them.
var words = map[int]struct{ openai, anthropic, gemini string }{
	http.StatusBadRequest:            {"invalid_request_error", "invalid_request_error", "INVALID_ARGUMENT"},
	http.StatusUnauthorized:          {"authentication_error", "authentication_error", "UNAUTHENTICATED"},
	http.StatusForbidden:             {"permission_error", "permission_error", "PERMISSION_DENIED"},
	http.StatusNotFound:              {"not_found_error", "not_found_error", "NOT_FOUND"},
	http.StatusConflict:              {"conflict_error", "invalid_request_error", "ABORTED"},
	http.StatusRequestEntityTooLarge: {"invalid_request_error", "request_too_large", "INVALID_ARGUMENT"},
	http.StatusTooManyRequests:       {"rate_limit_error", "rate_limit_error", "RESOURCE_EXHAUSTED"},
	http.StatusBadGateway:            {"server_error", "api_error", "UNAVAILABLE"},
	http.StatusServiceUnavailable:    {"server_error", "overloaded_error", "UNAVAILABLE"},
	http.StatusGatewayTimeout:        {"server_error", "api_error", "DEADLINE_EXCEEDED"},
}

// body is the refusal as the provider would spell it.
func (r *refusal) body(api API) []byte {
	w, ok := words[r.status]
	if !ok {
		w = words[http.StatusBadRequest]
	}
	message := "placet: " + r.message
	var shape any
	switch api {
	case Anthropic:
		shape = map[string]any{"type": "error", "error": map[string]any{"type": w.anthropic, "message": message, "code": r.code}}
	case Gemini:
		shape = map[string]any{"error": map[string]any{"code": r.status, "message": message, "status": w.gemini,
			"details": []any{map[string]any{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": r.code, "domain": "placet.dev"}}}}
	default:
		shape = map[string]any{"error": map[string]any{"message": message, "type": w.openai, "param": nil, "code": r.code}}
	}
	text, err := json.Marshal(shape)
	if err != nil { // texts and numbers always marshal
		return []byte(`{"error":{}}`)
	}
	return text
}

// write answers the request with the refusal and nothing else.
func (r *refusal) write(w http.ResponseWriter, api API) {
	h := w.Header()
	for name, values := range r.header {
		h[name] = values
	}
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if r.status < http.StatusInternalServerError && r.status != http.StatusTooManyRequests {
		h.Set("X-Should-Retry", "false") // asking again changes nothing; OpenAI's and Anthropic's clients look at it
	}
	w.WriteHeader(r.status)
	_, _ = w.Write(r.body(api)) // the client may be gone; nothing depends on it
}
