package dispatch

import (
	"context"
	"encoding/json"
	"runtime"
	"time"

	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
)

// Dispatch continues a call by its ID: all ten steps. Its caller must be the
// call's own tenant, principal and agent; for anybody else there is no such call.
func (b *Boundary) Dispatch(ctx context.Context, c identity.Caller, id record.CallID, progress func(json.RawMessage)) (a Answer, err error) {
	ctx, done := b.spans.call(ctx, "", id)
	defer func() { done(a, err) }()
	return b.again(func() (Answer, error) { return b.resume(ctx, c, id, true, progress) })
}

// again starts over while the record moves under a request.
func (b *Boundary) again(f func() (Answer, error)) (Answer, error) {
	for range maxConflicts {
		a, err := f()
		if refusal(err) == nil {
			return a, err
		}
		runtime.Gosched()
	}
	return b.undecided("", "the record kept changing"), nil
}

// own loads a call for its owner (steps 1 and 2).
func (b *Boundary) own(ctx context.Context, c identity.Caller, id record.CallID) (Loaded, error) {
	if !c.Valid() {
		return Loaded{}, record.Errorf(record.Unauthenticated, "no verified identity came with this request")
	}
	none := record.Errorf(record.NotFound, "there is no call %q here", id)
	if !record.ValidID("call", string(id)) {
		return Loaded{}, record.Errorf(record.NotFound, "there is no such call here")
	}
	l, err := b.store.Call(ctx, c.Owner().Tenant, id)
	switch {
	case err != nil && record.KindOf(err) == record.NotFound:
		return Loaded{}, none
	case err != nil:
		return Loaded{}, err
	case l.Call.Owner != c.Owner():
		b.foreign(ctx, c, "call "+string(id))
		return Loaded{}, none
	}
	return l, nil
}

// resume answers for a call that exists; with dispatch it moves it on. A
// *record.Refusal among its errors means: start over.
func (b *Boundary) resume(ctx context.Context, c identity.Caller, id record.CallID, dispatch bool, progress func(json.RawMessage)) (Answer, error) {
	for {
		l, err := b.own(ctx, c, id)
		if err != nil {
			return Answer{}, err
		}
		a, err := b.resumeOnce(ctx, c, l, dispatch, progress)
		if err != nil || a.State() != record.Unknown || !a.Ran || ctx.Err() != nil {
			return a, err
		}
		if next, ok := b.retryable(*a.Call); !ok || !next || a.Call.Queued {
			return a, nil // a queued call has time: its next attempt waits
		}
		// The registry says that trying again is safe, the caller is still here,
		// and every attempt is evaluated anew (rule E2).
	}
}

// retryable reports whether the registry lets an unknown call be tried again now.
func (b *Boundary) retryable(c record.Call) (bool, bool) {
	a := b.now.Load()
	if a == nil {
		return false, false
	}
	tool, ok := a.Registry.Tool(c.Tool.Name)
	if !ok {
		return false, false
	}
	allowed := (tool.Retry == registry.RetrySafe && tool.Read) || tool.Retry == registry.RetryIdempotent
	return allowed && c.Attempt < c.Attempts, true
}

func (b *Boundary) resumeOnce(ctx context.Context, caller identity.Caller, l Loaded, dispatch bool, progress func(json.RawMessage)) (Answer, error) {
	now := b.clock()
	c := l.Call
	switch c.State {
	case record.Succeeded, record.Failed, record.Unknown, record.Executing:
		// Whoever may not call the tool now may not read what it returned either.
		if a, withheld, err := b.withheld(ctx, caller, c, now); withheld || err != nil {
			return a, err
		}
	}
	switch c.State {
	case record.Succeeded:
		return b.fromRecord(c, record.CodeAlreadyDone), nil
	case record.Failed:
		return b.fromRecord(c, record.CodeFailed), nil
	case record.Denied, record.Expired, record.Canceled, record.Revoked:
		return ended(c), nil
	case record.Executing:
		a := b.fromRecord(c, record.CodeInProgress)
		return a, nil
	case record.Unknown:
		switch ok, _ := b.retryable(c); {
		case !dispatch || ok && now.Before(c.Again):
			a := b.fromRecord(c, record.CodeOutcomeUnknown)
			a.Retry = c.Again
			return a, nil
		case !ok:
			return b.reconcile(ctx, caller, l, "", progress)
		}
	case record.Proposed, record.ApprovalPending, record.DispatchAuthorized:
		if !l.Run.Live() {
			return Answer{Verdict: record.Deny, Code: record.CodeRunEnded, Call: &c, Tool: c.Tool.Name}, nil
		}
		if !now.Before(c.Expires) {
			return b.expire(ctx, l, now)
		}
	default:
		return b.undecided(c.Tool.Name, "a state this program does not know"), nil
	}
	if !dispatch {
		return waitingAnswer(l), nil
	}
	return b.decideAgain(ctx, caller, l, again{at: now}, progress)
}

// admits reports whether a caller may call a tool now, as far as the registry says.
func (b *Boundary) admits(c identity.Caller, name string) bool {
	a := b.now.Load()
	if a == nil {
		return false
	}
	tool, ok := a.Registry.Tool(name)
	if ok {
		_, ok = a.admits(tool, c)
	}
	return ok
}

// withheld denies the answer of a call whose tool the caller may not call now.
func (b *Boundary) withheld(ctx context.Context, caller identity.Caller, c record.Call, now time.Time) (Answer, bool, error) {
	a := b.now.Load()
	if a == nil {
		return b.undecided(c.Tool.Name, "nothing is active"), true, nil
	}
	code, scope := record.CodeNotAvailable, ""
	if b.stopped(ctx, c) {
		code = record.CodeRevoked
	} else if tool, ok := a.Registry.Tool(c.Tool.Name); ok {
		if scope, ok = tool.Admits(caller.Owner(), caller.Scopes(), caller.Groups()); ok {
			return Answer{}, false, nil
		}
		if scope != "" {
			code = record.CodeMissingScope
		}
	}
	answer, err := b.refuse(ctx, caller, now, c.Tool.Name, code, "the outcome of "+string(c.ID)+" is withheld")
	answer.Scope = scope
	return answer, true, err
}

// again is how a call that exists comes to be decided anew.
type again struct {
	at    time.Time
	route record.Route // how it got here, where that is not how it was proposed
	proof string       // that nothing happened, of an unknown call that is tried again for it (rule E2)
}

// decideAgain evaluates a call that exists anew and moves it.
func (b *Boundary) decideAgain(ctx context.Context, caller identity.Caller, l Loaded, how again, progress func(json.RawMessage)) (Answer, error) {
	a := b.now.Load()
	if a == nil {
		return b.undecided(l.Call.Tool.Name, "nothing is active"), nil
	}
	e := &evaluation{b: b, a: a, caller: caller, now: how.at, run: l.Run, call: l.Call, was: l.Call, route: how.route, proof: how.proof}
	if err := e.climb(ctx); err != nil {
		return b.undecided(e.call.Tool.Name, err.Error()), nil
	}
	if !l.Call.Tool.ReadOnly {
		prior, err := b.store.Prior(ctx, e.call.Tenant, e.call.Lineage, e.call.Effect, e.call.Occurrence)
		if err != nil {
			return b.undecided(e.call.Tool.Name, err.Error()), nil
		}
		e.prior = prior
	}
	d := e.evaluate(ctx)
	if e.moved != nil {
		return Answer{}, e.moved
	}
	if e.tool != nil {
		e.call.Tool.Version = e.tool.Digest
	}
	unknown := l.Call.State == record.Unknown
	switch d.Verdict {
	case record.Allow:
		e.call.Binding = record.BindingOf(e.call, nil, time.Time{}, d.DecidedBy)
		return b.run(ctx, e, d, nil, live(l.Approval), progress)
	case record.RequiresApproval:
		return b.askAgain(ctx, e, d, l, progress)
	default:
		switch {
		case unknown:
			// The call stays unknown: a denial now says nothing about what happened (rule D2).
			return b.fromRecord(l.Call, record.CodeOutcomeUnknown), nil
		case d.Code == record.CodeCannotDecide:
			return b.keep(ctx, e, d)
		}
		return b.record(ctx, e, d, func() (record.Change, error) { return record.Refuse(e.call, e.step(d), live(l.Approval)) })
	}
}

// keep denies a request that could not be decided and leaves the call as it is, its
// approval unused: what people said is not lost to a pause of a server, a policy
// or an issuer.
func (b *Boundary) keep(ctx context.Context, e *evaluation, d record.Decision) (Answer, error) {
	if err := b.postpone(ctx, e.was, e.step(d)); err != nil {
		return b.undecided(e.call.Tool.Name, err.Error()), nil
	}
	return e.answer(d, e.call), nil
}

// live returns an approval that still could be used, for voiding.
func live(a *record.Approval) *record.Approval {
	if a != nil && (a.State == record.Pending || a.State == record.Approved) {
		return a
	}
	return nil
}

// askAgain is step 7: is there an approval for the binding recomputed now? If
// not, it is a new question; the old one is voided with it (rules D1 to D3).
func (b *Boundary) askAgain(ctx context.Context, e *evaluation, d record.Decision, l Loaded, progress func(json.RawMessage)) (Answer, error) {
	q := l.Approval
	if q != nil {
		// What runs is what is bound, whatever digest lies beside it.
		e.call.Digest = record.ArgumentDigest(e.call.Arguments, e.call.Input)
		d.Rule.Preview = q.Rule.Preview // what was shown with it stays what the yes is for
		binding := record.BindingOf(e.call, d.Rule, q.Expires, d.DecidedBy)
		same := binding == q.Binding && e.now.Before(q.Expires)
		used := q.State == record.Consumed && e.call.State == record.Unknown
		e.call.Binding = binding
		if same && d.Rule.Passkey && q.State != record.Pending {
			answers, rests, err := b.proved(ctx, *q)
			if err != nil {
				return b.undecided(e.call.Tool.Name, err.Error()), nil
			}
			q.Answers, e.rests = answers, rests
		}
		switch {
		// Who counts is asked of what is active now, not of when they answered (rule D5).
		case same && (q.State == record.Approved || used) && d.Rule.Met(e.counted(*q), binding, e.call.Owner, e.a.People):
			return b.run(ctx, e, d, q, nil, progress)
		case same && q.State == record.Pending:
			return waitingAnswer(l), nil
		}
	}
	if e.call.State == record.Unknown {
		return b.fromRecord(l.Call, record.CodeOutcomeUnknown), nil // it would need a new yes, which is the operator's to seek
	}
	if q != nil {
		d.Code = record.CodeNewQuestion
	}
	return b.hold(ctx, e, d, live(q))
}

// waitingAnswer says where a call stands that nobody moved.
func waitingAnswer(l Loaded) Answer {
	c := l.Call
	a := Answer{Verdict: c.Decision.Verdict, Code: c.Decision.Code, Call: &c, Decision: c.Decision, Approval: l.Approval,
		Tool: c.Tool.Name, Retry: c.Decision.RetryAfter}
	if c.InQueue() {
		a.Verdict, a.Code, a.Retry = record.Allow, record.CodeQueued, c.Again
	}
	if c.State == record.ApprovalPending {
		a.Verdict = record.RequiresApproval
		if l.Approval != nil {
			a.Code = l.Approval.Code
		}
	}
	return a
}

// ended says why a call will not run any more.
func ended(c record.Call) Answer {
	a := Answer{Verdict: record.Deny, Code: c.Decision.Code, Call: &c, Decision: c.Decision, Tool: c.Tool.Name}
	if c.Outcome != nil && c.Outcome.Code != record.CodeNone {
		a.Code, a.Note = c.Outcome.Code, c.Outcome.Detail
	}
	if a.Code == record.CodeNone {
		a.Code = map[record.State]record.Code{record.Expired: record.CodeExpired, record.Canceled: record.CodeCanceled,
			record.Revoked: record.CodeRevoked, record.Denied: record.CodePolicyDenied}[c.State]
	}
	return a
}

// expire ends a call whose time is over, with its question.
func (b *Boundary) expire(ctx context.Context, l Loaded, now time.Time) (Answer, error) {
	change, err := record.End(l.Call, record.Expired, record.ByClock, record.CodeExpired,
		record.Step{At: now, Who: record.Who{System: "clock"}}, l.Approval)
	if err != nil {
		return Answer{}, err
	}
	if err := b.apply(ctx, change); err != nil {
		if refusal(err) != nil {
			return Answer{}, err
		}
		return b.undecided(l.Call.Tool.Name, err.Error()), nil
	}
	return ended(change.Facts().Call.After), nil
}

// Show says where a call stands, to its owner, and moves nothing.
func (b *Boundary) Show(ctx context.Context, c identity.Caller, id record.CallID) (Answer, error) {
	l, err := b.own(ctx, c, id)
	if err != nil {
		return Answer{}, err
	}
	if !b.admits(c, l.Call.Tool.Name) && l.Call.Outcome != nil {
		// Whoever may not call the tool now may not read what it returned either.
		outcome := *l.Call.Outcome
		outcome.Result = nil
		l.Call.Outcome = &outcome
	}
	switch l.Call.State {
	case record.Succeeded:
		return b.fromRecord(l.Call, record.CodeNone), nil
	case record.Failed:
		return b.fromRecord(l.Call, record.CodeFailed), nil
	case record.Executing:
		return b.fromRecord(l.Call, record.CodeInProgress), nil
	case record.Unknown:
		return b.fromRecord(l.Call, record.CodeOutcomeUnknown), nil
	case record.Denied, record.Expired, record.Canceled, record.Revoked:
		return ended(l.Call), nil
	default:
		return waitingAnswer(l), nil
	}
}

// Cancel ends a waiting call for its owner. One that executes is asked to stop
// and finishes as it finishes.
func (b *Boundary) Cancel(ctx context.Context, c identity.Caller, id record.CallID) (Answer, error) {
	return b.again(func() (Answer, error) {
		l, err := b.own(ctx, c, id)
		if err != nil {
			return Answer{}, err
		}
		if !l.Call.State.Waiting() {
			if l.Call.State == record.Executing {
				b.stop(ctx, id)
			}
			return b.Show(ctx, c, id)
		}
		change, err := record.End(l.Call, record.Canceled, record.ByPrincipal, record.CodeCanceled,
			record.Step{At: b.clock(), Who: l.Call.By()}, live(l.Approval))
		if err != nil {
			return Answer{}, err
		}
		if err := b.apply(ctx, change); err != nil {
			return Answer{}, err
		}
		return ended(change.Facts().Call.After), nil
	})
}
