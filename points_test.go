package placet

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/placet-dev/placet/config"
	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/policy"
	"github.com/placet-dev/placet/policy/authzen/pdptest"
	"github.com/placet-dev/placet/policy/rego"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
	"github.com/placet-dev/placet/tool/local"
	"github.com/placet-dev/placet/yamlfile"
)

// shop is a real Placet whose tools write into a ledger of their own, the oracle.
type shop struct {
	t      *testing.T
	p      *Placet
	issuer *identity.Local
	o      Options

	mu     sync.Mutex
	ledger []string
}

// newShop opens a Placet with settings that come after the usual ones.
func newShop(t *testing.T, settings string) *shop {
	t.Helper()
	return newShopOn(t, "sqlite:state.db", settings)
}

// newShopOn is newShop on a store.
func newShopOn(t *testing.T, store, settings string) *shop {
	t.Helper()
	s := &shop{t: t}
	s.prepare(store, settings)
	s.open()
	return s
}

// prepare writes the configuration.
func (s *shop) prepare(store, settings string) {
	t := s.t
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"placet.yaml": "version: 1\nenvironment: test\nstore: " + store + "\nregistry: [tools.yaml]\n" + settings,
		"tools.yaml":  "version: 1\n",
		"pdp.token":   "secret-of-the-point\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := config.Load(filepath.Join(dir, "placet.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if s.issuer, err = identity.NewLocal(LocalIssuer, rand.Reader, time.Now); err != nil {
		t.Fatal(err)
	}
	guard := func(argument string) yamlfile.Entries[registry.GuardEntry] {
		return yamlfile.Entries[registry.GuardEntry]{{Key: argument, Value: registry.GuardEntry{Type: registry.Identifier, Resource: "order"}}}
	}
	direct := []registry.SourceName{registry.SourceName(record.Direct)}
	asked := registry.Asking{When: registry.Asked}
	s.o = Options{Config: c, Local: s.issuer, Tenants: []string{"acme"}, Tools: []Tool{
		s.tool("refund", registry.Entry{Write: true, Financial: true, Targets: []string{"order"}, Guards: guard("order"), Sources: direct, Approval: asked}),
		s.tool("merge", registry.Entry{Write: true, Targets: []string{"orders"}, Guards: guard("orders"), Sources: direct, Approval: asked}),
		s.tool("wipe", registry.Entry{Destructive: true, Targets: []string{"order"}, Guards: guard("order"), Sources: direct,
			Approval: registry.Asking{When: registry.Always, Approvers: []string{"group:leads"}}}),
		s.tool("note", registry.Entry{Write: true, Targets: []string{"order"}, Sources: direct, Approval: asked}),
		s.tool("ping", registry.Entry{Write: true, Sources: direct, Approval: asked}),
	}}
}

// open opens what was prepared.
func (s *shop) open() {
	s.t.Helper()
	p, err := Open(s.t.Context(), s.o)
	if err != nil {
		s.t.Fatal(err)
	}
	s.p = p
	s.t.Cleanup(func() { _ = p.Close() })
}

func (s *shop) tool(name string, e registry.Entry) Tool {
	e.Scope = "shop"
	e.Repeat = registry.RepeatEntry{Answer: registry.RepeatRun}
	return Tool{Name: name, Entry: e,
		InputSchema: json.RawMessage(`{"type":"object","properties":{"order":{"type":"string"},"orders":{"type":"array","items":{"type":"string"}}}}`),
		Handler: func(_ context.Context, c local.Call) (json.RawMessage, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.ledger = append(s.ledger, c.Tool+string(c.Arguments))
			return json.RawMessage(`{"done":true}`), nil
		}}
}

func (s *shop) caller(subject string) identity.Caller {
	s.t.Helper()
	token, err := s.issuer.Sign(identity.TokenSpec{Audience: s.p.o.Config.Audience(), Subject: subject, Tenant: "acme", Agent: "bot",
		Scopes: []string{"shop"}, Groups: []string{"support"}})
	if err != nil {
		s.t.Fatal(err)
	}
	c, err := s.p.Verifier().Caller(s.t.Context(), identity.Credentials{Bearer: token})
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

func (s *shop) do(subject, tool, arguments string) dispatch.Answer {
	s.t.Helper()
	a, err := s.try(subject, tool, arguments)
	if err != nil {
		s.t.Fatal(err)
	}
	return a
}

func (s *shop) try(subject, tool, arguments string) (dispatch.Answer, error) {
	s.t.Helper()
	return s.p.Do(s.t.Context(), dispatch.Proposal{Caller: s.caller(subject), Tool: tool, Arguments: json.RawMessage(arguments), Purpose: "a test"})
}

// approve answers a question with yes.
func (s *shop) approve(a dispatch.Answer) {
	s.t.Helper()
	token, err := s.issuer.Sign(identity.TokenSpec{Audience: s.p.o.Config.ConsoleAudience(), Subject: "lena", Tenant: "acme", Groups: []string{"leads"}})
	if err != nil {
		s.t.Fatal(err)
	}
	who, err := s.p.Verifier().Person(s.t.Context(), token)
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.p.Boundary().Reply(s.t.Context(), who, a.Approval.ID, a.Approval.Binding, record.Yes, ""); err != nil {
		s.t.Fatal(err)
	}
}

// wants checks verdict, code and the whole ledger.
func (s *shop) wants(a dispatch.Answer, v record.Verdict, code record.Code, ledger ...string) {
	s.t.Helper()
	if a.Verdict != v || a.Code != code {
		s.t.Errorf("answered %s %s, want %s %s: %s %+v", a.Verdict, a.Code, v, code, a.Text(), a.Decision.Reasons)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.ledger, ledger) {
		s.t.Errorf("the ledger holds %q, want %q", s.ledger, ledger)
	}
}

// owners is a decision point's own knowledge of whose an order is.
type owners struct {
	mu sync.Mutex
	of map[string]string
}

func (o *owners) set(order, owner string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.of[order] = owner
}

// decide allows owners what they own, and everybody what names nothing.
func (o *owners) decide(r pdptest.Request) pdptest.Response {
	o.mu.Lock()
	defer o.mu.Unlock()
	if r.Resource.Type == "tool" || r.Resource.Type == "order" && o.of[r.Resource.ID]+"@"+LocalIssuer == r.Subject.ID {
		return pdptest.Decide(true)
	}
	return pdptest.Response{Context: map[string]any{"id": "not-owner", "reason_admin": map[string]any{"en": "not the owner"}, "reason_user": map[string]any{"en": "ask the owner"}}}
}

func newOwners() *owners {
	return &owners{of: map[string]string{"o1": "anna", "o2": "anna", "o3": "bert"}}
}

// pointed is a shop with one decision point.
func pointed(t *testing.T, pdp *pdptest.PDP, more string) *shop {
	t.Helper()
	// The time is the longest there is: no test here is about a slow answer.
	return newShop(t, fmt.Sprintf("decision_points: [{name: entitlements, url: %q, timeout: 5s, token: \"file:pdp.token\"%s}]\n", pdp.URL, more))
}

// TestDecisionPointGuardsObjects: a call that names somebody else's object has no
// effect; the own one runs exactly once, one by one and in a batch.
func TestDecisionPointGuardsObjects(t *testing.T) {
	for name, more := range map[string]string{"batch": "", "single": ", batch: false", "discovered": ", discover: true", "first no": ", semantic: deny_on_first_deny"} {
		t.Run(name, func(t *testing.T) {
			pdp := pdptest.New(t, newOwners().decide)
			s := pointed(t, pdp, more)
			foreign := s.do("anna", "refund", `{"order":"o3"}`)
			s.wants(foreign, record.Deny, record.CodeNoSuchTarget)
			absent := s.do("anna", "refund", `{"order":"o9"}`)
			s.wants(absent, record.Deny, record.CodeNoSuchTarget)
			if foreign.Text() != absent.Text() || strings.Contains(foreign.Text(), "owner") {
				t.Errorf("the model reads %q and %q", foreign.Text(), absent.Text())
			}
			s.wants(s.do("anna", "merge", `{"orders":["o1","o3"]}`), record.Deny, record.CodeNoSuchTarget)
			s.wants(s.do("anna", "refund", `{"order":"o1"}`), record.Allow, record.CodeNone, `refund{"order":"o1"}`)
			s.wants(s.do("anna", "merge", `{"orders":["o1","o2"]}`), record.Allow, record.CodeNone, `refund{"order":"o1"}`, `merge{"orders":["o1","o2"]}`)
			s.wants(s.do("bert", "refund", `{"order":"o3"}`), record.Allow, record.CodeNone, `refund{"order":"o1"}`, `merge{"orders":["o1","o2"]}`, `refund{"order":"o3"}`)
			r := foreign.Decision.Reasons[len(foreign.Decision.Reasons)-1]
			if r.Rule != `decision point entitlements "not-owner"` || r.Version == "" || !strings.Contains(r.Private, "the argument order names: not the owner") {
				t.Errorf("the record says %+v", r)
			}
		})
	}
}

// TestDecisionPointDown: without an answer nothing runs; the same call runs once the
// decision point is back.
func TestDecisionPointDown(t *testing.T) {
	pdp := pdptest.New(t, newOwners().decide)
	s := pointed(t, pdp, "")
	for _, fault := range []http.HandlerFunc{
		func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusServiceUnavailable) },
		pdptest.Answer(`{"decision":"true"}`),
		pdptest.Answer(`{"decision":true,"context":{"obligations":[{"type":"step-up","id":"1"}]}}`),
	} {
		pdp.Fault(fault)
		a := s.do("anna", "refund", `{"order":"o1"}`)
		s.wants(a, record.Deny, record.CodeCannotDecide)
		for _, r := range a.Decision.Reasons {
			if strings.Contains(r.Private+r.Public, "secret-of-the-point") {
				t.Errorf("the credential is in %+v", r)
			}
		}
	}
	pdp.Fault(nil)
	s.wants(s.do("anna", "refund", `{"order":"o1"}`), record.Allow, record.CodeNone, `refund{"order":"o1"}`)
}

// TestDecisionPointAskedAgainAtDispatch: access that ends between a person's yes and
// the dispatch has no effect; where it lasts, the call runs exactly once.
func TestDecisionPointAskedAgainAtDispatch(t *testing.T) {
	know := newOwners()
	pdp := pdptest.New(t, know.decide)
	s := pointed(t, pdp, "")
	for _, order := range []string{"o1", "o2"} {
		a := s.do("anna", "wipe", `{"order":"`+order+`"}`)
		s.wants(a, record.RequiresApproval, record.CodeAlwaysAsks)
		s.approve(a)
		if order == "o1" {
			know.set("o1", "bert")
		}
		asked := len(pdp.Asked())
		again, err := s.p.Boundary().Dispatch(t.Context(), s.caller("anna"), a.Call.ID, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(pdp.Asked()) == asked {
			t.Error("nobody was asked at dispatch")
		}
		if order == "o1" {
			s.wants(again, record.Deny, record.CodeNoSuchTarget)
		} else {
			s.wants(again, record.Allow, record.CodeNone, `wipe{"order":"o2"}`)
		}
	}
}

// TestDecisionPointQuestion: what is asked is the registry's and the verified
// identity's; things of undeclared kind are no tools, and arguments stay here
// unless the operator says otherwise.
func TestDecisionPointQuestion(t *testing.T) {
	pdp := pdptest.New(t, func(pdptest.Request) pdptest.Response { return pdptest.Decide(true) })
	s := pointed(t, pdp, `, subject: {type: user, id: "{tenant}/{subject}@{issuer}"}`)
	s.do("anna", "refund", `{"order":"o1"}`)
	s.do("anna", "note", `{"order":"ping"}`)
	s.do("anna", "ping", `{}`)
	s.wants(s.do("anna", "merge", `{"orders":["o1","o2"]}`), record.Allow, record.CodeNone,
		`refund{"order":"o1"}`, `note{"order":"ping"}`, `ping{}`, `merge{"orders":["o1","o2"]}`)
	asked := pdp.Asked()
	if len(asked) != 5 {
		t.Fatalf("asked %d times", len(asked))
	}
	first := asked[0]
	if first.Subject.Type != "user" || first.Subject.ID != "acme/anna@"+LocalIssuer {
		t.Errorf("subject %+v", first.Subject)
	}
	for _, part := range []struct {
		what string
		got  map[string]any
		want string
	}{
		{"subject", first.Subject.Properties, `{"agent":"bot","groups":["support"],"issuer":"` + LocalIssuer + `","other_groups":[],"scopes":["shop"],"tenant":"acme"}`},
		{"action", first.Action.Properties, `{"destructive":false,"financial":true,"read":false,"sink":false,"write":true}`},
		{"resource", first.Resource.Properties, `{"argument":"order"}`},
	} {
		if text, err := json.Marshal(part.got); err != nil || string(text) != part.want {
			t.Errorf("%s %s, want %s", part.what, text, part.want)
		}
	}
	if first.Action.Name != "refund" || first.Context["purpose"] != "a test" || first.Context["agent"] != "bot" || first.Context["tenant"] != "acme" ||
		first.Context["arguments"] != nil || !record.ValidID("call", fmt.Sprint(first.Context["call"])) || !record.ValidID("run", fmt.Sprint(first.Context["run"])) {
		t.Errorf("action %+v, context %v", first.Action, first.Context)
	}
	if _, err := time.Parse(time.RFC3339Nano, fmt.Sprint(first.Context["time"])); err != nil {
		t.Error(err)
	}
	var named []string
	for _, r := range asked {
		named = append(named, r.Resource.Type+" "+r.Resource.ID)
	}
	if got, want := strings.Join(named, ", "), "order o1, note.order ping, tool ping, order o1, order o2"; got != want {
		t.Errorf("asked about %s, want %s", got, want)
	}
	if h := pdp.Headers()[0]; h.Get("Authorization") != "Bearer secret-of-the-point" {
		t.Errorf("credential %q", h.Get("Authorization"))
	}

	open := pointed(t, pdp, ", send_arguments: true")
	open.do("anna", "refund", `{"order":"o1"}`)
	last := pdp.Asked()[5]
	if text, _ := json.Marshal(last.Context["arguments"]); string(text) != `{"order":"o1"}` || last.Subject.Type != "identity" || last.Subject.ID != "anna@"+LocalIssuer {
		t.Errorf("arguments %s, subject %+v", text, last.Subject)
	}
}

// TestDecisionPointReasons: the model reads a decision point's words only where the
// operator lets it.
func TestDecisionPointReasons(t *testing.T) {
	pdp := pdptest.New(t, newOwners().decide)
	for more, want := range map[string]bool{"": false, ", show_reasons: true": true} {
		s := pointed(t, pdp, more)
		a := s.do("anna", "refund", `{"order":"o3"}`)
		s.wants(a, record.Deny, record.CodeNoSuchTarget)
		if strings.Contains(a.Text(), "ask the owner") != want || strings.Contains(a.Text(), "not the owner") {
			t.Errorf("%q: the model reads %q", more, a.Text())
		}
	}
}

// TestDecisionPointIsFor: calls that a decision point is not for are not asked about.
func TestDecisionPointIsFor(t *testing.T) {
	pdp := pdptest.New(t, func(pdptest.Request) pdptest.Response { return pdptest.Decide(false) })
	for more, denied := range map[string]bool{
		", for: {tools: [refund]}": true, ", for: {groups: [support]}": true, ", for: {agents: [bot], tenants: [acme]}": true,
		", for: {tools: [ping]}": false, ", for: {groups: [finance]}": false, ", for: {agents: [other]}": false, ", for: {tenants: [globex]}": false,
	} {
		s := pointed(t, pdp, more)
		if a := s.do("anna", "refund", `{"order":"o1"}`); denied {
			s.wants(a, record.Deny, record.CodeNoSuchTarget)
		} else {
			s.wants(a, record.Allow, record.CodeNone, `refund{"order":"o1"}`)
		}
	}
}

// TestDecisionPointObserved: rule H3. It is asked and recorded, holds nothing up,
// also when it cannot decide, and is listed among the overrides.
func TestDecisionPointObserved(t *testing.T) {
	pdp := pdptest.New(t, newOwners().decide)
	s := pointed(t, pdp, ", mode: observe")
	a := s.do("anna", "refund", `{"order":"o3"}`)
	s.wants(a, record.Allow, record.CodeNone, `refund{"order":"o3"}`)
	pdp.Fault(http.NotFound)
	b := s.do("anna", "refund", `{"order":"o2"}`)
	s.wants(b, record.Allow, record.CodeNone, `refund{"order":"o3"}`, `refund{"order":"o2"}`)
	for _, d := range []record.Decision{a.Decision, b.Decision} {
		if !slices.ContainsFunc(d.Reasons, func(r record.Reason) bool {
			return r.Observe && r.Verdict == record.Deny && strings.HasPrefix(r.Rule, "decision point")
		}) {
			t.Errorf("the record says %+v", d.Reasons)
		}
	}
	found := slices.ContainsFunc(s.p.Boundary().Current().Overrides, func(o registry.Override) bool { return o.Subject == "decision point entitlements" })
	if !found {
		t.Errorf("overrides %+v", s.p.Boundary().Current().Overrides)
	}
}

// TestDecisionPointsArePlanned: a changed, a missing and an added decision point are
// another version, and the plan names them.
func TestDecisionPointsArePlanned(t *testing.T) {
	pdp := pdptest.New(t, newOwners().decide)
	s := pointed(t, pdp, "")
	point := s.p.o.Config.Points[0]
	for _, c := range []struct {
		change func() []config.DecisionPoint
		want   string
	}{
		{func() []config.DecisionPoint { return nil }, "weakened: decision point entitlements is gone"},
		{func() []config.DecisionPoint { p := point; p.Mode = config.Observe; return []config.DecisionPoint{p} }, "changed decision point entitlements: mode is now observe"},
		{func() []config.DecisionPoint { p := point; p.Subject.Type = "user"; return []config.DecisionPoint{p} }, "changed decision point entitlements"},
		{func() []config.DecisionPoint { p := point; p.Name = "second"; return []config.DecisionPoint{point, p} }, "added decision point second"},
	} {
		s.p.o.Config.Points = c.change()
		r, err := s.p.Plan(t.Context())
		if err != nil || !r.Changed || strings.Join(r.Lines(), "; ") != c.want {
			t.Errorf("%q: %+v %v", c.want, r, err)
		}
	}
	s.p.o.Config.Points = []config.DecisionPoint{point}
	if r, err := s.p.Plan(t.Context()); err != nil || r.Changed {
		t.Errorf("unchanged: %+v %v", r, err)
	}
	s.p.o.Config.Points[0].Token, _ = yamlfile.NewSecretRef("env:PLACET_NO_SUCH_VARIABLE")
	if _, err := s.p.Plan(t.Context()); err == nil || !strings.Contains(err.Error(), `decision point "entitlements": token: the environment variable`) {
		t.Errorf("%v", err)
	}
}

// A check warns of metadata that cannot be used, and refuses a kind that would make
// a thing look like a tool.
func TestCheckOfDecisionPoints(t *testing.T) {
	pdp := pdptest.New(t, newOwners().decide)
	o := checkedOptions(t, "version: 1\n", goTool("alpha", "a"))
	o.Config.Points = []config.DecisionPoint{{Name: "entitlements", URL: pdp.URL, Discover: true, Timeout: time.Second, Semantic: "execute_all",
		Subject: config.PointSubject{Type: "user", ID: "{subject}"}}}
	warned := func() bool {
		c, err := Check(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(c.Warnings().Error(), "decision_points.entitlements")
	}
	if warned() {
		t.Error("it warns of good metadata")
	}
	pdp.Metadata = map[string]any{"policy_decision_point": "https://pdp.example.com"}
	if !warned() {
		t.Error("it does not warn of another decision point's metadata")
	}
	bad := goTool("beta", "b")
	bad.InputSchema = json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"}}}`)
	bad.Entry.Targets = []string{"name"}
	bad.Entry.Guards = yamlfile.Entries[registry.GuardEntry]{{Key: "name", Value: registry.GuardEntry{Type: registry.Identifier, Resource: "tool"}}}
	o.Tools = append(o.Tools, bad)
	if _, err := Check(t.Context(), o); err == nil || !strings.Contains(err.Error(), "guards.name.resource") {
		t.Errorf("%v", err)
	}
}

// TestOwnershipByPolicyData runs the layer of docs/authorization.md: its own
// fixtures, and then real calls under it, with the owners of this test's issuer.
func TestOwnershipByPolicyData(t *testing.T) {
	const folder = "docs/sample/ownership"
	files, err := rego.ReadFiles(folder)
	if err != nil {
		t.Fatal(err)
	}
	report, err := rego.New().TestLayer(t.Context(), rego.Source{Name: "ownership", Files: files, Mode: policy.Enforce}, time.Second)
	if err != nil || !report.Passed() {
		t.Fatalf("%v %+v", err, report)
	}
	doc, err := os.ReadFile("docs/authorization.md")
	if err != nil || !strings.Contains(string(doc), "```rego\n"+string(files["main.rego"])+"```") {
		t.Errorf("%v: docs/authorization.md shows another main.rego", err)
	}
	layer := t.TempDir()
	for _, name := range []string{"main.rego", "data.yaml"} {
		text, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		text = bytes.ReplaceAll(text, []byte("https://login.example.com/realms/staff"), []byte(LocalIssuer))
		if err := os.WriteFile(filepath.Join(layer, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := newShop(t, fmt.Sprintf("policy: {timeout: 5s, layers: [{name: ownership, files: %q, for: {tools: [refund]}}]}\napprovals: {default: {approvers: [\"group:leads\"]}}\n", layer))
	s.wants(s.do("anna", "refund", `{"order":"ord_1003"}`), record.Deny, record.CodePolicyDenied)
	s.wants(s.do("anna", "refund", `{"order":"ord_1004"}`), record.Deny, record.CodePolicyDenied)
	s.wants(s.do("anna", "refund", `{"order":"ord_9999"}`), record.Deny, record.CodePolicyDenied)
	s.wants(s.do("anna", "refund", `{"order":"ord_1002"}`), record.RequiresApproval, record.CodePolicyAsks)
	s.wants(s.do("anna", "refund", `{"order":"ord_1001"}`), record.Allow, record.CodeNone, `refund{"order":"ord_1001"}`)
	s.wants(s.do("bert", "refund", `{"order":"ord_1003"}`), record.Allow, record.CodeNone, `refund{"order":"ord_1001"}`, `refund{"order":"ord_1003"}`)
}
