package dispatch_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/guard"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/policy"
	"github.com/placet-dev/placet/policy/rego"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
	"github.com/placet-dev/placet/store/postgres"
)

const toolsYAML = `
version: 1
servers:
  desk: {url: "http://127.0.0.1:1/mcp"}
defaults: {per_minute: 0, concurrent: 0}
tools:
  look: {server: desk, scope: read, read: true}
  retry_look: {server: desk, scope: read, read: true, retry: safe}
  refund:
    server: desk
    scope: refunds
    destructive: true
    financial: true
    sources: [direct, vouched, witnessed]
    targets: [order]
    same_effect: [order, amount]
    autonomous_limit: {argument: amount, max: 200}
    effect: Refund {amount} on order {order}
    approval: {when: above_limit, approvers: ["group:leads"], expires: 2h}
  pay: {server: desk, scope: refunds, financial: true, sources: [direct, vouched, witnessed], approval: {when: asked}, retry: idempotent}
  wipe: {server: desk, scope: refunds, destructive: true, sources: [direct, vouched, witnessed], approval: {when: always, approvers: ["group:leads", "group:finance"], quorum: 2}}
  guarded: {server: desk, scope: refunds, write: true, approval: {when: asked, approvers: ["group:leads"]}}
  strict: {server: desk, scope: refunds, write: true, sources_below: deny, approval: {when: asked}}
  nobody: {server: desk, scope: refunds, write: true, sources: [direct], approval: {when: always}}
  again: {server: desk, scope: refunds, write: true, sources: [direct], approval: {when: asked, approvers: ["group:leads"]}, repeat: {within: 1h, answer: ask}}
  every: {server: desk, scope: refunds, write: true, sources: [direct], approval: {when: asked}, repeat: {within: 1h, answer: run}}
  seldom: {server: desk, scope: refunds, write: true, sources: [direct], approval: {when: asked}, per_minute: 2, per_run: 3, repeat: {within: 1h, answer: run}}
  single: {server: desk, scope: refunds, write: true, sources: [direct], approval: {when: asked}, concurrent: 1}
  sure: {server: desk, scope: refunds, write: true, sources: [direct], approval: {when: asked}, errors: no_effect}
  keyed: {server: desk, scope: refunds, write: true, sources: [direct], approval: {when: asked}, idempotency_argument: key}
  mine: {server: desk, callers: {principals: ["anna@urn:test"]}, read: true}
  purposeful: {server: desk, scope: refunds, write: true, sources: [direct], approval: {when: asked, purpose: required}}
  later: {server: desk, scope: refunds, write: true, sources: [direct], approval: {when: asked, approvers: ["group:leads"]}, dispatch: queued, retry: idempotent}
  later_once: {server: desk, scope: refunds, write: true, sources: [direct], approval: {when: asked}, dispatch: queued, concurrent: 1}
  timed: {server: desk, scope: refunds, write: true, sources: [direct], approval: {when: asked, approvers: ["group:leads"]}, schedules: allowed}
  timed_asks: {server: desk, scope: refunds, write: true, sources: [direct], approval: {when: always, approvers: ["group:leads"]}, schedules: allowed}
  later_asks: {server: desk, scope: refunds, write: true, sources: [direct], approval: {when: always, approvers: ["group:leads"]}, dispatch: queued}
  watched: {server: desk, scope: refunds, write: true, sources: [direct], mode: observe, approval: {when: always, approvers: ["group:leads"]}}
`

const schema = `{"type":"object","properties":{"order":{"type":"string"},"amount":{"type":"number"},"note":{"type":"string"},"n":{"type":"integer"},"key":{"type":"string"}}}`

// effect is one row of the tools' own ledger: the oracle of every test here.
type effect struct {
	tool, key, arguments string
}

// desk stands where tool servers are: it takes tickets, and writes effects to its
// own ledger before it answers.
type desk struct {
	mu      sync.Mutex
	ledger  []effect
	offers  map[string]registry.Offer
	reach   func(context.Context, dispatch.Work) (dispatch.Reached, bool) // instead of answering; false: answer as usual
	offered func(upstream string) (registry.Offer, error)
	seen    []dispatch.Ticket
}

func (d *desk) Invoke(ctx context.Context, t dispatch.Ticket) dispatch.Reached {
	w, ok := t.Redeem()
	if !ok {
		return dispatch.Reached{Err: errors.New("not a good ticket")}
	}
	d.mu.Lock()
	reach := d.reach
	d.seen = append(d.seen, t)
	d.mu.Unlock()
	if reach != nil {
		if r, done := reach(ctx, w); done {
			return r
		}
	}
	return d.act(w)
}

func (d *desk) act(w dispatch.Work) dispatch.Reached {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ledger = append(d.ledger, effect{w.Tool.Name, w.Key, string(w.Arguments)})
	return dispatch.Reached{Sent: true, Result: fmt.Appendf(nil, `{"content":[{"type":"text","text":"effect %d"}]}`, len(d.ledger))}
}

func (d *desk) Offer(_ context.Context, _ *registry.Server, upstream string, _ time.Duration) (registry.Offer, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.offered != nil {
		return d.offered(upstream)
	}
	o, ok := d.offers[upstream]
	if !ok {
		return o, record.Errorf(record.NotFound, "not offered")
	}
	return o, nil
}

// offering is what the desk offers under a name: what it did before, or else this.
func (d *desk) offering(o registry.Offer) registry.Offer {
	d.mu.Lock()
	defer d.mu.Unlock()
	if known, ok := d.offers[o.Name]; ok {
		return known
	}
	d.offers[o.Name] = o
	return o
}

func (d *desk) effects() []effect {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]effect(nil), d.ledger...)
}

func (d *desk) on(reach func(context.Context, dispatch.Work) (dispatch.Reached, bool)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reach = reach
}

// clock is a time that tests move.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// scene is a boundary on a real store with real identities.
type scene struct {
	*dispatch.Boundary
	t        testing.TB
	ctx      context.Context
	clock    *clock
	desk     *desk
	store    *faulty
	issuer   *identity.Local
	verifier *identity.Verifier
	path     string
	database string // on PostgreSQL
	postgres postgres.Options
	rego     string
	yaml     string
	points   []dispatch.DecisionPoint
	limits   dispatch.Limits
	onlyRead map[record.AgentID]bool
	people   *record.People
	abroad   *identity.Local // a second issuer, urn:abroad, where a scene has one

	delegations dispatch.Delegations
	credentials dispatch.Credentials
	world       guard.World
}

// faulty is the store with failures at chosen changes.
type faulty struct {
	dispatch.Store
	dispatch.Reader
	mu     sync.Mutex
	before func(record.Facts) error // fails instead of writing
	after  func(record.Facts) error // writes, and still reports failure
}

func (f *faulty) Apply(ctx context.Context, c record.Change) error {
	f.mu.Lock()
	before, after := f.before, f.after
	f.mu.Unlock()
	if before != nil {
		if err := before(c.Facts()); err != nil {
			return err
		}
	}
	err := f.Store.Apply(ctx, c)
	if err == nil && after != nil {
		err = after(c.Facts())
	}
	return err
}

func (f *faulty) fail(before, after func(record.Facts) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before, f.after = before, after
}

func newScene(t testing.TB, edits ...func(*scene)) *scene {
	t.Helper()
	s := &scene{t: t, ctx: t.Context(), clock: &clock{now: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)},
		desk: &desk{offers: map[string]registry.Offer{}}, path: filepath.Join(t.TempDir(), "state.db"), yaml: toolsYAML}
	for _, edit := range edits {
		edit(s)
	}
	var err error
	if s.issuer, err = identity.NewLocal("urn:test", rand.Reader, s.clock.Now); err != nil {
		t.Fatal(err)
	}
	local, err := s.issuer.Issuer("placet", "console", []string{"acme", "globex"})
	if err != nil {
		t.Fatal(err)
	}
	issuers := []identity.Issuer{local}
	if s.abroad != nil {
		second, err := s.abroad.Issuer("placet", "console", []string{"acme"})
		if err != nil {
			t.Fatal(err)
		}
		issuers[0].Local, second.Local = false, false // they are no development issuers: two may stand together
		issuers = append(issuers, second)
	}
	key, err := identity.NewKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s.verifier, err = identity.New(identity.Config{Issuers: issuers, Operate: []string{"group:ops@urn:test"}, OperateAll: []string{"group:owners@urn:test"},
		Workloads: []identity.WorkloadKey{{Name: "orchestrator", KeyHash: identity.HashKey(key), Tenant: "acme", Permissions: []identity.Permission{identity.Vouch}}}},
		identity.Deps{Clock: s.clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	orchestratorKey[s.verifier] = key
	t.Cleanup(func() { delete(orchestratorKey, s.verifier) })
	s.open()
	return s
}

// orchestratorKey is the workload key of each scene's verifier.
var orchestratorKey = map[*identity.Verifier]string{}

// open opens the store and a boundary on it, as a start of the process does.
func (s *scene) open() {
	s.t.Helper()
	store, err := s.openStore()
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = store.Close() })
	s.store = &faulty{Store: store, Reader: store}
	s.Boundary, err = dispatch.New(dispatch.Options{Store: s.store, Invoker: s.desk, Clock: s.clock.Now, Random: rand.Reader, Delegations: s.delegations, Credentials: s.credentials, Limits: s.limits, World: s.world})
	if err != nil {
		s.t.Fatal(err)
	}
	s.activate()
}

// restart closes the store as a kill would leave it, and opens it again.
func (s *scene) restart() {
	s.t.Helper()
	if err := s.store.Store.(io.Closer).Close(); err != nil {
		s.t.Fatal(err)
	}
	s.open()
}

// snapshot loads the scene's registry, with a lock of what the desk offers.
func (s *scene) snapshot() *registry.Snapshot {
	s.t.Helper()
	lock := registry.NewLock()
	unlocked, err := registry.Parse([]registry.Source{{Name: "tools.yaml", Text: []byte(s.yaml)}}, registry.Options{Environment: "test", Group: s.verifier.ResolveGroup})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, q := range unlocked.Quarantined() {
		offer := registry.Offer{Name: q.Tool.Upstream, Description: "the tool " + q.Tool.Upstream, InputSchema: json.RawMessage(schema)}
		offer = s.desk.offering(offer) // reviewed and pinned as it is now
		pin, err := registry.PinOf(offer)
		if err != nil {
			s.t.Fatal(err)
		}
		lock.Tools[q.Tool.Name] = registry.LockedTool{Server: q.Tool.Server, Pin: pin}
	}
	text, err := lock.Write()
	if err != nil {
		s.t.Fatal(err)
	}
	snapshot, err := registry.Parse([]registry.Source{{Name: "tools.yaml", Text: []byte(s.yaml), Lock: text}}, registry.Options{Environment: "test", Group: s.verifier.ResolveGroup})
	if err != nil {
		s.t.Fatal(err)
	}
	return snapshot
}

// activate makes the scene's registry and policy the ones that decide.
func (s *scene) activate() int64 {
	s.t.Helper()
	snapshot := s.snapshot()
	var layers []policy.Layer
	if s.rego != "" {
		layer, err := rego.New().Load(rego.Source{Name: "support", Files: rego.Files{"main.rego": []byte(s.rego)}})
		if err != nil {
			s.t.Fatal(err)
		}
		layers = append(layers, layer)
	}
	approver := func(ref string, part *record.ApprovalPart) error {
		if ref == "principal" {
			part.Principal = true
			return nil
		}
		if subject, ok := strings.CutPrefix(ref, "principal:"); ok {
			part.People = append(part.People, record.Principal{Issuer: "urn:test", Subject: strings.TrimSuffix(subject, "@urn:test")})
			return nil
		}
		g, err := s.verifier.ResolveGroup(ref)
		part.Groups = append(part.Groups, g)
		return err
	}
	set, err := policy.NewSet(layers, time.Second, func(_ *policy.Input, ref string, part *record.ApprovalPart) error { return approver(ref, part) })
	if err != nil {
		s.t.Fatal(err)
	}
	digest := canon.Of("test", snapshot.Digest().Bytes(), []byte(s.rego), fmt.Append(nil, s.people)).String()
	g, err := s.Activate(s.ctx, dispatch.Active{Registry: snapshot, Policy: set, Approver: approver, Points: s.points, OnlyRead: s.onlyRead, People: s.people, Environment: "test", Digest: digest}, record.Who{System: "test"})
	if err != nil {
		s.t.Fatal(err)
	}
	return g
}

type who struct {
	tenant, subject, agent string
	scopes                 []string
	vouch                  bool
}

var anna = who{"acme", "anna", "bot", []string{"read", "refunds"}, false}

func (s *scene) caller(w who) identity.Caller {
	s.t.Helper()
	from, subject := s.issuer, w.subject
	if name, ok := strings.CutSuffix(subject, "@abroad"); ok {
		from, subject = s.abroad, name
	}
	token, err := from.Sign(identity.TokenSpec{Audience: "placet", Subject: subject, Tenant: w.tenant, Agent: w.agent, Scopes: w.scopes, TTL: 24 * time.Hour})
	if err != nil {
		s.t.Fatal(err)
	}
	c := identity.Credentials{Bearer: token}
	if w.vouch {
		c.WorkloadKey = orchestratorKey[s.verifier]
	}
	caller, err := s.verifier.Caller(s.ctx, c)
	if err != nil {
		s.t.Fatal(err)
	}
	return caller
}

func (s *scene) person(name string, groups ...string) identity.Person {
	s.t.Helper()
	from := s.issuer
	if subject, ok := strings.CutSuffix(name, "@abroad"); ok {
		from, name = s.abroad, subject
	}
	token, err := from.Sign(identity.TokenSpec{Audience: "console", Subject: name, Tenant: "acme", Groups: groups})
	if err != nil {
		s.t.Fatal(err)
	}
	p, err := s.verifier.Person(s.ctx, token)
	if err != nil {
		s.t.Fatal(err)
	}
	return p
}

func (s *scene) do(w who, tool, arguments string, edits ...func(*dispatch.Proposal)) dispatch.Answer {
	s.t.Helper()
	p := dispatch.Proposal{Caller: s.caller(w), Tool: tool, Arguments: json.RawMessage(arguments)}
	for _, edit := range edits {
		edit(&p)
	}
	a, err := s.Do(s.ctx, p)
	if err != nil {
		s.t.Fatalf("%s %s: %v", tool, arguments, err)
	}
	return a
}

func (s *scene) reply(a dispatch.Answer, name string, word record.Word, groups ...string) {
	s.t.Helper()
	l, err := s.store.Call(s.ctx, a.Call.Tenant, a.Call.ID)
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.Reply(s.ctx, s.person(name, groups...), l.Approval.ID, l.Approval.Binding, word, ""); err != nil {
		s.t.Fatalf("%s says %s: %v", name, word, err)
	}
}

func (s *scene) wants(a dispatch.Answer, v record.Verdict, code record.Code, state record.State) dispatch.Answer {
	s.t.Helper()
	if a.Verdict != v || a.Code != code || a.State() != state {
		s.t.Fatalf("got %s %q in state %q, want %s %q in state %q; reasons %+v", a.Verdict, a.Code, a.State(), v, code, state, a.Decision.Reasons)
	}
	return a
}

// ran asserts how many effects the ledger holds, and that each is distinct.
func (s *scene) ran(n int) {
	s.t.Helper()
	all := s.desk.effects()
	if len(all) != n {
		s.t.Fatalf("the ledger holds %d effects, want %d: %v", len(all), n, all)
	}
}

func (s *scene) events(call record.CallID) (kinds []record.EventKind) {
	s.t.Helper()
	all, err := s.store.Events(s.ctx, dispatch.EventQuery{Tenant: "acme", Call: call, Limit: 500})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, e := range all {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

func (s *scene) operator() identity.Operator {
	s.t.Helper()
	token, err := s.issuer.Sign(identity.TokenSpec{Audience: "console", Subject: "otto", Tenant: "acme", Groups: []string{"ops"}})
	if err != nil {
		s.t.Fatal(err)
	}
	o, err := s.verifier.Operator(s.ctx, identity.Credentials{Bearer: token})
	if err != nil {
		s.t.Fatal(err)
	}
	return o
}
