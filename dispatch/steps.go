package dispatch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math/big"
	"slices"
	"sync"
	"time"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/label"
	"github.com/placet-dev/placet/policy"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
)

// evaluation is one pass through steps 4 to 8 for one call. It is used once: a
// later request evaluates anew (rule C1).
type evaluation struct {
	b      *Boundary
	a      *active
	caller identity.Caller
	now    time.Time
	run    record.Run
	call   record.Call // the candidate, or the call as it was loaded
	was    record.Call // the call as it was loaded; zero for a candidate
	prior  Prior       // what equal effects there are; empty for reads
	tool   *registry.Tool
	server *registry.Server
	as     *registry.Tool // a dry run: the tool with the argument that makes it only read

	reasons   []record.Reason
	parts     []record.ApprovalPart // who must be asked, when somebody must
	expires   time.Duration         // the shortest that a rule states
	self      bool                  // every asking rule permits it
	why       bool                  // an asking rule demands that answers say why
	asked     bool
	passkey   bool                // some rule demands that a yes is signed
	rests     []record.PasskeyRef // the passkeys that the approval rests on
	consulted canon.Digest
	judged    []byte       // versions of what judged the call's objects
	route     record.Route // how it reached dispatch, where that is not how it was proposed
	proof     string       // that nothing happened before, of a later attempt that rests on it
	elsewhere bool         // the entry is reached by another method than was asked
	moved     error        // the record moved under a look-up: start over
	dry       bool         // nothing may be asked of tools and decision points
	opinions  []policy.Opinion
	scope     string // the scope that is missing
	questions Questions
	spends    *spending       // what the call costs, where its entry says
	unasked   []record.Charge // what running without a question counts, beside the rest

	revoked record.Revocations // as this evaluation read them
	fenced  bool               // it did

	lineage record.Lineage // as this evaluation read it
	looked  bool           // it did
	labels  []string       // of it, those that count now
	above   []record.Run   // the runs above a child run, the nearest first
	trace   *label.Trace   // where the call's values come from; nil: nothing was read or typed yet
}

// evaluate runs steps 4 to 8: cheap and deterministic first, authorisation
// before everything that counts, policy last of the reads. A step that denies
// ends it.
func (e *evaluation) evaluate(ctx context.Context) record.Decision {
	e.self = true
	ctx, span := e.b.spans.Start(ctx, "placet.decide")
	defer span.End()
	for _, step := range []func(context.Context) bool{
		e.resolveTool, e.checkRevoked, e.checkGrant, e.checkPin, // step 4, what operators withdrew, and what a child run may
		e.checkArguments, e.checkGuards, // step 5
		e.checkSource, e.checkCost, e.checkAmount, e.checkPrior, e.checkLabels,
		e.checkObjects, // steps 6 and 7
		e.checkPolicy,  // step 8
	} {
		if !step(ctx) {
			break
		}
	}
	return e.decision()
}

// say adds a reason and reports whether evaluation goes on.
func (e *evaluation) say(r record.Reason) bool {
	e.reasons = append(e.reasons, r)
	return r.Verdict != record.Deny || r.Observe
}

// resolveTool is step 4's first half: the registry is the only place where a tool
// gets authority. Unlisted, quarantined, withheld and not yours are one answer.
func (e *evaluation) resolveTool(context.Context) bool {
	name := e.call.Tool.Name
	tool, ok := e.a.Registry.Tool(name)
	if !ok || e.elsewhere {
		why := "not in the registry"
		if e.elsewhere {
			why = "asked for by another method than its entry is for: " + tool.Method.String()
		}
		for _, q := range e.a.Registry.Quarantined() {
			if q.Tool.Name == name {
				why = "quarantined: " + q.Reason
			}
		}
		return e.say(record.Reason{Rule: "registry", Verdict: record.Deny, Code: record.CodeNotAvailable, Private: why})
	}
	if e.as != nil {
		tool = e.as
	}
	e.tool = tool
	if scope, ok := e.a.admits(tool, e.caller); !ok {
		r := record.Reason{Rule: "registry callers", Place: tool.Place, Verdict: record.Deny, Code: record.CodeNotAvailable,
			Private: "the entry does not admit this principal, tenant, agent or group, or agents holds the agent to tools that read"}
		if scope != "" {
			e.scope = scope
			r.Rule, r.Code, r.Private = "registry scope", record.CodeMissingScope, "the principal lacks the scope "+scope
		}
		return e.say(r)
	}
	if e.server, ok = e.a.Registry.Server(tool.Server); !ok {
		return e.say(record.Reason{Rule: "registry", Place: tool.Place, Verdict: record.Deny, Code: record.CodeCannotDecide,
			Private: "the entry's server is not known"})
	}
	if e.call.State != record.None && e.call.Tool.Pin != tool.Pin.Digest {
		return e.say(record.Reason{Rule: "registry pin", Place: tool.Place, Verdict: record.Deny, Code: record.CodeNotAvailable,
			Private: "the tool was pinned anew since this call was proposed"})
	}
	return true
}

// checkPin is step 4's second half: what the server offers now must be what was
// pinned (rules H4, H5).
func (e *evaluation) checkPin(ctx context.Context) bool {
	if e.server.Inproc {
		return true // the offer and the handler are one program
	}
	offer, err := e.b.invoker.Offer(ctx, e.server, e.tool.Offered(), e.server.ToolsMaxAge)
	switch {
	case err != nil && record.KindOf(err) == record.NotFound:
		return e.say(record.Reason{Rule: "registry pin", Place: e.tool.Place, Verdict: record.Deny, Code: record.CodeNotAvailable,
			Private: "the server does not offer it now"})
	case err != nil:
		return e.say(record.Reason{Rule: "registry pin", Place: e.tool.Place, Verdict: record.Deny, Code: record.CodeCannotDecide,
			Private: "what the server offers cannot be checked: " + err.Error()})
	}
	if err := e.b.pins.check(e.tool, offer); err != nil {
		return e.say(record.Reason{Rule: "registry pin", Place: e.tool.Place, Verdict: record.Deny, Code: record.CodeNotAvailable,
			Private: "quarantined: the server " + err.Error()})
	}
	return true
}

// checkArguments is step 5: the pinned schema over the canonical form.
func (e *evaluation) checkArguments(context.Context) bool {
	if err := e.tool.CheckArguments(e.call.Arguments); err != nil {
		r := record.Reason{Rule: "registry schema", Place: e.tool.Place, Verdict: record.Deny, Code: record.CodeInvalidArguments,
			Public: record.PublicMessage(err)}
		if record.KindOf(err) != record.Invalid {
			r.Code, r.Public, r.Private = record.CodeCannotDecide, "", err.Error()
		}
		return e.say(r)
	}
	if len(e.call.Input) > 0 && !e.server.InputRequired {
		return e.say(record.Reason{Rule: "registry input_required", Place: e.server.Place, Verdict: record.Deny,
			Code: record.CodeInvalidArguments, Public: "this tool takes no answers to questions of its server"})
	}
	if e.tool.Approval.Purpose && e.call.Purpose == "" {
		return e.say(record.Reason{Rule: "registry purpose", Place: e.tool.Place, Verdict: record.Deny,
			Code: record.CodeInvalidArguments, Public: "a purpose must be stated"})
	}
	return true
}

// ask adds the registry's own question: the entry's approvers, or the default.
func (e *evaluation) ask(r record.Reason) bool {
	r.Verdict, r.Place, r.Version, r.Observe = record.RequiresApproval, e.tool.Place, e.tool.Digest.String(), e.tool.Observe
	if !r.Observe && !e.asked {
		e.asked = true
		e.why = e.why || e.tool.Approval.Reason
		if part, ok := e.a.parts[e.tool.Name]; ok {
			e.demand(part, e.tool.Approval.Expires, e.tool.Approval.Self)
		} else {
			e.demandDefault(1, e.tool.Approval.Expires)
		}
	}
	return e.say(r)
}

func (e *evaluation) demand(part record.ApprovalPart, expires time.Duration, self bool) {
	e.parts = append(e.parts, part)
	e.self = e.self && self
	if expires > 0 && (e.expires == 0 || expires < e.expires) {
		e.expires = expires
	}
}

func (e *evaluation) demandDefault(quorum int, expires time.Duration) {
	d := e.a.Default
	if d == nil {
		e.demand(record.ApprovalPart{From: "default"}, 0, false) // nobody: no_approver
		return
	}
	e.passkey = e.passkey || d.Passkey
	part := d.Part
	part.Quorum = max(part.Quorum, quorum, 1)
	if expires == 0 {
		expires = d.Expires
	}
	e.why = e.why || d.Reason
	e.demand(part, expires, d.Self)
}

// checkSource is rule A3: below the listed sources the registry asks, or denies.
func (e *evaluation) checkSource(context.Context) bool {
	if !e.tool.Accepts(e.call.Source) {
		r := record.Reason{Rule: "registry sources", Place: e.tool.Place, Code: record.CodeSourceNotShown,
			Private: "the source is " + string(e.call.Source)}
		if e.tool.SourcesBelow == record.RequiresApproval {
			return e.ask(r)
		}
		r.Verdict, r.Instead = record.Deny, e.tool.Instead
		return e.say(r)
	}
	return true
}

// checkAmount is the entry's own approval rule.
func (e *evaluation) checkAmount(ctx context.Context) bool {
	switch e.tool.Approval.When {
	case registry.Asked:
		return true
	case registry.AboveLimit:
		limit := e.tool.AutonomousLimit
		if limit != nil {
			// An amount that cannot be read is above every limit.
			if amount, ok := amountOf(e.call.Arguments, limit.Argument); ok && amount.Sign() >= 0 && amount.Cmp(limit.Max.Rat()) <= 0 {
				if over := e.alone(ctx, limit, amount); over != nil {
					return e.ask(*over)
				}
				return true
			}
		}
		return e.ask(record.Reason{Rule: "registry above_limit", Code: record.CodeAboveLimit})
	default: // always, and anything this program does not know
		return e.ask(record.Reason{Rule: "registry approval", Code: record.CodeAlwaysAsks})
	}
}

func amountOf(arguments []byte, name string) (*big.Rat, bool) {
	value, ok := canon.Lookup(arguments, name)
	if !ok {
		return nil, false
	}
	return canon.Decimal(value)
}

// checkPrior is what equal effects say: rules A7, A8 and A9.
func (e *evaluation) checkPrior(ctx context.Context) bool {
	rejection := e.prior.Rejection
	if e.tool.Read {
		var err error
		if rejection, err = e.b.store.Rejected(ctx, e.call.Tenant, e.call.Lineage, e.call.Effect); err != nil {
			return e.say(record.Reason{Rule: "store", Verdict: record.Deny, Code: record.CodeCannotDecide, Private: err.Error()})
		}
	}
	if r := rejection; r != nil && (e.run.Vouched || e.now.Sub(r.At) < e.b.limits.TaintLasts) {
		return e.say(record.Reason{Rule: "rejection " + string(r.Approval), Verdict: record.Deny, Code: record.CodeRejected, Public: r.Note})
	}
	for _, c := range e.prior.Unsettled {
		if c.ID != e.call.ID {
			e.call.Shown = c.ID
			return e.ask(record.Reason{Rule: "unsettled " + string(c.ID), Code: record.CodeEffectUnsettled})
		}
	}
	if done := e.prior.Done; done != nil && e.call.State == record.None && e.call.Occurrence == "" && e.repeats(done) && e.tool.Repeat.Answer == registry.RepeatAsk {
		e.call.Shown = done.ID
		return e.ask(record.Reason{Rule: "registry repeat", Code: record.CodeRepeatAsks, Private: "equal to " + string(done.ID)})
	}
	return true
}

// repeats reports whether an equal call that succeeded is recent enough to count.
func (e *evaluation) repeats(done *record.Call) bool {
	return done.Outcome != nil && e.now.Sub(done.Outcome.At) < e.tool.Repeat.Within
}

// checkPolicy asks the layers, each alone; the strictest counts (rule H1).
func (e *evaluation) checkPolicy(ctx context.Context) bool {
	e.opinions = e.a.Policy.Evaluate(ctx, e.input())
	combined := policy.Combine(e.opinions)
	e.consulted = policy.Consulted(e.opinions)
	for _, r := range combined.Reasons {
		r.Observe = r.Observe || e.tool.Observe
		e.reasons = append(e.reasons, r)
	}
	if combined.Verdict == record.RequiresApproval && !e.tool.Observe {
		e.passkey = e.passkey || combined.Passkey
		for _, p := range combined.Parts {
			e.demand(p, combined.Expires, combined.Self)
		}
		if combined.Default {
			e.demandDefault(combined.Quorum, combined.Expires)
		}
		e.why = e.why || combined.Reason
		if combined.Purpose && e.call.Purpose == "" {
			return e.say(record.Reason{Rule: "policy purpose", Verdict: record.Deny, Code: record.CodeInvalidArguments, Public: "a purpose must be stated"})
		}
	}
	return true
}

// input is the document the layers judge.
func (e *evaluation) input() *policy.Input {
	owner := e.caller.Owner()
	in := &policy.Input{
		Tool: policy.Tool{Name: e.tool.Name, Server: e.tool.Server, Version: e.tool.Digest.String(),
			Method: e.tool.Method.String(),
			Flags:  policy.Flags{Read: e.tool.Read, Write: e.tool.Write, Destructive: e.tool.Destructive, Financial: e.tool.Financial, Sink: e.tool.Sink, Privacy: e.tool.Privacy}},
		Args: e.call.Arguments,
		Principal: policy.Principal{Principal: owner.Principal, Tenant: owner.Tenant, Scopes: e.caller.Scopes(),
			Groups: e.caller.Groups(), GroupsKnown: true, Claims: e.caller.Claims()},
		Agent:   policy.Agent{ID: owner.Agent},
		Run:     policy.Run{ID: e.call.Run, Turn: e.call.Turn, Parent: e.run.Parent, Labels: e.shownLabels()},
		Call:    policy.Call{ID: e.call.ID, Source: e.call.Source, Route: cmp.Or(e.route, e.call.Route), Attempt: e.call.Attempt, Purpose: e.call.Purpose},
		Env:     e.a.Environment,
		Time:    e.now,
		Limits:  policy.Limits{},
		Origins: e.originsOf(),
	}
	if s := e.server; s != nil && s.Network != nil {
		in.Tool.Network = s.Network[0].Name
	}
	if e.tool.Pin != nil {
		in.Tool.Annotations = e.tool.Pin.Annotations
	}
	for _, t := range e.call.Targets {
		target := policy.Target{Argument: t.Argument, Value: textOf(t.Value)}
		if g := e.tool.Guard(t.Argument); g != nil {
			target.Kind = g.Resource
		}
		in.Targets = append(in.Targets, target)
	}
	if l := e.tool.AutonomousLimit; l != nil {
		in.Limits.Autonomous = l.Max.String()
		if amount, ok := amountOf(e.call.Arguments, l.Argument); ok {
			in.Amounts = map[string]string{l.Argument: decimalText(amount)}
		}
	}
	return in
}

// textOf is a JSON string's text, or any other value's JSON.
func textOf(value json.RawMessage) string {
	var s string
	if json.Unmarshal(value, &s) == nil {
		return s
	}
	return string(value)
}

// decimalText writes an exact decimal. Amounts are decimals, so 18 places lose
// nothing that an amount may have; a value that needs more is written rounded
// up, and so can only look larger to a limit.
func decimalText(r *big.Rat) string {
	if r.IsInt() {
		return r.Num().String()
	}
	return r.FloatString(18)
}

// decision takes the strictest of the reasons that apply, and names who must be
// asked. A question nobody can answer is a denial.
func (e *evaluation) decision() record.Decision {
	d := record.Decision{Verdict: record.Allow, Reasons: e.reasons, At: e.now, Generation: e.a.generation, Labels: e.labels}
	if e.trace != nil {
		d.Origins = e.trace.Origins[:min(len(e.trace.Origins), maxOrigins)]
	}
	for _, r := range e.reasons {
		if r.Observe {
			continue
		}
		if was := d.Verdict; was.Stricter(r.Verdict) != was {
			d.Verdict, d.Code = was.Stricter(r.Verdict), r.Code
		}
	}
	// A layer's own denial explains more than one that could not decide.
	if d.Code == record.CodeCannotDecide {
		for _, r := range e.reasons {
			if !r.Observe && r.Verdict == record.Deny && r.Code != record.CodeCannotDecide {
				d.Code = r.Code
				break
			}
		}
	}
	if d.Verdict == record.RequiresApproval {
		// The entry's demand holds whoever asks.
		d.Rule = &record.ApprovalRule{Parts: e.parts, Expires: e.expires, Self: e.self, Reason: e.why,
			Passkey: e.passkey || e.tool.Approval.Passkey && !e.tool.Observe}
		e.ownLogins(d.Rule)
		if d.Rule.Expires <= 0 {
			d.Rule.Expires = 4 * time.Hour
		}
		if !d.Rule.Reachable(e.call.Owner, e.a.People) {
			d.Verdict, d.Code, d.Rule = record.Deny, record.CodeNoApprover, nil
			d.Reasons = append(d.Reasons, record.Reason{Rule: "approvals.default", Verdict: record.Deny, Code: record.CodeNoApprover,
				Private: "approval is asked for, and nobody is named who could give it to this principal"})
		}
	}
	d.DecidedBy = e.decidedBy(d.Rule)
	return d
}

// ownLogins names the principal's other logins where the principal may answer: the
// console may be at another issuer than the agent's user.
func (e *evaluation) ownLogins(rule *record.ApprovalRule) {
	for i := range rule.Parts {
		p := &rule.Parts[i]
		if others := e.a.People.Logins(e.call.Principal)[1:]; p.Principal && rule.Self && len(others) > 0 {
			p.People = append(slices.Clone(p.People), others...)
		}
	}
}

// decidedBy digests what decided this call: its registry entry, the layers
// consulted and the approval rule (rule D1). A change elsewhere leaves it equal.
func (e *evaluation) decidedBy(rule *record.ApprovalRule) string {
	var entry []byte
	if e.tool != nil {
		entry = e.tool.Digest[:]
	}
	text, err := json.Marshal(rule)
	if err != nil {
		return ""
	}
	parts := [][]byte{entry, e.consulted[:], text}
	if len(e.judged) > 0 {
		parts = append(parts, e.judged) // came later: it leaves the digests of calls without it
	}
	return canon.Of("placet/decided/1", parts...).String()
}

// charges are what a reservation counts (rules B1, B3, E4). A later attempt of a
// call was counted before; it takes only its place among the concurrent ones.
func (e *evaluation) charges() []record.Charge {
	t, p := e.tool, e.call.Principal
	lasts := e.lasts()
	if e.call.Route == record.RouteSupport {
		return e.supportCharges()
	}
	out := make([]record.Charge, 0, 5)
	if t.Concurrent > 0 {
		out = append(out, record.Charge{Counter: record.CounterFor("concurrent", t.Name, p.Issuer, p.Subject), Amount: 1,
			Limit: int64(t.Concurrent), Code: record.CodeRateLimited, Hold: true})
	}
	if n := t.PerTenant.Concurrent; n > 0 {
		out = append(out, record.Charge{Counter: record.CounterFor("tenant_concurrent", t.Name), Amount: 1,
			Limit: int64(n), Code: record.CodeRateLimited, Hold: true})
	}
	if e.call.Attempt > 0 {
		return out
	}
	out = append(out, e.tenantCharges()...)
	out = append(out, e.grantCharges()...)
	out = append(out, e.spends.charges(e, lasts)...)
	if t.PerMinute > 0 {
		out = append(out, record.Charge{Counter: record.CounterFor("minute", t.Name, p.Issuer, p.Subject), Amount: 1,
			Limit: int64(t.PerMinute), Window: time.Minute, Code: record.CodeRateLimited})
	}
	if t.PerRun > 0 {
		out = append(out, record.Charge{Counter: record.CounterFor("run_tool", string(e.call.Lineage), t.Name), Amount: 1,
			Limit: int64(t.PerRun), Window: lasts, Code: record.CodeLimitReached})
	}
	out = append(out, record.Charge{Counter: record.CounterFor("run", string(e.call.Lineage)), Amount: 1,
		Limit: e.b.limits.CallsPerRun, Window: lasts, Code: record.CodeLimitReached})
	if e.run.Turns {
		out = append(out, record.Charge{Counter: record.CounterFor("turn", string(e.call.Run), e.run.Turn.String()), Amount: 1,
			Limit: e.b.limits.CallsPerTurn, Code: record.CodeLimitReached})
	}
	return out
}

// premise is what this evaluation read and its commit must find unchanged.
func (e *evaluation) premise() *record.Premise {
	p := &record.Premise{Tenant: e.call.Tenant, Run: e.call.Run, Owner: e.call.Owner, Turn: e.run.Turn, Generation: e.a.generation}
	if e.call.State == record.None {
		p.Seen = e.prior.Seen
	}
	p.Passkeys = e.rests
	if e.fenced {
		p.Revoked = &e.revoked.Fence
	}
	p.Delegated = isAway(e.route)
	if e.looked {
		p.Lineage, p.Labels = e.call.Lineage, e.lineage.Version
	}
	p.Touch = e.now.Sub(e.run.Active) > e.b.limits.Idle/8
	return p
}

// pinCache remembers the last comparison of an offer with a pin, since servers
// offer the same for a long time.
type pinCache struct {
	mu    sync.RWMutex
	known map[string]pinned
}

type pinned struct {
	pin   canon.Digest
	offer registry.Offer
	err   error
}

func (c *pinCache) check(t *registry.Tool, offer registry.Offer) error {
	if t.Pin == nil {
		return errors.New("has no pin")
	}
	c.mu.RLock()
	have, ok := c.known[t.Name]
	c.mu.RUnlock()
	if ok && have.pin == t.Pin.Digest && sameOffer(have.offer, offer) {
		return have.err
	}
	err := t.Pin.Check(offer)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known[t.Name] = pinned{t.Pin.Digest, offer, err}
	return err
}

func sameOffer(a, b registry.Offer) bool {
	return a.Name == b.Name && a.Title == b.Title && a.Description == b.Description && a.Definition == b.Definition &&
		string(a.InputSchema) == string(b.InputSchema) && string(a.OutputSchema) == string(b.OutputSchema) &&
		string(a.Annotations) == string(b.Annotations) && a.Method == b.Method && a.MimeType == b.MimeType
}
