package dispatch

import (
	"context"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/policy"
	"github.com/placet-dev/placet/record"
)

// Explanation is what a proposal would get, and why. For operators: it names
// rules and places.
type Explanation struct {
	Answer   Answer
	Layers   []policy.Explained
	Charges  []record.Charge // what a reservation would count; whether there is room is known only then
	Existing *record.Call    // the call that the proposal would get instead of a new one
	Repeat   *record.Call    // the call whose result it would be answered with
}

// Explain evaluates a proposal like Propose and records nothing.
func (b *Boundary) Explain(ctx context.Context, p Proposal) (Explanation, error) {
	if !p.Caller.Valid() {
		return Explanation{}, record.Errorf(record.Unauthenticated, "no verified identity came with this request")
	}
	now, a := b.clock(), b.now.Load()
	deny := func(code record.Code, why string) Explanation {
		d := record.Decision{Verdict: record.Deny, Code: code, At: now, Reasons: []record.Reason{{Rule: "boundary", Verdict: record.Deny, Code: code, Private: why}}}
		return Explanation{Answer: Answer{Verdict: record.Deny, Code: code, Tool: p.Tool, Decision: d, Note: why}}
	}
	if a == nil {
		return deny(record.CodeCannotDecide, "nothing is active"), nil
	}
	if !toolName(p.Tool) {
		return deny(record.CodeNotAvailable, "a tool name of another form"), nil
	}
	if err := p.labels(); err != nil {
		return Explanation{}, err
	}
	arguments, blank, err := canon.Object(p.Arguments, canon.Limits{Bytes: b.limits.ArgumentBytes})
	if err != nil {
		return deny(record.CodeInvalidArguments, err.Error()), nil
	}
	owner := p.Caller.Owner()
	epoch, err := b.store.Epoch(ctx, owner)
	if err != nil {
		return Explanation{}, err
	}
	run := record.Run{Owner: owner, Lineage: record.UnvouchedLineage(owner, epoch), Turn: 1, State: record.ModelPending, Active: now}
	if p.Run != "" {
		if run, err = b.ownRun(ctx, p.Caller, p.Run); err != nil {
			return Explanation{}, err
		}
	} else if live, err := b.store.LiveRun(ctx, owner, p.RunLabel); err == nil {
		run = live
	}
	e := &evaluation{b: b, a: a, caller: p.Caller, now: now, run: run, dry: true}
	if err := e.candidate(&p, arguments, nil, blank); err != nil {
		return Explanation{}, err
	}
	if err := e.climb(ctx); err != nil {
		return deny(record.CodeCannotDecide, "the store does not answer"), nil
	}
	var x Explanation
	if tool, ok := a.Registry.Tool(p.Tool); ok {
		e.normalise(tool)
		e.identify(tool)
		if !tool.Read {
			if e.prior, err = b.store.Prior(ctx, e.call.Tenant, e.call.Lineage, e.call.Effect, e.call.Occurrence); err != nil {
				return deny(record.CodeCannotDecide, "the store does not answer"), nil
			}
			x.Existing = e.prior.Equal
			if done := e.prior.Done; done != nil && e.call.Occurrence == "" && e.repeats(done) {
				x.Repeat = done
			}
		}
	}
	d := e.evaluate(ctx)
	x.Answer = e.answer(d, e.call)
	x.Answer.Call = nil // nothing was recorded
	if e.tool != nil {
		x.Charges = e.charges()
		x.Layers = a.Policy.Explain(ctx, e.input())
	}
	return x, nil
}
