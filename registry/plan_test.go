package registry

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func planLock(t testing.TB) *Lock {
	return locked(t, "helpdesk", map[string]Offer{"x": offer("x", `"amount":{"type":"number"},"id":{"type":"string"}`), "y": offer("y", ""), "w": offer("w", `"id":{"type":"string"}`)})
}

const planEntry = `  x:
    server: helpdesk
    scope: a
    destructive: true
    per_minute: 5
    sources: [witnessed]
    callers: {agents: [bot]}
    autonomous_limit: {argument: amount, max: 100}
    approval: {approvers: ["group:a", "group:b"], quorum: 2, expires: 1h, purpose: required}
    targets: [id, amount]
    guards: {id: {type: identifier, pattern: a+}}
`

// planLookup is a read tool that look-ups may name.
const planLookup = "  w: {server: helpdesk, scope: a, read: true}\n"

// Each change of the entry is named, with its direction.
func TestPlanWeighsEachChange(t *testing.T) {
	base := mustParse(t, planEntry+planLookup, planLock(t))
	for _, c := range []struct{ from, to, want string }{
		{"per_minute: 5", "per_minute: 6", "weakened per_minute is 6, was 5"},
		{"per_minute: 5", "per_minute: 0", "weakened per_minute is 0, was 5"},
		{"per_minute: 5", "per_minute: 4", "tightened per_minute is 4, was 5"},
		{"sources: [witnessed]", "sources: [witnessed, direct]", "weakened sources lets more through"},
		{"agents: [bot]", "agents: [bot, bot2]", "weakened callers.agents lets more through"},
		{"agents: [bot]", "agents: [bot2]", "weakened callers.agents names others, and not all that it did"},
		{"    callers: {agents: [bot]}\n", "", "weakened callers.agents lets more through"},
		{"agents: [bot]", "agents: [bot], tenants: [acme]", "tightened callers.tenants lets less through"},
		{"max: 100", "max: 100.01", "weakened autonomous_limit is 100.01, was 100"},
		{"max: 100", "max: 99", "tightened autonomous_limit is 99, was 100"},
		{"argument: amount", "argument: id", "weakened autonomous_limit looks at id, was amount"},
		{"quorum: 2", "quorum: 1", "weakened approval.quorum is 1, was 2"},
		{"expires: 1h", "expires: 2h", "weakened approval.expires is 2h0m0s, was 1h0m0s"},
		{", purpose: required", "", "weakened approval.purpose: required is not set"},
		{"quorum: 2", "quorum: 2, self: true", "weakened approval.self is set"},
		{`"group:a", "group:b"`, `"group:a", "group:b", "group:c"`, "weakened approval.approvers lets more through"},
		{"    scope: a\n", "    scope: b\n", "changed scope b, was a"},
		{"    scope: a\n", "", "weakened scope none, was a"},
		{"destructive: true", "destructive: true\n    mode: observe", "weakened mode: observe is set"},
		{"destructive: true", "destructive: true\n    errors: no_effect", "weakened errors: no_effect is set"},
		{"destructive: true", "destructive: true\n    sink: true", "tightened sink is set"},
		{"destructive: true", "destructive: true\n    retry: idempotent", "weakened retry is idempotent, was never"},
		{"destructive: true", "destructive: true\n    repeat: {answer: run}", "weakened repeat is run within 10m0s, was return within 10m0s"},
		{"destructive: true", "destructive: true\n    repeat: {answer: ask, within: 1h}", "tightened repeat is ask within 1h0m0s, was return within 10m0s"},
		{"destructive: true", "destructive: true\n    same_effect: [id]", "tightened same_effect names other arguments"},
		{"destructive: true", "destructive: true\n    sources_below: deny", "tightened sources_below is deny"},
		{"destructive: true", "destructive: true\n    timeout: 5s", "changed timeout is 5s, was 20s"},
		{"    guards: {id: {type: identifier, pattern: a+}}\n", "", "weakened id is not guarded any more"},
		{"pattern: a+", "pattern: b+", "changed the guard of id is another"},
		{"pattern: a+", "pattern: a+, lookup: w", "tightened id is looked up with w"},
		{"{id: {type: identifier, pattern: a+}}", "{id: {type: identifier, pattern: a+}, amount: {type: identifier}}", "tightened guards amount"},
		{"destructive: true", "destructive: true\n    effect: Do {id}", "changed its server, wording or targets changed"},
	} {
		edited := strings.Replace(planEntry, c.from, c.to, 1) + planLookup
		if edited == planEntry+planLookup {
			t.Fatalf("nothing to edit: %s", c.from)
		}
		want := strings.Replace(c.want, "is not set", "is no longer set", 1)
		var got []string
		for _, ch := range Plan(base, mustParse(t, edited, planLock(t))) {
			got = append(got, fmt.Sprintf("%s %s", ch.Direction, ch.Detail))
			if ch.Subject != "tool x" || ch.Place != "tools.yaml:4" {
				t.Errorf("%+v", ch)
			}
		}
		if !slices.Equal(got, []string{want}) {
			t.Errorf("%s → %s\ngot  %q\nwant %q", c.from, c.to, got, want)
		}
	}
}

// TestPlanOfServers: what lets more through is named, and nothing hides behind it.
func TestPlanOfServers(t *testing.T) {
	parse := func(server string) *Snapshot {
		s, err := Parse([]Source{{Name: "tools.yaml", Text: []byte("version: 1\nservers: {desk: {" + server + "}}")}}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	const url = "url: https://desk.example/mcp"
	for _, c := range []struct {
		from, to string
		want     []string
	}{
		{url, url + ", dispatch_token: true", []string{"tightened calls carry a dispatch token"}},
		{url + ", dispatch_token: true", url, []string{"weakened calls carry no dispatch token any more"}},
		{url + ", dispatch_token: true", url + ", stateless: true",
			[]string{"weakened sessions may be shared between principals", "weakened calls carry no dispatch token any more"}},
		{url + ", dispatch_token: true", "url: https://else.example/mcp",
			[]string{"weakened calls carry no dispatch token any more", "changed is reached in another way"}},
		{url + ", stateless: true", url, []string{"changed is reached in another way"}},
		{url, url + ", tools_max_age: 30s", []string{"changed is reached in another way"}},
		{url, url + ", dispatch_token: false", nil},
	} {
		var got []string
		for _, ch := range Plan(parse(c.from), parse(c.to)) {
			got = append(got, string(ch.Direction)+" "+ch.Detail)
			if ch.Subject != "server desk" || ch.Place == "" {
				t.Errorf("%+v", ch)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s → %s\ngot  %q\nwant %q", c.from, c.to, got, c.want)
		}
	}
}

func TestPlanOfWholeTools(t *testing.T) {
	one := mustParse(t, planEntry, planLock(t))
	two := mustParse(t, "  y: {server: helpdesk, scope: a, read: true}\n  z: {server: helpdesk, scope: a, read: true}", planLock(t))
	var got []string
	for _, c := range Plan(one, two) {
		got = append(got, string(c.Direction)+" "+c.Subject)
	}
	if want := []string{"added tool y", "changed tool z", "removed tool x"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if c := Plan(one, one); len(c) != 0 {
		t.Errorf("no change: %v", c)
	}
	if c := Plan(nil, one); len(c) != 2 || c[0].Direction != Added || c[1].Subject != "tool x" {
		t.Errorf("from nothing: %v", c)
	}
	drifted := planLock(t)
	o := offer("x", `"amount":{"type":"number"},"id":{"type":"string"}`)
	o.Description = "Now better."
	drifted.Tools["x"] = locked(t, "helpdesk", map[string]Offer{"x": o}).Tools["x"]
	if c := Plan(one, mustParse(t, planEntry, drifted)); len(c) != 1 || c[0].Detail != "the pinned description changed: description" {
		t.Errorf("another pin: %v", c)
	}
	if c := Plan(one, mustParse(t, planEntry, NewLock())); len(c) != 1 || c[0].Direction != Removed {
		t.Errorf("no pin: %v", c)
	}
}

// TestRule_H7_Overrides: each setting that weakens a default is listed, and an
// entry that weakens nothing is not.
func TestRule_H7_Overrides(t *testing.T) {
	tool := func(lines string) *Snapshot {
		return mustParse(t, "  x: {server: helpdesk, scope: a, "+lines+"}", planLock(t))
	}
	for lines, want := range map[string]string{
		"read: true":        "",
		"destructive: true": "",
		"destructive: true, approval: {when: always, quorum: 2, approvers: ['group:a']}": "",
		"destructive: true, sources: [direct]":                                           "sources",
		"read: true, sources: [direct]":                                                  "",
		"destructive: true, mode: observe":                                               "mode",
		"destructive: true, approval: {self: true}":                                      "approval.self",
		"destructive: true, approval: {when: asked}":                                     "approval.when",
		"destructive: true, autonomous_limit: {argument: amount, max: 2}":                "autonomous_limit",
		"destructive: true, repeat: {answer: run}":                                       "repeat.answer",
		"destructive: true, repeat: {within: 1m}":                                        "repeat.within",
		"destructive: true, retry: idempotent":                                           "retry",
		"destructive: true, errors: no_effect":                                           "errors",
		"destructive: true, per_minute: 0, concurrent: 0":                                "per_minute,concurrent",
	} {
		var got []string
		for _, o := range tool(lines).Overrides() {
			got = append(got, o.Setting)
			if o.Detail == "" || o.Subject != "tool x" || o.Place != "tools.yaml:4" {
				t.Errorf("%s: %+v", lines, o)
			}
		}
		if strings.Join(got, ",") != want {
			t.Errorf("%s: %v, want %s", lines, got, want)
		}
	}
	s, err := Parse([]Source{{Name: "tools.yaml", Text: []byte("version: 1\nservers: {a: {url: http://helpdesk.internal/mcp, stateless: true, input_required: true, tools_max_age: 5m}, b: {url: http://127.0.0.1/mcp}}")}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range s.Overrides() {
		got = append(got, o.Subject+" "+o.Setting)
	}
	if want := []string{"server a stateless", "server a input_required", "server a tools_max_age", "server a url"}; !slices.Equal(got, want) {
		t.Errorf("servers: %v", got)
	}
}

// A digest changes with anything that decides and with nothing else.
func TestDigest(t *testing.T) {
	digest := func(entry string, l *Lock) string {
		s := mustParse(t, entry, l)
		return mustTool(t, s, "x").Digest.String() + s.Digest().String()
	}
	plain := "  x: {server: helpdesk, scope: a, write: true}"
	base := digest(plain, planLock(t))
	for _, same := range []string{
		"\n\n# moved\n  x:\n    scope: a\n    write: true\n    server: helpdesk\n",
		"  x: {server: helpdesk, scope: a, write: true, per_minute: 30, timeout: 20000ms, retry: never, sources: [vouched, witnessed], sources_below: ask, tool: x, mode: enforce, repeat: {within: 600s, answer: return}, approval: {when: always, self: false}}",
	} {
		if digest(same, planLock(t)) != base {
			t.Errorf("same meaning, other digest: %s", same)
		}
	}
	seen := map[string]string{base: plain}
	for _, more := range []string{"per_minute: 31", "per_run: 1", "concurrent: 5", "timeout: 21s", "retry: manual", "retry: idempotent", "sources: [witnessed]",
		"sources_below: deny", "mode: observe", "repeat: {within: 1h}", "repeat: {answer: run}", "approval: {when: asked}", "approval: {approvers: ['group:a']}",
		"approval: {approvers: ['group:a'], quorum: 2}", "approval: {self: true}", "approval: {expires: 1h}", "approval: {purpose: required}", "targets: [id]",
		"same_effect: [id]", "effect: 'Do {id}'", "errors: no_effect", "instead: Ask.", "sink: true", "financial: true", "destructive: true",
		"environments: [test]", "callers: {agents: [a]}", "callers: {tenants: [a]}", "autonomous_limit: {argument: amount, max: 2}", "autonomous_limit: {argument: amount, max: 2.0}"} {
		d := digest(strings.Replace(plain, "}", ", "+more+"}", 1), planLock(t))
		if other, ok := seen[d]; ok {
			t.Errorf("%s has the digest of %s", more, other)
		}
		seen[d] = more
	}
	l := planLock(t)
	o := offer("x", `"amount":{"type":"number"},"id":{"type":"string"}`)
	o.Title = "New"
	l.Tools["x"] = locked(t, "helpdesk", map[string]Offer{"x": o}).Tools["x"]
	if digest(plain, l) == base {
		t.Error("another pin, same digest")
	}
	// The value itself must not move between versions: approvals rest on it.
	if got := mustTool(t, mustParse(t, plain, planLock(t)), "x").Digest.String(); got != "sha256:73aa80158748b68ca9d1a9ad25b1a4b9b2f0acce729826add671c57d9c29529a" {
		t.Errorf("the digest of an unchanged entry moved to %s", got)
	}
}
