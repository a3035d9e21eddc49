package mcp

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
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
