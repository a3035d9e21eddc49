package dispatch_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
)

const reconciledTools = `
version: 1
servers:
  desk: {url: "http://127.0.0.1:1/mcp"}
defaults: {per_minute: 0, concurrent: 0, timeout: 20s}
tools:
  find: {server: desk, scope: read, read: true, per_minute: 40}
  pay:
    server: desk
    scope: refunds
    financial: true
    sources: [direct, vouched, witnessed]
    approval: {when: asked, approvers: ["group:leads"]}
    cost: {argument: amount, currency: EUR}
    reconcile: {tool: find, by: key, records: refunds, echo: key, reference: id, settle_after: 2m}
  again:
    server: desk
    scope: refunds
    financial: true
    sources: [direct, vouched, witnessed]
    approval: {when: asked, approvers: ["group:leads"]}
    retry: reconcile
    reconcile: {tool: find, by: key, records: refunds, echo: key, reference: id, settle_after: 2m, operators: true}
  stated:
    server: desk
    scope: refunds
    financial: true
    sources: [direct, vouched, witnessed]
    approval: {when: asked}
    reconcile: {tool: find, by: key, arguments: {order: order}, field: state, happened: [done, pending], nothing: [none], settle_after: 1m}
`

// bank is a desk whose answers or requests get lost, and which knows its own ledger.
type bank struct {
	s     *scene
	mu    sync.Mutex
	loses string                  // "answer", "request" or nothing
	finds func(key string) string // instead of looking into the ledger: structured content; "" gives no answer
	asked []dispatch.Work
}

func (b *bank) scene() *scene { return b.s }

func newBank(t testing.TB, edits ...func(*scene)) *bank {
	t.Helper()
	b := &bank{s: newScene(t, append([]func(*scene){func(s *scene) { s.yaml = reconciledTools }}, edits...)...)}
	b.s.desk.on(func(_ context.Context, w dispatch.Work) (dispatch.Reached, bool) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch {
		case w.Tool.Name == "find":
			b.asked = append(b.asked, w)
			return b.find(w), true
		case b.loses == "answer":
			b.s.desk.act(w)
			return dispatch.Reached{Sent: true, Err: errors.New("connection reset")}, true
		case b.loses == "request":
			return dispatch.Reached{Sent: true, Err: errors.New("connection reset")}, true
		}
		return dispatch.Reached{}, false
	})
	return b
}

// find answers from the ledger, which is what a tool's own records are.
func (b *bank) find(w dispatch.Work) dispatch.Reached {
	key, _ := canon.Lookup(w.Arguments, "key")
	text, _ := canon.Text(key)
	var found []string
	for i, e := range b.s.desk.effects() {
		if e.key == text {
			found = append(found, fmt.Sprintf(`{"id":"re_%d","key":%q}`, i+1, text))
		}
	}
	answer := `{"refunds":[` + strings.Join(found, ",") + `]}`
	if b.finds != nil {
		answer = b.finds(text)
	}
	if answer == "" {
		return dispatch.Reached{Sent: true, Err: errors.New("it takes too long")}
	}
	return dispatch.Reached{Sent: true, Result: json.RawMessage(`{"content":[],"structuredContent":` + answer + `}`)}
}

func (b *bank) lose(what string) { b.mu.Lock(); defer b.mu.Unlock(); b.loses = what }

func (b *bank) says(finds func(string) string) { b.mu.Lock(); defer b.mu.Unlock(); b.finds = finds }

func (b *bank) looks() []dispatch.Work {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.asked)
}

// unknown makes a call whose outcome is not known: its answer or its request is lost.
func (b *bank) unknown(tool, loses string) dispatch.Answer {
	b.s.t.Helper()
	b.lose(loses)
	a := b.s.wants(b.s.do(anna, tool, `{"amount":10,"order":"o1"}`), record.Allow, record.CodeOutcomeUnknown, record.Unknown)
	b.lose("")
	return a
}

// returns is the caller's return to a call.
func (b *bank) returns(a dispatch.Answer) dispatch.Answer {
	b.s.t.Helper()
	again, err := b.s.Dispatch(b.s.ctx, b.s.caller(anna), a.Call.ID, nil)
	if err != nil {
		b.s.t.Fatal(err)
	}
	return again
}

// moneyOf is what a principal's day holds.
func (s *scene) moneyOf(subject string) int64 {
	s.t.Helper()
	levels, err := s.store.Levels(s.ctx, "acme", []record.Counter{record.CounterFor("money_day", "urn:test", subject, "EUR")})
	if err != nil {
		s.t.Fatal(err)
	}
	return levels[0].Used(24*time.Hour, s.clock.Now())
}

func budget(s *scene) { s.limits.MoneyPerDay = dispatch.Money{"EUR": 100_000_000} }

// Rules E3 and C5: the answer was lost after the effect. The reconciling tool finds it,
// at any time; the call succeeded, nothing runs again, and the money stays spent.
func TestRule_C5_AnEffectThatIsFoundSettlesItsCall(t *testing.T) {
	b := newBank(t, budget)
	a := b.unknown("pay", "answer")
	s := b.s
	got := s.wants(b.returns(a), record.Allow, record.CodeAlreadyDone, record.Succeeded)
	if o := got.Call.Outcome; o.Effect != "re_1" || o.By != "anna@urn:test" || !strings.Contains(o.Evidence, "find (call_") || got.Result != nil {
		t.Fatalf("settled as %+v with result %s", o, got.Result)
	}
	s.ran(1)
	if used := s.moneyOf("anna"); used != 10_000_000 {
		t.Fatalf("the day holds %d, want 10 EUR", used)
	}
	if text := got.Text(); !strings.Contains(text, "took effect") || strings.Contains(text, "re_1") {
		t.Fatalf("the model reads %q", text)
	}
	// The look-up is a call of its own: as anna, with a ticket, a record and its own counter.
	look := b.looks()
	if len(look) != 1 || look[0].Owner != a.Call.Owner || string(look[0].Arguments) != `{"key":"`+a.Call.Key+`"}` {
		t.Fatalf("asked %+v", look)
	}
	l, err := s.store.Call(s.ctx, "acme", look[0].Call)
	if err != nil || l.Call.Supports != a.Call.ID || l.Call.Route != record.RouteSupport || l.Call.State != record.Succeeded {
		t.Fatalf("the look-up's record is %+v (%v)", l.Call, err)
	}
	// Neighbour: an equal proposal gets the settled call, and another one runs once.
	s.wants(s.do(anna, "pay", `{"amount":10,"order":"o1"}`), record.Allow, record.CodeAlreadyDone, record.Succeeded)
	s.wants(s.do(anna, "pay", `{"amount":10,"order":"o2"}`), record.Allow, record.CodeNone, record.Succeeded)
	s.ran(2)
}

// Rule E3: "nothing happened" counts only after lease, dispatch token and settle_after.
// Before that a look settles nothing; after it the money is free and the effect too.
func TestRule_E3_NothingHappenedCountsOnlyAfterItsTime(t *testing.T) {
	b := newBank(t, budget)
	a := b.unknown("pay", "request")
	s := b.s
	for _, after := range []time.Duration{0, 29 * time.Second, 119 * time.Second} { // lease: 30 s
		s.clock.pass(after)
		s.wants(b.returns(a), record.Allow, record.CodeOutcomeUnknown, record.Unknown)
	}
	if used := s.moneyOf("anna"); used != 10_000_000 {
		t.Fatalf("the day holds %d before anything is proved, want 10 EUR", used)
	}
	if _, err := s.Reconcile(s.ctx, s.operator(), "acme", a.Call.ID, record.Failed, "the bank knows of none"); record.KindOf(err) != record.Conflict {
		t.Fatalf("an operator's word counts before its time: %v", err)
	}
	s.clock.pass(2 * time.Second)
	got := s.wants(b.returns(a), record.Allow, record.CodeFailed, record.Failed)
	if got.Call.Outcome.Evidence == "" || got.Call.Outcome.By != "anna@urn:test" {
		t.Fatalf("settled as %+v", got.Call.Outcome)
	}
	s.ran(0)
	if used := s.moneyOf("anna"); used != 0 {
		t.Fatalf("the day holds %d after proof that nothing happened", used)
	}
	s.wants(s.do(anna, "pay", `{"amount":10,"order":"o1"}`), record.Allow, record.CodeNone, record.Succeeded)
	s.ran(1)
}

// An effect that appears late, within settle_after, is not doubled by an early look.
func TestRule_E3_AnEffectThatAppearsLateIsFound(t *testing.T) {
	b := newBank(t)
	a := b.unknown("again", "request")
	s := b.s
	s.clock.pass(45 * time.Second)
	s.wants(b.returns(a), record.Allow, record.CodeOutcomeUnknown, record.Unknown)
	s.desk.mu.Lock()
	s.desk.ledger = append(s.desk.ledger, effect{"again", a.Call.Key, `{}`}) // the queue at the bank moved on
	s.desk.mu.Unlock()
	s.clock.pass(time.Hour)
	s.wants(b.returns(a), record.Allow, record.CodeAlreadyDone, record.Succeeded)
	s.ran(1)
}

// Rule E2: retry: reconcile sends a call again only for proof that nothing happened:
// the same call and key, its next attempt, decided anew, charged once.
func TestRule_E2_ReconciledCallsAreTriedAgainOnce(t *testing.T) {
	b := newBank(t)
	a := b.unknown("again", "request")
	s := b.s
	s.wants(b.returns(a), record.Allow, record.CodeOutcomeUnknown, record.Unknown)
	s.clock.pass(3 * time.Minute)
	got := s.wants(b.returns(a), record.Allow, record.CodeNone, record.Succeeded)
	if got.Call.ID != a.Call.ID || got.Call.Attempt != 2 || got.Call.Key != a.Call.Key {
		t.Fatalf("tried again as %s, attempt %d", got.Call.ID, got.Call.Attempt)
	}
	s.ran(1)
	if e := s.desk.effects()[0]; e.key != a.Call.Key {
		t.Fatalf("the effect has the key %q, want %q", e.key, a.Call.Key)
	}
	events, err := s.store.Events(s.ctx, dispatch.EventQuery{Tenant: "acme", Call: a.Call.ID, Kinds: []record.EventKind{record.EventExecuting}, Limit: 10})
	if err != nil || len(events) != 2 || !strings.Contains(string(events[1].Body), `"evidence":"find (call_`) {
		t.Fatalf("the second attempt rests on %v (%v)", events, err)
	}
	// It is done: whoever comes back gets the record.
	s.wants(b.returns(a), record.Allow, record.CodeAlreadyDone, record.Succeeded)
	s.ran(1)
}

// Every attempt is decided anew: what may not run now failed, and freed what it held.
func TestRule_E2_WhatMayNotRunAnyMoreFailsWithItsProof(t *testing.T) {
	for name, change := range map[string]func(*scene, dispatch.Answer){
		"policy": func(s *scene, _ dispatch.Answer) {
			s.rego = `package agent.call
decision := "deny" if input.tool.name == "again"
decision := "allow" if input.tool.name != "again"`
			s.activate()
		},
		"a question": func(s *scene, _ dispatch.Answer) {
			s.yaml = strings.Replace(s.yaml, `approval: {when: asked, approvers: ["group:leads"]}
    retry: reconcile`, `approval: {when: always, approvers: ["group:leads"]}
    retry: reconcile`, 1)
			s.activate()
		},
		"the run ended": func(s *scene, a dispatch.Answer) {
			if _, err := s.EndRun(s.ctx, s.caller(anna), a.Call.Run, "over"); err != nil {
				s.t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBank(t)
			a := b.unknown("again", "request")
			b.s.clock.pass(3 * time.Minute)
			change(b.s, a)
			b.s.wants(b.returns(a), record.Allow, record.CodeFailed, record.Failed)
			b.s.ran(0)
		})
	}
}

// Whatever is not exactly the declared answer proves nothing, at any time.
func TestRule_C5_AnAnswerThatProvesNothingSettlesNothing(t *testing.T) {
	other := `{"id":"re_9","key":"another"}`
	for name, c := range map[string]struct{ tool, answer string }{
		"an error":                {"again", ""},
		"no list":                 {"again", `{}`},
		"null":                    {"again", `{"refunds":null}`},
		"an object":               {"again", `{"refunds":{}}`},
		"somebody else's":         {"again", `{"refunds":[` + other + `]}`},
		"two of them":             {"again", `{"refunds":[` + other + `,` + other + `]}`},
		"a list of texts":         {"again", `{"refunds":["re_9"]}`},
		"no state":                {"stated", `{}`},
		"a state nobody declared": {"stated", `{"state":"unclear"}`},
		"an empty state":          {"stated", `{"state":""}`},
		"a list of states":        {"stated", `{"state":["none"]}`},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBank(t)
			b.says(func(string) string { return c.answer })
			for _, loses := range []string{"answer", "request"} {
				a := b.unknown(c.tool, loses)
				b.s.clock.pass(time.Hour)
				b.s.wants(b.returns(a), record.Allow, record.CodeOutcomeUnknown, record.Unknown)
				b.s.ran(1)
			}
		})
	}
	t.Run("an answer that its schema forbids", func(t *testing.T) {
		b := newBank(t, func(s *scene) {
			s.desk.offers["find"] = registry.Offer{Name: "find", Description: "finds", InputSchema: json.RawMessage(schema),
				OutputSchema: json.RawMessage(`{"type":"object","required":["total"],"properties":{"refunds":{"type":"array"},"total":{"type":"integer"}}}`)}
		})
		a := b.unknown("again", "request")
		b.s.clock.pass(time.Hour)
		b.s.wants(b.returns(a), record.Allow, record.CodeOutcomeUnknown, record.Unknown)
		b.says(func(string) string { return `{"refunds":[],"total":0}` })
		b.s.wants(b.returns(a), record.Allow, record.CodeNone, record.Succeeded)
		b.s.ran(1)
	})
}

// The declared states prove what they are declared for.
func TestRule_C5_DeclaredStatesProve(t *testing.T) {
	for state, want := range map[string]record.State{"done": record.Succeeded, "pending": record.Succeeded, "none": record.Failed} {
		b := newBank(t)
		b.says(func(string) string { return `{"state":"` + state + `"}` })
		a := b.unknown("stated", "request")
		b.s.clock.pass(5 * time.Minute)
		if got := b.returns(a); got.State() != want {
			t.Errorf("%s: %s, want %s", state, got.State(), want)
		}
		if look := b.looks(); len(look) != 1 || string(look[0].Arguments) != `{"key":"`+a.Call.Key+`","order":"o1"}` {
			t.Errorf("asked with %s", look[0].Arguments)
		}
	}
}

// A look is made with the caller's own authority and counted apart: who may not use the
// reconciling tool settles nothing.
func TestRule_C5_ALookNeedsItsCallersAuthority(t *testing.T) {
	b := newBank(t)
	a := b.unknown("again", "answer")
	poor := who{"acme", "anna", "bot", []string{"refunds"}, false}
	got, err := b.s.Dispatch(b.s.ctx, b.s.caller(poor), a.Call.ID, nil)
	if err != nil {
		t.Fatal(err)
	}
	b.s.wants(got, record.Allow, record.CodeOutcomeUnknown, record.Unknown)
	if n := len(b.looks()); n != 0 {
		t.Fatalf("%d looks reached the server", n)
	}
	// Somebody else's call is not there at all.
	if _, err := b.s.Dispatch(b.s.ctx, b.s.caller(who{"acme", "bob", "bot", anna.scopes, false}), a.Call.ID, nil); record.KindOf(err) != record.NotFound {
		t.Fatalf("bob got %v", err)
	}
	b.s.wants(b.returns(a), record.Allow, record.CodeAlreadyDone, record.Succeeded)
}

// An operator asks as themselves, where the entry says that the tool answers for
// everybody. Nothing is sent again for them: the call's caller is not here.
func TestRule_C2_AnOperatorsLookSettlesAndSendsNothing(t *testing.T) {
	b := newBank(t)
	s := b.s
	lost, done := b.unknown("again", "request"), record.Call{}
	if _, looked, err := s.Look(s.ctx, s.operator(), lost.Call.ID); err != nil || looked.Proof != registry.Nothing || looked.Proves() {
		t.Fatalf("before its time: %+v, %v", looked, err)
	}
	s.clock.pass(3 * time.Minute)
	c, looked, err := s.Look(s.ctx, s.operator(), lost.Call.ID)
	if err != nil || c.State != record.Failed || !looked.Proves() || c.Outcome.By != "otto@urn:test" {
		t.Fatalf("an operator's look: %s by %+v (%+v, %v)", c.State, c.Outcome, looked, err)
	}
	s.ran(0)
	if look := b.looks(); look[0].Owner.Principal.Subject != "otto" || look[0].Owner.Agent != identity.OperatorAgent {
		t.Fatalf("asked as %+v", look[0].Owner)
	}
	found := b.unknown("again", "answer")
	if done, _, err = s.Look(s.ctx, s.operator(), found.Call.ID); err != nil || done.State != record.Succeeded || done.Outcome.Effect != "re_1" {
		t.Fatalf("found: %s (%v)", done.State, err)
	}
	if _, _, err = s.Look(s.ctx, s.operator(), found.Call.ID); record.KindOf(err) != record.Conflict {
		t.Fatalf("a settled call was looked into: %v", err)
	}
	// Where the entry does not say so, no operator asks.
	other := b.unknown("pay", "answer")
	before := len(b.looks())
	if c, looked, err := s.Look(s.ctx, s.operator(), other.Call.ID); err != nil || c.State != record.Unknown || looked.Proof != registry.CannotSay || looked.Why == "" {
		t.Fatalf("without operators: %s, %+v (%v)", c.State, looked, err)
	}
	if len(b.looks()) != before {
		t.Fatal("the tool was asked for an operator")
	}
	if _, _, err := s.Look(s.ctx, identity.Operator{}, other.Call.ID); record.KindOf(err) != record.Forbidden {
		t.Fatalf("nobody looked: %v", err)
	}
	s.ran(2)
}

// Two reconcilers, one outcome: the second meets the conflict, and what is held is given
// back once.
func TestRule_E4_TwoReconcilersOneOutcome(t *testing.T) {
	b := newBank(t, budget)
	s := b.s
	a := b.unknown("pay", "request")
	s.clock.pass(3 * time.Minute)
	var won atomic.Int64
	var both sync.WaitGroup
	for _, to := range []record.State{record.Succeeded, record.Failed, record.Failed, record.Succeeded} {
		both.Go(func() {
			_, err := s.Reconcile(s.ctx, s.operator(), "acme", a.Call.ID, to, "the bank's book")
			if err == nil {
				won.Add(1)
			} else if record.KindOf(err) != record.Conflict {
				t.Errorf("lost with %v", err)
			}
		})
	}
	both.Go(func() { b.returns(a) })
	both.Wait()
	l, err := s.store.Call(s.ctx, "acme", a.Call.ID)
	if err != nil {
		t.Fatal(err)
	}
	byCaller := l.Call.Outcome.By == "anna@urn:test"
	if won.Load() > 1 || won.Load() == 0 && !byCaller {
		t.Fatalf("%d operators settled it, the caller's look too: %t", won.Load(), byCaller)
	}
	want := int64(0)
	if l.Call.State == record.Succeeded {
		want = 10_000_000
	}
	if used := s.moneyOf("anna"); used != want {
		t.Fatalf("%s, and the day holds %d, want %d", l.Call.State, used, want)
	}
	n := 0
	for _, kind := range s.events(a.Call.ID) {
		if kind == record.EventReconciled {
			n++
		}
	}
	if n != 1 {
		t.Fatalf("reconciled %d times", n)
	}
}

// Rule A8: while an outcome is not known, its effect is blocked in every lineage of the
// principal; settled as failed, it is free.
func TestRule_A8_AnUnknownCallBlocksItsEffect(t *testing.T) {
	b := newBank(t)
	s := b.s
	a := b.unknown("pay", "request")
	elsewhere := who{"acme", "anna", "other-bot", anna.scopes, false}
	q := s.wants(s.do(elsewhere, "pay", `{"amount":10,"order":"o1"}`), record.RequiresApproval, record.CodeEffectUnsettled, record.ApprovalPending)
	if q.Call.Shown != a.Call.ID {
		t.Fatalf("the question shows %q, want %s", q.Call.Shown, a.Call.ID)
	}
	s.ran(0)
	s.clock.pass(3 * time.Minute)
	s.wants(b.returns(a), record.Allow, record.CodeFailed, record.Failed)
	again, err := s.Dispatch(s.ctx, s.caller(elsewhere), q.Call.ID, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.wants(again, record.Allow, record.CodeNone, record.Succeeded)
	s.ran(1)
}

// Rule E5: a late answer is evidence beside what the look proved, not another outcome.
func TestRule_E5_ALateAnswerAfterALookIsEvidence(t *testing.T) {
	b := newBank(t)
	s := b.s
	started, release := make(chan record.CallID, 1), make(chan struct{})
	find := s.desk.reach
	s.desk.on(func(ctx context.Context, w dispatch.Work) (dispatch.Reached, bool) {
		if w.Tool.Name != "pay" {
			return find(ctx, w)
		}
		started <- w.Call
		<-release
		return s.desk.act(w), true
	})
	answered := make(chan dispatch.Answer, 1)
	go func() { answered <- s.do(anna, "pay", `{"amount":10,"order":"o1"}`) }()
	id := <-started
	s.clock.pass(31 * time.Second)
	ctx, stop := context.WithCancel(s.ctx)
	worked := make(chan struct{})
	go func() { s.Work(ctx); close(worked) }()
	for s.state(dispatch.Answer{Call: &record.Call{Owner: s.caller(anna).Owner(), ID: id}}).Call.State != record.Unknown {
		runtime.Gosched()
	}
	stop()
	<-worked
	s.clock.pass(3 * time.Minute)
	got, err := s.Dispatch(s.ctx, s.caller(anna), id, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.wants(got, record.Allow, record.CodeFailed, record.Failed) // by what the tool's records showed then
	close(release)
	s.wants(<-answered, record.Allow, record.CodeOutcomeUnknown, record.Executing)
	if kinds := s.events(id); !slices.Contains(kinds, record.EventLate) {
		t.Fatalf("the late answer left no evidence: %v", kinds)
	}
}

// Rule C2: while its caller is away a call is looked into only in a run that holds a
// live delegation, with the authority that its source states now; and not for ever.
func TestRule_C2_ADelegatedRunsUnknownCallIsLookedInto(t *testing.T) {
	for _, loses := range []string{"answer", "request"} {
		absentAt(t, newBank, func(b *bank, d *directory, pass func(time.Duration)) {
			s := b.s
			a := b.unknown("again", loses)
			pass(5 * time.Minute)
			if len(b.looks()) != 0 {
				t.Fatal("it was looked into for nobody")
			}
			if _, err := s.DelegateRun(s.ctx, s.caller(anna), a.Call.Run, s.clock.Now().Add(8*time.Hour)); err != nil {
				t.Fatal(err)
			}
			b.says(func(string) string { return `{}` })
			pass(time.Minute)
			for range 3 {
				pass(time.Second)
			}
			if n := len(b.looks()); n != 1 {
				t.Fatalf("%d looks within moments of the first", n)
			}
			b.says(nil)
			pass(time.Hour)
			l := s.state(a)
			if l.Call.State != record.Succeeded || loses == "answer" == (l.Call.Attempt != 1) {
				t.Fatalf("%s lost: the call is %s after attempt %d", loses, l.Call.State, l.Call.Attempt)
			}
			s.ran(1)
		})
	}
}

func TestRule_C2_WithoutItsAuthorityNothingIsLookedInto(t *testing.T) {
	absentAt(t, newBank, func(b *bank, d *directory, pass func(time.Duration)) {
		s := b.s
		a := b.unknown("again", "request")
		if _, err := s.DelegateRun(s.ctx, s.caller(anna), a.Call.Run, s.clock.Now().Add(8*time.Hour)); err != nil {
			t.Fatal(err)
		}
		d.set(func(d *directory) { delete(d.people, "anna") })
		pass(time.Hour)
		pass(time.Hour)
		if l := s.state(a); l.Call.State != record.Unknown || l.Run.Delegation != nil || len(b.looks()) != 0 {
			t.Fatalf("the call is %s, delegation %v, %d looks", l.Call.State, l.Run.Delegation, len(b.looks()))
		}
		s.ran(0)
	})
}
