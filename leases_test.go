package placet

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/verify"
)

const leasesYAML = `version: 1
servers:
  app: {lease: true, dispatch_token: true}
  plain: {lease: true}
tools:
  close_account:
    server: app
    schema: close_account.json
    scope: files
    destructive: true
    sources: [direct]
    targets: [account_id]
    taint: ask_unless_trusted_targets
    approval: {when: asked, approvers: ["group:leads"]}
  show: {server: plain, schema: show.json, scope: files, read: true}
`

const (
	closeSchema = `{"title":"Close an account","description":"Closes it for good.","type":"object","required":["account_id"],"properties":{"account_id":{"type":"string","maxLength":20}},"additionalProperties":false}`
	showSchema  = `{"type":"object","properties":{}}`
)

// application is a framework with a tool of its own, which verifies dispatch tokens
// near its effect. Its SQLite file is the oracle.
type application struct {
	t      *testing.T
	h      *folderHouse
	url    string
	tokens *verify.Verifier
	ledger string
}

// leaseOf is what the framework reads of an answer.
type leaseOf struct {
	Verdict, State, Code, Call, Text string
	Status                           int
	Result                           json.RawMessage
	Outcome                          struct{ Reported bool }
	Lease                            *struct {
		Attempt   int
		Secret    string
		Tool      string
		Arguments json.RawMessage
		Key       string `json:"idempotency_key"`
		Token     string `json:"dispatch_token"`
	}
}

func newApplication(t *testing.T) *application {
	t.Helper()
	a := &application{t: t}
	a.h = openFolder(t, leasesYAML, map[string]string{"close_account.json": closeSchema, "show.json": showSchema})
	door := httptest.NewServer(a.h.p.Handler())
	t.Cleanup(door.Close)
	a.url = door.URL
	var err error
	if a.tokens, err = verify.New(verify.Options{Issuer: "http://127.0.0.1:8088", Audience: "app", JWKS: door.URL + verify.KeysPath, Seen: verify.PerProcess(nil)}); err != nil {
		t.Fatal(err)
	}
	a.ledger = sqliteFile(t, "CREATE TABLE closed (account TEXT, call TEXT, attempt INTEGER, principal TEXT)")
	return a
}

// closes is the tool: it acts on a call that its token shows, and on no other.
func (a *application) closes(token, arguments string) error {
	call, err := a.tokens.Check(a.t.Context(), token, "close_account", []byte(arguments))
	if err != nil {
		return err
	}
	var in struct {
		Account string `json:"account_id"`
	}
	if err := json.Unmarshal([]byte(arguments), &in); err != nil {
		return err
	}
	onSQLite(a.t, a.ledger, func(c *sqlite.Conn) error {
		return sqlitex.ExecuteTransient(c, "INSERT INTO closed VALUES (?,?,?,?)", &sqlitex.ExecOptions{Args: []any{in.Account, call.Call, call.Attempt, call.Principal.Subject}})
	})
	return nil
}

func (a *application) did() string { return sqliteRows(a.t, a.ledger, "SELECT * FROM closed") }

func (a *application) ask(subject, method, path, body string) leaseOf {
	a.t.Helper()
	token, err := a.h.issuer.Sign(identity.TokenSpec{Audience: a.h.p.o.Config.Audience(), Subject: subject, Tenant: "acme", Agent: "bot", Scopes: []string{"files"}})
	if err != nil {
		a.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(a.t.Context(), method, a.url+path, strings.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		a.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	out := leaseOf{Status: resp.StatusCode}
	if err := json.Unmarshal(text, &out); err != nil {
		a.t.Fatalf("%d %s", resp.StatusCode, text)
	}
	return out
}

func (a *application) report(l leaseOf, more string) leaseOf {
	a.t.Helper()
	return a.ask("anna", "POST", "/v1/calls/"+l.Call+"/report", fmt.Sprintf(`{"attempt":%d,"secret":%q,%s}`, l.Lease.Attempt, l.Lease.Secret, more))
}

// TestRule_E6_AFrameworkRunsItsOwnTool: propose, run what the lease says, report; and
// whatever else presents that call to the tool changes nothing.
func TestRule_E6_AFrameworkRunsItsOwnTool(t *testing.T) {
	a := newApplication(t)
	l := a.ask("anna", "POST", "/v1/calls", `{"tool":"close_account","arguments":{"account_id":"acc_7"}}`)
	if l.Status != 200 || l.Code != "leased" || l.State != "executing" || l.Verdict != "allow" || l.Lease == nil || l.Lease.Token == "" {
		t.Fatalf("%+v", l)
	}
	for what, bad := range map[string]struct{ token, arguments string }{
		"other arguments": {l.Lease.Token, `{"account_id":"acc_8"}`},
		"no token":        {"", `{"account_id":"acc_7"}`},
		"the secret":      {l.Lease.Secret, `{"account_id":"acc_7"}`},
	} {
		if err := a.closes(bad.token, bad.arguments); err == nil || a.did() != "" {
			t.Errorf("%s: %v, ledger %q", what, err, a.did())
		}
	}
	if err := a.closes(l.Lease.Token, string(l.Lease.Arguments)); err != nil {
		t.Fatal(err)
	}
	if err := a.closes(l.Lease.Token, string(l.Lease.Arguments)); err == nil {
		t.Error("a token works twice")
	}
	beat := a.ask("anna", "POST", "/v1/calls/"+l.Call+"/heartbeat", fmt.Sprintf(`{"attempt":%d,"secret":%q}`, l.Lease.Attempt, l.Lease.Secret))
	if beat.Status != 200 || beat.Call != l.Call {
		t.Errorf("heartbeat: %+v", beat)
	}
	// Whoever comes back to the call is given nothing to run.
	for _, again := range []leaseOf{
		a.ask("anna", "POST", "/v1/calls", `{"tool":"close_account","arguments":{"account_id":"acc_7"}}`),
		a.ask("anna", "POST", "/v1/calls/"+l.Call+"/dispatch", ""),
	} {
		if again.Lease != nil || again.Status != 202 || again.Code != "in_progress" || again.Call != l.Call {
			t.Errorf("again: %+v", again)
		}
	}
	if r := a.ask("mallory", "POST", "/v1/calls/"+l.Call+"/report", fmt.Sprintf(`{"attempt":1,"secret":%q,"outcome":"succeeded"}`, l.Lease.Secret)); r.Status != 404 {
		t.Errorf("another principal reports: %+v", r)
	}
	for more, status := range map[string]int{`"outcome":"done"`: 400, `"outcome":"succeeded","error":"x"`: 400, `"outcome":"failed","result":1`: 400,
		`"outcome":"not_started","result":1`: 400, `"outcome":"succeeded","more":1`: 400} {
		if r := a.report(l, more); r.Status != status {
			t.Errorf("%s: %d, want %d", more, r.Status, status)
		}
	}
	done := a.report(l, `"outcome":"succeeded","result":{"closed":true}`)
	if done.Status != 200 || done.State != "succeeded" || !strings.Contains(string(done.Result), `"structuredContent":{"closed":true}`) {
		t.Fatalf("report: %+v %s", done, done.Result)
	}
	if late := a.report(l, `"outcome":"failed"`); late.Status != 409 || late.Code != "conflict" {
		t.Errorf("another report: %+v", late)
	}
	if shown := a.ask("anna", "GET", "/v1/calls/"+l.Call, ""); shown.State != "succeeded" || !shown.Outcome.Reported {
		t.Errorf("shown: %+v", shown)
	}
	if repeat := a.ask("anna", "POST", "/v1/calls", `{"tool":"close_account","arguments":{"account_id":"acc_7"}}`); repeat.Code != "already_done" || repeat.Lease != nil {
		t.Errorf("repeat: %+v", repeat)
	}
	if got := a.did(); strings.Count(got, "acc_7") != 1 || strings.Contains(got, "acc_8") || !strings.Contains(got, l.Call) || !strings.Contains(got, "anna") {
		t.Errorf("the ledger holds %q", got)
	}
}

// TestRule_E6_NoLeaseOverMCP: who speaks MCP cannot run a tool itself, so there is none.
func TestRule_E6_NoLeaseOverMCP(t *testing.T) {
	a := newApplication(t)
	ask := func(method, params string) string {
		t.Helper()
		token, err := a.h.issuer.Sign(identity.TokenSpec{Audience: a.h.p.o.Config.Audience(), Subject: "anna", Tenant: "acme", Agent: "bot", Scopes: []string{"files"}})
		if err != nil {
			t.Fatal(err)
		}
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, strings.Replace(params, "{",
			`{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}},`, 1))
		r, err := http.NewRequestWithContext(t.Context(), "POST", a.url+"/mcp", bytes.NewReader([]byte(strings.ReplaceAll(body, ",}", "}"))))
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{"Authorization": "Bearer " + token, "Content-Type": "application/json", "Accept": "application/json, text/event-stream",
			"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method} {
			r.Header.Set(name, value)
		}
		if method == "tools/call" {
			r.Header.Set("Mcp-Name", "close_account")
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if list := ask("tools/list", `{}`); strings.Contains(list, "close_account") || !strings.Contains(list, "placet_wait") {
		t.Errorf("listed: %s", list)
	}
	if called := ask("tools/call", `{"name":"close_account","arguments":{"account_id":"acc_7"}}`); !strings.Contains(called, `"not_available"`) {
		t.Errorf("called: %s", called)
	}
	if a.did() != "" {
		t.Errorf("the ledger holds %q", a.did())
	}
	var tools struct {
		Tools []struct {
			Name, Title string
			Leased      bool
		}
	}
	r := a.list()
	if err := json.Unmarshal(r, &tools); err != nil || len(tools.Tools) != 2 || !tools.Tools[0].Leased || tools.Tools[0].Title != "Close an account" {
		t.Errorf("over the API: %s", r)
	}
}

func (a *application) list() []byte {
	a.t.Helper()
	token, err := a.h.issuer.Sign(identity.TokenSpec{Audience: a.h.p.o.Config.Audience(), Subject: "anna", Tenant: "acme", Agent: "bot", Scopes: []string{"files"}})
	if err != nil {
		a.t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(a.t.Context(), "GET", "/v1/tools", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	w := httptest.NewRecorder()
	a.h.p.Handler().ServeHTTP(w, r)
	return w.Body.Bytes()
}

// A schema that is not the one that was reviewed quarantines its tool, as any drift.
func TestALeasedToolsSchemaIsPinned(t *testing.T) {
	a := newApplication(t)
	if err := os.WriteFile(filepath.Join(a.h.dir, "close_account.json"), []byte(strings.Replace(closeSchema, `"maxLength":20`, `"maxLength":2000`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if l := a.ask("anna", "POST", "/v1/calls", `{"tool":"close_account","arguments":{"account_id":"acc_7"}}`); l.Lease != nil || l.Code != "not_available" {
		t.Errorf("after a change: %+v", l)
	}
	if err := os.WriteFile(filepath.Join(a.h.dir, "close_account.json"), []byte(closeSchema+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if l := a.ask("anna", "POST", "/v1/calls", `{"tool":"close_account","arguments":{"account_id":"acc_7"}}`); l.Lease == nil {
		t.Errorf("as it was reviewed: %+v", l)
	}
	if l := a.ask("anna", "POST", "/v1/calls", `{"tool":"show"}`); l.Lease == nil || l.Lease.Token != "" {
		t.Errorf("a tool that verifies nothing: %+v", l)
	}
}

// TestPromise_P1_P5_ALeaseOutlivesAKill: the program is killed before and after each
// write from the proposal to the report. What the framework was given to run it runs
// once; what was lost on the way is run by nobody.
func TestPromise_P1_P5_ALeaseOutlivesAKill(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	met := map[string]bool{}
	for n := 1; ; n++ {
		died := false
		for _, when := range []string{"before", "after"} {
			t.Run(fmt.Sprintf("%s write %d", when, n), func(t *testing.T) {
				written, end := leaseCrash(t, fmt.Sprintf("%d|%s", n, when))
				died = died || end
				for _, kind := range strings.Fields(written) {
					met[kind] = true
				}
			})
		}
		if !died {
			break
		}
	}
	for _, kind := range []string{"executing", "succeeded"} {
		if !met[kind] {
			t.Errorf("the process never died at the write of %s, but at %v", kind, met)
		}
	}
}

func leaseCrash(t *testing.T, point string) (written string, died bool) {
	c := newCrashing(t)
	const tools = "version: 1\nservers: {app: {lease: true}}\ntools:\n  note: {server: app, schema: note.json, scope: pay, write: true, timeout: 1m, sources: [direct], approval: {when: asked}}\n"
	for name, text := range map[string]string{"tools.yaml": tools, "note.json": `{"type":"object","properties":{"n":{"type":"integer"}}}`} {
		if err := os.WriteFile(filepath.Join(c.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	lockFolder(t, c.dir)
	c.start(point)
	const proposal = `{"tool":"note","arguments":{"n":1}}`
	var l leaseOf
	c.ask("anna", "POST", "/v1/calls", proposal, &l)
	var ledger []string
	want := record.Executing // its lease was lost on the way: unknown when it ends
	if l.Lease != nil {
		ledger = append(ledger, string(l.Lease.Arguments))
		holder := fmt.Sprintf(`{"attempt":%d,"secret":%q`, l.Lease.Attempt, l.Lease.Secret)
		var beat leaseOf
		if status := c.ask("anna", "POST", "/v1/calls/"+l.Call+"/heartbeat", holder+"}", &beat); status != 200 {
			t.Errorf("%s: the heartbeat got %d", point, status)
		}
		var done leaseOf
		if status := c.ask("anna", "POST", "/v1/calls/"+l.Call+"/report", holder+`,"outcome":"succeeded","result":"done"}`, &done); status != 200 || done.State != "succeeded" {
			t.Errorf("%s: the report got %d %+v", point, status, done)
		}
		want = record.Succeeded
	}
	for range 2 {
		var again leaseOf
		c.ask("anna", "POST", "/v1/calls", proposal, &again)
		if again.Lease != nil || again.State != string(want) || again.Call != l.Call {
			t.Errorf("%s: asked again: %+v, want %s", point, again, want)
		}
	}
	text, err := os.ReadFile(filepath.Join(c.dir, "point"))
	written = string(text)
	reserved := strings.Contains(written, "executing") && strings.HasSuffix(point, "after")
	if lost := l.Lease == nil; lost != reserved || len(ledger) != map[bool]int{true: 0, false: 1}[reserved] {
		t.Errorf("%s %q: lease lost %t, ledger %q", point, written, lost, ledger)
	}
	return written, err == nil
}

// lockFolder reviews what the servers of a folder's registry offer.
func lockFolder(t *testing.T, dir string) {
	t.Helper()
	(&folderHouse{t: t, dir: dir}).lock()
}
