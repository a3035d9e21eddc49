package mcp_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/placet-dev/placet/record"
)

// The parse differential: a denied tool in the normal members, an allowed one in
// members that some decoder takes for the same, and the reverse. The oracle is
// what the tool server did. "%s" stands for the era's _meta.
var differentials = []struct{ name, body string }{
	{"envelope Method", `{"jsonrpc":"2.0","id":1,"method":"tools/call","Method":"ping","params":{"name":"delete_file","arguments":{}%s}}`},
	{"envelope METHOD before", `{"METHOD":"ping","jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"delete_file","arguments":{}%s}}`},
	{"envelope Params", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"delete_file","arguments":{}%[1]s},"Params":{"name":"echo","arguments":{}%[1]s}}`},
	{"envelope params allowed, Params denied", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{}%[1]s},"PARAMS":{"name":"delete_file","arguments":{}%[1]s}}`},
	{"envelope ID", `{"jsonrpc":"2.0","id":1,"ID":2,"method":"tools/call","params":{"name":"echo","arguments":{}%s}}`},
	{"envelope Jsonrpc", `{"jsonrpc":"2.0","Jsonrpc":"1.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{}%s}}`},
	{"params Name", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"delete_file","Name":"echo","arguments":{}%s}}`},
	{"params NAME reversed", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","NAME":"delete_file","arguments":{}%s}}`},
	{"params Name alone", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"Name":"echo","arguments":{}%s}}`},
	{"params Arguments", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"a":1},"Arguments":{"a":2}%s}}`},
	{"params argumentſ, long s", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"a":1},"argumentſ":{"a":2}%s}}`},
	{"params RequestState", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{},"RequestState":"x"%s}}`},
	{"params _Meta", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{},"_Meta":{"dev.placet/run":"x"}%s}}`},
	{"escaped name of a variant", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"delete_file","\u004eame":"echo","arguments":{}%s}}`},
	{"exact duplicate name", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"delete_file","name":"echo","arguments":{}%s}}`},
	{"exact duplicate name reversed", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","name":"delete_file","arguments":{}%s}}`},
	{"duplicate name, one escaped", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","n\u0061me":"delete_file","arguments":{}%s}}`},
	{"duplicate params", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{}%[1]s},"params":{"name":"delete_file","arguments":{}%[1]s}}`},
	{"duplicate method", `{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call","params":{"name":"delete_file","arguments":{}%s}}`},
	{"duplicate argument", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"a":1,"a":2}%s}}`},
	{"duplicate nested argument", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"o":{"a":1,"a":2}}%s}}`},
	{"batch of one", `[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"delete_file","arguments":{}%s}}]`},
	{"batch of two", `[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{}%s}}]`},
	{"empty batch", `[]%.0s`},
	{"trailing data", `{"jsonrpc":"2.0","id":1,"method":"ping"}{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{}%s}}`},
	{"trailing line", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{}%s}}` + "\n{}"},
	{"byte order mark", "\xef\xbb\xbf" + `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{}%s}}`},
	{"invalid UTF-8", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"a":"` + "\xff" + `"}%s}}`},
	{"lone surrogate", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"a":"\ud800"}%s}}`},
	{"number that is none", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"a":9007199254740993}%s}}`},
	{"huge number", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"a":1e400}%s}}`},
	{"fractional id", `{"jsonrpc":"2.0","id":1.5,"method":"tools/call","params":{"name":"echo","arguments":{}%s}}`},
	{"rounded id", `{"jsonrpc":"2.0","id":9007199254740993,"method":"tools/call","params":{"name":"echo","arguments":{}%s}}`},
	{"null id", `{"jsonrpc":"2.0","id":null,"method":"tools/call","params":{"name":"echo","arguments":{}%s}}`},
	{"object id", `{"jsonrpc":"2.0","id":{},"method":"tools/call","params":{"name":"echo","arguments":{}%s}}`},
	{"boolean id", `{"jsonrpc":"2.0","id":true,"method":"tools/call","params":{"name":"echo","arguments":{}%s}}`},
	{"other version", `{"jsonrpc":"1.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{}%s}}`},
	{"no version", `{"id":1,"method":"tools/call","params":{"name":"echo","arguments":{}%s}}`},
	{"array params", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":["echo",{}]%.0s}`},
	{"array arguments", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":["a"]%s}}`},
	{"text arguments", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":"{}"%s}}`},
	{"null arguments", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":null%s}}`},
	{"no name", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"arguments":{}%s}}`},
	{"name is a number", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":7,"arguments":{}%s}}`},
	{"name is a list", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":["echo"],"arguments":{}%s}}`},
	{"name with a zero byte", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo\u0000","arguments":{}%s}}`},
	{"method with result", `{"jsonrpc":"2.0","id":1,"method":"tools/call","result":{},"params":{"name":"echo","arguments":{}%s}}`},
	{"too deep", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"a":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}%s}}`},
	{"cut off", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{}%s}`},
	{"nothing", `%.0s`},
	{"null", `null%.0s`},
	{"a task", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{},"task":{}%s}}`},
}

// bodies fills in the era.
func (w *world) differential(era, body string, header map[string]string) answer {
	w.t.Helper()
	if era == "session" {
		s := w.open(w.token("anna"))
		return w.post(s.token, fmt.Sprintf(body, ""), s.header())
	}
	h := map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "echo"}
	for k, v := range header {
		h[k] = v
	}
	return w.post(w.token("anna"), fmt.Sprintf(body, `,"_meta":{`+modernMeta+`}`), h)
}

func TestRule_C6_OneStrictDecode(t *testing.T) {
	w := newWorld(t, nil)
	for _, era := range []string{"modern", "session"} {
		for _, d := range differentials {
			for _, named := range []string{"echo", "delete_file"} {
				t.Run(era+"/"+d.name+"/"+named, func(t *testing.T) {
					before := w.refusals()
					a := w.differential(era, d.body, map[string]string{"Mcp-Name": named})
					if a.status < 400 || a.status >= 500 {
						t.Errorf("status %d: %s", a.status, a.body)
					}
					if n := w.refusals() - before; n != 1 {
						t.Errorf("%d refusals recorded", n)
					}
				})
				if era == "session" {
					break // no header to name it
				}
			}
		}
	}
	w.effects()
	// The neighbour that is well-formed works.
	for _, era := range []string{"modern", "session"} {
		if r := w.any(era, "anna", "echo", `{"a":1}`).tool(t); r.IsError {
			t.Fatalf("%+v", r)
		}
	}
	w.effects(`echo {"a":1}`, `echo {"a":1}`)
}

// A request without an ID wants no answer, and so must have no effect.
func TestCallWithoutIDHasNoEffect(t *testing.T) {
	w := newWorld(t, nil)
	for _, era := range []string{"modern", "session"} {
		a := w.differential(era, `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"echo","arguments":{}%s}}`, nil)
		if a.status != http.StatusAccepted || a.body != "" {
			t.Errorf("%s: %d %q", era, a.status, a.body)
		}
	}
	w.effects()
	if calls := w.calls(); len(calls) != 0 {
		t.Fatalf("%+v", calls)
	}
}

// What differs in nothing that counts is one call, whoever reads it: the server
// gets the canonical form, never the client's bytes.
func TestRule_C6_UpstreamGetsWhatWasDecided(t *testing.T) {
	w := newWorld(t, nil)
	w.call(w.token("anna"), "echo", `{ "z" : 1.50e1,
		"a":"\u0061\/" , "Name":"x", "method":"y" }`)
	w.effects(`echo {"Name":"x","a":"a/","method":"y","z":15}`)
	c := w.calls()[0]
	if got := string(c.Arguments); got != `{"Name":"x","a":"a/","method":"y","z":15}` {
		t.Fatalf("recorded %s", got)
	}
}

func TestClosedMethods(t *testing.T) {
	w := newWorld(t, nil)
	s := w.open(w.token("anna"))
	for _, m := range []struct {
		method, params string
		modern         int // JSON-RPC code, 0 for a result
	}{
		{"sampling/createMessage", `{}`, -32601}, {"elicitation/create", `{}`, -32601}, {"roots/list", `{}`, -32601},
		{"completion/complete", `{"ref":{"type":"ref/prompt","name":"x"},"argument":{"name":"a","value":"b"}}`, -32602},
		{"tasks/get", `{}`, -32601}, {"tasks/list", `{}`, -32601}, {"resources/subscribe", `{"uri":"test://x"}`, -32601},
		{"initialize", `{}`, -32601}, {"ping", `{}`, -32601}, {"logging/setLevel", `{"level":"info"}`, -32601}, {"no/such", `{}`, -32601},
		{"prompts/get", `{"name":"x"}`, -32602}, {"resources/read", `{"uri":"file:///etc/passwd"}`, -32602},
		{"prompts/list", `{}`, 0}, {"resources/list", `{}`, 0}, {"resources/templates/list", `{}`, 0}, {"server/discover", `{}`, 0},
	} {
		t.Run(m.method, func(t *testing.T) {
			params := strings.TrimSuffix(m.params, "}")
			if params != "{" {
				params += ","
			}
			name := "x"
			if m.method == "resources/read" {
				name = "file:///etc/passwd"
			}
			a := w.modern(w.token("anna"), m.method, params+`"_meta":{`+modernMeta+`}}`, "Mcp-Name", name)
			got := a.rpc(t)
			switch {
			case m.modern == 0 && got.Error != nil, m.modern != 0 && (got.Error == nil || got.Error.Code != m.modern):
				t.Fatalf("modern: %d %s", a.status, a.body)
			case m.modern == 0 && m.method != "server/discover":
				for _, items := range []string{`"prompts":[]`, `"resources":[]`, `"resourceTemplates":[]`} {
					if strings.Contains(a.body, items) {
						return
					}
				}
				t.Fatalf("not empty: %s", a.body)
			}
		})
		t.Run("session "+m.method, func(t *testing.T) {
			switch m.method {
			case "ping", "logging/setLevel", "initialize":
				return
			}
			a := s.send(`{"jsonrpc":"2.0","id":77,"method":"` + m.method + `","params":` + m.params + `}`)
			if a.status >= 500 || m.modern != 0 && a.status == 200 && a.rpc(t).Error == nil {
				t.Fatalf("%d %s", a.status, a.body)
			}
		})
	}
	w.effects()
}

// A name that is hostile is a name that does not exist.
func TestHostileToolNames(t *testing.T) {
	w := newWorld(t, nil)
	for _, name := range []string{"__proto__", "constructor", "toString", "Echo", "ECHO", "echo ", " echo", "еcho", "echo/../pay", "../echo", "echo;pay", "placet_", "placet_waitt", "%65cho", strings.Repeat("a", 128)} {
		a := w.modern(w.token("anna"), "tools/call", callParams(name, `{}`), "Mcp-Name", headerForm(name))
		if a.status == 200 {
			if r := a.tool(t); !r.IsError || r.decision(t).Code != record.CodeNotAvailable {
				t.Errorf("%q: %s", name, a.body)
			}
		} else if a.status != 400 {
			t.Errorf("%q: %d %s", name, a.status, a.body)
		}
	}
	w.effects()
}
