package alert

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
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

// world is a boundary on a real file, with tools that keep a ledger.
type world struct {
	t        *testing.T
	issuer   *identity.Local
	verifier *identity.Verifier
	store    *sqlite.Store
	boundary *dispatch.Boundary
	offset   atomic.Int64 // of the clock

	mu     sync.Mutex
	ledger []string
	log    strings.Builder
}

func (w *world) now() time.Time {
	return time.Now().Add(time.Duration(w.offset.Load())).UTC().Truncate(time.Microsecond)
}

func (w *world) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Write(p)
}

func (w *world) logged() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.String()
}

func (w *world) effects(want int) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.ledger) != want {
		w.t.Fatalf("%d effects, want %d: %q", len(w.ledger), want, w.ledger)
	}
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t}
	var err error
	if w.issuer, err = identity.NewLocal("https://id.test", rand.Reader, w.now); err != nil {
		t.Fatal(err)
	}
	issuer, err := w.issuer.Issuer(proposing, answering, []string{"acme", "globex"})
	if err != nil {
		t.Fatal(err)
	}
	if w.verifier, err = identity.New(identity.Config{Issuers: []identity.Issuer{issuer}, Operate: []string{"group:platform"}}, identity.Deps{Clock: w.now}); err != nil {
		t.Fatal(err)
	}
	if w.store, err = sqlite.Open(context.Background(), filepath.Join(t.TempDir(), "state.db"), sqlite.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.store.Close() })
	tools := local.New()
	entry := func(e registry.Entry) registry.Entry {
		e.Scope, e.Sources = "work", []registry.SourceName{"direct"}
		wide := 1000
		e.PerMinute = &wide
		if e.Approval.When == "" {
			e.Approval = registry.Asking{When: registry.Asked, Approvers: []string{"group:leads"}, Quorum: 1, Expires: time.Hour}
		}
		return e
	}
	var max registry.Decimal
	if err := max.UnmarshalText([]byte("200")); err != nil {
		t.Fatal(err)
	}
	above := registry.Asking{When: registry.AboveLimit, Approvers: []string{"group:leads"}, Quorum: 1, Expires: 30 * time.Minute}
	nobody := registry.Asking{When: registry.Always, Expires: time.Hour}
	guards := registry.Entry{Destructive: true, Targets: []string{"order"}, Effect: "Delete {order}"}
	guards.Guards = append(guards.Guards, guard("text", "^[a-z ]{1,20}$"))
	var declared []registry.Declared
	for name, e := range map[string]registry.Entry{
		"refund": entry(registry.Entry{Financial: true, Targets: []string{"order"}, Effect: "Refund {order}", Approval: above,
			AutonomousLimit: &registry.LimitEntry{Argument: "amount", Max: max}}),
		"close":   entry(registry.Entry{Destructive: true, Effect: "Close", Approval: nobody}),
		"write":   entry(guards),
		"lost":    entry(registry.Entry{Write: true}),
		"send":    entry(registry.Entry{Sink: true}),
		"reading": entry(registry.Entry{Read: true}),
	} {
		declared = append(declared, registry.Declared{Name: name, Entry: e, Offer: registry.Offer{InputSchema: json.RawMessage(
			`{"type":"object","properties":{"order":{"type":"string"},"amount":{"type":"string"},"text":{"type":"string"},"n":{"type":"integer"}}}`)}})
		err := tools.Add(name, func(_ context.Context, c local.Call) (json.RawMessage, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.ledger = append(w.ledger, c.Tool+" "+string(c.Arguments))
			if c.Tool == "lost" {
				return nil, errors.New("the connection broke")
			}
			return json.RawMessage(`{}`), nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if w.boundary, err = dispatch.New(dispatch.Options{Store: w.store, Invoker: tools, Clock: w.now, Random: rand.Reader}); err != nil {
		t.Fatal(err)
	}
	snapshot, err := registry.Parse(nil, registry.Options{Environment: "test", Group: w.verifier.ResolveGroup, Declared: declared})
	if err != nil {
		t.Fatal(err)
	}
	set, err := policy.NewSet(nil, time.Second, nil)
	if err != nil {
		t.Fatal(err)
	}
	approver := func(ref string, part *record.ApprovalPart) error {
		g, err := w.verifier.ResolveGroup(ref)
		part.Groups = append(part.Groups, g)
		return err
	}
	if _, err = w.boundary.Activate(context.Background(), dispatch.Active{Registry: snapshot, Policy: set, Approver: approver, Digest: "one"}, record.Who{System: "test"}); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) sign(s identity.TokenSpec) string {
	w.t.Helper()
	token, err := w.issuer.Sign(s)
	if err != nil {
		w.t.Fatal(err)
	}
	return token
}

// call proposes a call of anna's agent.
func (w *world) call(tool, arguments string) dispatch.Answer {
	return w.callAs("anna", tool, arguments)
}

func (w *world) callAs(subject, tool, arguments string) dispatch.Answer {
	w.t.Helper()
	caller, err := w.verifier.Caller(w.t.Context(), identity.Credentials{Bearer: w.sign(identity.TokenSpec{
		Audience: proposing, Subject: subject, Tenant: "acme", Agent: "bot", Scopes: []string{"work"}})})
	if err != nil {
		w.t.Fatal(err)
	}
	answer, err := w.boundary.Do(w.t.Context(), dispatch.Proposal{Caller: caller, Tool: tool, Arguments: json.RawMessage(arguments)})
	if err != nil {
		w.t.Fatal(err)
	}
	return answer
}

func (w *world) answer(a *record.Approval, word record.Word) {
	w.t.Helper()
	if a == nil {
		w.t.Fatal("there is no question")
	}
	p, err := w.verifier.Person(w.t.Context(), w.sign(identity.TokenSpec{Audience: answering, Subject: "lena", Tenant: "acme", Groups: []string{"leads"}}))
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.boundary.Reply(w.t.Context(), p, a.ID, a.Binding, word, ""); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) operator() identity.Operator {
	w.t.Helper()
	o, err := w.verifier.Operator(w.t.Context(), identity.Credentials{Bearer: w.sign(identity.TokenSpec{Audience: answering, Subject: "root", Tenant: "acme", Groups: []string{"platform"}})})
	if err != nil {
		w.t.Fatal(err)
	}
	return o
}

// pass lets time pass for the boundary and looks at what is due.
func (w *world) pass(d time.Duration, is func() bool) {
	w.t.Helper()
	w.offset.Add(int64(d))
	ctx, cancel := context.WithCancel(w.t.Context())
	defer cancel()
	done := make(chan struct{})
	go func() { defer close(done); w.boundary.Work(ctx) }()
	w.until("the time has passed", is)
	cancel()
	<-done
}

func (w *world) has(kind record.EventKind) func() bool {
	return func() bool {
		events, err := w.store.Events(w.t.Context(), dispatch.EventQuery{All: true, Kinds: []record.EventKind{kind}})
		return err == nil && len(events) > 0
	}
}

// until waits for a condition.
func (w *world) until(what string, is func() bool) {
	w.t.Helper()
	for end := time.Now().Add(30 * time.Second); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatalf("never: %s\n%s", what, w.logged())
		}
	}
}

// watch makes a watch, as a new process would, that looks when it is told to.
func (w *world) watch(records Records, l Limits) func() {
	w.t.Helper()
	watch, err := New(Options{Records: records, Limits: l, Sink: func(tool string) bool { return tool == "send" }, Clock: w.now,
		Log: slog.New(slog.NewTextHandler(w, nil))})
	if err != nil {
		w.t.Fatal(err)
	}
	after, begun := int64(0), false
	return func() {
		w.t.Helper()
		if !begun {
			if after, err = watch.begin(w.t.Context()); err != nil {
				w.t.Fatal(err)
			}
			begun = true
		}
		if after, err = watch.follow(w.t.Context(), after); err != nil {
			w.t.Fatal(err)
		}
	}
}

// alerts are those in the log, oldest first, as rule and subject.
func (w *world) alerts() (out []record.Alert) {
	w.t.Helper()
	events, err := w.store.Alerts(w.t.Context(), dispatch.AlertQuery{Tenant: "acme", Limit: 500})
	if err != nil {
		w.t.Fatal(err)
	}
	for i := len(events) - 1; i >= 0; i-- {
		b, ok := bodyOf(events[i])
		if !ok || b.Alert == nil {
			w.t.Fatalf("%s", events[i].Body)
		}
		out = append(out, *b.Alert)
	}
	return out
}

// want checks which rules raised alerts.
func (w *world) want(rules ...record.AlertRule) []record.Alert {
	w.t.Helper()
	all := w.alerts()
	var got []record.AlertRule
	for _, a := range all {
		got = append(got, a.Rule)
		if a.Text == "" || a.Subject == "" || len(a.Events) == 0 {
			w.t.Errorf("without words or evidence: %+v", a)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(rules) {
		w.t.Fatalf("alerts %v, want %v: %+v", got, rules, all)
	}
	return all
}
