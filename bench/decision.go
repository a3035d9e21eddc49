package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	oparego "github.com/open-policy-agent/opa/v1/rego"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/policy"
	"github.com/placet-dev/placet/policy/rego"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
)

// decisions are the calls that brief 3's policy answers in its three ways.
var decisions = []struct {
	tool, arguments string
	verdict         record.Verdict
}{
	{"db.query", `{"table":"orders","customer":"c-1001"}`, record.Allow},
	{"http.post", `{"host":"10.0.4.7","body":"hello"}`, record.Deny},
	{"stripe.refund", `{"amount":1200,"currency":"EUR","order_id":"ord_1001"}`, record.RequiresApproval},
}

// decisionVersusOPA compares a whole decision with a plain evaluation. Ours is
// Boundary.Explain, which evaluates as Propose does and records nothing: arguments
// in canonical form with their digest, identity and run, registry, schema, policy
// with an input made from all that, the verdict and its digests. Explain asks the
// layers once more for their places; here that second question is answered at
// once. OPA's is EvalInput of the same input, ready decoded.
func (b *bench) decisionVersusOPA(ctx context.Context) error {
	text, err := os.ReadFile(filepath.Join(b.root, "policy", "rego", "testdata", "brief.rego"))
	if err != nil {
		return err
	}
	few, err := newDecider(ctx, string(text), 10)
	if err != nil {
		return err
	}
	many, err := newDecider(ctx, string(text), 5000)
	if err != nil {
		return err
	}
	inputs, err := few.inputs(ctx)
	if err != nil {
		return err
	}
	query, err := oparego.New(oparego.Query("data.agent.call.decision"), oparego.Module("brief.rego", string(text))).PrepareForEval(ctx)
	if err != nil {
		return err
	}
	rounds, calls := 40, 1500
	if b.short {
		rounds, calls = 5, 200
	}
	stop, err := profileTo(b.profile, "decision")
	if err != nil {
		return err
	}
	var failed error
	opa := func(n int) {
		rs, err := query.Eval(ctx, oparego.EvalInput(inputs[n%len(inputs)]))
		if err != nil || len(rs) != 1 {
			failed = fmt.Errorf("plain OPA: %d results, %v", len(rs), err)
		}
	}
	ours := func(n int) {
		if err := few.decide(ctx, n%len(decisions)); err != nil {
			failed = err
		}
	}
	theirs, placet := pace(rounds, calls, opa, ours)
	b.ratio("decision_vs_opa", placet.Seconds()/theirs.Seconds(), target{most: 1.0})
	b.say("  one decision %s, one EvalInput %s: the best of %d rounds of %d (reported, not asserted)", placet, theirs, rounds, calls)
	all := many.names
	if b.short {
		all = all[:calls]
	}
	at10, at5000 := pace(rounds/2, len(all),
		func(n int) { failed = firstOf(failed, few.propose(ctx, few.names[n%len(few.names)])) },
		func(n int) { failed = firstOf(failed, many.propose(ctx, many.names[n%len(many.names)])) })
	b.ratio("decision_5000_tools_vs_10", at5000.Seconds()/at10.Seconds(), target{most: 1.3})
	b.say("  tools called in turn: %s with 10, %s with 5,000 (reported, not asserted)", at10, at5000)
	return firstOf(failed, stop())
}

func firstOf(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// pace runs two things in turn and returns the shortest time that each took.
func pace(rounds, calls int, a, b func(n int)) (time.Duration, time.Duration) {
	shortest := [2]time.Duration{1 << 62, 1 << 62}
	for range rounds {
		for i, f := range [2]func(int){a, b} {
			begin := time.Now()
			for n := range calls {
				f(n)
			}
			shortest[i] = min(shortest[i], time.Since(begin)/time.Duration(calls))
		}
	}
	return shortest[0], shortest[1]
}

// decider is a boundary whose store keeps nothing.
type decider struct {
	boundary *dispatch.Boundary
	caller   identity.Caller
	seen     *listener
	names    []string // of further tools, which the policy denies by default
}

func newDecider(ctx context.Context, text string, tools int) (*decider, error) {
	d := &decider{}
	layer, err := rego.New().Load(rego.Source{Name: "brief", Files: rego.Files{"brief.rego": []byte(text)}})
	if err != nil {
		return nil, err
	}
	d.seen = &listener{Layer: layer}
	set, err := policy.NewSet([]policy.Layer{d.seen}, time.Second, nil)
	if err != nil {
		return nil, err
	}
	var declared []registry.Declared
	add := func(name, schema string, financial bool) {
		declared = append(declared, registry.Declared{Name: name,
			Offer: registry.Offer{Description: "A tool.", InputSchema: json.RawMessage(schema)},
			Entry: registry.Entry{Scope: scope, Read: !financial, Financial: financial, Write: financial,
				Approval: registry.Asking{When: registry.Asked}, Sources: []registry.SourceName{"direct"},
				PerMinute: limit(1e9), Concurrent: limit(1e6)}})
	}
	add("db.query", inputSchema, false)
	add("http.post", `{"type":"object","properties":{"host":{"type":"string"},"body":{"type":"string"}},"required":["host","body"],"additionalProperties":false}`, false)
	add("stripe.refund", `{"type":"object","properties":{"amount":{"type":"number"},"currency":{"type":"string"},"order_id":{"type":"string"}},"required":["amount","currency","order_id"],"additionalProperties":false}`, true)
	for n := len(declared); n < tools; n++ {
		name := fmt.Sprintf("tool.number%d", n)
		d.names = append(d.names, name)
		add(name, inputSchema, false)
	}
	snapshot, err := registry.Parse(nil, registry.Options{Environment: "production", Declared: declared})
	if err != nil {
		return nil, err
	}
	if d.boundary, err = dispatch.New(dispatch.Options{Store: nothing{}, Invoker: nobody{}, Clock: time.Now, Random: rand.Reader}); err != nil {
		return nil, err
	}
	leads := record.ApprovalPart{From: "approvals.default", Quorum: 1, Groups: []record.Group{{Issuer: "local", Name: "leads"}}}
	if _, err := d.boundary.Activate(ctx, dispatch.Active{Registry: snapshot, Policy: set, Environment: "production", Digest: "bench",
		Default: &dispatch.DefaultRule{Part: leads}}, record.Who{System: "bench"}); err != nil {
		return nil, err
	}
	d.caller, err = someCaller(ctx)
	return d, err
}

func someCaller(ctx context.Context) (identity.Caller, error) {
	const audience = "http://localhost/mcp"
	local, err := identity.NewLocal("local", rand.Reader, time.Now)
	if err != nil {
		return identity.Caller{}, err
	}
	issuer, err := local.Issuer(audience, "http://localhost/console", []string{tenant})
	if err != nil {
		return identity.Caller{}, err
	}
	verifier, err := identity.New(identity.Config{Issuers: []identity.Issuer{issuer}}, identity.Deps{Clock: time.Now})
	if err != nil {
		return identity.Caller{}, err
	}
	bearer, err := token(local, audience, 0)
	if err != nil {
		return identity.Caller{}, err
	}
	return verifier.Caller(ctx, identity.Credentials{Bearer: bearer})
}

// decide makes one of the decisions and checks the verdict.
func (d *decider) decide(ctx context.Context, n int) error {
	c := &decisions[n]
	a, err := d.explain(ctx, c.tool, c.arguments)
	if err == nil && a.Verdict != c.verdict {
		err = fmt.Errorf("%s got %s (%s): %v", c.tool, a.Verdict, a.Code, a.Decision.Reasons)
	}
	return err
}

// propose makes a decision on one of the further tools.
func (d *decider) propose(ctx context.Context, tool string) error {
	a, err := d.explain(ctx, tool, decisions[0].arguments)
	if err == nil && a.Code != record.CodePolicyDenied {
		err = fmt.Errorf("%s got %s (%s): %v", tool, a.Verdict, a.Code, a.Decision.Reasons)
	}
	return err
}

func (d *decider) explain(ctx context.Context, tool, arguments string) (dispatch.Answer, error) {
	d.seen.asked = 0
	x, err := d.boundary.Explain(ctx, dispatch.Proposal{Caller: d.caller, Tool: tool, Arguments: json.RawMessage(arguments)})
	if err == nil && d.seen.asked != 2 {
		err = fmt.Errorf("the policy was asked %d times; once to decide and once to explain was expected", d.seen.asked)
	}
	return x.Answer, err
}

// inputs are the documents that the policy was shown, decoded as for OPA.
func (d *decider) inputs(ctx context.Context) ([]any, error) {
	var out []any
	for n := range decisions {
		d.seen.note = true
		err := d.decide(ctx, n)
		if d.seen.note = false; err != nil {
			return nil, err
		}
		var doc any
		if err := json.Unmarshal(d.seen.text, &doc); err != nil {
			return nil, err
		}
		out = append(out, doc)
	}
	return out, nil
}

// listener is a layer that answers the question that decides, and not the one
// after it that only explains. It can note the input it is shown. Only one
// goroutine asks it.
type listener struct {
	policy.Layer
	asked int
	note  bool
	text  []byte
}

func (l *listener) Evaluate(ctx context.Context, p *policy.Prepared) policy.Opinion {
	if l.asked++; l.asked > 1 {
		return policy.Opinion{Verdict: record.Deny}
	}
	if l.note {
		l.text, _ = json.Marshal(p.Input) // a text that is missing fails to decode
	}
	return l.Layer.Evaluate(ctx, p)
}

// nothing is a store that knows one live run and keeps nothing.
type nothing struct{ dispatch.Store }

func (nothing) Apply(context.Context, record.Change) error { return nil }

func (nothing) LiveRun(_ context.Context, o record.Owner, label string) (record.Run, error) {
	return record.Run{Owner: o, ID: "run_bench", Lineage: "lin_bench", Label: label, Turn: 1, State: record.ModelPending, Active: time.Now(), Opened: time.Now(), Version: 1}, nil
}

func (nothing) Prior(context.Context, record.TenantID, record.LineageID, record.EffectKey, string) (dispatch.Prior, error) {
	return dispatch.Prior{}, nil
}

func (nothing) Rejected(context.Context, record.TenantID, record.LineageID, record.EffectKey) (*record.Rejection, error) {
	return nil, nil
}

func (nothing) Unused(context.Context, record.TenantID, record.LineageID, string, time.Time) (*record.Call, error) {
	return nil, nil
}

func (nothing) Lineage(context.Context, record.TenantID, record.LineageID) (record.Lineage, error) {
	return record.Lineage{}, nil
}

func (nothing) Epoch(context.Context, record.Owner) (int64, error) { return 0, nil }

func (nothing) Revocations(context.Context, record.TenantID) (record.Revocations, error) {
	return record.Revocations{}, nil
}

func (nothing) Generation(context.Context) (int64, string, error) { return 0, "", nil }

// nobody reaches no tool; nothing here is dispatched.
type nobody struct{}

func (nobody) Invoke(context.Context, dispatch.Ticket) dispatch.Reached { return dispatch.Reached{} }

func (nobody) Offer(context.Context, *registry.Server, string, time.Duration) (registry.Offer, error) {
	return registry.Offer{}, nil
}
