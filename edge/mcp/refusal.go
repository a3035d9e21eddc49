package mcp

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/placet-dev/placet/record"
)

// JSON-RPC and MCP error codes (JSON-RPC 2.0 section 5.1; MCP 2026-07-28).
const (
	codeParse              = -32700
	codeInvalidRequest     = -32600
	codeMethodNotFound     = -32601
	codeInvalidParams      = -32602
	codeInternal           = -32603
	codeHeaderMismatch     = -32020
	codeMissingCapability  = -32021
	codeUnsupportedVersion = -32022
)

// refusal is why a request is not served: the HTTP status, and the JSON-RPC
// error if one was understood so far. Its text holds no value of the request.
type refusal struct {
	status  int
	code    int // 0: HTTP only, no JSON-RPC
	message string
	data    any
	header  http.Header
}

// plain refuses below JSON-RPC.
func plain(status int, format string, args ...any) *refusal {
	return &refusal{status: status, message: fmt.Sprintf(format, args...)}
}

// refuse refuses with a JSON-RPC error. MCP 2026-07-28 gives the protocol's own
// errors a status: 404 for an unknown method, else 400.
func refuse(code int, format string, args ...any) *refusal {
	status := http.StatusBadRequest
	if code == codeMethodNotFound {
		status = http.StatusNotFound
	}
	return &refusal{status: status, code: code, message: fmt.Sprintf(format, args...)}
}

// surfaced is what an error of the boundary or the verifier means here.
func surfaced(err error) *refusal {
	kind := record.KindOf(err)
	s := record.SurfaceOf(kind)
	return &refusal{status: s.HTTP, code: s.RPC, message: record.PublicMessage(err)}
}

type errorBody struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data,omitempty"`
}

// body is the JSON-RPC response for the request with this ID. Without one the
// member is left out, as MCP's schema wants it.
func (f *refusal) body(id []byte) []byte {
	code := f.code
	if code == 0 {
		code = codeInvalidRequest
	}
	text, err := json.Marshal(struct {
		JSONRPC string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id,omitempty"`
		Error   errorBody       `json:"error"`
	}{"2.0", id, errorBody{code, f.message, f.data}})
	if err != nil { // data that does not marshal; the refusal stands without it
		return (&refusal{code: code, message: f.message}).body(id)
	}
	return text
}

// write answers the request with the refusal and nothing else.
func (f *refusal) write(w http.ResponseWriter, id []byte) {
	for name, values := range f.header {
		w.Header()[name] = values
	}
	w.Header().Set("Cache-Control", "no-store")
	if f.code == 0 {
		http.Error(w, f.message, f.status)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(f.status)
	_, _ = w.Write(f.body(id)) // the client may be gone; nothing depends on it
}
