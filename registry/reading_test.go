package registry

import (
	"slices"
	"strings"
	"testing"
)

const shelf = `version: 1
servers: {lib: {url: http://127.0.0.1/mcp}, other: {url: http://127.0.0.1/other}, disk: {files: /srv/files}}
tools:
`

func readable(t *testing.T) *Lock {
	t.Helper()
	l := NewLock()
	for name, o := range map[string]Offer{
		"book":   reading(ResourceOffer("lib://book", "A book", "Of books.", "text/plain", []byte(`{"audience":["user"],"lastModified":"2026-11-30T00:00:00Z"}`))),
		"page":   reading(ResourceOffer("lib://pages/{path}", "", "A page.", "", nil)),
		"ask":    reading(PromptOffer("ask", "Ask", "Asks.", []Argument{{Name: "city", Required: true}, {Name: "tone", Title: "Tone"}})),
		"cities": reading(PromptOffer("ask", "Ask", "Asks.", []Argument{{Name: "city", Required: true}, {Name: "tone", Title: "Tone"}})),
	} {
		pin, err := PinOf(o)
		if err != nil {
			t.Fatal(err)
		}
		l.Tools[name] = LockedTool{"lib", pin}
	}
	return l
}

const shelfTools = `  book: {server: lib, resource: "lib://book", scope: read, results: {trusted: true}}
  page: {server: lib, resource: "lib://pages/{path}", scope: read, read: true}
  ask: {server: lib, prompt: ask, scope: read, read: true, guards: {tone: {type: enum, values: [dry]}}}
  cities: {server: lib, completes: ask, scope: read, read: true}
`

// Rule F6: entries of resources, prompts and completions read, are untrusted unless
// they say otherwise, and have what was pinned as their arguments.
func TestRule_F6_Entries(t *testing.T) {
	s, err := Parse([]Source{{Name: "tools.yaml", Text: []byte(shelf + shelfTools), Lock: lockText(t, readable(t))}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Quarantined()) > 0 {
		t.Fatalf("%+v", s.Quarantined())
	}
	for name, arguments := range map[string][]string{"book": nil, "page": {"path"}, "ask": {"city", "tone"}, "cities": {"argument", "context", "value"}} {
		tool, _ := s.Tool(name)
		if names, open := tool.input.known.listed(tool.input.compiled); open || !slices.Equal(names, arguments) {
			t.Errorf("%s takes %v", name, names)
		}
		if !tool.Read || tool.Results.Untrusted != (name != "book") {
			t.Errorf("%s: read %t, untrusted %t", name, tool.Read, tool.Results.Untrusted)
		}
	}
	for arguments, ok := range map[string]bool{`{"argument":"city","value":"pa"}`: true, `{"argument":"tone","value":"d"}`: false, `{"argument":"city"}`: false,
		`{"argument":"city","value":"p","context":{"tone":"dry"}}`: true, `{"argument":"city","value":"p","context":{"else":"x"}}`: false} {
		tool, _ := s.Tool("cities")
		if err := tool.CheckArguments([]byte(arguments)); (err == nil) != ok {
			t.Errorf("%s: %v", arguments, err)
		}
	}
	if !slices.ContainsFunc(s.Overrides(), func(o Override) bool { return o.Subject == "tool book" && o.Setting == "results.trusted" }) {
		t.Errorf("%+v", s.Overrides())
	}
	page, _ := s.Tool("page")
	if found := page.Lint(); !slices.ContainsFunc(found, func(f Finding) bool { return f.Argument == "path" && f.Kind == Unguarded }) {
		t.Errorf("%+v", found)
	}
}

func TestEntriesThatReadAreRefused(t *testing.T) {
	for entry, want := range map[string]string{
		`x: {server: lib, resource: "lib://{+a}", scope: read}`:                                          "x.resource: has an expression",
		`x: {server: lib, resource: "lib://a", prompt: b, scope: read}`:                                  "names more than one thing: resource and prompt",
		`x: {server: lib, resource: "lib://a", tool: b, scope: read}`:                                    "names more than one thing: tool and resource",
		`x: {server: lib, prompt: a, scope: read, write: true}`:                                          "x.write: is for tools",
		`x: {server: lib, prompt: a, scope: read, results: {only: [a]}}`:                                 "x.results.only: is for tools",
		`x: {server: lib, tool: a, scope: read, read: true, results: {trusted: true}}`:                   "x.results.trusted: is for resources",
		`x: {server: disk, resource: "lib://a", scope: read}`:                                            "only MCP servers",
		`x: {server: lib, completes: nothing, scope: read}`:                                              `x.completes: there is no entry "nothing"`,
		`x: {server: lib, completes: book, scope: read}`:                                                 "book is neither a prompt nor a resource template",
		`x: {server: other, completes: ask, scope: read}`:                                                "x.server: is other, and ask is of lib",
		`x: {server: lib, uri: "lib://a", scope: read}`:                                                  "did you mean resource",
		`x: {server: lib, write: true, scope: w, targets: [a], guards: {a: {type: name, lookup: book}}}`: "book is no tool",
	} {
		_, err := Parse([]Source{{Name: "tools.yaml", Text: []byte(shelf + shelfTools + "  " + entry + "\n"), Lock: lockText(t, readable(t))}}, Options{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", entry, err)
		}
	}
}

// Rule H4: everything that a reviewer read is pinned, and what changes with every
// edit of a resource is not.
func TestRule_H4_WhatIsReadIsPinned(t *testing.T) {
	was := reading(ResourceOffer("lib://book", "A book", "Of books.", "text/plain", []byte(`{"lastModified":"2026-11-30T00:00:00Z"}`)))
	pin, err := PinOf(was)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		now   Offer
		drift string
	}{
		"edited":         {reading(ResourceOffer("lib://book", "A book", "Of books.", "text/plain", []byte(`{"lastModified":"2027-01-01T00:00:00Z"}`))), ""},
		"title":          {reading(ResourceOffer("lib://book", "B", "Of books.", "text/plain", nil)), "title"},
		"description":    {reading(ResourceOffer("lib://book", "A book", "x", "text/plain", nil)), "description"},
		"mime type":      {reading(ResourceOffer("lib://book", "A book", "Of books.", "text/html", nil)), "mime_type"},
		"for assistants": {reading(ResourceOffer("lib://book", "A book", "Of books.", "text/plain", []byte(`{"audience":["assistant"]}`))), "annotations"},
		"a template":     {reading(ResourceOffer("lib://{x}", "A book", "Of books.", "text/plain", nil)), "name, input_schema"},
		"a tool":         {Offer{Name: was.Name, Title: was.Title, Description: was.Description, InputSchema: was.InputSchema, MimeType: was.MimeType}, "method"},
	} {
		err := pin.Check(c.now)
		if (err == nil) != (c.drift == "") || err != nil && !strings.Contains(err.Error(), "("+c.drift+")") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := PromptOffer("p", "", "", []Argument{{Name: "a"}, {Name: "a"}}); err == nil {
		t.Error("a prompt has one argument twice")
	}
	drafts := Draft("lib", []Offer{was, reading(PromptOffer("ask", "", "Asks.", []Argument{{Name: "city"}}))}, nil)
	text := shelf
	for _, d := range drafts {
		text += d.YAML
	}
	s, err := Parse([]Source{{Name: "tools.yaml", Text: []byte(text)}}, Options{})
	if err != nil || len(s.Quarantined()) != 2 || s.all["lib_book"].Upstream != "lib://book" || s.all["ask"].Method != MethodPrompt {
		t.Fatalf("%v\n%s", err, text)
	}
}
