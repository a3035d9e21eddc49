package registry

import (
	"bytes"
	"cmp"
	"flag"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/yamlfile"
)

var update = flag.Bool("update", false, "write generated files anew")

// current compares a generated file with what is checked in.
func current(t *testing.T, path string, want []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not current; run: go test ./registry -update", path)
	}
}

func TestSchemaIsCurrent(t *testing.T) {
	want, err := JSONSchema()
	if err != nil {
		t.Fatal(err)
	}
	current(t, "tools.schema.json", want)
	if _, err := compile(want, false); err != nil {
		t.Error(err)
	}
	var f File
	if ps := yamlfile.Decode("x", []byte("version: 1"), &f); len(ps) > 0 {
		t.Error(ps)
	}
}

// reading is an offer that is known to be one.
func reading(o Offer, err error) Offer {
	if err != nil {
		panic(err)
	}
	return o
}

// sampleOffers is what the sample's servers would say; sample/tools.lock is made of it.
func sampleOffers() map[string]Offer {
	text := func(name string) string { return `"` + name + `":{"type":"string"}` }
	file := func(name string) []byte {
		text, err := os.ReadFile("../docs/sample/" + name)
		if err != nil {
			panic(err) // the sample is part of this tree
		}
		return text
	}
	query := file("queries/orders_for_customer.sql")
	return map[string]Offer{
		"orders_for_customer": {Name: "orders_for_customer", Description: "Orders of one customer, the newest first.", Definition: string(query),
			Annotations: []byte(`{"readOnlyHint":true,"openWorldHint":false}`),
			InputSchema: []byte(`{"type":"object","additionalProperties":false,"required":["customer_id"],"properties":{
				"customer_id":{"type":"string","maxLength":20,"pattern":"^cus_[0-9]+$","description":"ID of the customer."},
				"since":{"type":"string","maxLength":10,"pattern":"^[0-9]{4}-[0-9]{2}-[0-9]{2}$","description":"Only those from this day on, such as 2026-11-30."}}}`)},
		"read_ticket":   offer("read_ticket", text("ticket_id"), "ticket_id"),
		"issue_refund":  offer("refund.create", text("order_id")+`,"amount":{"type":"number"},`+text("currency")+","+text("request_id"), "order_id", "amount", "request_id"),
		"send_email":    offer("send_email", text("to")+","+text("subject")+","+text("body"), "to"),
		"list_contacts": offer("list_contacts", text("name")),
		"fetch_page":    offer("fetch_page", text("url"), "url"),
		"read_file":     offer("read_text_file", text("path"), "path"),
		"write_file":    offer("write_file", text("path")+","+text("title")+","+text("content"), "path"),
		"find_write":    offer("find_write", text("path")+","+text("key")),
		"restore_file":  offer("restore_file", text("path"), "path"),
		"read_balance":  offer("read_balance", text("account_id"), "account_id"),
		// Placet makes these offers of the files in docs/sample/schemas.
		"close_account": {Name: "close_account", Title: "Close an account", Description: "Closes a customer's account for good.",
			InputSchema: file("schemas/close_account.json")},
		"show_banner": {Name: "show_banner", Title: "Show a banner", Description: "Shows a message to everybody who uses the application.",
			InputSchema: file("schemas/show_banner.json")},
		"handbook":    reading(ResourceOffer("helpdesk://handbook", "Handbook", "How we answer.", "text/markdown", nil)),
		"article":     reading(ResourceOffer("helpdesk://articles/{slug}", "Article", "An article of the knowledge base.", "text/markdown", nil)),
		"summarise":   reading(PromptOffer("summarise-ticket", "", "Sums a ticket up.", []Argument{{Name: "ticket_id", Description: "ID of the ticket.", Required: true}})),
		"find_ticket": reading(PromptOffer("summarise-ticket", "", "Sums a ticket up.", []Argument{{Name: "ticket_id", Description: "ID of the ticket.", Required: true}})),
	}
}

// The sample in the documentation loads with its lock, all of it callable, and
// uses every key that works.
func TestDocumentedSampleLoads(t *testing.T) {
	l := NewLock()
	l.Servers["files"] = ServerPin{Package: "@modelcontextprotocol/server-filesystem", Version: "2026.8.31", Integrity: "sha512-sample"}
	l.Servers["ledger"] = ServerPin{Executable: canon.Of("sample")}
	servers := map[string]string{"read_file": "files", "write_file": "files", "restore_file": "files", "find_write": "files", "read_balance": "ledger", "close_account": "support-app", "show_banner": "desktop",
		"orders_for_customer": "warehouse"}
	for name, o := range sampleOffers() {
		p, err := PinOf(o)
		if err != nil {
			t.Fatal(err)
		}
		l.Tools[name] = LockedTool{cmp.Or(servers[name], "helpdesk"), p}
	}
	const folder = "../docs/sample/"
	current(t, folder+"tools.lock", lockText(t, l))
	s, err := Load([]string{folder + "tools.yaml"}, Options{Environment: "production"})
	if err != nil {
		t.Fatal(err)
	}
	if s.Len() != len(sampleOffers()) {
		t.Errorf("quarantined: %+v", s.Quarantined())
	}
	text, err := os.ReadFile(folder + "tools.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, root := range []any{File{}, Defaults{}, ServerEntry{}, Entry{}, CallersEntry{}, LimitEntry{}, Asking{}, RepeatEntry{}, TargetEntry{}, ResultsEntry{}, FieldEntry{}, DirectoryEntry{}, CompensateEntry{}, DryRunEntry{}, ReconcileEntry{}} {
		for _, key := range yamlfile.Keys(root) {
			if !regexp.MustCompile(`(?m)[\s{,]` + key + `:|^` + key + `:`).Match(text) {
				t.Errorf("the sample does not show the key %s of %T", key, root)
			}
		}
	}
}

// Every key of the target shape is read, or refused as not supported yet. None
// is unknown and none is ignored.
func TestEveryKnownKeyIsReadOrRefused(t *testing.T) {
	tool := func(key, value string) string {
		return header + "  x: {server: helpdesk, scope: a, destructive: true, " + key + ": " + value + "}"
	}
	server := func(key, value string) string { return "version: 1\nservers: {s: {" + key + ": " + value + "}}" }
	later := map[string]string{}
	for _, key := range []string{"credential", "dispatch_token"} {
		later["tools.x."+key] = tool(key, "{a: b}")
	}
	for _, key := range []string{"same_user", "sandbox", "egress"} {
		later["servers.s."+key] = server(key, "x")
	}
	for path, text := range later {
		_, err := Parse([]Source{{Name: "tools.yaml", Text: []byte(text)}}, Options{})
		if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "not supported yet") {
			t.Errorf("%s: %v", path, err)
		}
	}
	for _, key := range []string{"tool", "callers", "environments", "sources", "sources_below", "per_minute", "per_run", "concurrent", "timeout", "same_effect",
		"idempotency_argument", "autonomous_limit", "per_tenant", "cost", "max_rows", "effect", "repeat", "errors", "mode", "instead", "taint", "results", "feeds", "unseen", "privacy",
		"data", "asked_for", "names", "directory", "links_from", "given", "targets", "compensate", "schema", "unverified_lease", "dispatch", "schedules", "record_arguments", "retention"} {
		if !slices.Contains(yamlfile.Keys(Entry{}), key) {
			t.Errorf("the key %s is not read", key)
		}
	}
}

func FuzzParse(f *testing.F) {
	text, err := os.ReadFile("../docs/sample/tools.yaml")
	if err != nil {
		f.Fatal(err)
	}
	lock, err := os.ReadFile("../docs/sample/tools.lock")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text, lock)
	f.Add([]byte(header+"  x: {server: helpdesk, scope: a, read: true}"), []byte("version: 1"))
	f.Fuzz(func(t *testing.T, text, lock []byte) {
		s, err := Parse([]Source{{Name: "tools.yaml", Text: text, Lock: lock}}, Options{Environment: "production"})
		if err != nil {
			if err.Error() == "" {
				t.Error("refused without a word")
			}
			return
		}
		for tool := range s.Tools() {
			if tool.Pin == nil || tool.input == nil || len(marksOf(tool)) == 0 || tool.Scope == "" && !anybody(tool.Callers) {
				t.Errorf("%s is callable and should not be: %+v", tool.Name, tool)
			}
		}
	})
}

func anybody(c Callers) bool {
	return len(c.Principals)+len(c.Tenants)+len(c.Agents)+len(c.Groups) > 0
}

// The starter file loads as it is, and with its examples uncommented.
func TestStarterFileLoads(t *testing.T) {
	text, err := os.ReadFile("../config/sample/tools.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s, err := Parse([]Source{{Name: "tools.yaml", Text: text}}, Options{})
	if err != nil || s.Len() != 0 {
		t.Fatalf("as it is: %v", err)
	}
	_, body, _ := bytes.Cut(text, []byte("version: 1"))
	body = regexp.MustCompile(`(?m)^# `).ReplaceAll(body, nil)
	s, err = Parse([]Source{{Name: "tools.yaml", Text: append([]byte("version: 1"), body...)}}, Options{})
	if err != nil || len(s.Quarantined()) != 2 {
		t.Errorf("uncommented: %v\n%s", err, body)
	}
}

func TestKeysAreDocumented(t *testing.T) {
	current(t, "../docs/sample/tools-keys.md", []byte(yamlfile.Markdown("Keys of tools.yaml", File{})))
}

// The schema that editors use agrees with the parser: it takes the sample, and
// refuses an unknown key, a key for later and a value out of no list.
func TestSchemaAgreesWithTheParser(t *testing.T) {
	raw, err := JSONSchema()
	if err != nil {
		t.Fatal(err)
	}
	s, err := compile(raw, false)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../docs/sample/tools.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		from, to string
		fine     bool
	}{
		"as it is":    {"", "", true},
		"unknown key": {"per_run: 5", "per_runs: 5", false},
		"later":       {"per_run: 5", "results: {a: 1}", false},
		"choice":      {"retry: safe", "retry: save", false},
		"type":        {"per_run: 5", "per_run: five", false},
		"missing":     {"version: 1\n", "", false},
	} {
		edited := strings.Replace(string(text), c.from, c.to, 1)
		asJSON, err := yaml.YAMLToJSON([]byte(edited))
		if err != nil {
			t.Fatal(err)
		}
		checked := s.check("file", asJSON)
		_, parsed := Parse([]Source{{Name: "tools.yaml", Text: []byte(edited)}}, Options{})
		if (checked == nil) != c.fine || (parsed == nil) != c.fine {
			t.Errorf("%s: the schema says %v, the parser %v", name, checked, parsed)
		}
	}
}
