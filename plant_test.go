package placet

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/placet-dev/placet/config"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/registry"
)

const plantYAML = `
version: 1
servers: {desk: {url: "http://127.0.0.1:1/mcp"}}
tools:
  tickets: {server: desk, scope: desk, read: true, results: {untrusted: true}}
  order: {server: desk, scope: desk, read: true}
  mail: {server: desk, scope: desk, sink: true, sources: [vouched], targets: {to: {kind: email}}, taint: ask_unless_trusted_targets, approval: {when: asked, approvers: ["group:leads"]}, guards: {to: {type: email}}}
  strict: {server: desk, scope: desk, sink: true, sources: [vouched], targets: {to: {kind: email}}, taint: deny, approval: {when: asked, approvers: ["group:leads"]}}
  close: {server: desk, scope: desk, destructive: true, sources: [vouched], targets: [id], approval: {when: asked, approvers: ["group:leads"]}, callers: {principals: [anna]}}
  loose: {server: desk, scope: desk, write: true, sources: [vouched], targets: {to: {kind: email}}, approval: {when: asked}}
  opened: {server: desk, scope: desk, read: true, sink: true, targets: {url: {kind: url}}, links_from: [tickets], taint: ask_unless_trusted_targets, approval: {when: asked, approvers: ["group:leads"]}}
  owned: {server: desk, scope: desk, write: true, sources: [vouched], targets: [id], approval: {when: asked}, guards: {id: {type: identifier, pattern: "ord_[0-9]+", lookup: order, lookup_argument: id, lookup_found: order.id}}}
  refund: {server: desk, scope: desk, financial: true, sources: [vouched], targets: [order], cost: {argument: amount, currency: "{currency}"}, idempotency_argument: key, autonomous_limit: {argument: amount, max: 200}, approval: {approvers: ["group:leads"]}}
`

const (
	plantPay  = `{"type":"object","properties":{"order":{"$ref":"#/$defs/id"},"amount":{"type":"number"},"currency":{"type":"string"},"key":{"type":"string"}},"required":["order","amount","key"],"$defs":{"id":{"type":"string","pattern":"^ord_[0-9]+$"}}}`
	plantMail = `{"type":"object","properties":{"to":{"type":"string"},"body":{"type":"string"}},"required":["to","body"]}`
	plantID   = `{"type":"object","properties":{"id":{"type":"string"}},"required":["id"]}`
	plantURL  = `{"type":"object","properties":{"url":{"type":"string"}},"required":["url"]}`
)

// planted loads a registry that is pinned, and plants hostile results for one tool.
func planted(t *testing.T, tool string) []Planted {
	t.Helper()
	dir := t.TempDir()
	lock := registry.NewLock()
	for name, schema := range map[string]string{"tickets": plantID, "order": plantID, "mail": plantMail, "strict": plantMail, "close": plantID, "loose": plantMail, "opened": plantURL, "owned": plantID, "refund": plantPay} {
		pin, err := registry.PinOf(registry.Offer{Name: name, InputSchema: json.RawMessage(schema)})
		if err != nil {
			t.Fatal(err)
		}
		lock.Tools[name] = registry.LockedTool{Server: "desk", Pin: pin}
	}
	text, err := lock.Write()
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"tools.yaml": plantYAML, "tools.lock": string(text),
		"placet.yaml": "version: 1\nenvironment: test\nstore: sqlite:state.db\nregistry: [tools.yaml]\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := config.Load(filepath.Join(dir, "placet.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Config: c, Tenants: []string{"acme"}}
	if o, err = o.withDefaults(); err != nil {
		t.Fatal(err)
	}
	if o.Local, err = identity.NewLocal(LocalIssuer, o.Random, o.Clock); err != nil {
		t.Fatal(err)
	}
	out, err := Plant(t.Context(), o, tool, "acme")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "state.db")); err == nil {
		t.Error("the operator's own store was opened")
	}
	return out
}

// TestPlantedResults: what runs is what the stand-in wrote down. Each tool that
// stops a hostile text runs the call that its user asked for.
func TestPlantedResults(t *testing.T) {
	for _, c := range []struct {
		tool     string
		asked    Fate
		least    int             // abuses tried
		fates    map[Fate]bool   // that may come
		harm     map[string]bool // kinds that run
		fromHere string          // the source of one that runs
	}{
		{"mail", FateRuns, 7, map[Fate]bool{FateAsks: true}, nil, ""},
		{"strict", FateRuns, 7, map[Fate]bool{FateDenied: true}, nil, ""},
		{"close", FateRuns, 2, map[Fate]bool{FateAsks: true}, nil, ""},
		{"refund", FateRuns, 2, map[Fate]bool{FateAsks: true}, nil, ""},
		{"loose", FateRuns, 7, map[Fate]bool{FateRuns: true}, map[string]bool{"address": true, "link in a text": true, "a call that only the text asks for": true}, madeUp},
		{"opened", FateRuns, 2, map[Fate]bool{FateRuns: true, FateAsks: true}, map[string]bool{"link": true}, "tickets"},
		{"owned", FateRuns, 2, map[Fate]bool{FateRuns: true}, map[string]bool{"target": true}, madeUp},
	} {
		t.Run(c.tool, func(t *testing.T) {
			all := planted(t, c.tool)
			if len(all) < c.least {
				t.Fatalf("%d abuses were tried, want %d at least: %+v", len(all), c.least, all)
			}
			ran := map[string]string{}
			for _, p := range all {
				if p.Asked != c.asked || !c.fates[p.Fate] || p.Harm != (p.Fate == FateRuns) {
					t.Errorf("%+v", p)
				}
				if p.Harm {
					ran[p.Kind] = p.Source
				}
			}
			for kind := range c.harm {
				if ran[kind] != c.fromHere {
					t.Errorf("%s: ran on the word of %q, want %q", kind, ran[kind], c.fromHere)
				}
			}
		})
	}
	for _, p := range planted(t, "order") { // a plain read reads: that is no harm
		if p.Harm || p.Fate != FateRuns {
			t.Errorf("a plain read: %+v", p)
		}
	}
	if got := planted(t, "nothing"); got != nil {
		t.Errorf("a tool that nobody can call: %+v", got)
	}
}
