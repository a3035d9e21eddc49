package dispatch_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

// queues proposes a call of a queued tool, in a run that holds a delegation or not.
func (s *scene) queues(tool, arguments string, delegated bool) dispatch.Answer {
	s.t.Helper()
	a := s.wants(s.do(anna, tool, arguments), record.Allow, record.CodeQueued, record.DispatchAuthorized)
	if delegated {
		s.delegates(a)
	}
	return a
}

func (s *scene) delegates(a dispatch.Answer) {
	s.t.Helper()
	if _, err := s.DelegateRun(s.ctx, s.caller(anna), a.Call.Run, s.clock.Now().Add(8*time.Hour)); err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) is(a dispatch.Answer, want record.State) dispatch.Loaded {
	s.t.Helper()
	l := s.state(a)
	if l.Call.State != want {
		s.t.Fatalf("the call is %s, want %s; events %v", l.Call.State, want, s.events(a.Call.ID))
	}
	return l
}

// A queued call runs by itself, once, where its run holds a delegation: also when that
// came after it.
func TestRule_C2_AQueuedCallRunsOnceUnderADelegation(t *testing.T) {
	absent(t, func(t *testing.T, s *scene, d *directory, pass func(time.Duration)) {
		a := s.queues("later", `{"order":"o1"}`, true)
		pass(time.Minute)
		s.ran(1)
		s.is(a, record.Succeeded)
		b := s.queues("later", `{"order":"o2"}`, false) // the run holds a delegation already
		// A proposal that comes again, its answer lost, finds what is queued and runs nothing.
		s.wants(s.do(anna, "later", `{"order":"o2"}`), record.Allow, record.CodeQueued, record.DispatchAuthorized)
		s.ran(1)
		pass(time.Minute)
		s.ran(2)
		s.is(b, record.Succeeded)
		if again := s.wants(must(s.Dispatch(s.ctx, s.caller(anna), b.Call.ID, nil)), record.Allow, record.CodeAlreadyDone, record.Succeeded); len(again.Result) == 0 {
			t.Error("the result of a queued call is not kept for who asks later")
		}
		pass(time.Minute)
		s.ran(2)
		events, err := s.store.Events(s.ctx, dispatch.EventQuery{Tenant: "acme", Kinds: []record.EventKind{record.EventExecuting}, Limit: 10})
		if err != nil || len(events) != 2 || !contains(events[0].Body, `"route":"queue"`) {
			t.Fatalf("the event does not say by which route: %v %+v", err, events)
		}
	})
}

// No caller, no authority: without a delegation nothing runs by itself, and the agent
// that comes back runs it, once.
func TestRule_C2_AQueuedCallWithoutADelegationWaitsForItsAgent(t *testing.T) {
	absent(t, func(t *testing.T, s *scene, d *directory, pass func(time.Duration)) {
		a := s.queues("later", `{"order":"o1"}`, false)
		for range 3 {
			pass(10 * time.Minute)
		}
		s.ran(0)
		if d.asked != 0 {
			t.Fatal("a live source was asked without a delegation")
		}
		bert := who{"acme", "anna", "other", anna.scopes, false}
		if _, err := s.Dispatch(s.ctx, s.caller(bert), a.Call.ID, nil); record.KindOf(err) != record.NotFound {
			t.Fatalf("another agent dispatches it: %v", err)
		}
		s.ran(0)
		s.wants(must(s.Dispatch(s.ctx, s.caller(anna), a.Call.ID, nil)), record.Allow, record.CodeNone, record.Succeeded)
		pass(time.Minute)
		s.ran(1)
	})
}

// Withdrawn after the call was queued: it waits, and a later delegation takes it up.
func TestRule_C2_AQueuedCallIsParkedWithItsDelegation(t *testing.T) {
	absent(t, func(t *testing.T, s *scene, d *directory, pass func(time.Duration)) {
		d.set(func(d *directory) { d.down = true })
		a := s.queues("later", `{"order":"o1"}`, true)
		pass(time.Minute)
		if _, err := s.WithdrawDelegation(s.ctx, s.caller(anna), a.Call.Run); err != nil {
			t.Fatal(err)
		}
		d.set(func(d *directory) { d.down = false })
		pass(15 * time.Minute)
		s.ran(0)
		if l := s.is(a, record.DispatchAuthorized); !l.Call.Again.IsZero() || !slices.Contains(s.events(a.Call.ID), record.EventParked) {
			t.Fatalf("the clock still waits for it, at %s; events %v", l.Call.Again, s.events(a.Call.ID))
		}
		s.delegates(a)
		pass(time.Minute)
		s.ran(1)
	})
}

// What the source says at dispatch counts.
func TestRule_P4_AQueuedCallIsDecidedAtDispatch(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*scene, *directory)
		state  record.State
		ran    int
	}{
		"dismissed":        {func(_ *scene, d *directory) { delete(d.people, "anna") }, record.Denied, 0},
		"lost the scope":   {func(_ *scene, d *directory) { d.people["anna"] = []string{"read"} }, record.Denied, 0},
		"nothing happened": {func(*scene, *directory) {}, record.Succeeded, 1},
	} {
		t.Run(name, func(t *testing.T) {
			absent(t, func(t *testing.T, s *scene, d *directory, pass func(time.Duration)) {
				d.set(func(d *directory) { d.down = true })
				a := s.queues("later", `{"order":"o1"}`, true)
				pass(time.Minute)
				s.ran(0)
				d.set(func(d *directory) { d.down = false; c.change(s, d) })
				pass(15 * time.Minute)
				s.ran(c.ran)
				l := s.is(a, c.state)
				dead, err := s.store.Calls(s.ctx, dispatch.CallQuery{Tenant: "acme", Dead: true, Limit: 10})
				if err != nil || (len(dead) == 1) != (c.ran == 0) || l.Call.Dead() != (c.ran == 0) {
					t.Errorf("dead are %v: %v", dead, err)
				}
			})
		})
	}
}

// A question is asked of a queued call as of any other, and its yes runs it once.
func TestRule_C2_AQueuedCallThatAsks(t *testing.T) {
	absent(t, func(t *testing.T, s *scene, d *directory, pass func(time.Duration)) {
		a := s.wants(s.do(anna, "later_asks", `{"order":"o1"}`), record.RequiresApproval, record.CodeAlwaysAsks, record.ApprovalPending)
		s.delegates(a)
		pass(time.Minute)
		s.ran(0)
		s.reply(a, "lena", record.Yes, "leads")
		pass(time.Minute)
		s.ran(1)
		events, err := s.store.Events(s.ctx, dispatch.EventQuery{Tenant: "acme", Kinds: []record.EventKind{record.EventExecuting}, Limit: 10})
		if err != nil || len(events) != 1 || !contains(events[0].Body, `"route":"queue"`) {
			t.Fatalf("the event does not say by which route: %v %+v", err, events)
		}
	})
}

// A call whose outcome is not known is tried again where the registry allows it: the
// same call with the same key, each time after a longer pause of the boundary's clock.
func TestRule_E2_AQueuedCallIsTriedAgainAfterAPause(t *testing.T) {
	absent(t, func(t *testing.T, s *scene, d *directory, pass func(time.Duration)) {
		var keys []string
		s.desk.on(func(_ context.Context, w dispatch.Work) (dispatch.Reached, bool) {
			keys = append(keys, w.Key)
			return dispatch.Reached{Sent: true, Err: context.DeadlineExceeded}, len(keys) < 3
		})
		a := s.queues("later", `{"order":"o1"}`, true)
		pass(0)
		l := s.is(a, record.Unknown)
		if wait := l.Call.Again.Sub(s.clock.Now()); wait < 10*time.Second || wait > 20*time.Second {
			t.Fatalf("after the first attempt it waits %s", wait)
		}
		s.wants(must(s.Dispatch(s.ctx, s.caller(anna), a.Call.ID, nil)), record.Allow, record.CodeOutcomeUnknown, record.Unknown)
		pass(0)
		if len(keys) != 1 {
			t.Fatalf("tried %d times before its time", len(keys))
		}
		pass(time.Minute)
		if l = s.is(a, record.Unknown); l.Call.Again.Sub(s.clock.Now()) < 30*time.Second {
			t.Fatalf("after the second attempt it waits until %s", l.Call.Again)
		}
		pass(5 * time.Minute)
		s.is(a, record.Succeeded)
		if s.ran(1); len(keys) != 3 || keys[0] != keys[1] || keys[1] != keys[2] {
			t.Fatalf("tried with the keys %v", keys)
		}
	})
}

// Attempts end: then the call is dead, and the clock leaves it alone.
func TestRule_E2_AttemptsOfAQueuedCallEnd(t *testing.T) {
	absent(t, func(t *testing.T, s *scene, d *directory, pass func(time.Duration)) {
		tries := 0
		s.desk.on(func(context.Context, dispatch.Work) (dispatch.Reached, bool) {
			tries++
			return dispatch.Reached{Sent: true, Err: context.DeadlineExceeded}, true
		})
		a := s.queues("later", `{"order":"o1"}`, true)
		once := s.queues("later_once", `{"order":"o2"}`, false)
		for range 6 {
			pass(10 * time.Minute)
		}
		if l := s.is(a, record.Unknown); tries != 4 || !l.Call.Dead() || !l.Call.Again.IsZero() {
			t.Fatalf("tried %d times, again at %s", tries, l.Call.Again)
		}
		if l := s.is(once, record.Unknown); !l.Call.Dead() || l.Call.Attempt != 1 {
			t.Fatalf("a call that may not be tried again has %d attempts", l.Call.Attempt)
		}
	})
}

// A limit puts a queued call off; it runs when the limit leaves room.
func TestRule_A11_ALimitPutsAQueuedCallOff(t *testing.T) {
	absent(t, func(t *testing.T, s *scene, d *directory, pass func(time.Duration)) {
		free := make(chan struct{})
		s.desk.on(func(_ context.Context, w dispatch.Work) (dispatch.Reached, bool) {
			if contains(w.Arguments, "o1") {
				<-free
			}
			return dispatch.Reached{}, false
		})
		a := s.queues("later_once", `{"order":"o1"}`, true)
		pass(0)
		s.is(a, record.Executing)
		b := s.queues("later_once", `{"order":"o2"}`, false)
		pass(0)
		l := s.is(b, record.DispatchAuthorized)
		if !l.Call.Again.After(s.clock.Now()) || !slices.Contains(s.events(b.Call.ID), record.EventLimited) {
			t.Fatalf("it is due at %s, now %s; events %v", l.Call.Again, s.clock.Now(), s.events(b.Call.ID))
		}
		close(free)
		pass(5 * time.Minute)
		s.ran(2)
	})
}

// A call that nobody dispatched in its time expires, and is seen.
func TestRule_C2_AQueuedCallExpires(t *testing.T) {
	absent(t, func(t *testing.T, s *scene, d *directory, pass func(time.Duration)) {
		a := s.queues("later", `{"order":"o1"}`, false)
		pass(2 * time.Hour)
		if l := s.is(a, record.Expired); !l.Call.Dead() {
			t.Fatal("it expired in the queue and is not dead")
		}
		s.delegates(s.queues("later", `{"order":"o1"}`, false))
		pass(time.Minute)
		s.ran(1) // proposed anew, it runs
	})
}

// A tenant with many due calls does not keep another's waiting.
func TestRule_J3_TheQueueIsFair(t *testing.T) {
	absent(t, func(t *testing.T, s *scene, d *directory, pass func(time.Duration)) {
		free := make(chan struct{})
		s.desk.on(func(_ context.Context, w dispatch.Work) (dispatch.Reached, bool) {
			if w.Owner.Tenant == "acme" {
				<-free
			}
			return dispatch.Reached{}, false
		})
		first := s.queues("later", `{"n":0}`, true)
		for i := range 60 {
			s.queues("later", fmt.Sprintf(`{"n":%d}`, i+1), false)
		}
		pass(time.Minute)
		s.ran(0) // every place that acme may take is taken
		gina := who{"globex", "anna", "bot", anna.scopes, false}
		a := s.wants(s.do(gina, "later", `{"n":1}`), record.Allow, record.CodeQueued, record.DispatchAuthorized)
		if _, err := s.DelegateRun(s.ctx, s.caller(gina), a.Call.Run, s.clock.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		pass(0)
		s.is(a, record.Succeeded)
		s.ran(1)
		close(free)
		for range 8 {
			pass(time.Second)
		}
		s.ran(62)
		s.is(first, record.Succeeded)
	})
}
