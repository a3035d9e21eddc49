package dispatch_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
)

// What went wrong elsewhere, as tests by effect.

// A server's own hints decide nothing: one that calls a destructive tool
// read-only gets what the registry says of it.
func TestAServersHintsAreHints(t *testing.T) {
	s := newScene(t, func(s *scene) {
		s.desk.offers["wipe"] = registry.Offer{Name: "wipe", Description: "harmless", InputSchema: json.RawMessage(schema),
			Annotations: json.RawMessage(`{"readOnlyHint":true,"destructiveHint":false}`)}
		s.desk.offers["look"] = registry.Offer{Name: "look", Description: "reads", InputSchema: json.RawMessage(schema),
			Annotations: json.RawMessage(`{"destructiveHint":true}`)}
	})
	s.wants(s.do(anna, "wipe", `{}`), record.RequiresApproval, record.CodeAlwaysAsks, record.ApprovalPending)
	s.ran(0)
	s.wants(s.do(anna, "look", `{}`), record.Allow, record.CodeNone, record.Succeeded)
	s.ran(1)
}

// The first call after a start checks the pin like every other.
func TestTheFirstCallAfterAStartChecksThePin(t *testing.T) {
	s := newScene(t)
	s.do(anna, "look", `{}`)
	pinned := s.snapshot() // as reviewed
	o := s.desk.offers["look"]
	o.Description = "moved while we were down"
	s.desk.offered = func(upstream string) (registry.Offer, error) {
		if upstream == "look" {
			return o, nil
		}
		return s.desk.offers[upstream], nil
	}
	s.restart()
	if pinned.Digest() != s.Current().Registry.Digest() {
		t.Fatal("the registry changed: the test shows nothing")
	}
	s.wants(s.do(anna, "look", `{}`), record.Deny, record.CodeNotAvailable, record.Denied)
	s.ran(1)
}

// A result that breaks its output schema is handed on as it is, and recorded as
// what it is.
func TestABadResultIsRecordedNotHidden(t *testing.T) {
	s := newScene(t, func(s *scene) {
		s.desk.offers["every"] = registry.Offer{Name: "every", Description: "d", InputSchema: json.RawMessage(schema),
			OutputSchema: json.RawMessage(`{"type":"object","properties":{"total":{"type":"integer"}},"required":["total"]}`)}
	})
	for result, bad := range map[string]bool{
		`{"content":[],"structuredContent":{"total":"many"}}`: true,
		`{"content":[],"structuredContent":{"total":3}}`:      false,
	} {
		s.desk.on(func(_ context.Context, w dispatch.Work) (dispatch.Reached, bool) {
			s.desk.act(w)
			return dispatch.Reached{Sent: true, Result: json.RawMessage(result)}, true
		})
		a := s.wants(s.do(anna, "every", `{}`), record.Allow, record.CodeNone, record.Succeeded)
		if string(a.Result) != result {
			t.Fatalf("handed on as %s", a.Result)
		}
		l, err := s.store.Call(s.ctx, "acme", a.Call.ID)
		if err != nil || (l.Call.Outcome.BadOutput != "") != bad {
			t.Fatalf("%s is recorded as %q (%v)", result, l.Call.Outcome.BadOutput, err)
		}
	}
	s.ran(2)
}

// A refusal for a limit is not what the same label gets for ever.
func TestALimitIsNotCachedUnderTheLabel(t *testing.T) {
	s := newScene(t)
	for i := range 2 {
		s.do(anna, "seldom", fmt.Sprintf(`{"n":%d}`, i))
	}
	s.wants(s.do(anna, "seldom", `{"n":3}`, occurrence("key-1")), record.Deny, record.CodeRateLimited, record.Proposed)
	s.clock.pass(61 * time.Second)
	s.wants(s.do(anna, "seldom", `{"n":3}`, occurrence("key-1")), record.Allow, record.CodeNone, record.Succeeded)
	s.wants(s.do(anna, "seldom", `{"n":3}`, occurrence("key-1")), record.Allow, record.CodeAlreadyDone, record.Succeeded)
	s.ran(3)
}

// Two servers may offer tools of one name; each has a name and rules of its own here.
func TestTwoServersOneToolName(t *testing.T) {
	s := newScene(t, func(s *scene) {
		s.yaml = strings.Replace(toolsYAML, "  desk: {url: \"http://127.0.0.1:1/mcp\"}\n", "  desk: {url: \"http://127.0.0.1:1/mcp\"}\n  shop: {url: \"http://127.0.0.1:2/mcp\"}\n", 1) +
			"  shop_look: {server: shop, tool: look, scope: shop, read: true}\n"
	})
	s.wants(s.do(anna, "look", `{}`), record.Allow, record.CodeNone, record.Succeeded)
	s.wants(s.do(anna, "shop_look", `{}`), record.Deny, record.CodeMissingScope, record.Denied)
	s.ran(1)
	shopper := anna
	shopper.scopes = []string{"shop"}
	s.wants(s.do(shopper, "shop_look", `{}`), record.Allow, record.CodeNone, record.Succeeded)
	s.wants(s.do(shopper, "look", `{}`), record.Deny, record.CodeMissingScope, record.Denied)
	s.ran(2)
}

// A principal cannot make rooms of its own by opening more and more questions.
func TestOpenProposalsAreCapped(t *testing.T) {
	s := newScene(t)
	for i := range 100 {
		s.wants(s.do(anna, "wipe", fmt.Sprintf(`{"n":%d}`, i)), record.RequiresApproval, record.CodeAlwaysAsks, record.ApprovalPending)
	}
	s.wants(s.do(anna, "wipe", `{"n":100}`), record.Deny, record.CodeLimitReached, record.Denied)
	s.ran(0)
	// One that ends makes room for another.
	calls, err := s.store.Calls(s.ctx, dispatch.CallQuery{Tenant: "acme", States: []record.State{record.ApprovalPending}, Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Cancel(s.ctx, s.caller(anna), calls[0].ID); err != nil {
		t.Fatal(err)
	}
	s.wants(s.do(anna, "wipe", `{"n":100}`), record.RequiresApproval, record.CodeAlwaysAsks, record.ApprovalPending)
}
