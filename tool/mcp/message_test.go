package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
)

func idOf(t testing.TB, r *http.Request) json.RawMessage {
	var m struct{ ID json.RawMessage }
	if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
		t.Error(err)
	}
	return m.ID
}

func TestEncode(t *testing.T) {
	q := &request{method: "tools/call", name: `a"b`, arguments: json.RawMessage(`{"x":1}`), key: "k", progress: func(json.RawMessage) {},
		input: json.RawMessage(`{"arguments":{"x":2},"inputResponses":{},"requestState":"s"}`)}
	for e, want := range map[era]string{
		legacy: `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"_meta":{"dev.placet/idempotency_key":"k","progressToken":7},"name":"a\"b","arguments":{"x":1},"inputResponses":{},"requestState":"s"}}`,
		modern: `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"placet","version":"v"},"io.modelcontextprotocol/clientCapabilities":{},"dev.placet/idempotency_key":"k","progressToken":7},"name":"a\"b","arguments":{"x":1},"inputResponses":{},"requestState":"s"}}`,
	} {
		if got := string(q.encode(7, e, "v")); got != want {
			t.Errorf("era %d:\ngot  %s\nwant %s", e, got, want)
		}
	}
	if got := string((&request{method: "tools/list"}).encode(1, legacy, "v")); got != `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}` {
		t.Error(got)
	}
}

func FuzzReadMessage(f *testing.F) {
	for _, s := range []string{
		`{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"x"}}`,
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":0.5}}`,
		`{"jsonrpc":"2.0","id":"a","method":"ping"}`, `{"jsonrpc":"2.0","id":1,"result":{"a":[1,{"b":null}]},"id":2}`,
		`[]`, `{`, ``, `{"jsonrpc":"2.0","id":1e0,"result":1}`, `{"jsonrpc":"2.0","id":null,"error":{"code":1.5}}`, "{\"\xff\":1}",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		before := bytes.Clone(text)
		m, err := readMessage(text)
		if !bytes.Equal(text, before) {
			t.Fatal("the text was changed")
		}
		if err != nil {
			return
		}
		if !json.Valid(text) {
			t.Fatalf("accepted what is no JSON: %q", text)
		}
		if m.isResponse() == (m.method != "") || m.isResponse() && m.id == nil || m.isResponse() && (m.result == nil) == (m.fault == nil) {
			t.Fatalf("%q was read as %+v", text, m)
		}
		var again struct {
			Jsonrpc string          `json:"jsonrpc"`
			Result  json.RawMessage `json:"result"`
		}
		if err := json.Unmarshal(text, &again); err != nil || again.Jsonrpc != "2.0" && !strings.Contains(strings.ToLower(string(text)), `\u`) && strings.Count(strings.ToLower(string(text)), `"jsonrpc"`) == 1 {
			t.Fatalf("another reader disagrees about %q: %v", text, err)
		}
		progressFor(m)
	})
}

func collect(r io.Reader, max int) (out []event, err error) {
	stream := newEvents(r, max)
	for len(out) < 1000 {
		ev, err := stream.next()
		if err != nil {
			return out, err
		}
		out = append(out, ev)
	}
	return out, nil
}

func TestEvents(t *testing.T) {
	for text, want := range map[string][]event{
		"data: a\n\n":                              {{data: []byte("a")}},
		"data: a\r\ndata:b\r\n\r\n":                {{data: []byte("a\nb")}},
		"data: a\rdata: b\r\rdata: c\r\r":          {{data: []byte("a\nb")}, {data: []byte("c")}},
		"\xef\xbb\xbfevent: e\nid: 1\ndata: a\n\n": {{name: "e", id: "1", data: []byte("a")}},
		": comment\n\ndata: a\n\n":                 {{data: []byte("a")}},
		"id: 5\nretry: 10\ndata:\n\n":              {{id: "5", data: []byte{}}},
		"data: unfinished\n":                       nil,
		"data":                                     nil,
		"data\n\n":                                 {{data: []byte{}}},
		"nonsense: x\n\ndata:  two\n\n":            {{data: []byte(" two")}},
	} {
		for name, r := range map[string]io.Reader{
			"whole": strings.NewReader(text), "bytewise": iotest.OneByteReader(strings.NewReader(text)),
		} {
			got, err := collect(r, 1000)
			if err != io.EOF || len(got) != len(want) {
				t.Errorf("%q %s: %q, %v", text, name, got, err)
				continue
			}
			for i := range got {
				if got[i].name != want[i].name || got[i].id != want[i].id || !bytes.Equal(got[i].data, want[i].data) {
					t.Errorf("%q %s: event %d is %+v", text, name, i, got[i])
				}
			}
		}
	}
	for _, text := range []string{strings.Repeat("x", 2000), "data: " + strings.Repeat("x", 2000) + "\n\n", strings.Repeat("data: x\n", 1000) + "\n"} {
		if _, err := collect(strings.NewReader(text), 1000); !errors.Is(err, errTooLarge) {
			t.Errorf("%.20q…: %v", text, err)
		}
	}
}

func FuzzEvents(f *testing.F) {
	for _, s := range []string{"data: a\n\n", "data: a\r\n\r\nid: 1\rretry: 5\r\r", "\xef\xbb\xbfdata\n\n", "event: x\ndata: {}\n\n: c\n", "\xef\xbb\xbf" + strings.Repeat("0", 64) + "\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		whole, err1 := collect(bytes.NewReader(text), 64)
		parts, err2 := collect(iotest.OneByteReader(bytes.NewReader(text)), 64)
		if len(whole) != len(parts) || errors.Is(err1, errTooLarge) != errors.Is(err2, errTooLarge) {
			t.Fatalf("%q depends on how it arrives: %q %v, %q %v", text, whole, err1, parts, err2)
		}
		for i := range whole {
			if !bytes.Equal(whole[i].data, parts[i].data) || whole[i].id != parts[i].id || whole[i].name != parts[i].name {
				t.Fatalf("%q: event %d: %+v, %+v", text, i, whole[i], parts[i])
			}
		}
	})
}

func TestHeaderValue(t *testing.T) {
	for in, want := range map[string]string{
		"plain text": "plain text", "": "", " x": "=?base64?IHg=?=", "ü": "=?base64?w7w=?=", "a\nb": "=?base64?YQpi?=", "=?base64?eA==?=": "=?base64?PT9iYXNlNjQ/ZUE9PT89?=",
	} {
		if got := headerValue(in); got != want {
			t.Errorf("%q: %q", in, got)
		}
	}
}

func TestParamHeadersOfASchema(t *testing.T) {
	schema := json.RawMessage(`{"properties":{"a":{"type":"string","x-mcp-header":"A"},"o":{"properties":{"n":{"x-mcp-header":"N"},"b":{"x-mcp-header":"B"},"f":{"x-mcp-header":"F"}}}}}`)
	got, err := paramHeaders(schema, json.RawMessage(`{"a":"x","o":{"b":true,"f":1.5,"n":-3}}`))
	if err != nil || len(got) != 3 {
		t.Errorf("%v, %v", got, err)
	}
	for _, h := range got {
		if want := map[string]string{"Mcp-Param-A": "x", "Mcp-Param-N": "-3", "Mcp-Param-B": "true"}[h.name]; h.value != want {
			t.Errorf("%v", h)
		}
	}
	for _, bad := range []string{
		`{"properties":{"a":{"x-mcp-header":"A: b\r\nX"}}}`, `{"properties":{"a":{"x-mcp-header":""}}}`, `{"properties":{"a":{"x-mcp-header":1}}}`,
		`{"properties":{"a":{"x-mcp-header":"A"},"b":{"x-mcp-header":"a"}}}`,
	} {
		if got, err := paramHeaders(json.RawMessage(bad), json.RawMessage(`{"a":"x","b":"y"}`)); err == nil {
			t.Errorf("%s: %v", bad, got)
		}
	}
}
