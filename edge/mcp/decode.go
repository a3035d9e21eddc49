package mcp

import (
	"bytes"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/placet-dev/placet/canon"
)

// message is one JSON-RPC message after the strict decode. All parts are
// canonical and alias the decoded text.
type message struct {
	id     []byte // a string or an integer; nil when there is none
	method string
	params []byte // an object, or nil
	reply  bool   // a client's response; we never ask, so it answers nothing
}

// decode is the one decode of a request (rule C6). It takes exactly one JSON-RPC
// 2.0 object. Members count in their exact case only, and a member that differs
// from a known one in nothing but case is refused: decoders exist, Go's own among
// them, that take it for the known one. What is decoded here is all that the
// boundary, the SDK and the tool ever see.
//
// A refusal after the ID was read comes with a message that holds it.
func decode(body []byte, lim canon.Limits) (message, *refusal) {
	if text := bytes.TrimLeft(body, " \t\r\n"); len(text) > 0 && text[0] == '[' {
		return message{}, refuse(codeInvalidRequest, "batches are not supported; send one message per request")
	}
	object, blank, err := canon.Object(body, lim)
	if err != nil {
		return message{}, notJSON(err)
	}
	if blank {
		return message{}, refuse(codeParse, "the body is empty")
	}
	if f := exactCase("the message", object, envelopeMembers); f != nil {
		return message{}, f
	}
	var m message
	if f := m.readID(object); f != nil {
		return message{}, f
	}
	if v, _ := canon.Lookup(object, "jsonrpc"); string(v) != `"2.0"` {
		return m, refuse(codeInvalidRequest, `jsonrpc must be "2.0"`)
	}
	return m, m.readRest(object)
}

var envelopeMembers = []string{"jsonrpc", "id", "method", "params", "result", "error"}

func notJSON(err error) *refusal {
	var e *canon.Error
	if !errors.As(err, &e) {
		return refuse(codeParse, "the body is not one JSON object")
	}
	f := refuse(codeParse, "the body is not acceptable JSON: %v", e)
	if strings.HasPrefix(e.Reason, "larger than") {
		f.status = http.StatusRequestEntityTooLarge
	}
	return f
}

// maxID bounds what is echoed.
const maxID = 256

// readID takes a string or an integer. null, fractions and all else are refused:
// peers disagree on whether such a request wants an answer.
func (m *message) readID(object []byte) *refusal {
	v, ok := canon.Lookup(object, "id")
	if !ok {
		return nil
	}
	if len(v) > maxID || !(v[0] == '"' || integer(v)) {
		return refuse(codeInvalidRequest, "id must be a string or an integer, of at most %d bytes", maxID)
	}
	m.id = v
	return nil
}

// integer reports whether canonical JSON is a whole number written out.
func integer(v []byte) bool {
	digits := bytes.TrimPrefix(v, []byte("-"))
	return len(digits) > 0 && !slices.ContainsFunc(digits, func(c byte) bool { return c < '0' || c > '9' })
}

func (m *message) readRest(object []byte) *refusal {
	_, hasResult := canon.Lookup(object, "result")
	_, hasError := canon.Lookup(object, "error")
	method, hasMethod := canon.Lookup(object, "method")
	switch {
	case hasMethod && (hasResult || hasError), hasResult && hasError:
		return refuse(codeInvalidRequest, "a message is a request, a result or an error, and only one of them")
	case !hasMethod && m.id != nil && (hasResult || hasError):
		m.reply = true
		return nil
	case !hasMethod:
		return refuse(codeInvalidRequest, "method is missing")
	}
	var ok bool
	if m.method, ok = canon.Text(method); !ok || m.method == "" || len(m.method) > 128 {
		return refuse(codeInvalidRequest, "method must be a name of at most 128 bytes")
	}
	if p, given := canon.Lookup(object, "params"); given {
		if p[0] != '{' {
			return refuse(codeInvalidParams, "params must be an object")
		}
		m.params = p
	}
	return nil
}

// exactCase refuses a member that equals a known one but for case. The fold is
// Unicode's simple one, which is what lenient decoders use: "ſ" counts as "s".
func exactCase(where string, object []byte, known []string) *refusal {
	for name := range canon.Members(object) {
		if slices.Contains(known, name) {
			continue
		}
		for _, k := range known {
			if strings.EqualFold(name, k) {
				return refuse(codeInvalidRequest, "%s has a member that is %q in other case; names count exactly", where, k)
			}
		}
	}
	return nil
}

// encode writes the message again, from its decoded parts alone.
func (m message) encode() []byte {
	out := make([]byte, 0, len(m.params)+len(m.id)+len(m.method)+64)
	out = append(out, `{"jsonrpc":"2.0"`...)
	if m.id != nil {
		out = append(append(out, `,"id":`...), m.id...)
	}
	out = append(append(out, `,"method":`...), quote(m.method)...)
	if m.params != nil {
		out = append(append(out, `,"params":`...), m.params...)
	}
	return append(out, '}')
}
