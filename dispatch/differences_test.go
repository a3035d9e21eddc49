package dispatch_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
)

// TestRule_D1_EveryDifferenceIsANewQuestion: between a yes and the agent's return, one
// thing is different. The approved call does not run for it; a new question is there
// that leads to what was approved, or the call has ended. Where nothing is different,
// it runs exactly once.
func TestRule_D1_EveryDifferenceIsANewQuestion(t *testing.T) {
	const arguments = `{"order":"ord_1","amount":300,"note":"n"}`
	// What a row expects of the new question.
	replaced := func(t *testing.T, held, a dispatch.Answer) { // for the same call, in the place of the old one
		if a.Call.ID != held.Call.ID || a.Approval.Replaces != held.Approval.ID || a.Code != record.CodeNewQuestion {
			t.Errorf("%s %q, asked in place of %q, want %q", a.Call.ID, a.Code, a.Approval.Replaces, held.Approval.ID)
		}
	}
	shown := func(t *testing.T, held, a dispatch.Answer) { // another call, which names the unused yes
		if a.Call.ID == held.Call.ID || a.Call.Shown != held.Call.ID || a.Code != record.CodeNewQuestion || !strings.Contains(a.Text(), string(held.Call.ID)) {
			t.Errorf("%q shows %q, want %q", a.Code, a.Call.Shown, held.Call.ID)
		}
	}
	apart := func(t *testing.T, held, a dispatch.Answer) { // another one's, who must not learn of it
		if a.Call.ID == held.Call.ID || a.Call.Shown != "" || strings.Contains(a.Text(), string(held.Call.ID)) {
			t.Errorf("%s is told of %s", a.Call.ID, held.Call.ID)
		}
	}
	as := func(subject, tenant, agent string) who { return who{tenant, subject, agent, anna.scopes, false} }
	proposes := func(w who, tool, arguments string, edits ...func(*dispatch.Proposal)) func(*scene, dispatch.Answer) dispatch.Answer {
		return func(s *scene, _ dispatch.Answer) dispatch.Answer { return s.do(w, tool, arguments, edits...) }
	}
	// comesBack activates what is different, and then the agent asks for the same.
	comesBack := func(change func(*scene)) func(*scene, dispatch.Answer) dispatch.Answer {
		return func(s *scene, _ dispatch.Answer) dispatch.Answer {
			change(s)
			s.activate()
			return s.do(anna, "refund", arguments)
		}
	}
	entry := func(was, is string) func(*scene, dispatch.Answer) dispatch.Answer {
		return comesBack(func(s *scene) {
			next := strings.Replace(s.yaml, was, is, 1)
			if next == s.yaml {
				t.Fatalf("the registry has no %q", was)
			}
			s.yaml = next
		})
	}
	const rule = `approval: {when: above_limit, approvers: ["group:leads"], expires: 2h}`
	for name, tc := range map[string]struct {
		different func(*scene, dispatch.Answer) dispatch.Answer
		wants     func(*testing.T, dispatch.Answer, dispatch.Answer) // nil: the call has ended
		unchanged bool                                               // the approved call is still good for who comes back unchanged
	}{
		"an argument":                {proposes(anna, "refund", `{"order":"ord_1","amount":301,"note":"n"}`), shown, true},
		"the amount in another form": {proposes(anna, "refund", `{"order":"ord_1","amount":3e3,"note":"n"}`), shown, true},
		"the target":                 {proposes(anna, "refund", `{"order":"ord_2","amount":300,"note":"n"}`), shown, true},
		"a letter of the target":     {proposes(anna, "refund", `{"order":"ord_1 ","amount":300,"note":"n"}`), shown, true},
		"another tool":               {proposes(anna, "wipe", arguments), apart, true},
		"a stated edit": {func(s *scene, held dispatch.Answer) dispatch.Answer {
			return s.do(anna, "refund", `{"order":"ord_1","amount":300,"note":"edited"}`, func(p *dispatch.Proposal) { p.Edits = held.Call.ID })
		}, func(t *testing.T, held, a dispatch.Answer) {
			if a.Call.Edits != held.Call.ID || a.Call.ID == held.Call.ID {
				t.Errorf("the edit %s of %q", a.Call.ID, a.Call.Edits)
			}
		}, true},
		"another occurrence, for another purpose": {proposes(anna, "refund", arguments, occurrence("2"), func(p *dispatch.Proposal) { p.Purpose = "something else" }), shown, true},
		"the principal": {proposes(as("berta", "acme", "bot"), "refund", arguments), apart, true},
		"the agent":     {proposes(as("anna", "acme", "bot2"), "refund", arguments), apart, true},
		"the tenant":    {proposes(as("anna", "globex", "bot"), "refund", arguments), apart, true},
		"another's hand on it": {func(s *scene, held dispatch.Answer) dispatch.Answer {
			if _, err := s.Dispatch(s.ctx, s.caller(as("berta", "acme", "bot")), held.Call.ID, nil); record.KindOf(err) != record.NotFound {
				t.Errorf("a stranger with its ID: %v", err)
			}
			return s.do(as("berta", "acme", "bot"), "refund", arguments)
		}, apart, true},
		"who approves":               {entry(rule, `approval: {when: above_limit, approvers: ["group:finance"], expires: 2h}`), replaced, false},
		"how many":                   {entry(rule, `approval: {when: above_limit, approvers: ["group:leads"], quorum: 2, expires: 2h}`), replaced, false},
		"for how long":               {entry(rule, `approval: {when: above_limit, approvers: ["group:leads"], expires: 3h}`), replaced, false},
		"whether oneself may":        {entry(rule, `approval: {when: above_limit, approvers: ["group:leads"], expires: 2h, self: true}`), replaced, false},
		"whether a reason is wanted": {entry(rule, `approval: {when: above_limit, approvers: ["group:leads"], expires: 2h, reason: required}`), replaced, false},
		"what counts as the target":  {entry("targets: [order]", "targets: [order, amount]"), replaced, false},
		"the sentence":               {entry("effect: Refund {amount} on order {order}", "effect: Pay {amount} for {order}"), replaced, false},
		"the limit":                  {entry("max: 200", "max: 100"), replaced, false},
		"a layer that is asked": {comesBack(func(s *scene) {
			s.rego = "package agent.call\nimport rego.v1\ndecision := \"allow\""
		}), replaced, false},
		"a layer that asks too": {comesBack(func(s *scene) {
			s.rego = "package agent.call\nimport rego.v1\ndecision := {\"decision\": \"requires-approval\", \"reason\": \"r\", \"approval\": {\"approvers\": [\"group:finance\"]}}"
		}), replaced, false},
		"a layer that denies": {comesBack(func(s *scene) {
			s.rego = "package agent.call\nimport rego.v1\ndecision := {\"decision\": \"deny\", \"reason\": \"closed\"}"
		}), nil, false},
		"what the server offers": {comesBack(func(s *scene) {
			s.desk.mu.Lock()
			defer s.desk.mu.Unlock()
			s.desk.offers["refund"] = registry.Offer{Name: "refund", Description: "another tool", InputSchema: json.RawMessage(schema)}
		}), nil, false},
		"the time": {func(s *scene, held dispatch.Answer) dispatch.Answer {
			s.clock.pass(2*time.Hour + time.Microsecond)
			a, err := s.Dispatch(s.ctx, s.caller(anna), held.Call.ID, nil)
			if err != nil {
				t.Fatal(err)
			}
			return a
		}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			held := s.do(anna, "refund", arguments)
			s.reply(held, "lena", record.Yes, "leads")
			a := tc.different(s, held)
			if a.Verdict == record.Allow || a.Ran {
				t.Fatalf("it ran on the earlier yes: %s %s", a.Verdict, a.Code)
			}
			s.ran(0)
			if tc.wants != nil {
				if a.Verdict != record.RequiresApproval || a.Approval == nil || a.Approval.State != record.Pending || a.Approval.Binding == held.Approval.Binding {
					t.Fatalf("no new question: %s %s", a.Verdict, a.Code)
				}
				tc.wants(t, held, a)
			} else if !a.State().Terminal() {
				t.Fatalf("neither asked nor ended: %s %s %s", a.Verdict, a.Code, a.State())
			}
			switch {
			case tc.unchanged:
				again, err := s.Dispatch(s.ctx, s.caller(anna), held.Call.ID, nil)
				if err != nil {
					t.Fatal(err)
				}
				s.wants(again, record.Allow, record.CodeNone, record.Succeeded)
				s.ran(1)
				if got := s.desk.effects()[0].arguments; got != string(held.Call.Arguments) {
					t.Errorf("what ran is not what was approved: %s", got)
				}
			default:
				again, err := s.Dispatch(s.ctx, s.caller(anna), held.Call.ID, nil)
				if err != nil || again.Verdict == record.Allow {
					t.Fatalf("it runs by its ID: %s %v", again.Verdict, err)
				}
				old, err := s.store.Approval(s.ctx, "acme", held.Approval.ID)
				if err != nil || old.Approval.State != record.Void && old.Approval.State != record.Lapsed {
					t.Fatalf("the earlier yes is %s, %v", old.Approval.State, err)
				}
				s.ran(0)
			}
		})
	}
	t.Run("nothing", func(t *testing.T) {
		s := newScene(t)
		s.reply(s.do(anna, "refund", arguments), "lena", record.Yes, "leads")
		s.wants(s.do(anna, "refund", arguments), record.Allow, record.CodeNone, record.Succeeded)
		s.wants(s.do(anna, "refund", arguments), record.Allow, record.CodeAlreadyDone, record.Succeeded)
		s.ran(1)
	})
	t.Run("words beside it", func(t *testing.T) {
		// Rule A6: the purpose is no part of the effect. The proposal gets the approved
		// call, and what is on record is the purpose that was shown.
		s := newScene(t)
		held := s.do(anna, "refund", arguments, func(p *dispatch.Proposal) { p.Purpose = "as shown" })
		s.reply(held, "lena", record.Yes, "leads")
		a := s.do(anna, "refund", arguments, func(p *dispatch.Proposal) { p.Purpose = "as reworded" })
		if a.Call.ID != held.Call.ID || a.Call.Purpose != "as shown" {
			t.Fatalf("%s for %q", a.Call.ID, a.Call.Purpose)
		}
		s.ran(1)
	})
	for _, kept := range []bool{false, true} {
		t.Run(map[bool]string{false: "the turn", true: "the turn, which keeps it"}[kept], func(t *testing.T) {
			s := newScene(t)
			w := anna
			w.vouch = true
			run, err := s.OpenRun(s.ctx, s.caller(w), "")
			if err != nil {
				t.Fatal(err)
			}
			held := s.do(w, "refund", arguments, in(run.ID))
			s.reply(held, "lena", record.Yes, "leads")
			var keep []record.CallID
			if kept {
				keep = append(keep, held.Call.ID)
			}
			if _, err := s.StartTurn(s.ctx, s.caller(w), run.ID, keep); err != nil {
				t.Fatal(err)
			}
			a, err := s.Dispatch(s.ctx, s.caller(w), held.Call.ID, nil)
			if err != nil {
				t.Fatal(err)
			}
			if kept {
				s.wants(a, record.Allow, record.CodeNone, record.Succeeded)
				s.ran(1)
				return
			}
			s.wants(a, record.Deny, record.CodeCanceled, record.Canceled)
			next := s.wants(s.do(w, "refund", arguments, in(run.ID)), record.RequiresApproval, record.CodeAboveLimit, record.ApprovalPending)
			s.ran(0)
			s.reply(next, "lena", record.Yes, "leads")
			s.wants(s.do(w, "refund", arguments, in(run.ID)), record.Allow, record.CodeNone, record.Succeeded)
			s.ran(1)
		})
	}
}
