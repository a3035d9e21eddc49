package dispatch_test

import (
	"testing"
	"time"

	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
)

// Rejections, caps and what waits belong to the lineage until the person, and nobody
// else, starts fresh (rule B1).
func TestRule_B1_OnlyThePersonStartsFresh(t *testing.T) {
	s := newScene(t)
	bert := who{"acme", "bert", "bot", anna.scopes, false}
	a := s.do(anna, "refund", `{"order":"ord_1","amount":300}`)
	s.reply(a, "lena", record.No, "leads")
	held := s.do(anna, "refund", `{"order":"ord_2","amount":300}`)
	s.reply(held, "lena", record.Yes, "leads")
	for _, n := range []string{`{"n":1}`, `{"n":2}`} {
		s.wants(s.do(anna, "seldom", n), record.Allow, record.CodeNone, record.Succeeded)
	}
	s.clock.pass(2 * time.Minute)
	s.wants(s.do(anna, "seldom", `{"n":3}`), record.Allow, record.CodeNone, record.Succeeded)
	theirs := s.do(bert, "refund", `{"order":"ord_9","amount":300}`)
	s.reply(theirs, "lena", record.No, "leads")
	s.clock.pass(2 * time.Minute)
	s.wants(s.do(anna, "seldom", `{"n":4}`), record.Deny, record.CodeLimitReached, record.Proposed) // per_run: 3
	s.wants(s.do(anna, "refund", `{"order":"ord_1","amount":300}`), record.Deny, record.CodeRejected, record.Denied)

	// Nobody else can: not a zero identity, not another person, not for an agent that never was.
	for _, bad := range []struct {
		p     identity.Person
		agent record.AgentID
		kind  record.Kind
	}{{identity.Person{}, "bot", record.Unauthenticated}, {s.person("lena", "leads"), "bot", record.NotFound}, {s.person("anna"), "other-bot", record.NotFound}} {
		if err := s.StartFresh(s.ctx, bad.p, bad.agent); record.KindOf(err) != bad.kind {
			t.Fatalf("%v", err)
		}
	}
	s.wants(s.do(anna, "refund", `{"order":"ord_1","amount":300}`), record.Deny, record.CodeRejected, record.Denied)
	s.ran(3)

	if err := s.StartFresh(s.ctx, s.person("anna"), "bot"); err != nil {
		t.Fatal(err)
	}
	if l := s.state(held); l.Call.State != record.Canceled || l.Approval.State != record.Void {
		t.Fatalf("what was approved is %s, its approval %s", l.Call.State, l.Approval.State)
	}
	if got, err := s.Dispatch(s.ctx, s.caller(anna), held.Call.ID, nil); err != nil || got.Verdict != record.Deny {
		t.Fatalf("the canceled call: %+v %v", got.Verdict, err)
	}
	s.ran(3)
	again := s.wants(s.do(anna, "refund", `{"order":"ord_1","amount":300}`), record.RequiresApproval, record.CodeAboveLimit, record.ApprovalPending)
	s.wants(s.do(anna, "seldom", `{"n":5}`), record.Allow, record.CodeNone, record.Succeeded)
	s.wants(s.do(bert, "refund", `{"order":"ord_9","amount":300}`), record.Deny, record.CodeRejected, record.Denied)
	s.reply(again, "lena", record.Yes, "leads")
	s.wants(s.do(anna, "refund", `{"order":"ord_1","amount":300}`), record.Allow, record.CodeNone, record.Succeeded)
	s.ran(5)

	s.restart() // the lineage is the present one after a restart as well
	s.do(anna, "refund", `{"order":"ord_3","amount":10}`)
	standing, err := s.Standing(s.ctx, s.person("anna"))
	if err != nil || len(standing) != 1 || standing[0].Epoch != 1 || standing[0].Runs != 1 {
		t.Fatalf("%+v %v", standing, err)
	}
	if err := s.StartFresh(s.ctx, s.person("anna"), "bot"); err != nil {
		t.Fatal(err)
	}
}
