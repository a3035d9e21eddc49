package dispatch_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

const denyAll = "package agent.call\nimport rego.v1\ndecision := {\"decision\": \"deny\", \"reason\": \"closed\"}"

func TestRule_C1_LaterRequestsEvaluateAnew(t *testing.T) {
	s := newScene(t)
	propose := func(arguments string) dispatch.Answer {
		t.Helper()
		a, err := s.Propose(s.ctx, dispatch.Proposal{Caller: s.caller(anna), Tool: "every", Arguments: json.RawMessage(arguments)})
		if err != nil {
			t.Fatal(err)
		}
		return s.wants(a, record.Allow, record.CodeNone, record.DispatchAuthorized)
	}
	first, second := propose(`{"n":1}`), propose(`{"n":2}`)
	s.ran(0) // allowed is not dispatched
	a, err := s.Dispatch(s.ctx, s.caller(anna), first.Call.ID, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.wants(a, record.Allow, record.CodeNone, record.Succeeded)
	s.ran(1)
	s.rego = denyAll
	s.activate()
	if a, err = s.Dispatch(s.ctx, s.caller(anna), second.Call.ID, nil); err != nil {
		t.Fatal(err)
	}
	s.wants(a, record.Deny, record.CodePolicyDenied, record.Denied)
	s.ran(1)
}

// One evaluation serves a call that is proposed and dispatched in one request,
// and it takes two commits: before the effect, and after.
func TestRule_C1_TwoCommits(t *testing.T) {
	s := newScene(t)
	s.do(anna, "every", `{"n":0}`) // the run is open now
	var order []string
	s.store.fail(func(f record.Facts) error { order = append(order, string(f.Call.After.State)); return nil }, nil)
	s.desk.on(func(context.Context, dispatch.Work) (dispatch.Reached, bool) {
		order = append(order, "effect")
		return dispatch.Reached{}, false
	})
	s.do(anna, "every", `{"n":1}`)
	if want := []string{"executing", "effect", "succeeded"}; !slices.Equal(order, want) {
		t.Fatalf("%v, want %v", order, want)
	}
}

func TestRule_C4_LimitsAreExactUnderConcurrency(t *testing.T) {
	s := newScene(t)
	caller := s.caller(anna)
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			if _, err := s.Do(s.ctx, dispatch.Proposal{Caller: caller, Tool: "seldom", Arguments: json.RawMessage(fmt.Sprintf(`{"n":%d}`, i))}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	s.ran(2) // per_minute: 2
}

func TestRule_D3_VoidingAsksAnewInTheSameChange(t *testing.T) {
	s := newScene(t)
	held := s.do(anna, "refund", `{"order":"ord_1","amount":300}`)
	s.rego = "package agent.call\nimport rego.v1\ndecision := \"allow\"" // another layer is consulted now
	s.activate()
	a := s.wants(s.do(anna, "refund", `{"order":"ord_1","amount":300}`), record.RequiresApproval, record.CodeNewQuestion, record.ApprovalPending)
	if a.Call.ID != held.Call.ID || a.Approval.ID == held.Approval.ID || a.Approval.Replaces != held.Approval.ID {
		t.Fatalf("asked %s for %s in place of %s", a.Approval.ID, a.Call.ID, a.Approval.Replaces)
	}
	old, err := s.store.Approval(s.ctx, "acme", held.Approval.ID)
	if err != nil || old.Approval.State != record.Void {
		t.Fatalf("%v %v", old.Approval, err)
	}
	if _, err := s.Reply(s.ctx, s.person("lena", "leads"), held.Approval.ID, held.Approval.Binding, record.Yes, ""); record.KindOf(err) != record.Conflict {
		t.Fatalf("a void question takes an answer: %v", err)
	}
	s.ran(0)
	s.reply(a, "lena", record.Yes, "leads")
	s.wants(s.do(anna, "refund", `{"order":"ord_1","amount":300}`), record.Allow, record.CodeNone, record.Succeeded)
	s.ran(1)
}

func TestRule_E2_EveryAttemptIsEvaluatedAnew(t *testing.T) {
	s := newScene(t)
	tries := 0
	s.desk.on(func(context.Context, dispatch.Work) (dispatch.Reached, bool) {
		if tries++; tries == 1 {
			s.rego = denyAll
			s.activate()
		}
		return dispatch.Reached{Sent: true, Err: errors.New("reset")}, true
	})
	a := s.wants(s.do(anna, "pay", `{"n":1}`), record.Allow, record.CodeOutcomeUnknown, record.Unknown)
	if tries != 1 || a.Call.Attempt != 1 {
		t.Fatalf("tried %d times under a policy that denies", tries)
	}
	// With authority, the same call goes on under the same key.
	s.rego = ""
	s.activate()
	s.desk.on(nil)
	again := s.wants(s.do(anna, "pay", `{"n":1}`), record.Allow, record.CodeNone, record.Succeeded)
	if again.Call.ID != a.Call.ID || again.Call.Attempt != 2 || again.Call.Key != a.Call.Key {
		t.Fatalf("%s attempt %d", again.Call.ID, again.Call.Attempt)
	}
	s.ran(1)
}

func TestRule_E4_WhatMayHaveBeenSentStaysCounted(t *testing.T) {
	s := newScene(t)
	s.desk.on(s.desk.lost)
	for i := range 2 {
		s.wants(s.do(anna, "seldom", fmt.Sprintf(`{"n":%d}`, i)), record.Allow, record.CodeOutcomeUnknown, record.Unknown)
	}
	s.desk.on(nil)
	s.wants(s.do(anna, "seldom", `{"n":2}`), record.Deny, record.CodeRateLimited, record.Proposed)
	s.ran(2)
	s.clock.pass(61 * time.Second)
	s.wants(s.do(anna, "seldom", `{"n":2}`), record.Allow, record.CodeNone, record.Succeeded)
	s.ran(3)
}

func TestRule_H2_VersionsLiveInTheStore(t *testing.T) {
	s := newScene(t)
	if g := s.activate(); g != 1 {
		t.Fatalf("the same version was activated again as %d", g)
	}
	s.rego = denyAll
	if g := s.activate(); g != 2 {
		t.Fatalf("a change is version %d", g)
	}
	s.restart() // the same files: nothing is activated by them
	if g, _, err := s.store.Generation(s.ctx); g != 2 || err != nil {
		t.Fatalf("after a restart: %d %v", g, err)
	}
	s.wants(s.do(anna, "look", `{}`), record.Deny, record.CodePolicyDenied, record.Denied)
	s.rego = ""
	if g := s.activate(); g != 3 {
		t.Fatalf("going back is version %d, want an activation of its own", g)
	}
	s.wants(s.do(anna, "look", `{}`), record.Allow, record.CodeNone, record.Succeeded)
	s.ran(1)
}

// A caller that goes away between the reservation and the first byte: the
// reservation stands, nothing was sent, and that is what is recorded.
func TestRule_J1_ACallersCancelReachesNoStatement(t *testing.T) {
	s := newScene(t)
	s.do(anna, "every", `{"n":0}`)
	ctx, cancel := context.WithCancel(s.ctx)
	s.store.fail(nil, func(f record.Facts) error {
		if f.Call != nil && f.Call.After.State == record.Executing {
			cancel()
		}
		return nil
	})
	a, err := s.Do(ctx, dispatch.Proposal{Caller: s.caller(anna), Tool: "every", Arguments: json.RawMessage(`{"n":1}`)})
	if err != nil || a.State() != record.Failed || a.Ran {
		t.Fatalf("%s ran %t %v", a.State(), a.Ran, err)
	}
	s.ran(1) // the one before
	s.store.fail(nil, nil)
	s.wants(s.do(anna, "every", `{"n":1}`), record.Allow, record.CodeNone, record.Succeeded)
	s.ran(2)
}
