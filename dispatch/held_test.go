package dispatch_test

import (
	"sync"
	"testing"

	"github.com/placet-dev/placet/record"
)

// alertOn is the change that an alert with a hold makes.
func (s *scene) alertOn(c *record.Call) record.Change {
	return record.RaiseHeld(record.Alert{Rule: record.AlertTriedAgain, Subject: "s", Text: "tried again", Count: 1, Events: []int64{7}, Calls: []record.CallID{c.ID}},
		c.Tenant, c.Lineage, c.Run, c.ID, s.clock.Now())
}

// Rule C3: when the change that holds a lineage has returned, no later reservation of a
// call that changes something passes, also one that was decided before. Reads go on,
// what waits keeps its place, other lineages are not held, and after the lift each call
// runs exactly once.
func TestRule_C3_AHoldFencesReservations(t *testing.T) {
	s := newScene(t)
	approved := s.wants(s.do(anna, "refund", `{"order":"o","amount":300}`), record.RequiresApproval, record.CodeAboveLimit, record.ApprovalPending)
	s.reply(approved, "lena", record.Yes, "leads")

	// The hold comes between a decision and its reservation.
	var once sync.Once
	s.store.fail(func(f record.Facts) error {
		var err error
		if f.Call != nil && f.Call.After.State == record.Executing {
			once.Do(func() { err = s.store.Store.Apply(s.ctx, s.alertOn(approved.Call)) })
		}
		return err
	}, nil)
	first := s.wants(s.do(anna, "every", `{"n":1}`), record.Deny, record.CodeHeld, record.Proposed)
	s.store.fail(nil, nil)
	s.ran(0)

	again, err := s.Dispatch(s.ctx, s.caller(anna), approved.Call.ID, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.wants(again, record.Deny, record.CodeHeld, record.ApprovalPending)
	s.ran(0)
	later := s.wants(s.do(anna, "refund", `{"order":"p","amount":300}`), record.RequiresApproval, record.CodeNewQuestion, record.ApprovalPending)
	s.wants(s.do(anna, "look", `{}`), record.Allow, record.CodeNone, record.Succeeded)
	other := anna
	other.agent = "bot2"
	s.wants(s.do(other, "every", `{"n":1}`), record.Allow, record.CodeNone, record.Succeeded)
	s.ran(2)
	held, err := s.store.Held(s.ctx, "acme", "", 10)
	if err != nil || len(held) != 1 || held[0].ID != approved.Call.Lineage || held[0].Hold.Rule != record.AlertTriedAgain {
		t.Fatalf("held: %+v, %v", held, err)
	}
	if none, err := s.store.Held(s.ctx, "globex", "", 10); err != nil || len(none) != 0 {
		t.Fatalf("another tenant's: %+v, %v", none, err)
	}
	s.restart()
	s.wants(s.do(anna, "every", `{"n":1}`), record.Deny, record.CodeHeld, record.Proposed)
	s.ran(2)

	otto := s.person("otto", "ops").Operator()
	if _, err := s.Lift(s.ctx, otto, approved.Call.Run, " "); record.KindOf(err) != record.Invalid {
		t.Errorf("without a reason: %v", err)
	}
	if _, err := s.Lift(s.ctx, s.person("lena", "leads").Operator(), approved.Call.Run, "looked"); record.KindOf(err) != record.Forbidden {
		t.Errorf("without the permission: %v", err)
	}
	if _, err := s.Lift(s.ctx, otto, approved.Call.Run, "looked"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Lift(s.ctx, otto, approved.Call.Run, "looked"); record.KindOf(err) != record.Conflict {
		t.Errorf("twice: %v", err)
	}
	s.ran(2) // nothing runs by itself
	if again, err = s.Dispatch(s.ctx, s.caller(anna), approved.Call.ID, nil); err != nil {
		t.Fatal(err)
	}
	s.wants(again, record.Allow, record.CodeNone, record.Succeeded)
	if a := s.wants(s.do(anna, "every", `{"n":1}`), record.Allow, record.CodeNone, record.Succeeded); a.Call.ID != first.Call.ID {
		t.Error("the call that was held back lost its place")
	}
	s.ran(4)
	if l, err := s.store.Call(s.ctx, "acme", later.Call.ID); err != nil || l.Call.State != record.ApprovalPending {
		t.Errorf("%s, %v", l.Call.State, err)
	}
}
