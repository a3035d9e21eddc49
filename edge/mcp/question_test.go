package mcp_test

import (
	"strings"
	"testing"
)

const formClient = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{},"url":{}}}`

// Rule F6: a tool's question names its server, its state comes back only from
// this caller for this call, and what the user answers is decided anew.
func TestRule_F6_ToolsQuestion(t *testing.T) {
	w := newWorld(t, nil)
	token := w.token("anna")
	r := w.as(formClient, token, "asks", `{"kind":"form"}`, "").tool(t)
	q := r.Inputs["q"]
	if r.ResultType != "input_required" || q.Params["message"] != "The tool server up asks: your name?" || strings.Contains(r.State, "upstream") || r.State == "" {
		t.Fatalf("%+v", r)
	}
	answers := `,"inputResponses":{"q":{"action":"accept","content":{"name":"Anna"}}},"requestState":"` + r.State + `"`
	for name, a := range map[string]answer{
		"another user":    w.as(formClient, w.token("mallory"), "asks", `{"kind":"form"}`, answers),
		"other arguments": w.as(formClient, token, "asks", `{"kind":"url"}`, answers),
		"another tool":    w.as(formClient, token, "echo", `{"kind":"form"}`, answers),
		"bare":            w.as(formClient, token, "asks", `{"kind":"form"}`, strings.Replace(answers, r.State, "upstream's own", 1)),
		"not an object":   w.as(formClient, token, "asks", `{"kind":"form"}`, `,"inputResponses":{"q":7}`),
		"null":            w.as(formClient, token, "asks", `{"kind":"form"}`, `,"inputResponses":null`),
	} {
		if m := a.rpc(t); a.status != 400 || m.Error == nil || m.Error.Code != -32602 {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	w.effects()
	if got := w.as(formClient, token, "asks", `{"kind":"form"}`, answers).tool(t); got.text() != "thanks" {
		t.Fatalf("%+v", got)
	}
	w.effects(`asks state="upstream's own"`)
}

// A page of a tool server is never passed on, and no kind of question that the
// client did not declare.
func TestRule_F6_NoPagesAndNothingUndeclared(t *testing.T) {
	w := newWorld(t, nil)
	r := w.as(formClient, w.token("anna"), "asks", `{"kind":"url"}`, "").tool(t)
	if !r.IsError || r.ResultType != "complete" || strings.Contains(r.text(), "evil") {
		t.Fatalf("%+v", r)
	}
	a := w.call(w.token("anna"), "asks", `{"kind":"form"}`)
	m := a.rpc(t)
	if a.status != 400 || m.Error == nil || m.Error.Code != -32021 || string(m.Error.Data) != `{"requiredCapabilities":{"elicitation":{}}}` {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if r := w.open(w.token("anna")).call("asks", `{"kind":"form"}`).tool(t); !r.IsError {
		t.Fatalf("%+v", r)
	}
}
