package registry

import (
	"path/filepath"
	"strings"
	"testing"
)

// leaseFile is a registry of two frameworks: one whose tools verify the token, one
// whose tools do not.
func leaseFile(tools string) string {
	return "version: 1\nservers:\n  app: {lease: true, dispatch_token: true}\n  plain: {lease: true}\n  desk: {url: https://desk.internal/mcp}\ntools:\n" + tools
}

func parseLease(tools string) (*Snapshot, error) {
	return Parse([]Source{{Name: "tools.yaml", Text: []byte(leaseFile(tools)), Folder: "/etc/placet"}}, Options{Environment: "test"})
}

// TestRule_E6_WhatMayBeLeased: tools that hurt are leased only where the tool
// verifies the token, or where a person accepted that it does not.
func TestRule_E6_WhatMayBeLeased(t *testing.T) {
	for mark, strict := range map[string]bool{"destructive: true": true, "financial: true": true, "sink: true": true, "read: true, sink: true": true,
		"write: true, privacy: true": true, "read: true, privacy: true": true, "write: true, feeds: [look]": true, "read: true": false, "write: true": false} {
		entry := func(server, more string) string {
			return "  look: {server: desk, scope: a, read: true}\n  x: {server: " + server + ", scope: a, schema: x.json, " + mark + more + "}\n"
		}
		if _, err := parseLease(entry("app", "")); err != nil {
			t.Errorf("%s, verified: %v", mark, err)
		}
		if _, err := parseLease(entry("plain", "")); (err != nil) != strict {
			t.Errorf("%s, unverified: %v, want refused %t", mark, err, strict)
		} else if strict && !strings.Contains(err.Error(), "unverified_lease: accepted") {
			t.Errorf("%s: the refusal does not say what to do: %v", mark, err)
		}
		s, err := parseLease(entry("plain", ", unverified_lease: accepted"))
		if err != nil {
			t.Errorf("%s, accepted: %v", mark, err)
			continue
		}
		if !overrides(s, "unverified_lease") {
			t.Errorf("%s: the override is not listed", mark)
		}
	}
}

func overrides(s *Snapshot, setting string) bool {
	for _, o := range s.Overrides() {
		if o.Setting == setting && o.Subject == "tool x" {
			return true
		}
	}
	return false
}

// TestRule_E6_ReportedIsNeverClean: nothing that a framework reports can be declared
// to count.
func TestRule_E6_ReportedIsNeverClean(t *testing.T) {
	const x = "  x: {server: app, scope: a, schema: x.json, read: true%s}\n"
	for what, c := range map[string]struct{ more, other, want string }{
		"fields":     {more: ", results: {fields: {id: {origin: clean}}}", want: "x.results: declares fields"},
		"directory":  {other: "  y: {server: desk, scope: a, write: true, directory: {to: {lookup: x}}}\n", want: "directory.to.lookup: a framework runs x itself"},
		"links":      {other: "  y: {server: desk, scope: a, write: true, links_from: [x]}\n", want: "links_from: a framework runs x itself"},
		"look-up":    {other: "  y: {server: desk, scope: a, write: true, targets: [id], guards: {id: {type: identifier, pattern: a, lookup: x}}}\n", want: "lookup: a framework runs x itself"},
		"own cost":   {more: ", cost: {result: price, most: 5, currency: EUR}", want: "cost.result: is what the holder"},
		"no schema":  {other: "  y: {server: app, scope: a, read: true}\n", want: "tools.y.schema: is needed"},
		"two":        {other: "  y: {server: app, tool: x, scope: a, read: true, schema: y.json}\n", want: "is another than that of x"},
		"not leased": {other: "  y: {server: desk, scope: a, read: true, schema: y.json}\n", want: "tools.y.schema: is for tools of a server with lease"},
		"accepted":   {other: "  y: {server: desk, scope: a, write: true, unverified_lease: accepted}\n", want: "tools.y.unverified_lease: is for tools"},
		"nothing":    {more: ", unverified_lease: accepted", want: "has nothing to accept"},
	} {
		_, err := parseLease(strings.Replace(x, "%s", c.more, 1) + c.other)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", what, err, c.want)
		}
	}
	s, err := parseLease(strings.Replace(x, "%s", ", results: {only: [id], classes: [customer]}", 1))
	if err != nil {
		t.Fatal(err)
	}
	tool := s.Quarantined()[0].Tool // it is not pinned here
	if labels := tool.Results.Labels(); !contains(labels, "untrusted") || !contains(labels, "class:customer") {
		t.Errorf("it labels %v", labels)
	}
	server, _ := s.Server("app")
	if want := filepath.Join("/etc/placet", "x.json"); server.Schemas["x"] != want || server.Kind != KindLease || !s.Leased(tool) {
		t.Errorf("its schema is %q, want %q", server.Schemas["x"], want)
	}
}

func contains(list []string, s string) bool {
	for _, have := range list {
		if have == s {
			return true
		}
	}
	return false
}

// Accepting that nobody verifies is another entry, and the plan says that it is weaker.
func TestUnverifiedLeaseIsWeaker(t *testing.T) {
	pin := LockedTool{Server: "plain"}
	p, err := PinOf(offer("x", `"id":{"type":"string"}`))
	if err != nil {
		t.Fatal(err)
	}
	pin.Pin = p
	l := NewLock()
	l.Tools["x"] = pin
	load := func(more string) *Snapshot {
		s, err := Parse([]Source{{Name: "tools.yaml", Text: []byte(leaseFile("  x: {server: plain, scope: a, write: true, schema: x.json" + more + "}\n")), Lock: lockText(t, l)}}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	was, now := load(""), load(", unverified_lease: accepted")
	a, _ := was.Tool("x")
	b, _ := now.Tool("x")
	if a == nil || b == nil || a.Digest == b.Digest {
		t.Fatal("the entry's digest does not cover it")
	}
	for _, c := range Plan(was, now) {
		if c.Direction == Weakened && strings.Contains(c.Detail, "unverified_lease") {
			return
		}
	}
	t.Error("the plan does not say that it weakens")
}
