package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/placet-dev/placet/dispatch"
)

// A message is one JSON-RPC message from a server. Raw members alias the text it
// was read from.
type message struct {
	id     json.RawMessage // nil when absent
	method string
	params json.RawMessage
	result json.RawMessage
	fault  *fault
}

// fault is a JSON-RPC error object.
type fault struct {
	code    int64
	message string             // the server's words: for operators only
	needs   dispatch.Questions // error -32021: what it would have asked
}

func (f *fault) Error() string {
	return fmt.Sprintf("the server answered error %d: %s", f.code, f.message)
}

func (m *message) isResponse() bool     { return m.method == "" }
func (m *message) isRequest() bool      { return m.method != "" && m.id != nil }
func (m *message) isNotification() bool { return m.method != "" && m.id == nil }

// answers reports whether m is the response to the request with this ID.
func (m *message) answers(id int64) bool {
	var room [20]byte
	return m.isResponse() && bytes.Equal(m.id, strconv.AppendInt(room[:0], id, 10))
}

var (
	errBatch    = errors.New("a batch is not a message")
	errShape    = errors.New("not a JSON-RPC 2.0 message")
	errTrailing = errors.New("data after the message")
)

// readMessage reads exactly one message, strictly: no duplicate names at any
// depth, UTF-8 only, names compared in exact case, nothing after it. JSON
// readers differ in what they make of anything else, so that a text which needs
// a lenient one has no single meaning.
func readMessage(text []byte) (message, error) {
	var m message
	version := false
	err := eachMember(text, func(name string, value []byte) error {
		switch name {
		case "jsonrpc":
			version = string(value) == `"2.0"`
		case "id":
			if k := kind(value); k != '"' && k != '0' && k != 'n' {
				return errShape
			}
			m.id = json.RawMessage(value)
		case "method":
			s, err := unquote(value)
			if err != nil || s == "" {
				return errShape
			}
			m.method = s
		case "params":
			if k := kind(value); k != '{' && k != '[' && k != 'n' {
				return errShape
			}
			m.params = json.RawMessage(value)
		case "result":
			m.result = json.RawMessage(value)
		case "error":
			f, err := readFault(value)
			if err != nil {
				return err
			}
			m.fault = f
		}
		return nil
	})
	if err != nil {
		return message{}, err
	}
	answer := m.result != nil || m.fault != nil
	switch {
	case !version, m.method == "" && !answer, m.method != "" && answer, m.result != nil && m.fault != nil:
		return message{}, errShape
	case m.method == "" && m.id == nil:
		return message{}, errShape
	}
	return m, nil
}

func readFault(text []byte) (*fault, error) {
	f, coded := &fault{}, false
	err := eachMember(text, func(name string, value []byte) error {
		switch name {
		case "code":
			n, err := strconv.ParseInt(string(value), 10, 64)
			if err != nil {
				return errShape
			}
			f.code, coded = n, true
		case "message":
			s, err := unquote(value)
			if err != nil {
				return errShape
			}
			f.message = clip(s, 500)
		case "data":
			f.needs = readNeeds(value)
		}
		return nil
	})
	if err == nil && !coded {
		err = errShape
	}
	if f.code != -32021 {
		f.needs = dispatch.Questions{}
	}
	return f, err
}

// readNeeds reads the data of a missing capability. What it does not know counts
// for nothing.
func readNeeds(data []byte) (q dispatch.Questions) {
	_ = eachMember(data, func(name string, value []byte) error {
		if name != "requiredCapabilities" {
			return nil
		}
		return eachMember(value, func(name string, _ []byte) error {
			q.Form = q.Form || name == "elicitation"
			q.Sampling = q.Sampling || name == "sampling"
			q.Roots = q.Roots || name == "roots"
			return nil
		})
	})
	return q
}

// eachMember yields the members of the one JSON object that text holds.
func eachMember(text []byte, yield func(name string, value []byte) error) error {
	dec := jsontext.NewDecoder(bytes.NewBuffer(text))
	switch dec.PeekKind() {
	case '{':
	case '[':
		return errBatch
	default:
		if _, err := dec.ReadToken(); err != nil {
			return unreadable(err)
		}
		return errShape
	}
	if _, err := dec.ReadToken(); err != nil {
		return unreadable(err)
	}
	for dec.PeekKind() == '"' {
		token, err := dec.ReadToken()
		if err != nil {
			return unreadable(err)
		}
		name := token.String() // before the next read, which voids the token
		value, err := dec.ReadValue()
		if err != nil {
			return unreadable(err)
		}
		if err := yield(name, value[:len(value):len(value)]); err != nil {
			return err
		}
	}
	if _, err := dec.ReadToken(); err != nil {
		return unreadable(err)
	}
	if _, err := dec.ReadToken(); err != io.EOF {
		return errTrailing
	}
	return nil
}

// eachElement yields the elements of the one JSON array that text holds.
func eachElement(text []byte, yield func(value []byte) error) error {
	dec := jsontext.NewDecoder(bytes.NewBuffer(text))
	if dec.PeekKind() != '[' {
		return errShape
	}
	if _, err := dec.ReadToken(); err != nil {
		return unreadable(err)
	}
	for k := dec.PeekKind(); k != ']'; k = dec.PeekKind() {
		value, err := dec.ReadValue()
		if err != nil {
			return unreadable(err)
		}
		if err := yield(value[:len(value):len(value)]); err != nil {
			return err
		}
	}
	return nil
}

// unreadable keeps what is wrong and drops the place: a pointer holds names of
// members, which are the server's text.
func unreadable(err error) error {
	var s *jsontext.SyntacticError
	if errors.As(err, &s) {
		if errors.Is(s.Err, io.ErrUnexpectedEOF) {
			return fmt.Errorf("not strict JSON: it ends early")
		}
		return fmt.Errorf("not strict JSON at byte %d", s.ByteOffset)
	}
	return fmt.Errorf("not strict JSON")
}

func unquote(value []byte) (string, error) {
	if kind(value) != '"' {
		return "", errShape
	}
	s, err := jsontext.AppendUnquote(nil, value)
	return string(s), err
}

// quote appends s as a JSON string. What is not UTF-8 cannot be sent.
func quote(dst []byte, s string) []byte {
	out, err := jsontext.AppendQuote(dst, s)
	if err != nil {
		return append(dst, `""`...)
	}
	return out
}

// clip bounds a server's words in an error.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return string(bytes.ToValidUTF8([]byte(s[:n]), nil)) + "…"
}

func kind(value []byte) jsontext.Kind { return jsontext.Value(value).Kind() }
