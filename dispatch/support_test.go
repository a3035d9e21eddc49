package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
)

const guardedTools = `
version: 1
servers:
  desk: {url: "http://127.0.0.1:1/mcp"}
defaults: {per_minute: 0, concurrent: 0}
tools:
  get_order: {server: desk, scope: read, read: true, per_minute: 6}
  refund:
    server: desk
    scope: refunds
    destructive: true
    sources: [direct, vouched, witnessed]
    targets: [order]
    guards:
      order: {type: identifier, pattern: "ord_[0-9]+", resource: order, lookup: get_order, lookup_found: order.id, lookup_tenant: order.tenant}
    approval: {when: asked, approvers: ["group:leads"]}
    repeat: {within: 1m, answer: run}
  wipe:
    server: desk
    scope: refunds
    destructive: true
    sources: [direct, vouched, witnessed]
    targets: [order]
    guards: {order: {type: identifier, lookup: get_order}}
    approval: {when: always, approvers: ["group:leads"]}
`

// orders is the tools' own database: what there is, whose it is, and in which tenant.
type orders map[string]struct{ owner, tenant string }

// shop answers look-ups as a server that authorises objects itself does: what is
// not the caller's is not there.
func (o orders) shop(s *scene, asked *atomic.Int64) {
	s.desk.on(func(_ context.Context, w dispatch.Work) (dispatch.Reached, bool) {
		if w.Tool.Name != "get_order" {
			return dispatch.Reached{}, false
		}
		asked.Add(1)
		value, _ := canon.Lookup(w.Arguments, "order")
		id, _ := canon.Text(value)
		found, ok := o[id]
		if !ok || found.owner != w.Owner.Principal.Subject {
			return dispatch.Reached{Sent: true, IsError: true, Result: []byte(`{"content":[{"type":"text","text":"no such order"}],"isError":true}`)}, true
		}
		return dispatch.Reached{Sent: true, Result: fmt.Appendf(nil,
			`{"content":[],"structuredContent":{"order":{"id":%q,"tenant":%q}}}`, id, found.tenant)}, true
	})
}

// Rule C5: a look-up is a support call, with a record of its own, made as the
// principal; absent and not yours look alike.
func TestRule_C5_ALookUpIsASupportCall(t *testing.T) {
	s := newScene(t, func(s *scene) { s.yaml = guardedTools })
	var asked atomic.Int64
	orders{"ord_1": {"anna", "acme"}, "ord_2": {"bert", "acme"}, "ord_3": {"anna", "globex"}}.shop(s, &asked)

	own := s.do(anna, "refund", `{"order":"ord_1"}`)
	s.wants(own, record.Allow, record.CodeNone, record.Succeeded)
	s.ran(1)
	var lookup record.Call
	done, err := s.store.Calls(s.ctx, dispatch.CallQuery{Tenant: "acme", States: []record.State{record.Succeeded}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range done {
		if c.Tool.Name == "get_order" {
			lookup = c
		}
	}
	if lookup.Supports != own.Call.ID || lookup.Route != record.RouteSupport || lookup.Owner != own.Call.Owner {
		t.Fatalf("the look-up's record is %+v", lookup)
	}
	if got := s.events(lookup.ID); len(got) != 4 || got[2] != record.EventExecuting {
		t.Fatalf("the look-up's events are %v: it needs a durable reservation like any call", got)
	}

	foreign := s.wants(s.do(anna, "refund", `{"order":"ord_2"}`), record.Deny, record.CodeNoSuchTarget, record.Denied)
	absent := s.wants(s.do(anna, "refund", `{"order":"ord_9"}`), record.Deny, record.CodeNoSuchTarget, record.Denied)
	elsewhere := s.wants(s.do(anna, "refund", `{"order":"ord_3"}`), record.Deny, record.CodeNoSuchTarget, record.Denied)
	if foreign.Text() != absent.Text() || foreign.Text() != elsewhere.Text() {
		t.Errorf("absent, foreign and another tenant's are told apart:\n%s\n%s\n%s", absent.Text(), foreign.Text(), elsewhere.Text())
	}
	if strings.Contains(foreign.Text(), "ord_2") {
		t.Errorf("the text holds a value: %s", foreign.Text())
	}
	before := asked.Load()
	s.wants(s.do(anna, "refund", `{"order":"../ord_1"}`), record.Deny, record.CodeGuardRefused, record.Denied)
	if asked.Load() != before {
		t.Error("a value that the guard refuses was looked up")
	}
	s.ran(1)
}

// Rule P4 at step 6: the object is looked up again at dispatch.
func TestRule_C5_LookedUpAgainAtDispatch(t *testing.T) {
	s := newScene(t, func(s *scene) { s.yaml = guardedTools })
	var asked atomic.Int64
	stock := orders{"ord_1": {"anna", "acme"}, "ord_2": {"anna", "acme"}}
	stock.shop(s, &asked)

	for _, id := range []string{"ord_1", "ord_2"} {
		a := s.wants(s.do(anna, "wipe", `{"order":"`+id+`"}`), record.RequiresApproval, record.CodeAlwaysAsks, record.ApprovalPending)
		s.reply(a, "lena", record.Yes, "leads")
		if id == "ord_2" {
			delete(stock, "ord_2") // given away between the yes and the dispatch
		}
		again, err := s.Dispatch(s.ctx, s.caller(anna), a.Call.ID, nil)
		if err != nil {
			t.Fatal(err)
		}
		if id == "ord_1" {
			s.wants(again, record.Allow, record.CodeNone, record.Succeeded)
		} else {
			s.wants(again, record.Deny, record.CodeNoSuchTarget, record.Denied)
		}
	}
	s.ran(1)
}

// A look-up that has no answer decides nothing, so the call does not run.
func TestRule_C5_ALookUpWithoutAnswerDenies(t *testing.T) {
	s := newScene(t, func(s *scene) { s.yaml = guardedTools })
	s.desk.on(func(_ context.Context, w dispatch.Work) (dispatch.Reached, bool) {
		return dispatch.Reached{Err: errors.New("connection refused")}, w.Tool.Name == "get_order"
	})
	s.wants(s.do(anna, "refund", `{"order":"ord_1"}`), record.Deny, record.CodeCannotDecide, record.Denied)
	s.ran(0)

	// The caller may not look at orders: they may not refund them either.
	blind := who{"acme", "bert", "bot", []string{"refunds"}, false}
	s.wants(s.do(blind, "refund", `{"order":"ord_1"}`), record.Deny, record.CodeNoSuchTarget, record.Denied)
	s.ran(0)

	var asked atomic.Int64
	orders{"ord_1": {"anna", "acme"}}.shop(s, &asked)
	s.wants(s.do(anna, "refund", `{"order":"ord_1"}`), record.Allow, record.CodeNone, record.Succeeded)
	s.ran(1)
}

// Look-ups have a limit of their own, beside that of the calls.
func TestRule_C5_LookUpsHaveALimitOfTheirOwn(t *testing.T) {
	s := newScene(t, func(s *scene) { s.yaml = guardedTools })
	var asked atomic.Int64
	orders{"ord_1": {"anna", "acme"}}.shop(s, &asked)
	for range 6 {
		s.wants(s.do(anna, "refund", `{"order":"ord_1"}`), record.Allow, record.CodeNone, record.Succeeded)
	}
	s.wants(s.do(anna, "refund", `{"order":"ord_1"}`), record.Deny, record.CodeCannotDecide, record.Denied)
	s.ran(6)
	if asked.Load() != 6 {
		t.Fatalf("%d look-ups reached the server, the limit is 6", asked.Load())
	}
	// The caller's own calls of the look-up tool are counted apart.
	s.wants(s.do(anna, "get_order", `{"order":"ord_1"}`), record.Allow, record.CodeNone, record.Succeeded)
}

// point is a decision point made of a function.
type point func(dispatch.Access) (dispatch.Judgement, bool, error)

func (p point) Judge(_ context.Context, a dispatch.Access) (dispatch.Judgement, bool, error) {
	return p(a)
}

// Step 6: every decision point that is asked must allow, and one that cannot
// decide denies.
func TestDecisionPointsJudgeObjects(t *testing.T) {
	for name, c := range map[string]struct {
		point point
		code  record.Code
	}{
		"allows": {func(dispatch.Access) (dispatch.Judgement, bool, error) {
			return dispatch.Judgement{Allowed: true, Rule: "pdp"}, true, nil
		}, record.CodeNone},
		"no call": {func(dispatch.Access) (dispatch.Judgement, bool, error) { return dispatch.Judgement{}, false, nil }, record.CodeNone},
		"refuses": {func(dispatch.Access) (dispatch.Judgement, bool, error) {
			return dispatch.Judgement{Rule: "pdp"}, true, nil
		}, record.CodeNoSuchTarget},
		"fails": {func(dispatch.Access) (dispatch.Judgement, bool, error) {
			return dispatch.Judgement{Allowed: true}, true, errors.New("late")
		}, record.CodeCannotDecide},
		"silently": {func(dispatch.Access) (dispatch.Judgement, bool, error) {
			return dispatch.Judgement{}, false, errors.New("late")
		}, record.CodeCannotDecide},
		"panics": {func(dispatch.Access) (dispatch.Judgement, bool, error) { panic("at the disco") }, record.CodeCannotDecide},
	} {
		t.Run(name, func(t *testing.T) {
			var seen dispatch.Access
			s := newScene(t, func(s *scene) {
				s.points = []dispatch.DecisionPoint{point(func(a dispatch.Access) (dispatch.Judgement, bool, error) { seen = a; return c.point(a) })}
			})
			a := s.do(anna, "refund", `{"amount":10,"order":"o1"}`)
			if len(seen.Objects) != 1 || seen.Objects[0].Value != "o1" || seen.Caller.Owner().Principal.Subject != "anna" {
				t.Fatalf("the decision point was asked %+v", seen)
			}
			if c.code == record.CodeNone {
				s.wants(a, record.Allow, record.CodeNone, record.Succeeded)
				s.ran(1)
				return
			}
			s.wants(a, record.Deny, c.code, record.Denied)
			s.ran(0)
		})
	}
}

// Rule C2, step 6: what a decision point said is in what decided the call, so a
// yes given under one does not count under another.
func TestDecisionPointsAreBound(t *testing.T) {
	version := "one"
	s := newScene(t, func(s *scene) {
		s.points = []dispatch.DecisionPoint{point(func(dispatch.Access) (dispatch.Judgement, bool, error) {
			return dispatch.Judgement{Allowed: true, Rule: "pdp", Version: version}, true, nil
		})}
	})
	a := s.wants(s.do(anna, "refund", `{"amount":900,"order":"o1"}`), record.RequiresApproval, record.CodeAboveLimit, record.ApprovalPending)
	s.reply(a, "lena", record.Yes, "leads")
	version = "two"
	again, err := s.Dispatch(s.ctx, s.caller(anna), a.Call.ID, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.wants(again, record.RequiresApproval, record.CodeNewQuestion, record.ApprovalPending)
	s.ran(0)
	s.reply(again, "lena", record.Yes, "leads")
	if again, err = s.Dispatch(s.ctx, s.caller(anna), a.Call.ID, nil); err != nil {
		t.Fatal(err)
	}
	s.wants(again, record.Allow, record.CodeNone, record.Succeeded)
	s.ran(1)
}

// What cannot be decided at a dispatch denies it and keeps the call: a yes is not
// lost to a pause of a server.
func TestPromise_P6_WhatCannotBeDecidedKeepsItsPlace(t *testing.T) {
	s := newScene(t, func(s *scene) { s.yaml = guardedTools })
	var asked atomic.Int64
	orders{"ord_1": {"anna", "acme"}}.shop(s, &asked)
	a := s.wants(s.do(anna, "wipe", `{"order":"ord_1"}`), record.RequiresApproval, record.CodeAlwaysAsks, record.ApprovalPending)
	s.reply(a, "lena", record.Yes, "leads")
	down := func(context.Context, dispatch.Work) (dispatch.Reached, bool) {
		return dispatch.Reached{Err: errors.New("connection refused")}, true
	}
	for what, set := range map[string]func(){
		"the look-up": func() { s.desk.on(down) },
		"the list of tools": func() {
			s.desk.offered = func(string) (registry.Offer, error) {
				return registry.Offer{}, record.Errorf(record.Unavailable, "connection refused")
			}
		},
	} {
		set()
		again, err := s.Dispatch(s.ctx, s.caller(anna), a.Call.ID, nil)
		if err != nil {
			t.Fatal(err)
		}
		s.wants(again, record.Deny, record.CodeCannotDecide, record.ApprovalPending)
		if l, err := s.store.Call(s.ctx, "acme", a.Call.ID); err != nil || l.Approval.State != record.Approved {
			t.Fatalf("%s is down, and the approval is %s (%v)", what, l.Approval.State, err)
		}
		s.desk.offered = nil
		orders{"ord_1": {"anna", "acme"}}.shop(s, &asked)
	}
	s.ran(0)
	again, err := s.Dispatch(s.ctx, s.caller(anna), a.Call.ID, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.wants(again, record.Allow, record.CodeNone, record.Succeeded)
	s.ran(1)
}
