package notify

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
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
	secret    = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo="
)

// world is a boundary on a real file, with a tool that keeps a ledger.
type world struct {
	t        *testing.T
	path     string
	issuer   *identity.Local
	verifier *identity.Verifier
	store    *sqlite.Store
	boundary *dispatch.Boundary
	offset   atomic.Int64 // of the clock

	mu     sync.Mutex
	ledger []string
	log    strings.Builder
}

func (w *world) now() time.Time { return time.Now().Add(time.Duration(w.offset.Load())) }

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

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, path: filepath.Join(t.TempDir(), "state.db")}
	var err error
	if w.issuer, err = identity.NewLocal("https://id.test", rand.Reader, w.now); err != nil {
		t.Fatal(err)
	}
	issuer, err := w.issuer.Issuer(proposing, answering, []string{"acme", "globex"})
	if err != nil {
		t.Fatal(err)
	}
	if w.verifier, err = identity.New(identity.Config{Issuers: []identity.Issuer{issuer}}, identity.Deps{Clock: w.now}); err != nil {
		t.Fatal(err)
	}
	w.open()
	t.Cleanup(func() { _ = w.store.Close() })
	return w
}

// open opens the file as a new process would.
func (w *world) open() {
	w.t.Helper()
	var err error
	if w.store, err = sqlite.Open(context.Background(), w.path, sqlite.Options{}); err != nil {
		w.t.Fatal(err)
	}
	tools := local.New()
	if err := tools.Add("refund", func(_ context.Context, c local.Call) (json.RawMessage, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.ledger = append(w.ledger, string(c.Arguments))
		return json.RawMessage(`{}`), nil
	}); err != nil {
		w.t.Fatal(err)
	}
	if w.boundary, err = dispatch.New(dispatch.Options{Store: w.store, Invoker: tools, Clock: w.now, Random: rand.Reader}); err != nil {
		w.t.Fatal(err)
	}
	entry := registry.Entry{Destructive: true, Scope: "work", Sources: []registry.SourceName{"direct"}, Targets: []string{"order"}, Effect: "Refund {order}",
		Approval: registry.Asking{When: registry.Always, Approvers: []string{"group:leads", "group:finance", "principal:lena@https://id.test"}, Quorum: 2, Expires: 4 * time.Hour}}
	snapshot, err := registry.Parse(nil, registry.Options{Environment: "test", Group: w.verifier.ResolveGroup, Principal: func(name string) (record.Principal, error) { return person(name), nil }, Declared: []registry.Declared{
		{Name: "refund", Entry: entry, Offer: registry.Offer{InputSchema: json.RawMessage(`{"type":"object","properties":{"order":{"type":"string"},"n":{"type":"integer"}}}`)}}}})
	if err != nil {
		w.t.Fatal(err)
	}
	set, err := policy.NewSet(nil, time.Second, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	approver := func(ref string, part *record.ApprovalPart) error {
		if name, ok := strings.CutPrefix(ref, "principal:"); ok {
			part.People = append(part.People, person(strings.TrimSuffix(name, "@https://id.test")))
			return nil
		}
		g, err := w.verifier.ResolveGroup(ref)
		part.Groups = append(part.Groups, g)
		return err
	}
	if _, err = w.boundary.Activate(context.Background(), dispatch.Active{Registry: snapshot, Policy: set, Approver: approver, Digest: "one"}, record.Who{System: "test"}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) sign(s identity.TokenSpec) string {
	w.t.Helper()
	token, err := w.issuer.Sign(s)
	if err != nil {
		w.t.Fatal(err)
	}
	return token
}

// ask proposes a refund and returns its question.
func (w *world) ask(subject, tenant, order string) record.Approval {
	w.t.Helper()
	answer := w.propose(subject, tenant, order)
	if answer.Approval == nil {
		w.t.Fatalf("no question: %s %s", answer.Verdict, answer.Code)
	}
	return *answer.Approval
}

func (w *world) propose(subject, tenant, order string) dispatch.Answer {
	w.t.Helper()
	caller, err := w.verifier.Caller(w.t.Context(), identity.Credentials{Bearer: w.sign(identity.TokenSpec{
		Audience: proposing, Subject: subject, Tenant: tenant, Agent: "bot", Scopes: []string{"work"}})})
	if err != nil {
		w.t.Fatal(err)
	}
	arguments, _ := json.Marshal(map[string]string{"order": order})
	answer, err := w.boundary.Do(w.t.Context(), dispatch.Proposal{Caller: caller, Tool: "refund", Arguments: arguments})
	if err != nil {
		w.t.Fatal(err)
	}
	return answer
}

func (w *world) answer(a record.Approval, who, group string, word record.Word) {
	w.t.Helper()
	p, err := w.verifier.Person(w.t.Context(), w.sign(identity.TokenSpec{Audience: answering, Subject: who, Tenant: string(a.Tenant), Groups: []string{group}}))
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.boundary.Reply(w.t.Context(), p, a.ID, a.Binding, word, ""); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) events(kind record.EventKind) []record.Event {
	w.t.Helper()
	events, err := w.store.Events(w.t.Context(), dispatch.EventQuery{All: true, Kinds: []record.EventKind{kind}, Limit: 500})
	if err != nil {
		w.t.Fatal(err)
	}
	return events
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

// run starts a desk and returns what stops it, as the end of a process would.
func (w *world) run(records Records, receivers ...Receiver) (*Desk, func()) {
	w.t.Helper()
	d, err := New(Options{Records: records, Receivers: receivers, PublicURL: "https://tools.test/", Clock: w.now,
		Log: slog.New(slog.NewTextHandler(w, nil)), Poll: 2 * time.Millisecond, Pause: 2 * time.Millisecond, Timeout: 5 * time.Second})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); d.Run(ctx) }()
	stop := sync.OnceFunc(func() { cancel(); <-done })
	w.t.Cleanup(stop)
	return d, stop
}

// receiver is a server that keeps what it got: the oracle of these tests.
type receiver struct {
	url string

	mu     sync.Mutex
	list   []got
	answer func(http.ResponseWriter, *http.Request) // nil: 200
}

type got struct {
	header http.Header
	body   string
}

func newReceiver(t *testing.T, answer func(http.ResponseWriter, *http.Request)) *receiver {
	t.Helper()
	r := &receiver{answer: answer}
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		if err != nil {
			return
		}
		r.mu.Lock()
		r.list = append(r.list, got{q.Header.Clone(), string(body)})
		answer := r.answer
		r.mu.Unlock()
		if answer != nil {
			answer(rw, q)
		}
	}))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	r.url = server.URL + "/hook/T0PSECRET"
	return r
}

func (r *receiver) set(answer func(http.ResponseWriter, *http.Request)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = answer
}

func (r *receiver) all() []got {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]got{}, r.list...)
}

func (r *receiver) count() int { return len(r.all()) }

// ids are the distinct IDs of what it got.
func (r *receiver) ids() map[string]int {
	out := map[string]int{}
	for _, m := range r.all() {
		out[m.header.Get("webhook-id")]++
	}
	return out
}

func (r *receiver) webhook(name string, groups ...string) Receiver {
	return Receiver{Name: name, For: group(groups...), Address: fixed(r.url), Secret: fixed(secret)}
}

func (r *receiver) slack(name string, groups ...string) Receiver {
	return Receiver{Name: name, For: group(groups...), Address: fixed(r.url)}
}

func person(name string) record.Principal {
	return record.Principal{Issuer: "https://id.test", Subject: name}
}

func fixed(s string) func() (string, error) { return func() (string, error) { return s, nil } }

func group(names ...string) (p record.ApprovalPart) {
	for _, n := range names {
		p.Groups = append(p.Groups, record.Group{Issuer: "https://id.test", Name: n})
	}
	return p
}

func status(code int) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

// text is a member of a webhook's body or of its data.
func text(t *testing.T, m got, path ...string) string {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(m.body), &v); err != nil {
		t.Fatalf("%v: %s", err, m.body)
	}
	for _, name := range path {
		o, ok := v.(map[string]any)
		if !ok {
			t.Fatalf("no %s in %s", name, m.body)
		}
		v = o[name]
	}
	return fmt.Sprint(v)
}
