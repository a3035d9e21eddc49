package isolation_test

import (
	"crypto/rand"
	"fmt"
	"net/http/httptest"
	"testing"

	"github.com/placet-dev/placet/edge/llm/llmtest"
)

// models starts a provider, and returns what the configuration says of it.
func (w *world) models() string {
	provider := httptest.NewServer(&llmtest.Provider{Respond: func(llmtest.Request) llmtest.Reply { return llmtest.Reply{ID: "resp_" + rand.Text(), Text: "ok"} }})
	w.t.Cleanup(provider.Close)
	return fmt.Sprintf("providers: {openai: {api: openai, url: %q}, anthropic: {api: anthropic, url: %q}, gemini: {api: gemini, url: %q}}\n", provider.URL+"/v1", provider.URL, provider.URL)
}

// TestPromise_P7_EveryProviderPath: the door to model providers, path by path.
// Another caller's emissions are in the root package's TestRule_G2_WhatCounts.
func TestPromise_P7_EveryProviderPath(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var rows []row
	for path, body := range map[string]string{
		"/llm/openai/v1/chat/completions":                   `{"model":"m","messages":[{"role":"user","content":"go"}]}`,
		"/llm/openai/v1/responses":                          `{"model":"m","input":"go"}`,
		"/llm/anthropic/v1/messages":                        `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"go"}]}`,
		"/llm/gemini/v1beta/models/m:generateContent":       `{"contents":[{"role":"user","parts":[{"text":"go"}]}]}`,
		"/llm/gemini/v1beta/models/m:streamGenerateContent": `{"contents":[{"role":"user","parts":[{"text":"go"}]}]}`,
	} {
		address := path
		if path == "/llm/gemini/v1beta/models/m:streamGenerateContent" {
			address += "?alt=sse"
		}
		rows = append(rows,
			row{name: path + " in a run of the owner's", door: proposing, object: asked, ask: to(post, address, body, "Placet-Run", "{run}"), may: mine, done: became("canceled")},
			row{name: path + " keeping a call of the owner's", door: proposing, object: asked, ask: to(post, address, body, "Placet-Run", "{run}", "Placet-Keep", "{call}"), may: mine, done: became("approval_pending")},
			row{name: path + " in a run of the same name", door: proposing, object: asked, ask: to(post, address, body, "Placet-Run", "{marker}"), may: mine, own: proposers.but(mine...), unlike: true})
	}
	previous := `{"model":"m","input":"go","previous_response_id":"{state}"}`
	item := `{"model":"m","input":[{"type":"item_reference","id":"msg_{state}"},{"role":"user","content":"go"}]}`
	for name, body := range map[string]string{"a response": previous, "an item": item} {
		rows = append(rows,
			row{name: "/llm/openai/v1/responses naming " + name + " of the owner's", door: proposing, object: answeredByModel, ask: to(post, "/llm/openai/v1/responses", body, "Placet-Run", "{run}"), may: mine},
			row{name: "/llm/openai/v1/responses naming " + name + " of another run", door: proposing, object: answeredByModel, ask: to(post, "/llm/openai/v1/responses", body)})
	}
	for _, path := range []string{"/llm/openai/v1/models", "/llm/anthropic/v1/models", "/llm/gemini/v1beta/models"} {
		rows = append(rows, row{name: path, door: proposing, object: asked, ask: to(get, path), own: proposers, unlike: true})
	}
	rows = append(rows,
		row{name: "/llm/anthropic/v1/messages/count_tokens", door: proposing, object: asked, own: proposers, unlike: true,
			ask: to(post, "/llm/anthropic/v1/messages/count_tokens", `{"model":"m","messages":[{"role":"user","content":"{call}"}]}`)},
		row{name: "/llm/openai/v1/files/{call}", door: proposing, object: asked, ask: to(get, "/llm/openai/v1/files/{call}")})
	check(t, w, rows)
}

// answeredByModel is a call that waits, in a run in which a model answered and the
// provider keeps its answer.
func answeredByModel(w *world) *object {
	w.t.Helper()
	o := asked(w)
	var response struct{ ID string }
	w.ok(w.callers["owner"], request{method: post, path: "/llm/openai/v1/responses", body: `{"model":"m","input":"go"}`,
		header: map[string]string{"Placet-Run": o.run, "Placet-Keep": o.call}}, &response)
	o.state = response.ID
	return o
}
