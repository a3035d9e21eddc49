package dispatch_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
	"github.com/placet-dev/placet/store/sqlite"
)

func vouch(turn record.Turn, response string, position int) func(*dispatch.Proposal) {
	return func(p *dispatch.Proposal) {
		p.Vouch = &dispatch.Vouch{Turn: turn, Response: response, Position: position}
	}
}

func occurrence(label string) func(*dispatch.Proposal) {
	return func(p *dispatch.Proposal) { p.Occurrence = label }
}

func in(run record.RunID) func(*dispatch.Proposal) {
	return func(p *dispatch.Proposal) { p.Run = run }
}

// lost is a server that acted and whose answer never came.
func (d *desk) lost(_ context.Context, w dispatch.Work) (dispatch.Reached, bool) {
	d.act(w)
	return dispatch.Reached{Sent: true, Err: errors.New("connection reset")}, true
}

func TestRule_A2_SourceIsShownNotClaimed(t *testing.T) {
	s := newScene(t)
	a := s.do(anna, "guarded", `{"n":1}`, vouch(1, "resp", 0)) // anna's token alone cannot vouch
	s.wants(a, record.RequiresApproval, record.CodeSourceNotShown, record.ApprovalPending)
	if a.Call.Source != record.Direct || a.Call.Route != record.RouteAPI || s.IgnoredVouches() != 1 {
		t.Fatalf("source %s, route %s, %d ignored", a.Call.Source, a.Call.Route, s.IgnoredVouches())
	}
	s.ran(0)
	orchestrated := anna
	orchestrated.vouch = true
	a = s.do(orchestrated, "guarded", `{"n":2}`, vouch(1, "resp", 0))
	s.wants(a, record.Allow, record.CodeNone, record.Succeeded)
	if a.Call.Source != record.Vouched || a.Call.Route != record.RouteModel {
		t.Fatalf("source %s, route %s", a.Call.Source, a.Call.Route)
	}
	s.ran(1)
}

func TestRule_A3_BelowTheListTheRegistryAsksOrDenies(t *testing.T) {
	s := newScene(t)
	s.wants(s.do(anna, "guarded", `{}`), record.RequiresApproval, record.CodeSourceNotShown, record.ApprovalPending)
	s.wants(s.do(anna, "strict", `{}`), record.Deny, record.CodeSourceNotShown, record.Denied)
	s.ran(0)
	s.wants(s.do(anna, "look", `{}`), record.Allow, record.CodeNone, record.Succeeded) // reads take all
	s.ran(1)
}

func TestRule_A5_ReadsAreNeverMerged(t *testing.T) {
	s := newScene(t)
	one, two := s.do(anna, "look", `{"n":1}`), s.do(anna, "look", `{"n":1}`)
	if one.Call.ID == two.Call.ID {
		t.Fatal("two reads are one call")
	}
	s.do(anna, "look", `{"n":1}`, occurrence("same"))
	s.do(anna, "look", `{"n":1}`, occurrence("same"))
	s.ran(4)
}

func TestRule_A6_AnEqualProposalGetsTheOpenCall(t *testing.T) {
	s := newScene(t)
	first := s.do(anna, "refund", `{"order":"ord_1","amount":300}`)
	s.wants(first, record.RequiresApproval, record.CodeAboveLimit, record.ApprovalPending)
	for range 3 {
		again := s.do(anna, "refund", `{"amount":300.0,"order":"ord_1"}`) // the same value, written otherwise
		if again.Call.ID != first.Call.ID || again.Verdict != record.RequiresApproval {
			t.Fatalf("asked anew: %s is not %s", again.Call.ID, first.Call.ID)
		}
	}
	s.reply(first, "lena", record.Yes, "leads")
	s.ran(0) // a yes moves only the approval
	s.wants(s.do(anna, "refund", `{"order":"ord_1","amount":300}`), record.Allow, record.CodeNone, record.Succeeded)
	s.ran(1)
}

func TestRule_A6_ConcurrentEqualProposals(t *testing.T) {
	s := newScene(t)
	caller := s.caller(anna)
	var wg sync.WaitGroup
	ids := make([]record.CallID, 40)
	for i := range ids {
		wg.Go(func() {
			a, err := s.Do(s.ctx, dispatch.Proposal{Caller: caller, Tool: "refund", Arguments: json.RawMessage(`{"order":"ord_1","amount":20}`)})
			if err == nil && a.Call != nil {
				ids[i] = a.Call.ID
			}
		})
	}
	wg.Wait()
	s.ran(1)
	for _, id := range ids {
		if id != ids[0] || id == "" {
			t.Fatalf("forty equal proposals made several calls: %v", ids)
		}
	}
}

func TestRule_A7_ALostAnswerNeverDoublesAnEffect(t *testing.T) {
	s := newScene(t)
	first := s.wants(s.do(anna, "refund", `{"order":"ord_1","amount":50}`), record.Allow, record.CodeNone, record.Succeeded)
	again := s.wants(s.do(anna, "refund", `{"order":"ord_1","amount":50}`), record.Allow, record.CodeAlreadyDone, record.Succeeded)
	if again.Call.ID != first.Call.ID || string(again.Result) != string(first.Result) || again.Ran {
		t.Fatalf("answered with another result: %s", again.Result)
	}
	s.ran(1)
	if !slices.Contains(s.events(first.Call.ID), record.EventReturned) {
		t.Fatal("the answer from the record is not recorded")
	}
	// Whoever may not call the tool now may not read its result either.
	unscoped := anna
	unscoped.scopes = []string{"read"}
	s.wants(s.do(unscoped, "refund", `{"order":"ord_1","amount":50}`), record.Deny, record.CodeMissingScope, record.Denied)
	if a, err := s.Dispatch(s.ctx, s.caller(unscoped), first.Call.ID, nil); err != nil || a.Verdict != record.Deny || a.Code != record.CodeMissingScope || a.Result != nil {
		t.Fatalf("by its ID: %s %s %s %v", a.Verdict, a.Code, a.Result, err)
	}
	if a, err := s.Show(s.ctx, s.caller(unscoped), first.Call.ID); err != nil || a.State() != record.Succeeded || a.Result != nil || a.Call.Outcome.Result != nil {
		t.Fatalf("shown by its ID: %s %s %v", a.State(), a.Result, err)
	}
	// Another principal's equal call is its own.
	berta := anna
	berta.subject = "berta"
	s.wants(s.do(berta, "refund", `{"order":"ord_1","amount":50}`), record.Allow, record.CodeNone, record.Succeeded)
	s.ran(2)
	// After the window, it is wanted again.
	s.clock.pass(11 * time.Minute)
	s.wants(s.do(anna, "refund", `{"order":"ord_1","amount":50}`), record.Allow, record.CodeNone, record.Succeeded)
	s.ran(3)
}

func TestRule_A7_RepeatAsksOrRuns(t *testing.T) {
	s := newScene(t)
	s.do(anna, "again", `{"n":1}`)
	s.wants(s.do(anna, "again", `{"n":1}`), record.RequiresApproval, record.CodeRepeatAsks, record.ApprovalPending)
	s.ran(1)
	s.do(anna, "every", `{"n":1}`)
	s.wants(s.do(anna, "every", `{"n":1}`), record.Allow, record.CodeNone, record.Succeeded)
	s.ran(3)
}

func TestRule_A5_OccurrencesAreTwoCalls(t *testing.T) {
	s := newScene(t)
	one := s.do(anna, "refund", `{"order":"ord_1","amount":50}`, occurrence("one"))
	two := s.do(anna, "refund", `{"order":"ord_1","amount":50}`, occurrence("two"))
	if one.Call.ID == two.Call.ID {
		t.Fatal("two occurrences are one call")
	}
	s.ran(2)
	again := s.do(anna, "refund", `{"order":"ord_1","amount":50}`, occurrence("one"))
	if again.Call.ID != one.Call.ID || again.Code != record.CodeAlreadyDone {
		t.Fatalf("a repeated occurrence: %s %s", again.Code, again.Call.ID)
	}
	a := s.do(anna, "refund", `{"order":"ord_2","amount":50}`, occurrence("one")) // the label moved to another call
	s.wants(a, record.Deny, record.CodeInvalidArguments, record.None)
	s.ran(2)
}

// A caller's own label cannot stand where an emission stands that is vouched for.
func TestRule_A5_LabelsAndVouchedEmissionsAreApart(t *testing.T) {
	s := newScene(t)
	run, err := s.OpenRun(s.ctx, s.caller(who{"acme", "anna", "bot", anna.scopes, true}), "")
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Do(s.ctx, dispatch.Proposal{Caller: s.caller(anna), Run: run.ID, Tool: "pay", Arguments: []byte(`{"n":1}`), Occurrence: "vouch:2:r1:0"})
	if record.KindOf(err) != record.Invalid {
		t.Fatalf("a label with a vouched emission's name: %v", err)
	}
	s.ran(0)
	s.do(who{"acme", "anna", "bot", anna.scopes, true}, "pay", `{"n":1}`, in(run.ID), vouch(run.Turn, "r1", 0))
	s.ran(1)
}

func TestRule_A8_AnUnsettledEffectAsks(t *testing.T) {
	s := newScene(t)
	s.desk.on(s.desk.lost)
	first := s.wants(s.do(anna, "refund", `{"order":"ord_1","amount":50}`), record.Allow, record.CodeOutcomeUnknown, record.Unknown)
	s.desk.on(nil)
	// The same proposal gets that call, and nothing is sent again.
	again := s.wants(s.do(anna, "refund", `{"order":"ord_1","amount":50}`), record.Allow, record.CodeOutcomeUnknown, record.Unknown)
	if again.Call.ID != first.Call.ID {
		t.Fatal("a new call for an unknown effect")
	}
	// Another occurrence, another digest and another lineage of the principal all ask.
	for name, a := range map[string]dispatch.Answer{
		"occurrence": s.do(anna, "refund", `{"order":"ord_1","amount":50}`, occurrence("second")),
		"digest":     s.do(anna, "refund", `{"order":"ord_1","amount":50,"note":"other"}`),
		"agent":      s.do(who{"acme", "anna", "other-bot", anna.scopes, false}, "refund", `{"order":"ord_1","amount":50}`),
	} {
		if a.Verdict != record.RequiresApproval || a.Code != record.CodeEffectUnsettled || a.Call.Shown != first.Call.ID {
			t.Fatalf("%s: %s %s, shows %q", name, a.Verdict, a.Code, a.Call.Shown)
		}
	}
	s.ran(1)
	s.wants(s.do(anna, "refund", `{"order":"ord_2","amount":50}`), record.Allow, record.CodeNone, record.Succeeded) // a neighbour
	s.ran(2)
}

func TestRule_A9_ARejectionStays(t *testing.T) {
	s := newScene(t)
	a := s.do(anna, "refund", `{"order":"ord_1","amount":300}`)
	s.reply(a, "lena", record.No, "leads")
	for _, arguments := range []string{`{"order":"ord_1","amount":300}`, `{"order":"ord_1","amount":300,"note":"please"}`} {
		s.wants(s.do(anna, "refund", arguments), record.Deny, record.CodeRejected, record.Denied)
	}
	s.wants(s.do(anna, "refund", `{"order":"ord_1","amount":300}`, occurrence("other")), record.Deny, record.CodeRejected, record.Denied)
	s.ran(0)
	s.wants(s.do(anna, "refund", `{"order":"ord_2","amount":30}`), record.Allow, record.CodeNone, record.Succeeded)
	s.ran(1)
	s.clock.pass(25 * time.Hour) // an unvouched lineage's rejections count over taint_lasts
	s.wants(s.do(anna, "refund", `{"order":"ord_1","amount":300}`), record.RequiresApproval, record.CodeAboveLimit, record.ApprovalPending)
}

func TestRule_A9_ALimitAtDispatchChangesNothing(t *testing.T) {
	s := newScene(t, func(s *scene) {
		s.yaml = strings.Replace(toolsYAML, "    targets: [order]\n", "    targets: [order]\n    per_minute: 1\n", 1)
	})
	held := s.do(anna, "refund", `{"order":"ord_1","amount":300}`)
	s.reply(held, "lena", record.Yes, "leads")
	s.do(anna, "refund", `{"order":"ord_2","amount":10}`) // takes the minute's one
	limited := s.do(anna, "refund", `{"order":"ord_1","amount":300}`)
	s.wants(limited, record.Deny, record.CodeRateLimited, record.ApprovalPending)
	if limited.Retry.IsZero() {
		t.Fatal("it does not say when to try again")
	}
	s.ran(1)
	s.clock.pass(limited.Retry.Sub(s.clock.Now()))
	s.wants(s.do(anna, "refund", `{"order":"ord_1","amount":300}`), record.Allow, record.CodeNone, record.Succeeded) // nobody was asked again
	s.ran(2)
}

func TestRule_A10_EditedArgumentsAreANewProposal(t *testing.T) {
	s := newScene(t)
	held := s.do(anna, "refund", `{"order":"ord_1","amount":300}`)
	s.reply(held, "lena", record.Yes, "leads")
	edited := s.do(anna, "refund", `{"order":"ord_1","amount":4800}`, func(p *dispatch.Proposal) { p.Edits = held.Call.ID })
	if edited.Call.ID == held.Call.ID || edited.Verdict != record.RequiresApproval || edited.Call.Edits != held.Call.ID {
		t.Fatalf("an edit rides on the earlier yes: %+v", edited)
	}
	s.ran(0)
	edit := func(arguments string) dispatch.Answer {
		return s.do(anna, "refund", arguments, func(p *dispatch.Proposal) { p.Edits = held.Call.ID })
	}
	if again := edit(`{"order":"ord_1","amount":4800}`); again.Call == nil || again.Call.ID != edited.Call.ID {
		t.Fatalf("the same edit sent again: %s %s", again.Verdict, again.Code)
	}
	// An edit beside the effect is a proposal of its own too: what was approved is the call as it was.
	noted := edit(`{"order":"ord_1","amount":300,"note":"other words"}`)
	if noted.Call == nil || noted.Call.ID == held.Call.ID || noted.Verdict != record.RequiresApproval {
		t.Fatalf("an edit that keeps the effect: %s %s", noted.Verdict, noted.Code)
	}
	s.ran(0)
	s.wants(s.do(anna, "refund", `{"order":"ord_1","amount":300}`), record.Allow, record.CodeNone, record.Succeeded)
	s.ran(1)
}

func TestRule_A11_ALimitLeavesTheCallProposed(t *testing.T) {
	s := newScene(t)
	for i := range 2 {
		s.do(anna, "seldom", fmt.Sprintf(`{"n":%d}`, i))
	}
	third := s.wants(s.do(anna, "seldom", `{"n":3}`), record.Deny, record.CodeRateLimited, record.Proposed)
	again := s.wants(s.do(anna, "seldom", `{"n":3}`), record.Deny, record.CodeRateLimited, record.Proposed)
	if third.Call.ID != again.Call.ID {
		t.Fatal("an equal proposal did not get the call that was held back")
	}
	s.ran(2)
	s.clock.pass(61 * time.Second)
	s.wants(s.do(anna, "seldom", `{"n":3}`), record.Allow, record.CodeNone, record.Succeeded)
	s.ran(3)
	s.clock.pass(61 * time.Second)
	s.wants(s.do(anna, "seldom", `{"n":4}`), record.Deny, record.CodeLimitReached, record.Proposed) // per_run: 3
	s.ran(3)
}

func TestRule_A13_PurposeIsBound(t *testing.T) {
	s := newScene(t)
	s.wants(s.do(anna, "purposeful", `{}`), record.Deny, record.CodeInvalidArguments, record.Denied)
	s.ran(0)
	a := s.do(anna, "purposeful", `{}`, func(p *dispatch.Proposal) { p.Purpose = "a reason" })
	s.wants(a, record.Allow, record.CodeNone, record.Succeeded)
	s.ran(1)
}

func TestRule_B1_OneLineageWhateverTheRunIsCalled(t *testing.T) {
	s := newScene(t)
	for i := range 3 {
		s.do(anna, "seldom", fmt.Sprintf(`{"n":%d}`, i), func(p *dispatch.Proposal) { p.RunLabel = fmt.Sprint("run ", i) })
		s.clock.pass(61 * time.Second)
	}
	run, err := s.OpenRun(s.ctx, s.caller(anna), "fresh")
	if err != nil {
		t.Fatal(err)
	}
	s.wants(s.do(anna, "seldom", `{"n":9}`, in(run.ID)), record.Deny, record.CodeLimitReached, record.Proposed)
	s.ran(3)
	orchestrated := anna
	orchestrated.vouch = true
	vouched, err := s.OpenRun(s.ctx, s.caller(orchestrated), "")
	if err != nil || vouched.Lineage == run.Lineage {
		t.Fatalf("a vouched opening starts no lineage of its own: %v", err)
	}
	s.wants(s.do(orchestrated, "seldom", `{"n":10}`, in(vouched.ID)), record.Allow, record.CodeNone, record.Succeeded)
	s.ran(4)
}

func TestRule_B2_ARunHandleIsNoCredential(t *testing.T) {
	s := newScene(t)
	run, err := s.OpenRun(s.ctx, s.caller(anna), "")
	if err != nil {
		t.Fatal(err)
	}
	held := s.do(anna, "refund", `{"order":"ord_1","amount":300}`, in(run.ID))
	s.reply(held, "lena", record.Yes, "leads")
	for name, w := range map[string]who{
		"another principal": {"acme", "mallory", "bot", anna.scopes, false},
		"another agent":     {"acme", "anna", "evil", anna.scopes, false},
		"another tenant":    {"globex", "anna", "bot", anna.scopes, false},
	} {
		c := s.caller(w)
		_, err := s.Do(s.ctx, dispatch.Proposal{Caller: c, Run: run.ID, Tool: "look"})
		_, err2 := s.Dispatch(s.ctx, c, held.Call.ID, nil)
		_, err3 := s.EndRun(s.ctx, c, run.ID, "")
		_, err4 := s.Cancel(s.ctx, c, held.Call.ID)
		_, err5 := s.Show(s.ctx, c, held.Call.ID)
		absent, err6 := s.Dispatch(s.ctx, c, record.CallID("call_0000000000000000000000000"), nil)
		for i, err := range []error{err, err2, err3, err4, err5, err6} {
			if record.KindOf(err) != record.NotFound {
				t.Fatalf("%s, operation %d: %v %v", name, i, err, absent)
			}
		}
	}
	s.ran(0)
	if _, err := s.Dispatch(s.ctx, s.caller(anna), held.Call.ID, nil); err != nil {
		t.Fatal(err)
	}
	s.ran(1)
}

func TestRule_B3_ATurnSupersedes(t *testing.T) {
	s := newScene(t)
	orchestrated := anna
	orchestrated.vouch = true
	c := s.caller(orchestrated)
	run, err := s.OpenRun(s.ctx, c, "")
	if err != nil {
		t.Fatal(err)
	}
	gone := s.do(orchestrated, "refund", `{"order":"ord_1","amount":300}`, in(run.ID), vouch(1, "r1", 0))
	kept := s.do(orchestrated, "refund", `{"order":"ord_2","amount":300}`, in(run.ID), vouch(1, "r1", 1))
	s.reply(gone, "lena", record.Yes, "leads")
	s.reply(kept, "lena", record.Yes, "leads")
	if _, err := s.StartTurn(s.ctx, s.caller(anna), run.ID, nil); record.KindOf(err) != record.Forbidden {
		t.Fatalf("a turn was started without vouch: %v", err)
	}
	if _, err := s.StartTurn(s.ctx, c, run.ID, []record.CallID{kept.Call.ID}); err != nil {
		t.Fatal(err)
	}
	a, err := s.Dispatch(s.ctx, c, gone.Call.ID, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.wants(a, record.Deny, record.CodeCanceled, record.Canceled)
	s.wants(s.do(orchestrated, "refund", `{"order":"ord_1","amount":300}`, in(run.ID), vouch(1, "r1", 0)), record.Deny, record.CodeCanceled, record.None) // the old turn's emission
	s.ran(0)
	if a, err = s.Dispatch(s.ctx, c, kept.Call.ID, nil); err != nil {
		t.Fatal(err)
	}
	s.wants(a, record.Allow, record.CodeNone, record.Succeeded)
	s.ran(1)
}

func TestRule_B3_PerTurnCountersReset(t *testing.T) {
	s := newScene(t)
	orchestrated := anna
	orchestrated.vouch = true
	c := s.caller(orchestrated)
	run, err := s.OpenRun(s.ctx, c, "")
	if err != nil {
		t.Fatal(err)
	}
	if run, err = s.StartTurn(s.ctx, c, run.ID, nil); err != nil {
		t.Fatal(err)
	}
	for i := range 40 {
		s.wants(s.do(orchestrated, "look", fmt.Sprintf(`{"n":%d}`, i), in(run.ID)), record.Allow, record.CodeNone, record.Succeeded)
	}
	a := s.do(orchestrated, "look", `{"n":40}`, in(run.ID))
	if a.Verdict != record.Deny || a.Code != record.CodeLimitReached {
		t.Fatalf("the 41st call of a turn: %s %s", a.Verdict, a.Code)
	}
	s.ran(40)
	if _, err := s.StartTurn(s.ctx, c, run.ID, nil); err != nil {
		t.Fatal(err)
	}
	s.wants(s.do(orchestrated, "look", `{"n":40}`, in(run.ID)), record.Allow, record.CodeNone, record.Succeeded)
	s.ran(41)
}

func TestRule_C3_AnActivationFencesReservations(t *testing.T) {
	s := newScene(t)
	held := s.do(anna, "refund", `{"order":"ord_1","amount":300}`)
	s.reply(held, "lena", record.Yes, "leads")
	s.yaml = strings.Replace(toolsYAML, "  refund:\n    server: desk\n    scope: refunds\n", "  refund:\n    server: desk\n    scope: refunds:new\n", 1)
	s.activate()
	s.wants(s.do(anna, "refund", `{"order":"ord_1","amount":300}`), record.Deny, record.CodeMissingScope, record.Denied)
	s.ran(0)
	newly := anna
	newly.scopes = []string{"refunds:new"}
	a := s.do(newly, "refund", `{"order":"ord_1","amount":300}`)
	s.wants(a, record.RequiresApproval, record.CodeAboveLimit, record.ApprovalPending)
	s.reply(a, "lena", record.Yes, "leads")
	s.wants(s.do(newly, "refund", `{"order":"ord_1","amount":300}`), record.Allow, record.CodeNone, record.Succeeded)
	s.ran(1)
}

func TestRule_C6_WhatIsDispatchedIsTheCanonicalForm(t *testing.T) {
	s := newScene(t)
	s.do(anna, "look", " {\"n\" : 1e1 ,\"note\":\"\\u00e9\"}\n")
	got := s.desk.effects()
	if len(got) != 1 || got[0].arguments != `{"n":10,"note":"é"}` {
		t.Fatalf("dispatched %v", got)
	}
	s.do(anna, "look", "")
	if got := s.desk.effects(); got[1].arguments != "{}" {
		t.Fatalf("blank arguments went out as %q", got[1].arguments)
	}
	for _, bad := range []string{`{"n":1,"n":2}`, `{"N":1}`, `[1]`, `{bad`, `{"n":9007199254740993}`, `{"n":1e400}`, `{"note":"\ud800"}`, `{"n":1}{}`, `{"n":1.5}`, `{"other":1}`} {
		a := s.do(anna, "look", bad)
		if a.Verdict != record.Deny || a.Code != record.CodeInvalidArguments {
			t.Errorf("%s: %s %s", bad, a.Verdict, a.Code)
		}
	}
	s.ran(2)
}

func TestRule_D1_AChangeElsewhereVoidsNothing(t *testing.T) {
	s := newScene(t)
	held := s.do(anna, "refund", `{"order":"ord_1","amount":300}`)
	s.reply(held, "lena", record.Yes, "leads")
	was := s.yaml
	s.yaml = strings.Replace(was, "  look: {server: desk, scope: read, read: true}", "  look: {server: desk, scope: read, read: true, per_minute: 7}", 1)
	s.activate()
	s.wants(s.do(anna, "refund", `{"order":"ord_1","amount":300}`), record.Allow, record.CodeNone, record.Succeeded)
	s.ran(1)

	// A change of what decided this call makes it a new question (rules D1, D3).
	held = s.do(anna, "refund", `{"order":"ord_2","amount":300}`)
	s.reply(held, "lena", record.Yes, "leads")
	s.yaml = strings.Replace(s.yaml, "approvers: [\"group:leads\"], expires: 2h", "approvers: [\"group:finance\"], expires: 2h", 1)
	s.activate()
	a := s.wants(s.do(anna, "refund", `{"order":"ord_2","amount":300}`), record.RequiresApproval, record.CodeNewQuestion, record.ApprovalPending)
	s.ran(1)
	old, err := s.store.Approval(s.ctx, "acme", mustApproval(held))
	if err != nil || old.Approval.State != record.Void {
		t.Fatalf("the earlier yes: %v %v", old.Approval, err)
	}
	s.reply(a, "fritz", record.Yes, "finance")
	s.wants(s.do(anna, "refund", `{"order":"ord_2","amount":300}`), record.Allow, record.CodeNone, record.Succeeded)
	s.ran(2)
}

func mustApproval(a dispatch.Answer) record.ApprovalID { return a.Call.Approval }

func TestANewQuestionNamesTheUnusedYes(t *testing.T) {
	s := newScene(t)
	held := s.do(anna, "refund", `{"order":"ord_1","amount":1200}`)
	s.reply(held, "lena", record.Yes, "leads")
	other := s.wants(s.do(anna, "refund", `{"order":"ord_1","amount":4800}`), record.RequiresApproval, record.CodeNewQuestion, record.ApprovalPending)
	if other.Call.Shown != held.Call.ID || !strings.Contains(other.Text(), string(held.Call.ID)) {
		t.Fatalf("shows %q: %s", other.Call.Shown, other.Text())
	}
	s.ran(0)
	a, err := s.Dispatch(s.ctx, s.caller(anna), held.Call.ID, nil) // unchanged, it still runs
	if err != nil {
		t.Fatal(err)
	}
	s.wants(a, record.Allow, record.CodeNone, record.Succeeded)
	s.ran(1)
}

func TestRule_D2_ALaterAttemptRestsOnTheSameApproval(t *testing.T) {
	s := newScene(t, func(s *scene) {
		s.yaml = strings.Replace(toolsYAML, "    targets: [order]\n", "    targets: [order]\n    retry: idempotent\n", 1)
	})
	held := s.do(anna, "refund", `{"order":"ord_1","amount":300}`)
	s.reply(held, "lena", record.Yes, "leads")
	var tries int
	s.desk.on(func(context.Context, dispatch.Work) (dispatch.Reached, bool) {
		tries++
		return dispatch.Reached{Sent: true, Err: errors.New("reset")}, tries == 1 // the first is lost before the server acted
	})
	a := s.wants(s.do(anna, "refund", `{"order":"ord_1","amount":300}`), record.Allow, record.CodeNone, record.Succeeded)
	if a.Call.Attempt != 2 {
		t.Fatalf("attempt %d", a.Call.Attempt)
	}
	s.ran(1)
	l, err := s.store.Call(s.ctx, "acme", a.Call.ID)
	if err != nil || l.Approval.State != record.Consumed {
		t.Fatalf("approval %v %v", l.Approval, err)
	}
}

func TestRule_D4_D5_D6_Answers(t *testing.T) {
	s := newScene(t)
	a := s.do(anna, "wipe", `{"n":1}`)
	l, err := s.store.Call(s.ctx, "acme", a.Call.ID)
	if err != nil {
		t.Fatal(err)
	}
	id, binding := l.Approval.ID, l.Approval.Binding
	reply := func(name string, b [32]byte, w record.Word, groups ...string) error {
		_, err := s.Reply(s.ctx, s.person(name, groups...), id, b, w, "")
		return err
	}
	if err := reply("eve", binding, record.Yes); record.KindOf(err) != record.NotFound {
		t.Fatalf("somebody who is no approver: %v", err)
	}
	if err := reply("anna", binding, record.Yes, "leads"); record.KindOf(err) != record.NotFound {
		t.Fatalf("the principal answers for itself: %v", err)
	}
	if err := reply("lena", [32]byte{1}, record.Yes, "leads"); record.KindOf(err) != record.Conflict {
		t.Fatalf("an answer to something else: %v", err)
	}
	for range 2 { // the same answer twice returns the first
		if err := reply("lena", binding, record.Yes, "leads"); err != nil {
			t.Fatal(err)
		}
	}
	if err := reply("lena", binding, record.No, "leads"); record.KindOf(err) != record.Conflict {
		t.Fatalf("a conflicting later answer: %v", err)
	}
	s.wants(s.do(anna, "wipe", `{"n":1}`), record.RequiresApproval, record.CodeAlwaysAsks, record.ApprovalPending) // one of two
	s.ran(0)
	if err := reply("max", binding, record.Yes, "finance"); err != nil {
		t.Fatal(err)
	}
	s.wants(s.do(anna, "wipe", `{"n":1}`), record.Allow, record.CodeNone, record.Succeeded)
	s.ran(1)
	if err := reply("otto", binding, record.No, "leads"); record.KindOf(err) != record.Conflict {
		t.Fatalf("an answer after it was used: %v", err)
	}
}

func TestRule_D8_NobodyToAsk(t *testing.T) {
	s := newScene(t)
	s.wants(s.do(anna, "nobody", `{}`), record.Deny, record.CodeNoApprover, record.Denied)
	s.ran(0)
}

func TestRule_D8_SeveralRulesEachMet(t *testing.T) {
	s := newScene(t, func(s *scene) {
		s.rego = `package agent.call
import rego.v1
default decision := "allow"
decision := {"decision": "requires-approval", "reason": "finance looks too", "approval": {"approvers": ["group:finance"], "quorum": 1, "expires": "30m"}} if input.tool.name == "refund"`
	})
	a := s.do(anna, "refund", `{"order":"ord_1","amount":300}`)
	if a.Verdict != record.RequiresApproval || len(a.Decision.Rule.Parts) != 2 || a.Decision.Rule.Expires != 30*time.Minute {
		t.Fatalf("%s %+v", a.Verdict, a.Decision.Rule)
	}
	s.reply(a, "lena", record.Yes, "leads")
	s.wants(s.do(anna, "refund", `{"order":"ord_1","amount":300}`), record.RequiresApproval, record.CodeAboveLimit, record.ApprovalPending)
	s.ran(0)
	s.reply(a, "fritz", record.Yes, "finance")
	s.wants(s.do(anna, "refund", `{"order":"ord_1","amount":300}`), record.Allow, record.CodeNone, record.Succeeded)
	s.ran(1)
}

func TestRule_E1_Outcomes(t *testing.T) {
	toolError := json.RawMessage(`{"content":[],"isError":true}`)
	for name, tc := range map[string]struct {
		tool    string
		reached dispatch.Reached
		want    record.State
		tries   int
	}{
		"nothing left the process":     {"every", dispatch.Reached{Err: errors.New("refused")}, record.Failed, 1},
		"refused before execution":     {"every", dispatch.Reached{Sent: true, Answered: true, Refused: true, Err: errors.New("404")}, record.Failed, 1},
		"the tool's own error":         {"every", dispatch.Reached{Sent: true, Result: toolError, IsError: true}, record.Unknown, 1},
		"error, declared no effect":    {"sure", dispatch.Reached{Sent: true, Result: toolError, IsError: true}, record.Failed, 1},
		"lost, declared no effect":     {"sure", dispatch.Reached{Sent: true, Err: errors.New("reset")}, record.Unknown, 1},
		"a read's error":               {"look", dispatch.Reached{Sent: true, Result: toolError, IsError: true}, record.Failed, 1},
		"a read's error, retry safe":   {"retry_look", dispatch.Reached{Sent: true, Err: errors.New("reset")}, record.Failed, 3},
		"a lost write, retry is never": {"every", dispatch.Reached{Sent: true, Err: errors.New("reset")}, record.Unknown, 1},
		"a lost write, idempotent":     {"pay", dispatch.Reached{Sent: true, Err: errors.New("reset")}, record.Unknown, 3},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			var keys []string
			s.desk.on(func(_ context.Context, w dispatch.Work) (dispatch.Reached, bool) {
				keys = append(keys, w.Key)
				return tc.reached, true
			})
			a := s.do(anna, tc.tool, `{"n":1}`)
			if a.State() != tc.want || len(keys) != tc.tries {
				t.Fatalf("state %s after %d tries, want %s after %d", a.State(), len(keys), tc.want, tc.tries)
			}
			for _, k := range keys {
				if k != keys[0] || k == "" {
					t.Fatalf("the attempts of one call carry keys %v", keys)
				}
			}
		})
	}
}

func TestRule_E5_ALateAnswerIsEvidence(t *testing.T) {
	s := newScene(t)
	release, started := make(chan struct{}), make(chan struct{})
	s.desk.on(func(_ context.Context, w dispatch.Work) (dispatch.Reached, bool) {
		close(started)
		<-release
		return s.desk.act(w), true
	})
	answers := make(chan dispatch.Answer)
	go func() { answers <- s.do(anna, "every", `{"n":1}`) }()
	<-started
	s.clock.pass(time.Minute) // beyond the lease
	ctx, stop := context.WithCancel(s.ctx)
	done := make(chan struct{})
	go func() { s.Work(ctx); close(done) }()
	var id record.CallID
	for id == "" {
		calls, err := s.store.Calls(s.ctx, dispatch.CallQuery{Tenant: "acme", States: []record.State{record.Unknown}})
		if err != nil {
			t.Fatal(err)
		}
		if len(calls) == 1 {
			id = calls[0].ID
		}
	}
	stop()
	<-done
	close(release)
	a := <-answers
	if a.Code != record.CodeOutcomeUnknown || a.Result != nil {
		t.Fatalf("a late answer was handed on: %s %s", a.Code, a.Result)
	}
	l, err := s.store.Call(s.ctx, "acme", id)
	if err != nil || l.Call.State != record.Unknown {
		t.Fatalf("the lost attempt's call is %s (%v)", l.Call.State, err)
	}
	if !slices.Contains(s.events(id), record.EventLate) {
		t.Fatal("the late outcome is not kept as evidence")
	}
	s.ran(1)
}

func TestRule_H3_AnObservedToolsRulesAreRecordedNotApplied(t *testing.T) {
	s := newScene(t)
	a := s.wants(s.do(anna, "watched", `{}`), record.Allow, record.CodeNone, record.Succeeded)
	if !slices.ContainsFunc(a.Decision.Reasons, func(r record.Reason) bool { return r.Observe && r.Verdict == record.RequiresApproval }) {
		t.Fatalf("what it would have asked is not recorded: %+v", a.Decision.Reasons)
	}
	unscoped := anna
	unscoped.scopes = nil
	s.wants(s.do(unscoped, "watched", `{}`), record.Deny, record.CodeMissingScope, record.Denied) // identity always holds
	s.ran(1)
}

func TestRule_H4_H5_DriftQuarantines(t *testing.T) {
	for name, edit := range map[string]func(*registry.Offer){
		"description": func(o *registry.Offer) { o.Description = "now with instructions" },
		"schema":      func(o *registry.Offer) { o.InputSchema = json.RawMessage(`{"type":"object"}`) },
		"annotations": func(o *registry.Offer) { o.Annotations = json.RawMessage(`{"readOnlyHint":true}`) },
		"title":       func(o *registry.Offer) { o.Title = "Other" },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.do(anna, "look", `{}`)
			s.desk.mu.Lock()
			o := s.desk.offers["look"]
			edit(&o)
			s.desk.offers["look"] = o
			s.desk.mu.Unlock()
			s.wants(s.do(anna, "look", `{}`), record.Deny, record.CodeNotAvailable, record.Denied)
			if slices.ContainsFunc(s.Tools(s.ctx, s.caller(anna)), func(t *registry.Tool) bool { return t.Name == "look" }) {
				t.Fatal("a drifted tool is listed")
			}
			s.ran(1)
			s.wants(s.do(anna, "retry_look", `{}`), record.Allow, record.CodeNone, record.Succeeded)
			s.ran(2)
		})
	}
	t.Run("pinned anew after the yes", func(t *testing.T) {
		s := newScene(t)
		a := s.do(anna, "refund", `{"order":"ord_1","amount":300}`)
		s.reply(a, "lena", record.Yes, "leads")
		s.desk.mu.Lock()
		o := s.desk.offers["refund"]
		o.Description = "another tool under the same name"
		s.desk.offers["refund"] = o
		s.desk.mu.Unlock()
		s.activate() // somebody reviewed it; what was asked before was asked of the other tool
		s.wants(s.do(anna, "refund", `{"order":"ord_1","amount":300}`), record.Deny, record.CodeNotAvailable, record.Denied)
		s.ran(0)
		s.wants(s.do(anna, "refund", `{"order":"ord_1","amount":30}`), record.Allow, record.CodeNone, record.Succeeded)
		s.ran(1)
	})
	t.Run("not offered, and not known", func(t *testing.T) {
		s := newScene(t)
		s.desk.offered = func(string) (registry.Offer, error) {
			return registry.Offer{}, record.Errorf(record.NotFound, "gone")
		}
		s.wants(s.do(anna, "look", `{}`), record.Deny, record.CodeNotAvailable, record.Denied)
		s.desk.offered = func(string) (registry.Offer, error) { return registry.Offer{}, errors.New("server down") }
		s.wants(s.do(anna, "look", `{}`), record.Deny, record.CodeCannotDecide, record.Denied)
		s.ran(0)
	})
}

func TestIdempotencyArgumentIsFilledByPlacet(t *testing.T) {
	s := newScene(t)
	a := s.do(anna, "keyed", `{"n":1}`)
	s.wants(a, record.Allow, record.CodeNone, record.Succeeded)
	want := fmt.Sprintf(`{"key":%q,"n":1}`, a.Call.Key)
	if got := s.desk.effects()[0].arguments; got != want {
		t.Fatalf("sent %s, want %s", got, want)
	}
	s.wants(s.do(anna, "keyed", `{"n":2,"key":"chosen by the model"}`), record.Deny, record.CodeInvalidArguments, record.Denied)
	s.ran(1)
}

func TestConcurrencyLimit(t *testing.T) {
	s := newScene(t)
	release, started := make(chan struct{}), make(chan struct{})
	s.desk.on(func(_ context.Context, w dispatch.Work) (dispatch.Reached, bool) {
		if strings.Contains(string(w.Arguments), "1") {
			close(started)
			<-release
		}
		return dispatch.Reached{}, false
	})
	done := make(chan struct{})
	go func() { s.do(anna, "single", `{"n":1}`); close(done) }()
	<-started
	a := s.do(anna, "single", `{"n":2}`)
	s.wants(a, record.Deny, record.CodeRateLimited, record.Proposed)
	close(release)
	<-done
	s.wants(s.do(anna, "single", `{"n":2}`), record.Allow, record.CodeNone, record.Succeeded)
	s.ran(2)
}

// TestTicketsWorkOnce: the zero ticket never redeems, a used one never again.
func TestTicketsWorkOnce(t *testing.T) {
	var zero dispatch.Ticket
	if _, ok := zero.Redeem(); ok {
		t.Fatal("the zero ticket redeems")
	}
	s := newScene(t)
	s.do(anna, "look", `{}`)
	if _, ok := s.desk.seen[0].Redeem(); ok {
		t.Fatal("a ticket redeems twice")
	}
	for _, name := range []string{"Work", "w"} {
		if f, ok := reflect.TypeFor[dispatch.Ticket]().FieldByName(name); ok && f.IsExported() {
			t.Fatalf("a ticket can be written down: field %s", name)
		}
	}
}

// TestTheClockWakesForWhatIsEarlier: a call that is due before the clock's next
// look is not left until then.
func TestTheClockWakesForWhatIsEarlier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		ctx, stop := context.WithCancel(s.ctx)
		done := make(chan struct{})
		go func() { s.Work(ctx); close(done) }()
		synctest.Wait()
		held := s.do(anna, "refund", `{"order":"ord_1","amount":300}`)
		s.clock.pass(2 * time.Hour)
		time.Sleep(31 * time.Second) // the bubble's time: the clock looks at least this often
		synctest.Wait()
		l, err := s.store.Call(s.ctx, "acme", held.Call.ID)
		if err != nil || l.Call.State != record.Expired || l.Approval.State != record.Lapsed {
			t.Errorf("after its time: call %s, approval %s (%v)", l.Call.State, l.Approval.State, err)
		}
		stop()
		<-done
		if err := s.store.Store.(*sqlite.Store).Close(); err != nil {
			t.Error(err)
		}
	})
}
