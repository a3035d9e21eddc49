package registry

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

const guardHeader = `version: 1
servers: {desk: {url: "https://desk.example/mcp"}}
tools:
  get: {server: desk, scope: a, read: true}
  look: {server: desk, scope: a, read: true, targets: [id], guards: {id: {type: identifier, lookup: get}}}
  put: {server: desk, scope: a, write: true}
`

func TestGuardsAreCheckedAtLoad(t *testing.T) {
	tool := func(guards string) string {
		return guardHeader + "  x: {server: desk, scope: a, destructive: true, targets: [id, ids], guards: " + guards + "}\n"
	}
	for guards, want := range map[string]string{
		`{id: {type: identifier, pattern: "ord_[0-9]+", resource: order, lookup: get}}`: "",
		`{id: {type: path}}`:                                       "guards.id.root: is needed",
		`{id: {type: path, root: "/srv/{tenant}"}}`:                "",
		`{id: {type: path, root: srv}}`:                            "an absolute path",
		`{id: {type: path, root: /etc/placet}}`:                    "files of Placet itself",
		`{id: {type: path, root: "/etc/{tenant}"}}`:                "files of Placet itself",
		`{id: {type: path, root: /etc/placet/keys/x}}`:             "files of Placet itself",
		`{id: {type: url, root: /srv}}`:                            "says nothing for a guard of type url",
		`{id: {type: url, hosts: ["ex ample"]}}`:                   "which is no host name",
		`{id: {type: url, schemes: [ftp]}}`:                        "https and http are known",
		`{id: {type: url, networks: [10.0.0.1/8]}}`:                "no network",
		`{id: {type: email, domains: [example.com]}}`:              "",
		`{id: {type: amount}}`:                                     "currency: is needed",
		`{id: {type: amount, currency: QQQ}}`:                      "ISO 4217",
		`{id: {type: amount, currency: EUR, min: 5, max: 4.99}}`:   "is more than max",
		`{id: {type: enum}}`:                                       "values: is needed",
		`{id: {type: query, values: ["select 1"]}}`:                "no name of a query",
		`{id: {type: size}}`:                                       "is needed",
		`{id: {type: text, secrets: allow}}`:                       "deny",
		`{"ids[].url": {type: url}}`:                               "",
		`{"ids[": {type: url}}`:                                    "wants the name of an argument",
		`{id: {type: identifer}}`:                                  "identifier",
		`{id: {}}`:                                                 "type",
		`{other: {type: identifier, resource: order}}`:             "must be one of targets",
		`{id: {type: identifier, pattern: "("}}`:                   "no regular expression",
		`{id: {type: identifier, lookup: gett}}`:                   "did you mean get",
		`{id: {type: identifier, lookup: put}}`:                    "is not marked read",
		`{id: {type: identifier, lookup: look}}`:                   "has a look-up of its own",
		`{id: {type: identifier, lookup_found: order}}`:            "names none; set lookup",
		`{id: {type: identifier, resource: "Or der"}}`:             "resource",
		`{id: {type: identifier, lookup: get, lookup_tennant: x}}`: "did you mean lookup",
	} {
		_, err := Parse([]Source{{Name: "tools.yaml", Text: []byte(tool(guards))}}, Options{Own: []string{"/etc/placet/placet.yaml", "/etc/placet/keys"}})
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", guards, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: got %v, want %q", guards, err, want)
		}
	}
}

func TestGuardAcceptsWholeValues(t *testing.T) {
	s, err := Parse([]Source{{Name: "tools.yaml", Text: []byte(guardHeader +
		"  x: {server: desk, scope: a, write: true, targets: [id], guards: {id: {type: identifier, pattern: 'ord_[0-9]{1,4}|7'}}}\n")}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	x := s.all["x"]
	for arguments, ok := range map[string]bool{
		`{"id":"ord_1"}`:            true,
		`{"id":["ord_1","ord_22"]}`: true,
		`{"id":7}`:                  true,
		`{}`:                        true, // whether it must be there is the schema's business
		`{"id":"ord_1\n"}`:          false,
		`{"id":"ord_12345"}`:        false,
		`{"id":"ord_1/../ord_2"}`:   false,
		`{"id":["ord_1","else"]}`:   false,
		`{"id":""}`:                 false,
		`{"id":{"ord_1":1}}`:        false,
		`{"id":[["ord_1"]]}`:        false,
		`{"id":true}`:               false,
		`{"id":7.5}`:                false,
		`{"id":null}`:               false,
		`{"id":["` + strings.Repeat(`ord_1","`, 50) + `ord_1"]}`: false,
	} {
		if !json.Valid([]byte(arguments)) {
			t.Fatal(arguments)
		}
		_, refusal := x.AcceptArguments([]byte(arguments), anna)
		if (refusal == nil) != ok {
			t.Errorf("%s: %v", arguments, refusal)
		}
		if refusal != nil && strings.Contains(refusal.Error()+refusal.Private, "ord_") {
			t.Errorf("the refusal shows a value: %v", refusal)
		}
	}
}

// A look-up's argument is the one of the same name, or its only required one.
func TestLookupArgumentIsResolved(t *testing.T) {
	for schema, want := range map[string]string{
		`{"type":"object","properties":{"id":{"type":"string"},"b":{"type":"string"}}}`:                     "id",
		`{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}},"required":["b"]}`:     "b",
		`{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}}}`:                      "",
		`{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}},"required":["a","b"]}`: "",
	} {
		lock := NewLock()
		pin, err := PinOf(Offer{Name: "get", InputSchema: json.RawMessage(schema)})
		if err != nil {
			t.Fatal(err)
		}
		lock.Tools["get"] = LockedTool{Server: "desk", Pin: pin}
		text, err := lock.Write()
		if err != nil {
			t.Fatal(err)
		}
		s, err := Parse([]Source{{Name: "tools.yaml", Lock: text, Text: []byte(guardHeader +
			"  x: {server: desk, scope: a, write: true, targets: [id], guards: {id: {type: identifier, lookup: get}}}\n")}}, Options{})
		switch {
		case want == "" && (err == nil || !strings.Contains(err.Error(), "lookup_argument")):
			t.Errorf("%s: %v", schema, err)
		case want != "" && err != nil:
			t.Errorf("%s: %v", schema, err)
		case want != "" && s.all["x"].Guard("id").Lookup.Argument != want:
			t.Errorf("%s: resolved to %q", schema, s.all["x"].Guard("id").Lookup.Argument)
		}
	}
}

// TestDocumentedLookUpLoads reads the registry that docs/authorization.md shows.
func TestDocumentedLookUpLoads(t *testing.T) {
	page, err := os.ReadFile("../docs/authorization.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), "```yaml\nversion: 1\n")
	text, _, closed := strings.Cut(rest, "```")
	if !found || !closed {
		t.Fatal("the page shows no registry")
	}
	s, err := Parse([]Source{{Name: "tools.yaml", Text: []byte("version: 1\n" + text)}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	l := s.all["issue_refund"].Guard("order_id").Lookup
	if l == nil || l.Tool != "get_order" || l.Found != "order.id" || l.Tenant != "order.tenant" {
		t.Fatalf("the look-up is %+v", l)
	}
}
