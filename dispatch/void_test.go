package dispatch_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

func (s *scene) void(person record.Principal) int {
	s.t.Helper()
	n, err := s.VoidAnswers(s.ctx, s.operator(), person, "left the team")
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// TestRule_D5_AnswersOfAPersonAreTakenBack: what rests on them is asked anew, and
// what rests on others runs once.
func TestRule_D5_AnswersOfAPersonAreTakenBack(t *testing.T) {
	s := newScene(t, twoIssuers(t, lenaTwice(t)))
	half := s.do(anna, "wipe", `{"n":1}`)
	full := s.do(anna, "refund", `{"order":"ord_1","amount":300}`)
	others := s.do(anna, "refund", `{"order":"ord_2","amount":300}`)
	used := s.do(anna, "refund", `{"order":"ord_3","amount":300}`)
	asked := s.do(anna, "refund", `{"order":"ord_4","amount":300}`)
	for a, name := range map[*dispatch.Answer]string{&half: "l.klein@abroad", &full: "lena", &others: "max", &used: "lena"} {
		if err := s.said(*a, name, record.Yes, "", "leads"); err != nil {
			t.Fatal(err)
		}
	}
	s.wants(s.do(anna, "refund", `{"order":"ord_3","amount":300}`), record.Allow, record.CodeNone, record.Succeeded)
	if n := s.void(login("l.klein", "urn:abroad")); n != 2 { // by either login
		t.Fatalf("%d questions are void, want 2", n)
	}
	if n := s.void(login("lena", "urn:test")); n != 0 {
		t.Fatalf("%d more are void", n)
	}
	for _, a := range []dispatch.Answer{others, asked} {
		if l, err := s.store.Approval(s.ctx, "acme", a.Approval.ID); err != nil || l.Approval.State == record.Void {
			t.Fatalf("a question without her answer: %v %v", l.Approval, err)
		}
	}
	again := s.wants(s.do(anna, "refund", `{"order":"ord_1","amount":300}`), record.RequiresApproval, record.CodeAboveLimit, record.ApprovalPending)
	if again.Approval.ID == full.Approval.ID || again.Approval.Replaces != full.Approval.ID || again.Approval.Binding == full.Approval.Binding {
		t.Fatalf("asked %s, which takes the place of %s", again.Approval.ID, again.Approval.Replaces)
	}
	if _, err := s.Reply(s.ctx, s.person("max", "leads"), full.Approval.ID, full.Approval.Binding, record.Yes, ""); record.KindOf(err) != record.Conflict {
		t.Fatalf("a void question takes an answer: %v", err)
	}
	s.ran(1)
	s.wants(s.do(anna, "refund", `{"order":"ord_2","amount":300}`), record.Allow, record.CodeNone, record.Succeeded)
	s.ran(2)
	s.reply(again, "max", record.Yes, "leads")
	s.wants(s.do(anna, "refund", `{"order":"ord_1","amount":300}`), record.Allow, record.CodeNone, record.Succeeded)
	s.ran(3)

	events, err := s.store.Events(s.ctx, dispatch.EventQuery{Tenant: "acme", Kinds: []record.EventKind{record.EventApprovalVoided}, Limit: 500})
	if err != nil || len(events) != 2 {
		t.Fatalf("%d events, %v", len(events), err)
	}
	for _, e := range events {
		var b record.Body
		if err := json.Unmarshal(e.Body, &b); err != nil || b.Detail != "left the team" || e.Who.Workload != "otto@urn:test" {
			t.Errorf("who and why: %+v %s", e.Who, e.Body)
		}
	}
	if _, err := s.VoidAnswers(s.ctx, s.operator(), login("lena", "urn:test"), " "); record.KindOf(err) != record.Invalid {
		t.Errorf("without a reason: %v", err)
	}
}

// TestVoidingRevivesNothing: a question whose time is over ends, and is not asked anew.
func TestVoidingRevivesNothing(t *testing.T) {
	s := newScene(t)
	a := s.do(anna, "refund", `{"order":"ord_1","amount":300}`)
	s.reply(a, "lena", record.Yes, "leads")
	s.clock.pass(2*time.Hour + time.Second)
	s.void(login("lena", "urn:test"))
	l, err := s.store.Call(s.ctx, "acme", a.Call.ID)
	if err != nil || l.Call.State != record.Expired || l.Approval.State != record.Lapsed {
		t.Fatalf("call %s, question %s, %v", l.Call.State, l.Approval.State, err)
	}
	s.ran(0)
}

// TestVoidingAgainstDispatch: either the call ran before, or it does not run.
func TestVoidingAgainstDispatch(t *testing.T) {
	s := newScene(t)
	for n := range 20 {
		arguments := `{"order":"ord_` + string(rune('a'+n)) + `","amount":300}`
		a := s.do(anna, "refund", arguments)
		s.reply(a, "lena", record.Yes, "leads")
		before := len(s.desk.effects())
		voided := 0
		race(
			func() { voided = s.void(login("lena", "urn:test")) },
			func() { s.do(anna, "refund", arguments) },
			func() { s.do(anna, "refund", arguments) },
		)
		ran := len(s.desk.effects()) - before
		if ran+voided != 1 {
			t.Fatalf("%d effects and %d void questions", ran, voided)
		}
		if kinds := s.events(a.Call.ID); ran == 1 && !slices.Contains(kinds, record.EventApprovalConsumed) {
			t.Fatalf("it ran without its approval being used up: %v", kinds)
		}
		if voided == 1 {
			if _, err := s.Cancel(s.ctx, s.caller(anna), a.Call.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
}
