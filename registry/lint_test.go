package registry

import (
	"slices"
	"strings"
	"testing"

	"github.com/placet-dev/placet/guard"
)

func TestLintFindsWhatPassesTooEasily(t *testing.T) {
	l := locked(t, "helpdesk", map[string]Offer{
		"open":  {Name: "open", InputSchema: []byte(`{"type":"object","properties":{"a":{"type":"integer"},"words":{"type":"string"},"any":{"type":"object"},"list":{"type":"array","items":{"type":"object","properties":{"url":{"type":"string","maxLength":9}}}}},"additionalProperties":true}`)},
		"run":   offer("run", `"url":{"type":"string"},"method":{"type":"string","maxLength":9},"sql":{"type":"string","maxLength":9},"file_path":{"type":"string"}`),
		"tight": offer("tight", `"url":{"type":"string"},"n":{"type":"integer","maximum":5},"kind":{"enum":["a","b"]},"note":{"type":"string","maxLength":50},"tags":{"type":"array","maxItems":3,"items":{"type":"string","maxLength":9}},"sql":{"type":"string"}`),
	})
	s := mustParse(t, `  open: {server: helpdesk, scope: a, read: true}
  run: {server: helpdesk, scope: a, read: true}
  tight: {server: helpdesk, scope: a, read: true, guards: {url: {type: url}, sql: {type: query, values: [orders]}}}
`, l)
	for name, want := range map[string][]string{
		"open": {": open_object", "a: unbounded_number", "any: open_object", "list: endless_list", "list[].url: unguarded", "words: free_text"},
		"run":  {"file_path: unguarded", "method: interpreter", "sql: interpreter", "sql: unguarded", "url: unguarded"},
	} {
		var got []string
		for _, f := range mustTool(t, s, name).Lint() {
			got = append(got, f.Argument+": "+f.Kind)
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if got := mustTool(t, s, "tight").Lint(); len(got) > 0 {
		t.Errorf("tight: %+v", got)
	}
}

func TestProbeTriesTheCorpus(t *testing.T) {
	l := locked(t, "helpdesk", map[string]Offer{"x": offer("x", `"path":{"type":"string"},"items":{"type":"array","items":{"type":"object","properties":{"url":{"type":"string"}}}},"email":{"type":"string","maxLength":20},"amount":{"type":"string"},"currency":{"type":"string"}`, "email", "path")})
	s := mustParse(t, `  x:
    server: helpdesk
    scope: a
    read: true
    guards:
      path: {type: path, root: "/srv/{tenant}"}
      "items[].url": {type: url, schemes: [http, https]}
      amount: {type: amount, currency: "{currency}", max: 5000}
      currency: {type: enum, values: [EUR]}
`, l)
	tried := map[guard.Type]int{}
	passes := 0
	for _, p := range mustTool(t, s, "x").Probe(anna) {
		tried[p.Guard] += p.Tried
		if p.Tried != p.Refused+len(p.Passed) {
			t.Errorf("%+v does not add up", p)
		}
		if p.Guard != "" && len(p.Passed) > 0 {
			t.Errorf("%s lets %s pass", p.Argument, p.Passed)
		}
		if p.Guard == "" {
			passes += len(p.Passed)
			if p.Argument != "email" {
				t.Errorf("%s has a guard", p.Argument)
			}
		}
	}
	if tried[guard.Path] < 500 || tried[guard.URL] < 200 || tried[guard.Amount] < 50 || tried[""] < 50 || passes < 10 {
		t.Errorf("tried %v, of those without a guard %d pass", tried, passes)
	}
}

func TestDraftsHoldGuards(t *testing.T) {
	drafts := Draft("desk", []Offer{offer("pay", `"to_email":{"type":"string"},"amount":{"type":"number"},"currency":{"type":"string"},"file_path":{"type":"string"},"callback":{"type":"string","format":"uri"}`)}, nil)
	for _, want := range []string{"\n    guards:\n", "\n      to_email: {type: email}", `amount: {type: amount, currency: "{currency}"}`, "# file_path: {type: path", "callback: {type: url}"} {
		if !strings.Contains(drafts[0].YAML, want) {
			t.Errorf("the draft has no %q:\n%s", want, drafts[0].YAML)
		}
	}
	if _, err := Parse([]Source{{Name: "tools.yaml", Text: []byte("version: 1\nservers: {desk: {url: \"https://desk.example/mcp\"}}\ntools:\n" + drafts[0].YAML)}}, Options{}); err != nil {
		t.Errorf("the draft does not load: %v\n%s", err, drafts[0].YAML)
	}
}
