package dispatch_test

import (
	"context"
	"encoding/json"
	"net/netip"
	"strings"
	"testing"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/guard"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
)

const mailTools = `
version: 1
servers:
  desk: {url: "http://127.0.0.1:1/mcp"}
defaults: {per_minute: 0, concurrent: 0}
tools:
  mail:
    server: desk
    scope: refunds
    sink: true
    sources: [direct, vouched, witnessed]
    targets: [to]
    guards: {to: {type: email, domains: [example.com], instead: Save a draft.}}
    effect: Write to {to}
    approval: {when: WHEN, approvers: ["group:leads"]}
    repeat: {within: 1h, answer: return}
`

func mailScene(t *testing.T, when string) *scene {
	return newScene(t, func(s *scene) {
		s.yaml = strings.ReplaceAll(mailTools, "WHEN", when)
		s.desk.offers["mail"] = registry.Offer{Name: "mail", InputSchema: json.RawMessage(
			`{"type":"object","properties":{"to":{"type":["string","array"],"items":{"type":"string"}},"text":{"type":"string"}},"required":["to"]}`)}
	})
}

// Rule G3: what a guard makes of the arguments is what is digested, shown, bound
// and executed; what was proposed keeps a digest of its own.
func TestRule_G3_NormalFormIsDecidedAndExecuted(t *testing.T) {
	s := mailScene(t, "always")
	a := s.wants(s.do(anna, "mail", `{"to":["Anna+x@EXAMPLE.com"],"text":"Hi"}`), record.RequiresApproval, record.CodeAlwaysAsks, record.ApprovalPending)
	normal := `{"text":"Hi","to":["Anna+x@example.com"]}`
	if string(a.Call.Arguments) != normal || a.Call.Digest != record.ArgumentDigest([]byte(normal), nil) {
		t.Fatalf("decided: %s", a.Call.Arguments)
	}
	received, err := canon.Canonical([]byte(`{"to":["Anna+x@EXAMPLE.com"],"text":"Hi"}`), canon.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := s.store.Call(s.ctx, a.Call.Tenant, a.Call.ID)
	if err != nil {
		t.Fatal(err)
	}
	if want := record.ArgumentDigest(received, nil); a.Call.Received != want || l.Call.Received != want {
		t.Errorf("the proposed digest is %s, recorded %s", a.Call.Received, l.Call.Received)
	}
	events, err := s.store.Events(s.ctx, dispatch.EventQuery{Tenant: "acme", Call: a.Call.ID, Limit: 1})
	if err != nil || !strings.Contains(string(events[0].Body), l.Call.Commit(l.Call.Received).String()) || !strings.Contains(string(events[0].Body), l.Call.Commit(l.Call.Digest).String()) {
		t.Errorf("the first event is %s: %v", events[0].Body, err)
	}
	if !strings.Contains(a.Call.EffectText, "@example.com") || strings.Contains(a.Call.EffectText, "EXAMPLE") {
		t.Errorf("shown: %s", a.Call.EffectText)
	}
	s.reply(a, "lena", record.Yes, "leads")
	// The same in another spelling is the same call (rule A6), and runs once.
	again := s.do(anna, "mail", `{"to":["Anna+x@Example.Com."],"text":"Hi"}`)
	s.wants(again, record.Allow, record.CodeNone, record.Succeeded)
	if again.Call.ID != a.Call.ID {
		t.Errorf("%s is another call than %s", again.Call.ID, a.Call.ID)
	}
	s.ran(1)
	if got := s.desk.effects()[0].arguments; got != normal {
		t.Errorf("executed: %s", got)
	}
	// And an equal effect afterwards is answered from the record (rule A7).
	s.wants(s.do(anna, "mail", `{"to":["Anna+x@example.com"],"text":"Hi"}`), record.Allow, record.CodeAlreadyDone, record.Succeeded)
	s.ran(1)

	plain := s.do(anna, "mail", `{"to":["bert@example.com"]}`)
	if !plain.Call.Received.IsZero() {
		t.Error("arguments in normal form have a second digest")
	}
}

// A guard's refusal comes after the schema's, is a recorded denial, names argument
// and rule for operators, and shows nobody the value.
func TestGuardRefusalIsExplained(t *testing.T) {
	s := mailScene(t, "asked")
	a := s.wants(s.do(anna, "mail", `{"to":["anna@example.com","eve@evil.example"]}`), record.Deny, record.CodeGuardRefused, record.Denied)
	if text := a.Text(); !strings.Contains(text, "to[1] is an address that this tool may not send to") || !strings.Contains(text, "Save a draft.") || strings.Contains(text, "evil") {
		t.Error(text)
	}
	var found bool
	for _, r := range a.Decision.Reasons {
		found = found || r.Rule == "guard email on mail.to[1]"
	}
	if !found {
		t.Errorf("%+v", a.Decision.Reasons)
	}
	s.wants(s.do(anna, "mail", `{"to":7}`), record.Deny, record.CodeInvalidArguments, record.Denied)
	s.ran(0)
	s.wants(s.do(anna, "mail", `{"to":["anna@example.com"]}`), record.Allow, record.CodeNone, record.Succeeded)
	s.ran(1)
}

// Guards are asked at dispatch as they are then: a call that waits while its guard
// becomes stricter, or would write its arguments otherwise, does not run.
func TestGuardsAreAskedAgainAtDispatch(t *testing.T) {
	for _, c := range []struct{ before, after string }{
		{"domains: [example.com]", "domains: [other.example]"},
		{"{to: {type: email, domains: [example.com], instead: Save a draft.}}", "{text: {type: text}}"},
	} {
		s := mailScene(t, "always")
		s.yaml = strings.Replace(s.yaml, c.before, c.after, 1)
		loose := c.after == "{text: {type: text}}"
		if !loose {
			s.yaml = strings.Replace(s.yaml, c.after, c.before, 1)
		}
		s.activate()
		a := s.wants(s.do(anna, "mail", `{"to":["anna@EXAMPLE.com"]}`), record.RequiresApproval, record.CodeAlwaysAsks, record.ApprovalPending)
		s.reply(a, "lena", record.Yes, "leads")
		if loose {
			s.yaml = strings.Replace(s.yaml, c.after, c.before, 1)
		} else {
			s.yaml = strings.Replace(s.yaml, c.before, c.after, 1)
		}
		s.activate()
		again, err := s.Dispatch(s.ctx, s.caller(anna), a.Call.ID, nil)
		if err != nil {
			t.Fatal(err)
		}
		s.wants(again, record.Deny, record.CodeGuardRefused, record.Denied)
		s.ran(0)
	}
}

// addresses is a resolver that knows each name's address.
type addresses map[string]string

func (a addresses) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr(a[host])}, nil
}

// What a tool's arguments name is in the networks that its entry names, whatever its
// guard allows; policy sees the network of its server.
func TestToolsStayInTheirNetworks(t *testing.T) {
	s := newScene(t, func(s *scene) {
		s.world = guard.World{Resolver: addresses{"a.example.com": "198.51.100.7", "b.example.com": "93.184.216.34"}}
		s.rego = "package agent.call\ndefault decision := {\"decision\": \"allow\"}\ndecision := {\"decision\": \"deny\", \"reason\": \"there\"} if { input.tool.network == \"partner\"; input.args.note == \"n\" }"
		s.yaml = `
version: 1
networks: {partner: [198.51.100.0/24], home: [127.0.0.0/8]}
servers:
  desk: {url: "http://127.0.0.1:1/mcp", network: home}
  there: {url: "https://partner.example.com/mcp", network: partner}
tools:
  fetch: {server: desk, scope: read, read: true, network: [home, partner], guards: {order: {type: url, hosts: ["*.example.com"], networks: [198.51.100.0/24]}}}
  far: {server: there, scope: read, read: true}
`
	})
	s.wants(s.do(anna, "fetch", `{"order":"https://a.example.com/x"}`), record.Allow, record.CodeNone, record.Succeeded)
	s.wants(s.do(anna, "fetch", `{"order":"https://b.example.com/x"}`), record.Deny, record.CodePrivateAddress, record.Denied)
	s.ran(1)
	s.wants(s.do(anna, "far", `{"note":"n"}`), record.Deny, record.CodePolicyDenied, record.Denied)
	s.wants(s.do(anna, "far", `{}`), record.Allow, record.CodeNone, record.Succeeded)
	s.ran(2)
}
