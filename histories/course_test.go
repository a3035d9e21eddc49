package histories_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/placet-dev/placet"
	"github.com/placet-dev/placet/edge/llm/llmtest"
	"github.com/placet-dev/placet/guard"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/issuer"
	"github.com/placet-dev/placet/registry"
	"github.com/placet-dev/placet/tool/local"
	toolmcp "github.com/placet-dev/placet/tool/mcp"
)

// course is the world of the matrix: the tools of the rows, two that a framework
// runs itself, those that run later, a model behind the server's door, and an issuer that
// knows who is a member.
type course struct {
	*world
	provider *llmtest.Provider
	members  []string
	earlier  bool            // the tools have their older schema
	keeper   string          // the run of a user who is no part of any cell
	keys     map[string]bool // that a tool has seen which honours them
}

const courseSettings = `version: 1
environment: test
store: sqlite:state.db
registry: [tools.yaml]
permissions: {read: ["group:readers"], operate: ["group:ops"]}
approvals: {wait: 1ms, default: {approvers: ["group:leads"]}}
providers: {openai: {api: openai, url: "UP/v1", key: "env:PROVIDER_KEY"}}
runs: {calls_per_run: 10000, calls_per_turn: 10000, proposals_open: 10000, proposals_open_turn: 10000, proposals_open_principal: 10000}
`

// brief's lease ends before its holder reports.
const courseTools = `version: 1
servers: {framework: {lease: true}}
tools:
  file: {server: framework, schema: lease.json, scope: work, write: true, sources: [direct], per_minute: 0, concurrent: 0, approval: {when: always, approvers: ["group:leads"]}}
  brief: {server: framework, schema: lease.json, scope: work, write: true, timeout: 1s, sources: [direct], per_minute: 0, concurrent: 0, approval: {when: always, approvers: ["group:leads"]}}
`

const (
	presentSchema = `{"type":"object","properties":{"row":{"type":"string"},"what":{"type":"string"}},"required":["row","what"],"additionalProperties":false}`
	earlierSchema = `{"type":"object","properties":{"row":{"type":"string"},"what":{"type":"string"},"force":{"type":"boolean"}},"required":["row","what"],"additionalProperties":false}`
)

func newCourse(t *testing.T, members []string) *course {
	t.Helper()
	w := &course{provider: &llmtest.Provider{}, members: append(slices.Clone(members), "keeper"), keys: map[string]bool{}}
	upstream := httptest.NewServer(w.provider)
	t.Cleanup(func() { upstream.CloseClientConnections(); upstream.Close() })
	w.world = &world{}
	w.world = worldWith(t, time.Millisecond, func(dir string) {
		w.world.t, w.world.dir = t, dir
		w.write("placet.yaml", strings.ReplaceAll(courseSettings, "UP", upstream.URL))
		w.write("tools.yaml", courseTools)
		w.writeLease()
		w.writeUsers()
	}, func(o *placet.Options) {
		o.Tenants = []string{"acme", "globex"}
		o.Users = issuer.File(filepath.Join(w.dir, "users.yaml"))
		o.LookupEnv = func(string) (string, bool) { return "sk-of-the-operator", true }
		o.Tools = w.changed(o.Tools)
	})
	var run struct{ ID string }
	status, text, err := w.send(t.Context(), w.token("keeper", false), http.MethodPost, "/v1/runs", "{}")
	if err != nil || json.Unmarshal(text, &run) != nil || run.ID == "" {
		t.Fatalf("no run: %d %s %v", status, text, err)
	}
	w.keeper = run.ID
	return w
}

// changed are the tools of the rows with the schema of the time, and some like them: one
// that runs without a question when a model was seen to emit it, those that are left to
// the queue, and those that may be scheduled.
func (w *course) changed(tools []placet.Tool) []placet.Tool {
	like := func(t placet.Tool, name string, change func(*placet.Tool)) {
		t.Name = name
		change(&t)
		tools = append(tools, t)
	}
	honoured := registry.RetryIdempotent
	queue := func(t *placet.Tool) { t.Entry.Dispatch = registry.DispatchQueued }
	schedule := func(t *placet.Tool) { t.Entry.Schedules = registry.SchedulesAllowed }
	for n := range tools {
		if w.earlier && string(tools[n].InputSchema) == presentSchema {
			tools[n].InputSchema = json.RawMessage(earlierSchema)
		}
		switch t := tools[n]; t.Name {
		case "note":
			like(t, "erase", func(t *placet.Tool) { t.Entry.Sources = []registry.SourceName{"witnessed"} })
			like(t, "later_note", queue)
		case "send":
			like(t, "later", queue)
			like(t, "daily", schedule)
		case "breaks":
			like(t, "later_breaks", func(t *placet.Tool) { queue(t); t.Entry.Retry, t.Handler = &honoured, w.honours() })
			like(t, "daily_breaks", schedule)
		}
	}
	return tools
}

// honours is a server that does a call once for each idempotency key, and whose first
// answer is lost.
func (w *course) honours() local.Handler {
	return func(_ context.Context, c local.Call) (json.RawMessage, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.keys[c.Key] {
			return json.RawMessage(`{"content":[{"type":"text","text":"done"}]}`), nil
		}
		w.keys[c.Key] = true
		w.lines = append(w.lines, c.Tool+" "+string(c.Arguments))
		return nil, errors.New("the connection was lost")
	}
}

// pass lets time go by at the server. Its clock would notice within half a minute; a
// change of somebody's run wakes it.
func (w *course) pass(d time.Duration) {
	w.t.Helper()
	w.ahead.Add(int64(d))
	status, text, err := w.send(context.Background(), w.token("keeper", false), http.MethodPost, "/v1/runs/"+w.keeper+"/delegation", w.until())
	if err != nil || status != http.StatusOK {
		w.t.Fatalf("the server's clock was not woken: %d %s %v", status, text, err)
	}
}

// until is the body of a request for a delegation of an hour.
func (w *course) until() string {
	return `{"until":"` + w.now().Add(time.Hour).UTC().Format(time.RFC3339) + `"}`
}

func (w *course) write(name, text string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// writeUsers writes who is a member now.
func (w *course) writeUsers() {
	w.t.Helper()
	text := "version: 1\nusers:\n  lena: {tenant: acme, groups: [leads]}\n"
	for _, who := range w.members {
		if !w.outside[who] {
			text += fmt.Sprintf("  %s: {tenant: acme, scopes: [work]}\n", who)
		}
	}
	w.write("users.yaml", text)
}

// writeLease writes the leased tools' schema, and reviews it.
func (w *course) writeLease() {
	w.t.Helper()
	w.write("lease.json", map[bool]string{false: presentSchema, true: earlierSchema}[w.earlier])
	file := filepath.Join(w.dir, "tools.yaml")
	if err := os.Remove(registry.LockPath(file)); err != nil && !os.IsNotExist(err) {
		w.t.Fatal(err)
	}
	r, err := registry.Load([]string{file}, registry.Options{Environment: "test"})
	if err != nil {
		w.t.Fatal(err)
	}
	servers := placet.OpenServers(toolmcp.Options{}, guard.World{})
	defer servers.Close()
	lock := registry.NewLock()
	for _, q := range r.Quarantined() {
		server, _ := r.Server(q.Tool.Server)
		offer, err := servers.Offer(w.t.(*testing.T).Context(), server, q.Tool.Upstream, 0)
		if err != nil {
			w.t.Fatal(err)
		}
		pin, err := registry.PinOf(offer)
		if err != nil {
			w.t.Fatal(err)
		}
		lock.Tools[q.Tool.Name] = registry.LockedTool{Server: server.Name, Pin: pin}
	}
	text, err := lock.Write()
	if err != nil {
		w.t.Fatal(err)
	}
	w.write(filepath.Base(registry.LockPath(file)), string(text))
}

// operator is olga's token.
func (w *course) operator() string {
	w.t.Helper()
	text, err := w.local.Sign(identity.TokenSpec{Audience: w.url + "/console", Subject: "olga", Tenant: "acme", Groups: []string{"ops"}})
	if err != nil {
		w.t.Fatal(err)
	}
	return text
}

// lease is what a framework gets to run.
type lease struct {
	Attempt   int
	Secret    string
	Tool      string
	Arguments json.RawMessage
}

// ask posts as somebody's agent. Whoever that is, it is a framework as well: what it is
// given a lease for, it runs, in whatever answer that comes; brief is never reported.
func (w *course) ask(c *cell, who, path, body string) (int, []byte) {
	c.t.Helper()
	status, text, err := w.send(c.t.Context(), w.token(who, false), http.MethodPost, path, body)
	if err != nil {
		c.t.Fatal(err)
	}
	var got struct {
		Call  string
		Lease *lease
	}
	if json.Unmarshal(text, &got) != nil || got.Lease == nil {
		return status, text
	}
	w.mu.Lock()
	w.lines = append(w.lines, got.Lease.Tool+" "+string(got.Lease.Arguments))
	w.mu.Unlock()
	if got.Lease.Tool != "brief" {
		report := fmt.Sprintf(`{"attempt":%d,"secret":%q,"outcome":"succeeded","result":"done"}`, got.Lease.Attempt, got.Lease.Secret)
		if status, text, err := w.send(c.t.Context(), w.token(who, false), http.MethodPost, "/v1/calls/"+got.Call+"/report", report); err != nil || status != http.StatusOK {
			c.t.Errorf("the report: %d %s %v", status, text, err)
		}
	}
	return status, text
}

// tell gives a history to each operation that takes one.
func (w *course) tell(c *cell, h transcript) {
	c.t.Helper()
	for path, read := range map[string]bool{
		"/v1/transcripts?format=openai-chat":                true,                        // its importer's own
		"/v1/history/check?format=openai-chat&run=" + c.run: c.who == c.own || c.above(), // who holds a run reads it
		"/v1/runs/" + c.run + "/resume?format=openai-chat":  c.who == c.own,
	} {
		if status, text := w.ask(c, c.who, path, h.text()); (status < 300) != read {
			c.t.Errorf("%s by %s: %d %s", path, c.who, status, text)
		}
	}
	w.ask(c, c.who, "/v1/history/repair?format=openai-chat&to=openai-chat&run="+c.run, h.text()) // some have two meanings, and are refused
}
