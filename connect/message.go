package connect

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// most bounds one message, either way.
const most = 16 << 20

// JSON-RPC's codes, and the one of MCP for a server's own errors.
const (
	notJSON    = -32700
	notRequest = -32600
	noMethod   = -32601
	failed     = -32000
)

const versionKey = "io.modelcontextprotocol/protocolVersion"

// A message is one JSON-RPC message, and what its transport must know of it. Its
// members alias the text.
type message struct {
	text    []byte
	id      []byte // nil when absent
	method  string
	params  []byte
	version string // as its _meta says: revision 2026-07-28 and later
	result  []byte
	fault   []byte
}

func (m *message) isRequest() bool  { return m.method != "" && m.id != nil }
func (m *message) isResponse() bool { return m.method == "" }
func (m *message) modern() bool     { return m.version != "" }

var errShape = errors.New("not a JSON-RPC 2.0 message")

// readMessage reads exactly one message: valid JSON of unique names in UTF-8, as
// a text that readers understand differently has no meaning to pass on.
func readMessage(text []byte) (message, error) {
	m, rpc := message{text: text}, false
	err := members(text, func(name string, value []byte) error {
		switch name {
		case "jsonrpc":
			rpc = string(value) == `"2.0"`
		case "id":
			if k := jsontext.Value(value).Kind(); k != '"' && k != '0' && k != 'n' {
				return errShape
			}
			m.id = value
		case "method":
			if m.method = str(value); m.method == "" {
				return errShape
			}
		case "params":
			m.params = value
		case "result":
			m.result = value
		case "error":
			m.fault = value
		}
		return nil
	})
	if err != nil {
		return message{}, err
	}
	answers := m.result != nil || m.fault != nil
	if !rpc || answers == (m.method != "") || m.result != nil && m.fault != nil || m.method != "" && string(m.id) == "null" {
		return message{}, errShape
	}
	m.version = str(member(member(m.params, "_meta"), versionKey))
	return m, nil
}

// members visits the members of an object, which must be all of the text.
func members(text []byte, visit func(name string, value []byte) error) error {
	d := jsontext.NewDecoder(bytes.NewBuffer(text))
	if t, err := d.ReadToken(); err != nil {
		return err
	} else if t.Kind() != '{' {
		return errShape
	}
	for d.PeekKind() == '"' {
		t, err := d.ReadToken()
		if err != nil {
			return err
		}
		name := t.String()
		value, err := d.ReadValue()
		if err != nil {
			return err
		}
		end := int(d.InputOffset()) // the decoder reuses its buffer; the text stays
		if err := visit(name, text[end-len(value):end]); err != nil {
			return err
		}
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	if _, err := d.ReadToken(); err != io.EOF {
		return errShape
	}
	return nil
}

// member is the value of a member of an object that was read already, or nil.
func member(object []byte, name string) (found []byte) {
	if len(object) == 0 || jsontext.Value(object).Kind() != '{' {
		return nil
	}
	_ = members(object, func(n string, value []byte) error {
		if n == name {
			found = value
		}
		return nil
	})
	return found
}

// str is the text of a JSON string; of anything else it is empty.
func str(value []byte) string {
	if len(value) == 0 || value[0] != '"' {
		return ""
	}
	text, err := jsontext.AppendUnquote(nil, value)
	if err != nil {
		return ""
	}
	return string(text)
}

// answerTo is a JSON-RPC error in our own words.
func answerTo(id []byte, code int, words string) []byte {
	quoted, err := json.Marshal(words)
	if err != nil {
		quoted = []byte(`"error"`)
	}
	return faultTo(id, []byte(`{"code":`+strconv.Itoa(code)+`,"message":`+string(quoted)+`}`))
}

// faultTo gives an error object, whoever wrote it, the ID that it answers.
func faultTo(id, fault []byte) []byte {
	if id == nil {
		id = []byte("null")
	}
	return bytes.Join([][]byte{[]byte(`{"jsonrpc":"2.0","id":`), id, []byte(`,"error":`), fault, []byte(`}`)}, nil)
}

// oneLine makes a valid JSON text one line. A line end in it can only be space
// between tokens, as strings escape theirs.
func oneLine(text []byte) []byte {
	line := make([]byte, 0, len(text)+1)
	for _, c := range text {
		if c == '\n' || c == '\r' {
			c = ' '
		}
		line = append(line, c)
	}
	return append(line, '\n')
}
