package api

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/policy"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
	"github.com/placet-dev/placet/store/sqlite"
	"github.com/placet-dev/placet/tool/local"
)

const (
	proposing = "https://tools.test/mcp"
	answering = "https://tools.test/console"
)

// house is a whole server on a real store, with tools that keep a ledger.
type house struct {
	t        *testing.T
	url      string
	issuer   *identity.Local
	store    *sqlite.Store
	boundary *dispatch.Boundary
	ledger   ledger
	log      *logBook
	offset   atomic.Int64 // of the clock
	gate     chan struct{}
	entered  chan struct{}
	keys     map[string]string // of workloads, by name
}

// ledger is what the tools did: the oracle of every test here.
type ledger struct {
	mu   sync.Mutex
	done []string
}

func (l *ledger) add(entry string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done = append(l.done, entry)
}

func (l *ledger) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.done)
}

// logBook keeps what was logged.
type logBook struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *logBook) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (h *house) now() time.Time { return time.Now().Add(time.Duration(h.offset.Load())) }

func newHouse(t *testing.T, change ...func(*Options)) *house {
	t.Helper()
	ctx := context.Background()
	h := &house{t: t, log: &logBook{}, gate: make(chan struct{}), entered: make(chan struct{}, 100), keys: map[string]string{}}
	log := slog.New(slog.NewJSONHandler(h.log, nil))
	verifier := h.identities()
	var err error
	if h.store, err = sqlite.Open(ctx, filepath.Join(t.TempDir(), "state.db"), sqlite.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.store.Close(); err != nil {
			t.Error(err)
		}
	})
	if h.boundary, err = dispatch.New(dispatch.Options{Store: h.store, Invoker: h.tools(), Clock: h.now, Random: rand.Reader, Log: log}); err != nil {
		t.Fatal(err)
	}
	snapshot := h.registry(verifier)
	set, err := policy.NewSet(nil, time.Second, nil)
	if err != nil {
		t.Fatal(err)
	}
	approver := func(ref string, part *record.ApprovalPart) error {
		g, err := verifier.ResolveGroup(ref)
		part.Groups = append(part.Groups, g)
		return err
	}
	if _, err = h.boundary.Activate(ctx, dispatch.Active{Registry: snapshot, Policy: set, Approver: approver, Digest: "one"}, record.Who{System: "test"}); err != nil {
		t.Fatal(err)
	}
	o := Options{Boundary: h.boundary, Reader: h.store, Verifier: verifier, Version: "test", Log: log, Clock: h.now,
		Overrides: snapshot.Overrides, Beat: 10 * time.Millisecond, Sealed: h.store}
	for _, f := range change {
		f(&o)
	}
	server := httptest.NewServer(New(o))
	t.Cleanup(server.Close)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of the server:\n%s", h.log.String())
		}
	})
	h.url = server.URL
	return h
}

// identities makes the issuer and its verifier.
func (h *house) identities() *identity.Verifier {
	var err error
	if h.issuer, err = identity.NewLocal("https://id.test", rand.Reader, h.now); err != nil {
		h.t.Fatal(err)
	}
	issuer, err := h.issuer.Issuer(proposing, answering, []string{"acme", "globex"})
	if err != nil {
		h.t.Fatal(err)
	}
	c := identity.Config{Issuers: []identity.Issuer{issuer}, Operate: []string{"group:platform"}, Read: []string{"group:security"}}
	for name, w := range map[string]identity.WorkloadKey{
		"app":        {Permissions: []identity.Permission{identity.Vouch}, Tenant: "acme"},
		"robot":      {Permissions: []identity.Permission{identity.Propose}, Tenant: "acme"},
		"ops":        {Permissions: []identity.Permission{identity.Operate}, Tenant: "acme"},
		"ops_globex": {Permissions: []identity.Permission{identity.Operate}, Tenant: "globex"},
	} {
		key, err := identity.NewKey(rand.Reader)
		if err != nil {
			h.t.Fatal(err)
		}
		h.keys[name], w.Name, w.KeyHash = key, name, identity.HashKey(key)
		c.Workloads = append(c.Workloads, w)
	}
	v, err := identity.New(c, identity.Deps{Clock: h.now})
	if err != nil {
		h.t.Fatal(err)
	}
	return v
}

// resultText is a result that no encoder would leave as it is.
const resultText = `{"n": 9007199254740993, "html": "<b>&"}`

// tools are handlers that write to the ledger.
func (h *house) tools() *local.Invoker {
	v := local.New()
	for name, handler := range map[string]local.Handler{
		"look": func(_ context.Context, c local.Call) (json.RawMessage, error) {
			return json.RawMessage(`{"found":true}`), nil
		},
		"note":   h.effect(nil),
		"refund": h.effect(nil),
		"slow": func(ctx context.Context, c local.Call) (json.RawMessage, error) {
			h.entered <- struct{}{}
			select {
			case <-h.gate:
				return h.effect(nil)(ctx, c)
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		},
		"purge":   h.effect(nil),
		"lost":    h.effect(errLost),
		"scoped":  h.effect(nil),
		"foreign": h.effect(nil),
	} {
		if err := v.Add(name, handler); err != nil {
			h.t.Fatal(err)
		}
	}
	return v
}

type lostError struct{}

func (lostError) Error() string { return "the connection broke" }

var errLost = lostError{}

func (h *house) effect(then error) local.Handler {
	return func(_ context.Context, c local.Call) (json.RawMessage, error) {
		h.ledger.add(c.Tool + " " + string(c.Arguments))
		return json.RawMessage(resultText), then
	}
}

func (h *house) registry(v *identity.Verifier) *registry.Snapshot {
	any := []registry.SourceName{"witnessed", "vouched", "direct"}
	schema := json.RawMessage(`{"type":"object","properties":{"order":{"type":"string"},"amount":{"type":"string"},"n":{"type":"integer"}}}`)
	var max registry.Decimal
	if err := max.UnmarshalText([]byte("200")); err != nil {
		h.t.Fatal(err)
	}
	two := 2
	ask := registry.Asking{When: registry.Always, Approvers: []string{"group:leads"}, Quorum: 1, Expires: time.Hour}
	never := registry.Asking{When: registry.Asked, Approvers: []string{"group:leads"}, Quorum: 1, Expires: time.Hour}
	limited := ask
	limited.When = registry.AboveLimit
	var declared []registry.Declared
	for name, e := range map[string]registry.Entry{
		"look":    {Read: true, Scope: "work"},
		"note":    {Write: true, Scope: "work", Sources: any, Approval: never, PerMinute: &two, Compensate: registry.CompensateEntry{Tool: "slow"}},
		"refund":  {Destructive: true, Financial: true, Scope: "work", Sources: any, Approval: limited, Targets: []string{"order"}, AutonomousLimit: &registry.LimitEntry{Argument: "amount", Max: max}, Effect: "Refund {amount} on {order}"},
		"slow":    {Write: true, Scope: "work", Sources: any, Approval: never},
		"purge":   {Write: true, Scope: "work", Sources: any, Approval: ask, DryRun: registry.DryRunEntry{Tool: "look"}},
		"lost":    {Write: true, Scope: "work", Sources: any, Approval: never, Compensate: registry.CompensateEntry{Tool: "note"}},
		"scoped":  {Write: true, Scope: "rare", Sources: any, Approval: never},
		"foreign": {Write: true, Callers: registry.CallersEntry{Agents: []string{"another"}}, Sources: any, Approval: never, Instead: "Use the SECRET-INSTEAD tool."},
	} {
		declared = append(declared, registry.Declared{Name: name, Entry: e, Offer: registry.Offer{Title: "Title of " + name, InputSchema: schema}})
	}
	s, err := registry.Parse(nil, registry.Options{Environment: "test", Group: v.ResolveGroup, Declared: declared})
	if err != nil {
		h.t.Fatal(err)
	}
	return s
}

// who is a set of headers.
type who map[string]string

func (h *house) token(s identity.TokenSpec) who {
	h.t.Helper()
	token, err := h.issuer.Sign(s)
	if err != nil {
		h.t.Fatal(err)
	}
	return who{"Authorization": "Bearer " + token}
}

// agent is anna's agent, or another principal's.
func (h *house) agent(subject, tenant string) who {
	return h.token(identity.TokenSpec{Audience: proposing, Subject: subject, Tenant: tenant, Agent: "bot", Scopes: []string{"work"}})
}

func (h *house) anna() who { return h.agent("anna", "acme") }

// login is a person's token of the answering audience.
func (h *house) login(subject, tenant string, groups ...string) who {
	return h.token(identity.TokenSpec{Audience: answering, Subject: subject, Tenant: tenant, Groups: groups})
}

func (h *house) lena() who { return h.login("lena", "acme", "leads") }

func (h *house) key(name string) who { return who{"Placet-Workload": h.keys[name]} }

// with adds headers.
func (w who) with(more who) who {
	w = maps.Clone(w)
	maps.Copy(w, more)
	return w
}

// reply is an answer of the server.
type reply struct {
	status int
	header http.Header
	body   string
}

// get returns a member of the body, as text.
func (r reply) get(name string) string {
	var m map[string]json.RawMessage
	if json.Unmarshal([]byte(r.body), &m) != nil {
		return ""
	}
	var s string
	if json.Unmarshal(m[name], &s) != nil {
		return string(m[name])
	}
	return s
}

func (h *house) do(w who, method, path, body string) reply {
	h.t.Helper()
	req, err := http.NewRequest(method, h.url+path, strings.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, value := range w {
		req.Header.Set(name, value)
	}
	return h.send(req)
}

func (h *house) send(req *http.Request) reply {
	h.t.Helper()
	req.GetBody = nil // net/http would send a request with an Idempotency-Key again
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		h.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	return reply{resp.StatusCode, resp.Header, string(text)}
}

// want checks status and code of an answer.
func (h *house) want(r reply, status int, code string) reply {
	h.t.Helper()
	if r.status != status || r.get("code") != code {
		h.t.Fatalf("%d with code %q, want %d with %q: %s", r.status, r.get("code"), status, code, r.body)
	}
	if status >= 400 {
		h.checkProblem(r)
	}
	return r
}

// checkProblem checks what every problem must have.
func (h *house) checkProblem(r reply) {
	h.t.Helper()
	if got := r.header.Get("Content-Type"); got != "application/problem+json" {
		h.t.Errorf("content type %q", got)
	}
	var p Problem
	if err := json.Unmarshal([]byte(r.body), &p); err != nil {
		h.t.Fatalf("%v in %s", err, r.body)
	}
	if p.Status != r.status || p.Detail == "" || p.Title == "" || p.Type != problemBase+p.Code {
		h.t.Errorf("not a whole problem: %s", r.body)
	}
}

func (h *house) effects(want int) {
	h.t.Helper()
	if got := h.ledger.count(); got != want {
		h.t.Fatalf("the ledger holds %d effects, want %d: %q", got, want, h.ledger.done)
	}
}

// events returns the log as an operator reads it.
func (h *house) events(query string) []EventView {
	h.t.Helper()
	r := h.do(h.login("root", "acme", "platform"), "GET", "/v1/events?limit=500"+query, "")
	if r.status != 200 {
		h.t.Fatal(r.body)
	}
	var out struct {
		Events []EventView `json:"events"`
	}
	if err := json.Unmarshal([]byte(r.body), &out); err != nil {
		h.t.Fatal(err)
	}
	return out.Events
}

func (h *house) count(kind record.EventKind) int {
	h.t.Helper()
	n := 0
	for _, e := range h.events("") {
		if e.Kind == kind {
			n++
		}
	}
	return n
}
