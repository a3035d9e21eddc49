package dispatch_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/store/sqlite"
)

// directory is a live source: it knows who is there now, and answers with tokens
// of the scene's issuer. What it is asked with is good for one question.
type directory struct {
	s        *scene
	mu       sync.Mutex
	people   map[string][]string // subject to scopes
	down     bool
	rotating bool
	failing  bool            // it answers, and what it says cannot be verified
	valid    map[string]bool // what it may be asked with
	made     int
	asked    int
}

func newDirectory(s *scene) *directory {
	return &directory{s: s, people: map[string][]string{"anna": anna.scopes}, valid: map[string]bool{}}
}

func (d *directory) handle() []byte {
	d.made++
	h := fmt.Sprintf("handle %d", d.made)
	d.valid[h] = true
	return []byte(h)
}

func (d *directory) Grant(_ context.Context, c identity.Caller, until time.Time) (record.Delegation, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return record.Delegation{Issuer: "urn:test", Sealed: d.handle(), Scopes: c.Scopes(), Until: until}, nil
}

func (d *directory) Caller(_ context.Context, o record.Owner, had record.Delegation) (identity.Caller, record.Delegation, error) {
	time.Sleep(time.Second) // the bubble's: a source is elsewhere
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked++
	if d.down {
		return identity.Caller{}, had, record.Errorf(record.Unavailable, "no route to the issuer")
	}
	if !d.valid[string(had.Sealed)] {
		return identity.Caller{}, had, record.Errorf(record.Forbidden, "asked with what was used before")
	}
	scopes, there := d.people[o.Principal.Subject]
	if !there {
		return identity.Caller{}, had, record.Errorf(record.Forbidden, "no such person")
	}
	if d.rotating {
		delete(d.valid, string(had.Sealed))
		had.Sealed = d.handle()
	}
	if d.failing {
		return identity.Caller{}, had, record.Errorf(record.Unavailable, "the issuer's keys cannot be read")
	}
	return d.s.caller(who{string(o.Tenant), o.Principal.Subject, string(o.Agent), scopes, false}), had, nil
}

func (d *directory) Withdraw(_ context.Context, had record.Delegation) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.valid, string(had.Sealed))
	return nil
}

func (d *directory) set(change func(*directory)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change(d)
}

// absent runs a test in which time passes while the caller is away.
func absent(t *testing.T, test func(t *testing.T, s *scene, d *directory, pass func(time.Duration))) {
	absentAt(t, newScene, func(s *scene, d *directory, pass func(time.Duration)) { test(s.t.(*testing.T), s, d, pass) })
}

// absentAt is absent at another kind of scene.
func absentAt[S interface{ scene() *scene }](t *testing.T, open func(testing.TB, ...func(*scene)) S, test func(at S, d *directory, pass func(time.Duration))) {
	synctest.Test(t, func(t *testing.T) {
		var d *directory
		at := open(t, func(s *scene) { d = newDirectory(s); s.delegations = d })
		s := at.scene()
		ctx, stop := context.WithCancel(s.ctx)
		done := make(chan struct{})
		go func() { s.Work(ctx); close(done) }()
		test(at, d, func(by time.Duration) {
			synctest.Wait()
			s.clock.pass(by)
			time.Sleep(31 * time.Second) // the bubble's time: the clock looks at least this often
			synctest.Wait()
		})
		stop()
		<-done
		if err := s.store.Store.(*sqlite.Store).Close(); err != nil {
			t.Error(err)
		}
	})
}

func (s *scene) scene() *scene { return s }

// delegated proposes a call that a person must decide, in a run that holds a delegation.
func (s *scene) delegated(arguments string) dispatch.Answer {
	s.t.Helper()
	a := s.wants(s.do(anna, "refund", arguments), record.RequiresApproval, record.CodeAboveLimit, record.ApprovalPending)
	if _, err := s.DelegateRun(s.ctx, s.caller(anna), a.Call.Run, s.clock.Now().Add(8*time.Hour)); err != nil {
		s.t.Fatal(err)
	}
	return a
}

func (s *scene) state(a dispatch.Answer) dispatch.Loaded {
	s.t.Helper()
	l, err := s.store.Call(s.ctx, a.Call.Tenant, a.Call.ID)
	if err != nil {
		s.t.Fatal(err)
	}
	return l
}

func TestRule_C2_ADelegatedRunActsWhileItsCallerIsAway(t *testing.T) {
	absent(t, func(t *testing.T, s *scene, d *directory, pass func(time.Duration)) {
		a := s.delegated(`{"order":"o1","amount":900}`)
		pass(time.Minute)
		s.ran(0)
		s.reply(a, "lena", record.Yes, "leads")
		pass(time.Minute)
		s.ran(1)
		if l := s.state(a); l.Call.State != record.Succeeded || l.Approval.State != record.Consumed {
			t.Fatalf("the call is %s, its approval %s", l.Call.State, l.Approval.State)
		}
		// The agent comes back and finds what happened, and nothing happens again.
		s.wants(must(s.Dispatch(s.ctx, s.caller(anna), a.Call.ID, nil)), record.Allow, record.CodeAlreadyDone, record.Succeeded)
		pass(time.Minute)
		s.ran(1)
		events, err := s.store.Events(s.ctx, dispatch.EventQuery{Tenant: "acme", Kinds: []record.EventKind{record.EventExecuting}, Limit: 10})
		if err != nil || len(events) != 1 || !contains(events[0].Body, `"route":"delegate"`) {
			t.Fatalf("the event does not say by which route: %v %+v", err, events)
		}
	})
}

func TestRule_C2_WithoutADelegationACallWaits(t *testing.T) {
	absent(t, func(t *testing.T, s *scene, d *directory, pass func(time.Duration)) {
		a := s.wants(s.do(anna, "refund", `{"order":"o1","amount":900}`), record.RequiresApproval, record.CodeAboveLimit, record.ApprovalPending)
		s.reply(a, "lena", record.Yes, "leads")
		pass(time.Minute)
		s.ran(0)
		if d.asked != 0 {
			t.Fatal("a live source was asked without a delegation")
		}
		s.wants(must(s.Dispatch(s.ctx, s.caller(anna), a.Call.ID, nil)), record.Allow, record.CodeNone, record.Succeeded)
		s.ran(1)
	})
}

// What the source says at dispatch counts, not what held when the run was
// delegated or the call approved.
func TestRule_C2_TheLiveSourceIsAskedAtEveryDispatch(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*directory)
		state  record.State
		code   record.Code
	}{
		"dismissed":         {func(d *directory) { delete(d.people, "anna") }, record.Denied, record.CodeRevoked},
		"lost the scope":    {func(d *directory) { d.people["anna"] = []string{"read"} }, record.Denied, record.CodeMissingScope},
		"source used up":    {func(d *directory) { clear(d.valid) }, record.Denied, record.CodeRevoked},
		"source is down":    {func(d *directory) { d.down = true }, record.ApprovalPending, record.CodeAboveLimit},
		"nothing happened":  {func(*directory) {}, record.Succeeded, record.CodeAboveLimit},
		"source is rotated": {func(d *directory) { d.rotating = true }, record.Succeeded, record.CodeAboveLimit},
	} {
		t.Run(name, func(t *testing.T) {
			absent(t, func(t *testing.T, s *scene, d *directory, pass func(time.Duration)) {
				a := s.delegated(`{"order":"o1","amount":900}`)
				d.set(c.change)
				s.reply(a, "lena", record.Yes, "leads")
				pass(time.Minute)
				l := s.state(a)
				if l.Call.State != c.state || l.Call.Decision.Code != c.code {
					t.Fatalf("the call is %s for %q, want %s for %q", l.Call.State, l.Call.Decision.Code, c.state, c.code)
				}
				effects := 0
				if c.state == record.Succeeded {
					effects = 1
				}
				s.ran(effects)
				if c.code == record.CodeRevoked && l.Run.Delegation != nil {
					t.Error("the delegation outlives its source")
				}
			})
		})
	}
}

func TestRule_C2_ASourceThatIsDownDelaysAndDoesNotLose(t *testing.T) {
	absent(t, func(t *testing.T, s *scene, d *directory, pass func(time.Duration)) {
		d.set(func(d *directory) { d.down = true })
		a := s.delegated(`{"order":"o1","amount":900}`)
		s.reply(a, "lena", record.Yes, "leads")
		pass(time.Minute)
		s.ran(0)
		if !slices.Contains(s.events(a.Call.ID), record.EventLimited) {
			t.Fatal("no event says that the source did not answer")
		}
		d.set(func(d *directory) { d.down = false })
		pass(time.Minute)
		s.ran(1)
	})
}

// What a source was asked with may be good for one question only, also when two
// calls of a run are approved together.
func TestRule_C2_TwoCallsOfARunShareARotatingSource(t *testing.T) {
	absent(t, func(t *testing.T, s *scene, d *directory, pass func(time.Duration)) {
		d.set(func(d *directory) { d.rotating = true })
		a := s.delegated(`{"order":"o1","amount":900}`)
		b := s.wants(s.do(anna, "refund", `{"order":"o2","amount":900}`), record.RequiresApproval, record.CodeAboveLimit, record.ApprovalPending)
		s.reply(a, "lena", record.Yes, "leads")
		s.reply(b, "lena", record.Yes, "leads")
		for range 4 {
			pass(time.Minute)
		}
		s.ran(2)
	})
}

// A source that used up what it was asked with, and whose answer could not be
// verified, is asked with what replaces it.
func TestRule_C2_WhatTheSourceGivesIsKeptBesideAnError(t *testing.T) {
	absent(t, func(t *testing.T, s *scene, d *directory, pass func(time.Duration)) {
		d.set(func(d *directory) { d.rotating, d.failing = true, true })
		a := s.delegated(`{"order":"o1","amount":900}`)
		s.reply(a, "lena", record.Yes, "leads")
		pass(time.Minute)
		s.ran(0)
		d.set(func(d *directory) { d.failing = false })
		pass(time.Minute)
		s.ran(1)
	})
}

// Withdrawn while the source is asked: the reservation finds the delegation gone.
func TestRule_C2_ADelegationIsCheckedInTheReservation(t *testing.T) {
	absent(t, func(t *testing.T, s *scene, d *directory, pass func(time.Duration)) {
		a := s.delegated(`{"order":"o1","amount":900}`)
		s.store.fail(func(f record.Facts) error {
			if m := f.Call; m != nil && m.After.State == record.Executing && f.Premise.Delegated {
				l := s.state(a)
				if l.Run.Delegation == nil {
					return nil
				}
				return s.store.Store.Apply(s.ctx, record.Withdraw(l.Run, "in between", record.Who{System: "test"}, s.clock.Now()))
			}
			return nil
		}, nil)
		s.reply(a, "lena", record.Yes, "leads")
		pass(time.Minute)
		s.ran(0)
		if l := s.state(a); l.Call.State != record.ApprovalPending {
			t.Fatalf("the call is %s", l.Call.State)
		}
		s.store.fail(nil, nil)
		s.wants(must(s.Dispatch(s.ctx, s.caller(anna), a.Call.ID, nil)), record.Allow, record.CodeNone, record.Succeeded)
		s.ran(1)
	})
}

func TestRule_C2_ADelegationEnds(t *testing.T) {
	absent(t, func(t *testing.T, s *scene, d *directory, pass func(time.Duration)) {
		a := s.wants(s.do(anna, "refund", `{"order":"o1","amount":900}`), record.RequiresApproval, record.CodeAboveLimit, record.ApprovalPending)
		if _, err := s.DelegateRun(s.ctx, s.caller(anna), a.Call.Run, s.clock.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		pass(2 * time.Minute)
		s.reply(a, "lena", record.Yes, "leads")
		pass(time.Minute)
		s.ran(0)
		if l := s.state(a); l.Run.Delegation != nil || d.asked != 0 {
			t.Fatalf("a delegation that has ended was kept or used: %+v, asked %d times", l.Run.Delegation, d.asked)
		}
		for _, until := range []time.Duration{0, -time.Hour, 31 * 24 * time.Hour} {
			if _, err := s.DelegateRun(s.ctx, s.caller(anna), a.Call.Run, s.clock.Now().Add(until)); record.KindOf(err) != record.Invalid {
				t.Errorf("a delegation until %s from now: %v", until, err)
			}
		}
		bert := who{"acme", "bert", "bot", anna.scopes, false}
		if _, err := s.DelegateRun(s.ctx, s.caller(bert), a.Call.Run, s.clock.Now().Add(time.Hour)); record.KindOf(err) != record.NotFound {
			t.Errorf("somebody else delegates the run: %v", err)
		}
		run, err := s.DelegateRun(s.ctx, s.caller(anna), a.Call.Run, s.clock.Now().Add(time.Hour))
		if err != nil || run.Delegation == nil {
			t.Fatal(err)
		}
		if run, err = s.WithdrawDelegation(s.ctx, s.caller(anna), run.ID); err != nil || run.Delegation != nil {
			t.Fatalf("withdrawn: %+v %v", run.Delegation, err)
		}
		if len(d.valid) != 0 {
			t.Errorf("the source still takes %v", d.valid)
		}
		if run, err = s.DelegateRun(s.ctx, s.caller(anna), run.ID, s.clock.Now().Add(time.Hour)); err != nil || len(d.valid) != 1 {
			t.Fatalf("delegated again: %v, %v", err, d.valid)
		}
		if _, err := s.EndRun(s.ctx, s.caller(anna), run.ID, "done"); err != nil || len(d.valid) != 0 {
			t.Errorf("the run has ended, and the source still takes %v (%v)", d.valid, err)
		}
	})
}

func TestRule_B2_ATransferIsRecorded(t *testing.T) {
	s := newScene(t)
	orchestrated := who{"acme", "anna", "bot", anna.scopes, true}
	run, err := s.OpenRun(s.ctx, s.caller(orchestrated), "case 7")
	if err != nil {
		t.Fatal(err)
	}
	held := s.wants(s.do(orchestrated, "refund", `{"order":"o1","amount":900}`, in(run.ID)), record.RequiresApproval, record.CodeAboveLimit, record.ApprovalPending)
	s.reply(held, "lena", record.Yes, "leads")
	bert := who{"acme", "bert", "bot", anna.scopes, true}
	to := s.caller(bert).Owner()

	if _, err := s.TransferRun(s.ctx, s.caller(bert), run.ID, to); record.KindOf(err) != record.NotFound {
		t.Fatalf("somebody took a run: %v", err)
	}
	moved, err := s.TransferRun(s.ctx, s.caller(orchestrated), run.ID, to)
	if err != nil || moved.Owner != to || moved.Turn != run.Turn+1 {
		t.Fatalf("moved to %+v, turn %d: %v", moved.Owner, moved.Turn, err)
	}
	if l := s.state(held); l.Call.State != record.Canceled || l.Approval.State != record.Void {
		t.Fatalf("what waited is %s, its approval %s", l.Call.State, l.Approval.State)
	}
	if again := must(s.Dispatch(s.ctx, s.caller(orchestrated), held.Call.ID, nil)); again.Verdict != record.Deny {
		t.Fatalf("an approval outlived the transfer: %+v", again)
	}
	s.ran(0)
	if _, _, err := s.Run(s.ctx, s.caller(orchestrated), run.ID); record.KindOf(err) != record.NotFound {
		t.Fatalf("the former owner still has the run: %v", err)
	}
	if _, err := s.Do(s.ctx, dispatch.Proposal{Caller: s.caller(orchestrated), Tool: "look", Arguments: []byte(`{}`), Run: run.ID}); record.KindOf(err) != record.NotFound {
		t.Fatalf("the former owner still acts in the run: %v", err)
	}
	s.wants(s.do(bert, "refund", `{"order":"o1","amount":90}`, in(run.ID)), record.Allow, record.CodeNone, record.Succeeded)
	s.ran(1)
	s.restart()
	if l, err := s.store.Run(s.ctx, "acme", run.ID); err != nil || l.Owner != to {
		t.Fatalf("after a restart the run is %+v's: %v", l.Owner, err)
	}
	events, err := s.store.Events(s.ctx, dispatch.EventQuery{Tenant: "acme", Kinds: []record.EventKind{record.EventTransferred}, Limit: 10})
	if err != nil || len(events) != 1 || events[0].Who.Principal.Subject != "anna" || !contains(events[0].Body, `"bert"`) {
		t.Fatalf("the transfer's event: %v %+v", err, events)
	}
}

func TestRule_B2_WhatCannotBeTransferred(t *testing.T) {
	s := newScene(t)
	plain, err := s.OpenRun(s.ctx, s.caller(anna), "mine")
	if err != nil {
		t.Fatal(err)
	}
	to := s.caller(who{"acme", "bert", "bot", nil, false}).Owner()
	if _, err := s.TransferRun(s.ctx, s.caller(anna), plain.ID, to); record.KindOf(err) != record.Conflict {
		t.Errorf("a run of an unvouched lineage: %v", err)
	}
	orchestrated := who{"acme", "anna", "bot", anna.scopes, true}
	run, err := s.OpenRun(s.ctx, s.caller(orchestrated), "case 8")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.TransferRun(s.ctx, s.caller(orchestrated), run.ID, s.caller(orchestrated).Owner()); record.KindOf(err) != record.Conflict {
		t.Errorf("to the one who has it: %v", err)
	}
	if _, err := s.TransferRun(s.ctx, s.caller(orchestrated), run.ID, record.Owner{}); record.KindOf(err) != record.Invalid {
		t.Errorf("to nobody: %v", err)
	}
	// A tenant in the request is not looked at: a run stays in its own.
	elsewhere := to
	elsewhere.Tenant = "globex"
	if moved, err := s.TransferRun(s.ctx, s.caller(orchestrated), run.ID, elsewhere); err != nil || moved.Tenant != "acme" {
		t.Errorf("moved to tenant %q: %v", moved.Tenant, err)
	}
}

func must(a dispatch.Answer, err error) dispatch.Answer {
	if err != nil {
		panic(err)
	}
	return a
}

func contains(body []byte, text string) bool { return strings.Contains(string(body), text) }
