package dispatch

import (
	"context"
	"runtime"
	"strings"

	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
)

// held reports whether an alert holds the call's lineage: what only reads goes on.
func (e *evaluation) held() bool {
	return e.lineage.Hold != nil && !e.tool.Read && e.call.Route != record.RouteSupport
}

// holdBack answers a call that may run and whose lineage is held. It keeps its place, as
// at a limit: a new one stays proposed, one that exists stays as it is, its approval
// unused, until an operator lifts the hold and its agent asks again.
func (b *Boundary) holdBack(ctx context.Context, e *evaluation, d record.Decision) (Answer, error) {
	if e.call.State == record.Unknown {
		return b.fromRecord(e.call, record.CodeOutcomeUnknown), nil // nothing more is sent, and it stays unknown
	}
	h := e.lineage.Hold
	d.Reasons = append(append([]record.Reason{}, d.Reasons...), record.Reason{Rule: "alerts.hold", Verdict: record.Deny, Code: record.CodeHeld,
		Private: "the lineage " + string(e.call.Lineage) + " is held since the alert " + string(h.Rule) + ": " + h.Text})
	d.Verdict, d.Code, d.Rule = record.Deny, record.CodeHeld, nil
	step := e.step(d)
	if e.call.State != record.None {
		if err := b.postpone(ctx, e.was, step); err != nil {
			return b.undecided(e.tool.Name, err.Error()), nil
		}
		return e.answer(d, e.call), nil
	}
	return b.record(ctx, e, d, func() (record.Change, error) { return record.HeldBack(e.call, step) })
}

// Lift takes the hold from a run's lineage, in the operator's tenant. On return its calls
// are decided as ever; none runs before its agent asks again. It returns the hold that
// was there.
func (b *Boundary) Lift(ctx context.Context, o identity.Operator, id record.RunID, why string) (record.Lineage, error) {
	switch {
	case !o.Valid():
		return record.Lineage{}, record.Errorf(record.Forbidden, "lifting a hold needs the operate permission")
	case strings.TrimSpace(why) == "" || len(why) > maxNote:
		return record.Lineage{}, record.Errorf(record.Invalid, "state the reason, in at most %d bytes", maxNote)
	}
	for range maxConflicts {
		a := b.now.Load()
		if a == nil {
			return record.Lineage{}, record.Errorf(record.Unavailable, "nothing is active")
		}
		run, err := b.store.Run(ctx, o.Tenant(), id)
		if err != nil {
			return record.Lineage{}, err
		}
		l, err := b.store.Lineage(ctx, run.Tenant, run.Lineage)
		if err != nil {
			return l, err
		}
		l.Tenant, l.ID = run.Tenant, run.Lineage
		p := &record.Premise{Tenant: l.Tenant, Generation: a.generation, Lineage: l.ID, Labels: l.Version}
		change, err := record.Lift(l, p, record.Who{Workload: o.Name()}, why, b.clock())
		if err != nil {
			return l, err
		}
		if err = b.apply(ctx, change); refusal(err) == nil {
			return l, err
		}
		runtime.Gosched()
	}
	return record.Lineage{}, record.Errorf(record.Conflict, "the lineage kept changing; lift it again")
}
