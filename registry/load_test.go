package registry

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/placet-dev/placet/record"
)

// Each entry is wrong in the way its message says, and in no other.
func TestBadEntries(t *testing.T) {
	entry := func(lines string) string { return "  x:\n    server: helpdesk\n" + lines }
	marked := func(lines string) string {
		return entry("    scope: a:b\n    destructive: true\n" + lines)
	}
	at := "tools.yaml:4"
	for _, c := range []struct{ name, tools, want string }{
		{"unmarked", entry("    scope: a:b"), at + ": tools.x: is unmarked: set read, write, destructive, financial or sink: true"},
		{"contradiction", entry("    scope: a:b\n    read: true\n    financial: true"), at + ": tools.x: cannot be read and write, destructive or financial at once"},
		{"nobody", entry("    read: true"), at + ": tools.x: needs a scope, or callers who are named"},
		{"two scopes", entry("    read: true\n    scope: a b"), at + ": tools.x.scope: is one scope, without spaces or quotes"},
		{"no such server", "  x: {server: helpdsk, scope: a, read: true}", at + `: tools.x.server: there is no server "helpdsk"; did you mean helpdesk?`},
		{"reserved", "  placet_wait: {server: helpdesk, scope: a, read: true}", at + ": tools.placet_wait: names that start with placet_ are reserved"},
		{"name", "  Refund: {server: helpdesk, scope: a, read: true}", at + ": tools.Refund: a tool's name is at most 64 lower-case letters, digits and _ . -, and starts with a letter"},
		{"name with a look-alike", "  rеfund: {server: helpdesk, scope: a, read: true}", at + ": tools.rеfund: a tool's name is at most 64 lower-case letters, digits and _ . -, and starts with a letter"},
		{"prototype name", "  __proto__: {server: helpdesk, scope: a, read: true}", at + ": tools.__proto__: a tool's name is at most 64 lower-case letters, digits and _ . -, and starts with a letter"},
		{"retry safe", marked("    retry: safe"), at + ": tools.x.retry: safe is for read tools; use idempotent if the server honours the idempotency key"},
		{"retry reconcile", marked("    retry: reconcile"), at + ": tools.x.retry: reconcile needs a reconcile that can prove that nothing happened: records, or values of nothing"},
		{"retry by a reconcile without a no", marked("    retry: reconcile\n    reconcile: {tool: x, by: k, field: s, happened: [done], settle_after: 1m}"), at + ": tools.x.retry: reconcile needs a reconcile that can prove that nothing happened: records, or values of nothing"},
		{"reconcile by nothing", marked("    reconcile: {tool: y, by: k, records: r, settle_after: 1m}"), at + ": tools.x.reconcile.tool: there is no tool \"y\"; did you mean x?"},
		{"reconcile by a tool that changes something", marked("    reconcile: {tool: x, by: k, records: r, settle_after: 1m}"), at + ": tools.x.reconcile.tool: x must be marked read: true and not sink: true, since it must change nothing"},
		{"reconcile by a sink", marked("    reconcile: {tool: y, by: k, records: r, settle_after: 1m}") + "\n  y: {server: helpdesk, scope: a, read: true, sink: true}", at + ": tools.x.reconcile.tool: y must be marked read: true and not sink: true, since it must change nothing"},
		{"reconcile a read", entry("    read: true\n    scope: a\n    reconcile: {tool: x, by: k, records: r, settle_after: 1m}"), at + ": tools.x.reconcile: is for tools that change something; this one is marked read: true"},
		{"reconcile with nothing", marked("    reconcile: {tool: x, records: r, settle_after: 1m}"), at + ": tools.x.reconcile: needs by (the argument that takes the call's key), or arguments"},
		{"reconcile by guessing", marked("    reconcile: {tool: x, by: k, settle_after: 1m}"), at + ": tools.x.reconcile: needs records or field: which answer proves what is declared, not guessed"},
		{"reconcile at once", marked("    reconcile: {tool: x, by: k, records: r}"), at + ": tools.x.reconcile.settle_after: must be more than 0 and at most 168h: how long after the attempt's end an effect may still appear"},
		{"reconcile by both", marked("    reconcile: {tool: x, by: k, field: s, happened: [a], nothing: [a], settle_after: 1m}"), at + ": tools.x.reconcile.happened: has an empty value, or one that nothing lists too"},
		{"limit without above_limit", marked("    autonomous_limit: {argument: a, max: 2}\n    approval: {when: always}"), at + ": tools.x.approval.when: above_limit and autonomous_limit go together; this entry has one without the other"},
		{"above_limit without limit", marked("    approval: {when: above_limit}"), at + ": tools.x.approval.when: above_limit and autonomous_limit go together; this entry has one without the other"},
		{"limit as float", marked("    autonomous_limit: {argument: a, max: 2e2}"), "tools.yaml:8:37: tools.x.autonomous_limit.max: wants a decimal such as 200 or 199.95, 0 or more"},
		{"approver", marked("    approval: {approvers: [support]}"), at + ": tools.x.approval.approvers[0]: wants group:NAME, group:NAME@ISSUER, principal:SUBJECT@ISSUER or principal"},
		{"quorum of nobody", marked("    approval: {quorum: 2}"), at + ": tools.x.approval.quorum: needs approvers; without them the configured default holds"},
		{"quorum of too few", marked(`    approval: {quorum: 2, approvers: ["principal:a@b"]}`), at + ": tools.x.approval.quorum: is more than the 1 approvers there are"},
		{"self without self", marked(`    approval: {approvers: [principal]}`), at + ": tools.x.approval.approvers: names the call's own principal, which needs self: true"},
		{"effect", marked("    effect: Refund {amount"), at + ": tools.x.effect: has a brace that is not part of {argument}"},
		{"template code", marked(`    effect: "{{.Amount}}"`), at + ": tools.x.effect: has a brace that is not part of {argument}"},
		{"target twice", marked("    targets: [a, a]"), at + ": tools.x.targets[1]: wants the name of an argument, once"},
		{"empty same_effect", marked("    same_effect: []"), "tools.yaml:8:5: tools.x.same_effect: is empty; list something or remove the key"},
		{"key as target", marked("    targets: [k]\n    idempotency_argument: k"), at + ": tools.x.idempotency_argument: is filled by Placet and cannot be a target or part of same_effect"},
		{"no sources", marked("    sources: []"), "tools.yaml:8:5: tools.x.sources: is empty; list something or remove the key"},
		{"timeout", marked("    timeout: 0s"), at + ": tools.x.timeout: must be more than 0 and at most 1h"},
		{"group without issuer", entry("    read: true\n    callers: {groups: [support]}"), at + `: tools.x.callers.groups: "group:support" names no issuer; write NAME@ISSUER`},
		{"guards", marked("    guards: {a: {type: path}}"), "tools.yaml:8: tools.x.guards.a.root: is needed: the folder that nothing may leave"},
		{"targets by kind", marked("    targets: {a: {sort: event}}"), "tools.yaml:8:19: tools.x.targets.a.sort: is not a key here; the keys are kind, values"},
		{"taint of another kind", marked("    taint: allow"), "tools.yaml:8:5: tools.x.taint: wants one of ask_unless_trusted_targets, ask, deny"},
		{"a name without fields", marked("    results: {name: title}"), "tools.yaml:4: tools.x.results.name: names records of which no field counts; declare fields"},
		{"compensate nothing", marked("    compensate: {tool: y}"), "tools.yaml:4: tools.x.compensate.tool: there is no tool \"y\"; did you mean x?"},
		{"compensate itself", marked("    compensate: {tool: x}"), "tools.yaml:4: tools.x.compensate.tool: x undoes nothing: it is the tool itself, or is marked read: true"},
		{"too many rows", marked("    max_rows: 10001"), "tools.yaml:4: tools.x.max_rows: must be at most 10000"},
		{"rows of a server without queries", marked("    max_rows: 5"), "tools.yaml:4: tools.x.max_rows: is for tools of a server with queries"},
		{"dry run by nothing", marked("    dry_run: {tool: y}"), "tools.yaml:4: tools.x.dry_run.tool: there is no tool \"y\"; did you mean x?"},
		{"dry run by itself", marked("    dry_run: {tool: x}"), "tools.yaml:4: tools.x.dry_run.tool: x must be marked read: true and not sink: true, since it runs before anybody has said yes"},
		{"dry run by both", marked("    dry_run: {tool: x, argument: a}"), "tools.yaml:4: tools.x.dry_run: needs either a tool or an argument"},
		{"dry run by a value alone", marked("    dry_run: {tool: x, value: a}"), "tools.yaml:4: tools.x.dry_run.value: goes with argument"},
		{"dry run with arguments of none", marked("    dry_run: {argument: a, arguments: {b: c}}"), "tools.yaml:4: tools.x.dry_run.arguments: goes with tool"},
		{"compensate without a tool", marked("    compensate: {}"), "tools.yaml:8:5: tools.x.compensate: needs the key tool: Its name in the registry."},
		{"per_min", marked("    per_min: 1"), "tools.yaml:8:5: tools.x.per_min: is not a key here; did you mean per_minute?"},
		{"max_amount", marked("    max_amount: 1"), "tools.yaml:8:5: tools.x.max_amount: is not a key here; did you mean autonomous_limit: {argument: …, max: …}?"},
		{"agents", marked("    agents: [a]"), "tools.yaml:8:5: tools.x.agents: is not a key here; did you mean callers: {agents: […]}?"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parse(t, c.tools, nil, Options{Environment: "test"})
			if err == nil {
				t.Fatal("was accepted")
			}
			if got := err.Error(); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestBadServers(t *testing.T) {
	for _, c := range []struct{ name, server, want string }{
		{"neither", "{stateless: true}", "servers.s: needs exactly one of url, command, queries, operations, files and lease"},
		{"both", "{url: https://a/mcp, command: [a]}", "servers.s: needs exactly one of url, command, queries, operations, files and lease"},
		{"no URL", "{url: helpdesk}", "servers.s.url: wants an http(s) URL with a host and without user, password or fragment"},
		{"password", "{url: https://u:p@a/mcp}", "servers.s.url: wants an http(s) URL with a host and without user, password or fragment"},
		{"file", "{url: file:///etc/passwd}", "servers.s.url: wants an http(s) URL with a host and without user, password or fragment"},
		{"env with a value", "{command: [a], env: [A=b]}", "servers.s.env: wants names of variables, without values"},
		{"moving version", "{command: [npx, -y, pkg@latest]}", "servers.s.command: must name one exact version of the package it fetches, such as name@1.2.3"},
		{"no version", "{command: [uvx, mcp-server-git]}", "servers.s.command: must name one exact version of the package it fetches, such as name@1.2.3"},
		{"a folder", "{command: [go, run, ./cmd/x]}", "servers.s.command: must name one exact version of the package it fetches, such as name@1.2.3"},
		{"queries on nothing", "{queries: q}", "servers.s.database: wants postgres, or sqlite: and an absolute path"},
		{"queries on a path", "{queries: q, database: sqlite:a.db}", "servers.s.database: wants postgres, or sqlite: and an absolute path"},
		{"queries on postgres", "{queries: q, database: postgres}", "servers.s.credential: is needed: a static profile whose value is the connection string"},
		{"queries with a secret", "{queries: q, database: 'sqlite:/a.db', credential: c}", "servers.s.credential: is for postgres; an SQLite file needs none"},
		{"a database alone", "{url: https://a/mcp, database: postgres}", "servers.s.database: is for servers with queries"},
		{"later", "{url: https://a/mcp, same_user: accepted}", "servers.s.same_user: is not supported yet; remove the key"},
		{"lease of another kind", "{lease: true, url: https://a/mcp}", "servers.s: needs exactly one of url, command, queries, operations, files and lease"},
		{"lease with a credential", "{lease: true, credential: c}", "servers.s.credential: is for other kinds of server"},
		{"lease that asks back", "{lease: true, input_required: true}", "servers.s.input_required: is for other kinds of server"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse([]Source{{Name: "tools.yaml", Text: []byte("version: 1\nservers:\n  s: " + c.server)}}, Options{})
			if err == nil || !strings.HasSuffix(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "tools.yaml:3") {
				t.Errorf("got  %v\nwant tools.yaml:3…%s", err, c.want)
			}
		})
	}
}

func TestDefaults(t *testing.T) {
	l := locked(t, "helpdesk", map[string]Offer{
		"read_it": offer("read_it", ""), "pay": offer("pay", `"amount":{"type":"number"}`), "drop": offer("drop", "")})
	s := mustParse(t, `  read_it: {server: helpdesk, scope: a, read: true}
  pay: {server: helpdesk, scope: a, financial: true, autonomous_limit: {argument: amount, max: "199.95"}, approval: {approvers: ["group:x"]}}
  drop: {server: helpdesk, scope: a, destructive: true}
`, l)
	read, pay, drop := mustTool(t, s, "read_it"), mustTool(t, s, "pay"), mustTool(t, s, "drop")
	if read.Approval.When != Asked || pay.Approval.When != AboveLimit || drop.Approval.When != Always {
		t.Errorf("approval.when: %s %s %s", read.Approval.When, pay.Approval.When, drop.Approval.When)
	}
	if pay.Approval.Quorum != 1 || drop.Approval.Quorum != 0 || pay.Approval.Self {
		t.Errorf("approval: %+v %+v", pay.Approval, drop.Approval)
	}
	if pay.AutonomousLimit.Max.String() != "199.95" || pay.AutonomousLimit.Max.Rat().RatString() != "3999/20" {
		t.Errorf("limit: %s %s", pay.AutonomousLimit.Max, pay.AutonomousLimit.Max.Rat())
	}
	if drop.PerMinute != 30 || drop.Concurrent != 4 || drop.Timeout != 20*time.Second || drop.Retry != RetryNever || drop.PerRun != 0 {
		t.Errorf("limits: %+v", drop)
	}
	if drop.Repeat != (Repeat{10 * time.Minute, RepeatReturn}) || drop.SameEffect != nil || drop.Upstream != "drop" {
		t.Errorf("repeat: %+v", drop.Repeat)
	}
	if drop.Place != "tools.yaml:6" {
		t.Errorf("place %s", drop.Place)
	}
}

// TestRule_A3_SourcesDefault: read tools accept all, every other tool what is
// shown; below the list the verdict is a question, or a denial if the entry says so.
func TestRule_A3_SourcesDefault(t *testing.T) {
	l := locked(t, "helpdesk", map[string]Offer{"r": offer("r", ""), "d": offer("d", ""), "e": offer("e", "")})
	s := mustParse(t, `  r: {server: helpdesk, scope: a, read: true}
  d: {server: helpdesk, scope: a, sink: true}
  e: {server: helpdesk, scope: a, write: true, sources: [witnessed], sources_below: deny}
`, l)
	r, d, e := mustTool(t, s, "r"), mustTool(t, s, "d"), mustTool(t, s, "e")
	for _, c := range []struct {
		tool *Tool
		s    record.Source
		want bool
	}{
		{r, record.Direct, true}, {r, record.Witnessed, true}, {d, record.Direct, false}, {d, record.Vouched, true},
		{e, record.Vouched, false}, {e, record.Witnessed, true}, {r, "", false}, {r, "trusted", false},
	} {
		if got := c.tool.Accepts(c.s); got != c.want {
			t.Errorf("%s accepts %q: %v", c.tool.Name, c.s, got)
		}
	}
	if d.SourcesBelow != record.RequiresApproval || e.SourcesBelow != record.Deny {
		t.Errorf("below: %s %s", d.SourcesBelow, e.SourcesBelow)
	}
}

func TestAdmits(t *testing.T) {
	l := locked(t, "helpdesk", map[string]Offer{"a": offer("a", ""), "b": offer("b", ""), "c": offer("c", "")})
	s := mustParse(t, `  a: {server: helpdesk, scope: refunds:write, read: true}
  b: {server: helpdesk, scope: x, read: true, callers: {tenants: [acme], agents: [support-bot], groups: ["support@https://idp", "ops@https://idp"]}}
  c: {server: helpdesk, read: true, callers: {principals: ["anna@https://idp"]}}
`, l)
	support := []record.Group{{Issuer: "https://idp", Name: "support"}}
	other := func(change func(*record.Owner)) record.Owner { o := anna; change(&o); return o }
	for _, c := range []struct {
		name   string
		tool   string
		owner  record.Owner
		scopes []string
		groups []record.Group
		miss   string
		ok     bool
	}{
		{"scope", "a", anna, []string{"refunds:write"}, nil, "", true},
		{"no scope", "a", anna, []string{"refunds:read", "refunds:write2"}, nil, "refunds:write", false},
		{"all of callers", "b", anna, []string{"x"}, support, "", true},
		{"no group", "b", anna, []string{"x"}, nil, "", false},
		{"no group and no scope tells nothing", "b", anna, nil, nil, "", false},
		{"group of another issuer", "b", anna, []string{"x"}, []record.Group{{Issuer: "https://evil", Name: "support"}}, "", false},
		{"other tenant", "b", other(func(o *record.Owner) { o.Tenant = "globex" }), []string{"x"}, support, "", false},
		{"other agent", "b", other(func(o *record.Owner) { o.Agent = "bot" }), []string{"x"}, support, "", false},
		{"named principal", "c", anna, nil, nil, "", true},
		{"same subject of another issuer", "c", other(func(o *record.Owner) { o.Principal.Issuer = "https://evil" }), nil, nil, "", false},
		{"nobody", "a", record.Owner{}, []string{"refunds:write"}, nil, "", false},
		{"no agent", "a", other(func(o *record.Owner) { o.Agent = "" }), []string{"refunds:write"}, nil, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			miss, ok := mustTool(t, s, c.tool).Admits(c.owner, c.scopes, c.groups)
			if miss != c.miss || ok != c.ok {
				t.Errorf("got %q %v", miss, ok)
			}
		})
	}
}

func TestEnvironments(t *testing.T) {
	l := locked(t, "helpdesk", map[string]Offer{"a": offer("a", "")})
	for env, want := range map[string]bool{"production": true, "staging": false, "": false} {
		s, err := parse(t, "  a: {server: helpdesk, scope: a, read: true, environments: [production]}", l, Options{Environment: env})
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := s.Tool("a"); ok != want || len(s.Quarantined()) != 0 || len(s.Inventory()) != map[bool]int{true: 1}[want] {
			t.Errorf("%q: callable %v", env, ok)
		}
	}
}

// TestRule_H6_OneName: a name is one tool over all files, and two servers' equal
// names live under two names here.
func TestRule_H6_OneName(t *testing.T) {
	one := Source{Name: "tools.yaml", Text: []byte(header + "  get: {server: helpdesk, scope: a, read: true}")}
	two := Source{Name: "more.yaml", Text: []byte("version: 1\nservers: {crm: {url: https://crm/mcp}}\ntools:\n  get: {server: crm, scope: a, read: true}")}
	_, err := Parse([]Source{one, two}, Options{})
	if want := "more.yaml:4: tools.get: is named twice, first at tools.yaml:4"; err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
	two.Text = []byte("version: 1\nservers: {crm: {url: https://crm/mcp}}\ntools:\n  crm_get: {server: crm, tool: get, scope: a, read: true}")
	if _, err := Parse([]Source{one, two}, Options{}); err != nil {
		t.Error(err)
	}
	again := Source{Name: "again.yaml", Text: []byte("version: 1\nservers: {helpdesk: {url: https://evil/mcp}}")}
	if _, err := Parse([]Source{one, again}, Options{}); err == nil || !strings.Contains(err.Error(), "is named twice, first at tools.yaml:2") {
		t.Errorf("a second server of the same name: %v", err)
	}
}

func TestDottedNameWarns(t *testing.T) {
	l := locked(t, "helpdesk", map[string]Offer{"db.query": offer("db.query", "")})
	s := mustParse(t, "  db.query: {server: helpdesk, scope: a, read: true}", l)
	mustTool(t, s, "db.query")
	if w := s.Warnings(); len(w) != 1 || !strings.Contains(w[0].String(), "tools.yaml:4: tools.db.query: has a dot") {
		t.Errorf("warnings %v", w)
	}
}

func TestResolvers(t *testing.T) {
	l := locked(t, "helpdesk", map[string]Offer{"a": offer("a", "")})
	o := Options{
		Group: func(ref string) (record.Group, error) { return record.Group{Issuer: "https://idp", Name: ref}, nil },
		Principal: func(ref string) (record.Principal, error) {
			return record.Principal{Issuer: "https://idp", Subject: ref}, nil
		},
	}
	s, err := parse(t, "  a: {server: helpdesk, read: true, callers: {groups: [support], principals: [anna]}}", l, o)
	if err != nil {
		t.Fatal(err)
	}
	c := mustTool(t, s, "a").Callers
	if c.Groups[0].Name != "group:support" || c.Principals[0] != anna.Principal {
		t.Errorf("callers %+v", c)
	}
}

func TestLoadReadsTheLockBeside(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "tools.yaml")
	write := func(path string, text []byte) {
		t.Helper()
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(file, []byte(header+"  a: {server: helpdesk, scope: a, read: true}"))
	s, err := Load([]string{file}, Options{})
	if err != nil || s.Len() != 0 || len(s.Quarantined()) != 1 {
		t.Fatalf("without a lock: %v", err)
	}
	write(filepath.Join(dir, "tools.lock"), lockText(t, locked(t, "helpdesk", map[string]Offer{"a": offer("a", "")})))
	if s, err = Load([]string{file}, Options{}); err != nil || s.Len() != 1 {
		t.Fatalf("with its lock: %v", err)
	}
	if _, err := Load([]string{filepath.Join(dir, "none.yaml")}, Options{}); err == nil || !strings.Contains(err.Error(), "none.yaml: cannot be read") {
		t.Errorf("a missing file: %v", err)
	}
	write(filepath.Join(dir, "tools.lock"), []byte("version: 1\ntools: {a: {serve: x}}"))
	if _, err := Load([]string{file}, Options{}); err == nil || !strings.Contains(err.Error(), "tools.lock:2") {
		t.Errorf("a broken lock: %v", err)
	}
}

// Two files of one name, in two folders, each have their own lock and place.
func TestLoadTellsFilesApart(t *testing.T) {
	dir := t.TempDir()
	var files []string
	for i, name := range []string{"a", "b"} {
		folder := filepath.Join(dir, name)
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(folder, "tools.yaml")
		text := "version: 1\nservers: {s" + name + ": {url: https://s/mcp}}\ntools:\n" + strings.Repeat("\n", i) + "  " + name + ": {server: s" + name + ", scope: a, read: true}\n"
		lock := lockText(t, locked(t, "s"+name, map[string]Offer{name: offer(name, "")}))
		for path, text := range map[string][]byte{file: []byte(text), LockPath(file): lock} {
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		files = append(files, file)
	}
	s, err := Load(files, Options{})
	if err != nil || s.Len() != 2 {
		t.Fatalf("%v %v", err, s)
	}
	if got, want := mustTool(t, s, "b").Place, files[1]+":5"; got != want {
		t.Errorf("place %s, want %s", got, want)
	}
}

func TestDeclared(t *testing.T) {
	d := Declared{Name: "note", Entry: Entry{Scope: "notes", Write: true, Effect: "Note {text}"}, Offer: offer("", `"text":{"type":"string"}`)}
	s, err := Parse(nil, Options{Declared: []Declared{d}})
	if err != nil {
		t.Fatal(err)
	}
	tool := mustTool(t, s, "note")
	server, ok := s.Server(tool.Server)
	if !ok || !server.Inproc || tool.Approval.When != Always || tool.Accepts(record.Direct) || tool.PerMinute != 30 {
		t.Errorf("tool %+v on %+v", tool, server)
	}
	if err := tool.CheckArguments([]byte(`{"text":"a"}`)); err != nil {
		t.Error(err)
	}
	for name, spoil := range map[string]func(*Entry){
		"approval.when":    func(e *Entry) { e.Approval.When = "sometimes" },
		"sources":          func(e *Entry) { e.Sources = []SourceName{"trusted"} },
		"sources_below":    func(e *Entry) { e.SourcesBelow = "allow" },
		"repeat.answer":    func(e *Entry) { e.Repeat.Within = time.Minute },
		"per_run":          func(e *Entry) { e.PerRun = -1 },
		"autonomous_limit": func(e *Entry) { e.AutonomousLimit = &LimitEntry{Argument: "text"} },
		"mode":             func(e *Entry) { e.Mode = "off" },
	} {
		bad := d
		spoil(&bad.Entry)
		if _, err := Parse(nil, Options{Declared: []Declared{bad}}); err == nil || !strings.Contains(err.Error(), "tools.note."+name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	d.Entry.Effect = "Note {txt}"
	if _, err := Parse(nil, Options{Declared: []Declared{d}}); err == nil || !strings.Contains(err.Error(), `there is no argument "txt"; did you mean text?`) {
		t.Errorf("a wrong effect: %v", err)
	}
	d.Entry.Effect = ""
	d.Offer.InputSchema = []byte(`{"type":"object","properties":{"a":{"$ref":"https://evil.example/x"}}}`)
	if _, err := Parse(nil, Options{Declared: []Declared{d}}); err == nil || !strings.Contains(err.Error(), "never fetched") {
		t.Errorf("a schema elsewhere: %v", err)
	}
}

func TestSnapshotOrder(t *testing.T) {
	l := locked(t, "helpdesk", map[string]Offer{"b": offer("b", ""), "a": offer("a", ""), "c": offer("c", "")})
	s := mustParse(t, "  c: {server: helpdesk, scope: a, read: true}\n  a: {server: helpdesk, scope: a, read: true}\n  b: {server: helpdesk, scope: a, read: true}\n  q: {server: helpdesk, scope: a, read: true}\n", l)
	var names []string
	for tool := range s.Tools() {
		names = append(names, tool.Name)
	}
	if !slices.Equal(names, []string{"a", "b", "c"}) || s.Len() != 3 {
		t.Errorf("tools %v", names)
	}
	if _, ok := s.Tool("q"); ok {
		t.Error("a quarantined tool is callable")
	}
	if u := s.Unlisted("helpdesk", []Offer{{Name: "a"}, {Name: "q"}, {Name: "z"}}); len(u) != 1 || u[0].Name != "z" {
		t.Errorf("unlisted %v", u)
	}
	rows := s.Inventory()
	if len(rows) != 4 || rows[3].Tool != "q" || rows[3].Quarantined == "" || !rows[0].Read || rows[0].Unmarked {
		t.Errorf("inventory %+v", rows)
	}
}
