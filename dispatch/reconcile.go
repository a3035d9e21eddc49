package dispatch

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"time"

	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
)

// reconcileLabel names the runs that look-ups are made in where the call's own has
// ended, or is not the reconciler's.
const reconcileLabel = "reconcile"

// Reconcile settles an unknown call with evidence, by an operator of its tenant. That
// nothing happened counts only once nothing can happen any more (rule E3).
func (b *Boundary) Reconcile(ctx context.Context, o identity.Operator, tenant record.TenantID, id record.CallID, to record.State, evidence string) (record.Call, error) {
	switch {
	case !o.Valid():
		return record.Call{}, record.Errorf(record.Forbidden, "reconciling needs the operate permission")
	case o.Tenant() != tenant:
		return record.Call{}, record.Errorf(record.NotFound, "there is no call %q here", id)
	case to != record.Succeeded && to != record.Failed:
		return record.Call{}, record.Errorf(record.Invalid, "an outcome is %q or %q", record.Succeeded, record.Failed)
	case evidence == "" || len(evidence) > maxNote:
		return record.Call{}, record.Errorf(record.Invalid, "state the evidence, in at most %d bytes", maxNote)
	}
	l, err := b.unsettled(ctx, tenant, id)
	if err != nil {
		return record.Call{}, err
	}
	now := b.clock()
	if from := b.settlesAt(l.Call); to == record.Failed && now.Before(from) {
		return record.Call{}, record.Errorf(record.Conflict, "until %s the effect may still appear; only after that does anything prove that nothing happened", from.Format(time.RFC3339))
	}
	out := record.Outcome{Sent: true, By: o.Name(), Evidence: evidence}
	if l.Call.Outcome != nil {
		out.Result, out.Digest, out.Detail = l.Call.Outcome.Result, l.Call.Outcome.Digest, l.Call.Outcome.Detail
	}
	return b.settleUnknown(ctx, l.Call, to, out, record.Who{Workload: o.Name()}, now)
}

// unsettled loads a call of a tenant whose outcome is not known.
func (b *Boundary) unsettled(ctx context.Context, tenant record.TenantID, id record.CallID) (Loaded, error) {
	l, err := b.store.Call(ctx, tenant, id)
	if err == nil && l.Call.State != record.Unknown {
		err = record.Errorf(record.Conflict, "the call is %s; only an unknown outcome is reconciled", l.Call.State)
	}
	return l, err
}

func (b *Boundary) settleUnknown(ctx context.Context, c record.Call, to record.State, out record.Outcome, who record.Who, now time.Time) (record.Call, error) {
	if to == record.Failed {
		out.Code = record.CodeFailed
	}
	change, err := record.Settle(c, to, out, record.Step{At: now, Who: who}, record.ByReconcile)
	if err == nil {
		err = b.apply(ctx, change)
	}
	if err != nil {
		return record.Call{}, err
	}
	return change.Facts().Call.After, nil
}

// settlesAt is from when on something may prove that nothing happened: the lease and the
// dispatch token of every attempt have ended, and the time passed in which the tool's
// effects may still appear (rule E3).
func (b *Boundary) settlesAt(c record.Call) time.Time {
	over := c.Lease
	if over.IsZero() && c.Outcome != nil {
		over = c.Outcome.At.Add(longestLease) // recorded by a version that did not keep it
	}
	if a := b.now.Load(); a != nil {
		if t, ok := a.Registry.Tool(c.Tool.Name); ok && t.Reconcile != nil {
			return t.Reconcile.SettlesAt(over)
		}
	}
	return over
}

// looksAt is from when on it is worth asking about a call whose caller is away; ok is
// false where no tool knows.
func (b *Boundary) looksAt(c record.Call) (at time.Time, ok bool) {
	if a := b.now.Load(); a != nil {
		t, listed := a.Registry.Tool(c.Tool.Name)
		ok = listed && t.Reconcile != nil
	}
	if !ok {
		return time.Time{}, false
	}
	return b.settlesAt(c), true
}

// Looked is what asking the reconciling tool about one call came to.
type Looked struct {
	registry.Found
	Tool string        // the reconciling tool
	Call record.CallID // the support call that asked; empty: none could be made
	From time.Time     // from when on "nothing happened" counts
	At   time.Time     // when it was asked
}

// Proves reports whether it settles the call: that it happened at any time, that
// nothing happened only if it was asked after the time for that (rule E3).
func (l Looked) Proves() bool {
	return l.Proof == registry.Happened || l.Proof == registry.Nothing && !l.At.Before(l.From)
}

func (l Looked) evidence() string { return fmt.Sprintf("%s (%s): %s", l.Tool, l.Call, l.Why) }

// look asks the reconciling tool about an unknown call: a support call, as who asks
// (rule C5). Whatever goes wrong says nothing about the effect. A *record.Refusal among
// its errors means: start over.
func (b *Boundary) look(ctx context.Context, caller identity.Caller, operator bool, l Loaded) (Looked, error) {
	now := b.clock()
	out := Looked{Found: registry.Found{Proof: registry.CannotSay}, At: now, From: b.settlesAt(l.Call)}
	a := b.now.Load()
	if a == nil {
		out.Why = "nothing is active"
		return out, nil
	}
	t, ok := a.Registry.Tool(l.Call.Tool.Name)
	if !ok || t.Reconcile == nil {
		out.Why = "the entry of " + l.Call.Tool.Name + " names no tool that knows"
		return out, nil
	}
	out.Tool = t.Reconcile.Tool
	tool, arguments, ok := t.Asks(a.Registry, l.Call.Arguments, l.Call.Key)
	switch {
	case !ok:
		out.Why = "the reconciling tool is not there, or the call lacks an argument that it is asked with"
		return out, nil
	case operator && !t.Reconcile.Operators:
		out.Why = "the entry does not let operators ask; only the call's own caller can"
		return out, nil
	case operator:
		tool = tool.ForOperators()
	}
	run := l.Run
	if !run.Live() || run.Owner != caller.Owner() {
		var err error
		if run, err = b.runFor(ctx, &Proposal{Caller: caller, RunLabel: reconcileLabel}, now); err != nil {
			return out, err
		}
	}
	answer, err := b.support(ctx, &evaluation{b: b, a: a, caller: caller, now: now, run: run, call: l.Call}, tool, arguments)
	if err != nil {
		return out, err
	}
	if answer.Call != nil {
		out.Call = answer.Call.ID
	}
	out.Found = readLook(t.Reconcile, l.Call.Key, answer)
	return out, nil
}

// readLook reads what the reconciling tool answered. An error of it proves nothing:
// "there is none" and "not yours" look alike (rule C5).
func readLook(r *registry.Reconcile, key string, a Answer) registry.Found {
	no := func(why string) registry.Found { return registry.Found{Proof: registry.CannotSay, Why: why} }
	switch {
	case a.Verdict != record.Allow:
		return no("it was not allowed: " + string(a.Code))
	case a.State() != record.Succeeded || a.IsError || a.Result == nil:
		return no("it gave an error, or no answer")
	case a.Call.Outcome.BadOutput != "":
		return no("its answer breaks its own output schema")
	}
	body, ok := structured(a.Result)
	if !ok {
		return no("its answer is no JSON object")
	}
	return r.Read(body, key)
}

// settleLook makes a proof the outcome.
func (b *Boundary) settleLook(ctx context.Context, c record.Call, l Looked, by string, who record.Who) (record.Call, error) {
	to := record.Succeeded
	if l.Proof == registry.Nothing {
		to = record.Failed
	}
	out := record.Outcome{Sent: true, By: by, Evidence: l.evidence(), Effect: l.Reference}
	if c.Outcome != nil {
		out.Detail = c.Outcome.Detail
	}
	return b.settleUnknown(ctx, c, to, out, who, b.clock())
}

// reconcile looks into an unknown call for its caller, who returned or whom a live
// source stands for (rule C2). Proof settles it. Where the registry says so, proof that
// nothing happened lets it be tried again instead: the same call and key, decided anew
// (rule E2); what may not be tried again has failed.
func (b *Boundary) reconcile(ctx context.Context, caller identity.Caller, l Loaded, route record.Route, progress func(json.RawMessage)) (Answer, error) {
	looked, err := b.look(ctx, caller, false, l)
	switch {
	case err != nil:
		return Answer{}, err
	case !looked.Proves():
		return b.fromRecord(l.Call, record.CodeOutcomeUnknown), nil
	case looked.Proof == registry.Nothing && b.triesAgain(l, route):
		a, err := b.decideAgain(ctx, caller, l, again{at: b.clock(), route: route, proof: looked.evidence()}, progress)
		if err != nil || a.State() != record.Unknown || a.Ran || a.Code != record.CodeOutcomeUnknown {
			return a, err
		}
	}
	owner := caller.Owner()
	c, err := b.settleLook(ctx, l.Call, looked, owner.Principal.String(), owner.By())
	switch {
	case err != nil:
		return Answer{}, err
	case c.State == record.Failed:
		return b.fromRecord(c, record.CodeFailed), nil
	}
	return b.fromRecord(c, record.CodeAlreadyDone), nil
}

// triesAgain reports whether proof that nothing happened lets the call run again now.
func (b *Boundary) triesAgain(l Loaded, route record.Route) bool {
	a := b.now.Load()
	if a == nil || !l.Run.Live() {
		return false
	}
	t, ok := a.Registry.Tool(l.Call.Tool.Name)
	return ok && t.Retries(l.Call) && (route != record.RouteDelegate || !a.Registry.Leased(t)) // a leased one runs where its caller is
}

// reconcileAway is reconcile for a caller who is away. It returns when to look again,
// each time after twice as long; zero: the call is settled, or somebody else moved it.
func (b *Boundary) reconcileAway(ctx context.Context, caller identity.Caller, l Loaded) time.Time {
	a, err := b.reconcile(ctx, caller, l, record.RouteDelegate, nil)
	now := b.clock()
	switch {
	case err != nil && refusal(err) == nil:
		b.log.Error("dispatch: an unknown outcome could not be looked into", "call", l.Call.ID, "error", err)
	case err != nil:
		return now.Add(awayPause)
	case a.State() != record.Unknown:
		return time.Time{}
	}
	return now.Add(max(time.Minute, now.Sub(b.settlesAt(l.Call))))
}

// Look looks into an unknown call for an operator of its tenant: the reconciling tool is
// asked as the operator, with a credential of this server and never a user's, and only
// where the entry says that it answers for everybody. Proof settles the call; it is
// never tried again, since its caller is not here (rule C2).
func (b *Boundary) Look(ctx context.Context, o identity.Operator, id record.CallID) (record.Call, Looked, error) {
	if !o.Valid() {
		return record.Call{}, Looked{}, record.Errorf(record.Forbidden, "reconciling needs the operate permission")
	}
	for range maxConflicts {
		l, err := b.unsettled(ctx, o.Tenant(), id)
		if err != nil {
			return record.Call{}, Looked{}, err
		}
		looked, err := b.look(ctx, o.Reconciler(), true, l)
		c := l.Call
		if err == nil && looked.Proves() {
			c, err = b.settleLook(ctx, c, looked, o.Name(), record.Who{Workload: o.Name()})
		}
		if overQuota(err) || refusal(err) == nil {
			return c, looked, err
		}
		runtime.Gosched()
	}
	return record.Call{}, Looked{}, record.Errorf(record.Conflict, "the call kept changing; try again")
}
