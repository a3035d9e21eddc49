package verify

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
)

// harmless reports whether a method of MCP runs nothing. All others need a token,
// so that one which a later revision adds is closed until somebody looked at it.
func harmless(method string) bool {
	switch method {
	case "initialize", "ping", "server/discover", "tools/list", "subscriptions/listen":
		return true
	}
	return strings.HasPrefix(method, "notifications/")
}

// Middleware guards an MCP server over Streamable HTTP. It lets listing and
// greeting through, and a tools/call only with a token for it in the header;
// the [Call] is then in the request's context. Everything else that could run
// something is refused. It reads each body once, strictly, and hands the same
// bytes on: what next decodes is what was checked.
//
// A refusal is HTTP status 401 with a JSON-RPC error. Placet takes that as proof
// that nothing happened.
func (v *Verifier) Middleware(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Method {
		case http.MethodGet, http.MethodHead, http.MethodDelete, http.MethodOptions:
			next.ServeHTTP(w, r) // these carry no message
			return
		case http.MethodPost:
		default:
			http.Error(w, "POST a message", http.StatusMethodNotAllowed)
			return
		}
		text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, v.maxBody))
		if err != nil || r.Header.Get("Content-Encoding") != "" {
			http.Error(w, "the message is too large, was cut short, or is encoded", http.StatusBadRequest)
			return
		}
		m, err := readMessage(text)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(text))
		if !m.guarded() {
			next.ServeHTTP(w, r)
			return
		}
		call, err := v.message(r, m)
		if err != nil {
			refuseHTTP(w, m, err)
			return
		}
		next.ServeHTTP(w, r.WithContext(Into(r.Context(), call)))
	})
}

// message is what of a JSON-RPC message matters here. Values are canonical.
type message struct {
	id               string // JSON
	method, tool     string
	arguments, input []byte
	response         bool
}

func (m message) guarded() bool {
	return !m.response && !harmless(m.method)
}

func (v *Verifier) message(r *http.Request, m message) (Call, error) {
	tokens := r.Header.Values(Header)
	switch {
	case m.method != "tools/call":
		return Call{}, refuse(NoToken, "this server takes no "+quoteShort(m.method)+": there is no token for it")
	case len(tokens) > 1:
		return Call{}, refuse(BadToken, "there are several")
	case len(tokens) == 0:
		tokens = []string{""}
	}
	call, err := v.Check(r.Context(), tokens[0], m.tool, m.arguments)
	if err == nil {
		err = call.CheckInput(m.input)
	}
	return call, err
}

// quoteShort quotes a method, which is a caller's text, as JSON.
func quoteShort(s string) string {
	if len(s) > 64 {
		s = strings.ToValidUTF8(s[:64], "") + "…"
	}
	return string(quote(nil, s))
}

// around is how many levels a message adds around the arguments.
const around = 2

var errMessage = errors.New("this server takes one JSON-RPC message at a time, in strict JSON")

// readMessage reads one message. Readers that fold case or take the last of equal
// names would see another message than this one, so such texts are refused, and so
// are batches.
func readMessage(text []byte) (m message, err error) {
	if _, err := canonicalTo(text, maxDepth+around); err != nil {
		return m, errMessage
	}
	all, ok := membersOf(text)
	if !ok || !exactly(all, "jsonrpc", "id", "method", "params", "result", "error") {
		return m, errMessage
	}
	for _, f := range all {
		switch f.name {
		case "id":
			m.id = string(f.value)
		case "method":
			if m.method, ok = textOf(f.value); !ok || m.method == "" {
				return m, errMessage
			}
		case "result", "error":
			m.response = true
		case "params":
			if err := m.readParams(f.value); err != nil {
				return m, err
			}
		}
	}
	if m.response == (m.method != "") {
		return m, errMessage
	}
	return m, nil
}

func (m *message) readParams(text []byte) error {
	all, ok := membersOf(text)
	if !ok {
		return nil // not an object: no call has such params
	}
	if !exactly(all, "name", "arguments", "inputResponses", "requestState", "_meta") {
		return errMessage
	}
	var answers []byte
	for _, f := range all {
		switch f.name {
		case "name":
			m.tool, _ = textOf(f.value)
		case "arguments":
			m.arguments = f.value
		case "inputResponses", "requestState":
			answers = append(append(append(append(answers, ','), quote(nil, f.name)...), ':'), f.value...)
		}
	}
	if answers != nil {
		answers[0] = '{'
		m.input = append(answers, '}')
	}
	return nil
}

// membersOf reads the members of an object.
func membersOf(text []byte) ([]member, bool) {
	r := &reader{text: text, depth: maxDepth + around}
	if !r.take('{') {
		return nil, false
	}
	return r.members(1)
}

func textOf(value []byte) (string, bool) { return (&reader{text: value}).string() }

// exactly reports whether no member's name is one of these in another case.
func exactly(all []member, names ...string) bool {
	return !slices.ContainsFunc(all, func(m member) bool {
		return slices.ContainsFunc(names, func(n string) bool { return m.name != n && strings.EqualFold(m.name, n) })
	})
}

// refuseHTTP answers a refusal: the status for whoever looks at that, and the
// error for whoever reads the body.
func refuseHTTP(w http.ResponseWriter, m message, why error) {
	id := json.RawMessage(m.id)
	if len(id) == 0 {
		id = json.RawMessage("null")
	}
	text, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id,
		"error": map[string]any{"code": -32602, "message": why.Error(), "data": map[string]any{"reason": ReasonOf(why)}}})
	if err != nil {
		text = nil // the id was read as JSON: it always marshals
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("WWW-Authenticate", "Placet-Dispatch")
	w.WriteHeader(http.StatusUnauthorized)
	_, _ = w.Write(text)
}
