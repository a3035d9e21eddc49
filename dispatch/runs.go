package dispatch

import (
	"context"
	"slices"
	"time"

	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
)

// runFor returns the run a proposal belongs to: the one it names, or the caller's
// own unvouched run under its label, opened when there is none.
func (b *Boundary) runFor(ctx context.Context, p *Proposal, now time.Time) (record.Run, error) {
	owner := p.Caller.Owner()
	if p.Run != "" {
		run, err := b.ownRun(ctx, p.Caller, p.Run)
		if err == nil && !run.Live() {
			return run, record.Errorf(record.Conflict, "the run %q has ended", p.Run)
		}
		return run, err
	}
	if record.ValidID("run", p.RunLabel) {
		// A door that knows only labels: the caller's own run, if it is one (rule B2).
		switch run, err := b.ownRun(ctx, p.Caller, record.RunID(p.RunLabel)); {
		case err == nil && run.Live():
			return run, nil
		case err == nil && run.Parent != "":
			// What was given to a child run is not done in another one instead (rule B4).
			return run, record.Errorf(record.Conflict, "the run %q has ended", p.RunLabel)
		}
	}
	run, err := b.store.LiveRun(ctx, owner, p.RunLabel)
	switch {
	case err != nil && record.KindOf(err) != record.NotFound:
		return run, err
	case err != nil:
		return b.open(ctx, p.Caller, p.RunLabel, false, now)
	case now.Sub(run.Active) < b.limits.Idle:
		return run, nil
	}
	// The run has been silent. What it left waiting is kept: an approval is good
	// for longer than a silence, and its agent may come back for it.
	open, err := b.store.OpenCalls(ctx, owner.Tenant, run.ID, 1)
	if err != nil || len(open) > 0 {
		return run, err
	}
	change, err := record.EndRun(run, "idle", record.Who{System: "clock"}, now)
	if err != nil {
		return run, err
	}
	if err := b.apply(ctx, change); err != nil {
		return run, err
	}
	return b.open(ctx, p.Caller, p.RunLabel, false, now)
}

// open records a new run. Without vouch, every run of a tenant, principal and
// agent is in one lineage (rule B1).
func (b *Boundary) open(ctx context.Context, c identity.Caller, label string, vouched bool, now time.Time) (record.Run, error) {
	id, err := b.newRun(now)
	if err != nil {
		return record.Run{}, record.Because(record.Unavailable, err, "no run ID could be made")
	}
	epoch, err := b.store.Epoch(ctx, c.Owner())
	if err != nil {
		return record.Run{}, err
	}
	lineage := record.UnvouchedLineage(c.Owner(), epoch)
	if vouched {
		fresh, err := record.NewID("lin", now, b.random)
		if err != nil {
			return record.Run{}, record.Because(record.Unavailable, err, "no lineage ID could be made")
		}
		lineage = record.LineageID(fresh)
	}
	change := record.OpenRun(record.Run{Owner: c.Owner(), ID: id, Lineage: lineage, Label: label, Vouched: vouched,
		Turn: 1, Opened: now, Active: now}, c.Owner().By())
	if err := b.apply(ctx, change); err != nil {
		return record.Run{}, err
	}
	return change.Facts().Run.After, nil
}

// OpenRun opens a run for the caller. Opened by a workload that holds vouch, it
// starts a lineage of its own.
func (b *Boundary) OpenRun(ctx context.Context, c identity.Caller, label string) (record.Run, error) {
	if !c.Valid() {
		return record.Run{}, record.Errorf(record.Unauthenticated, "no verified identity came with this request")
	}
	p := Proposal{RunLabel: label}
	if err := p.labels(); err != nil {
		return record.Run{}, err
	}
	for range maxConflicts {
		run, err := b.open(ctx, c, label, c.Vouches(), b.clock())
		if refusal(err) == nil {
			return run, err
		}
	}
	return record.Run{}, record.Errorf(record.Conflict, "the person started fresh at the same time; try again")
}

// ownRun loads a run for its owner; for anybody else there is no such run.
func (b *Boundary) ownRun(ctx context.Context, c identity.Caller, id record.RunID) (record.Run, error) {
	if !c.Valid() {
		return record.Run{}, record.Errorf(record.Unauthenticated, "no verified identity came with this request")
	}
	if !record.ValidID("run", string(id)) {
		return record.Run{}, record.Errorf(record.NotFound, "there is no such run here")
	}
	run, err := b.store.Run(ctx, c.Owner().Tenant, id)
	if err != nil {
		return record.Run{}, err
	}
	if run.Owner != c.Owner() {
		b.foreign(ctx, c, "run "+string(id))
		return record.Run{}, record.Errorf(record.NotFound, "there is no run %q here", id)
	}
	return run, nil
}

// foreign records that a caller named what belongs to somebody else in its tenant
// (promise P7). The caller learns nothing of it; nothing depends on the record.
func (b *Boundary) foreign(ctx context.Context, c identity.Caller, what string) {
	o := c.Owner()
	event := record.Event{At: b.clock(), Tenant: o.Tenant, Kind: record.EventForeign, Who: o.By()}
	switch err := b.apply(ctx, record.Note(event, record.Body{Verdict: record.Deny, Detail: what})); {
	case overQuota(err):
		b.refusedByQuota(o.Tenant, "", err)
	case err != nil:
		b.log.Error("dispatch: a request for somebody else's records was not recorded", "error", err)
	}
}

// Run returns a run of the caller, or one below a run of theirs, with the state a
// reader sees.
func (b *Boundary) Run(ctx context.Context, c identity.Caller, id record.RunID) (record.Run, string, error) {
	run, err := b.heldRun(ctx, c, id)
	if err != nil {
		return run, "", err
	}
	open, err := b.store.OpenCalls(ctx, run.Tenant, run.ID, 500)
	states := make([]record.State, len(open))
	for i := range open {
		states[i] = open[i].State
	}
	return run, run.Shown(states), err
}

// StartTurn begins the next turn of a run: what earlier turns left waiting is
// canceled and its approvals void, except the calls in keep (rule B3). Only a
// caller whose workload holds vouch may.
func (b *Boundary) StartTurn(ctx context.Context, c identity.Caller, id record.RunID, keep []record.CallID) (record.Run, error) {
	for range maxConflicts {
		run, err := b.ownRun(ctx, c, id)
		if err != nil {
			return run, err
		}
		if !c.Vouches() {
			err := c.Lacks(identity.Vouch)
			if lack, ok := identity.LackOf(err); ok {
				if unrecorded := b.Lacks(ctx, lack, "start-turn"); unrecorded != nil {
					return run, unrecorded
				}
			}
			return run, err
		}
		if len(keep) > 0 {
			open, err := b.store.OpenCalls(ctx, run.Tenant, run.ID, 500)
			if err != nil {
				return run, err
			}
			for _, k := range keep {
				if !slices.ContainsFunc(open, func(o record.Call) bool { return o.ID == k && o.State.Waiting() }) {
					return run, record.Errorf(record.Invalid, "keep names %q, which is no waiting call of this run", k)
				}
			}
		}
		if most := b.limits.TurnsPerRun; most > 0 && int64(run.Turn) >= most {
			return run, record.Errorf(record.Limited, "the run has had its %d turns; end it and open another", most)
		}
		change, err := record.StartTurn(run, keep, c.Owner().By(), b.clock())
		if err != nil {
			return run, err
		}
		if err = b.apply(ctx, change); err == nil {
			b.stopBelow(ctx, run, change.Facts().At)
			return change.Facts().Run.After, nil
		}
		if refusal(err) == nil {
			return run, err
		}
	}
	return record.Run{}, record.Errorf(record.Conflict, "the run kept changing; try again")
}

// EndRun terminates a run of the caller, or one below a run of theirs. Its waiting calls are canceled in the
// same transaction; executing ones are asked to stop.
func (b *Boundary) EndRun(ctx context.Context, c identity.Caller, id record.RunID, why string) (record.Run, error) {
	return b.endRun(ctx, func() (record.Run, error) { return b.heldRun(ctx, c, id) }, why, c.Owner().By())
}

// endRun terminates the run that load finds, starting over while it moves under
// the request. A run that has ended stays as it is.
func (b *Boundary) endRun(ctx context.Context, load func() (record.Run, error), why string, who record.Who) (record.Run, error) {
	for range maxConflicts {
		run, err := load()
		if err != nil || !run.Live() {
			return run, err
		}
		change, err := record.EndRun(run, why, who, b.clock())
		if err != nil {
			return run, err
		}
		if err = b.apply(ctx, change); err == nil {
			b.stopRunning(ctx, run)
			b.stopBelow(ctx, run, change.Facts().At)
			b.withdraw(ctx, run.Delegation)
			return change.Facts().Run.After, nil
		}
		if refusal(err) == nil {
			return run, err
		}
	}
	return record.Run{}, record.Errorf(record.Conflict, "the run kept changing; try again")
}

// stopRunning asks a run's executing calls to stop.
func (b *Boundary) stopRunning(ctx context.Context, run record.Run) {
	open, err := b.store.OpenCalls(ctx, run.Tenant, run.ID, 500)
	if err != nil {
		b.log.Error("dispatch: cannot list what still executes", "run", run.ID, "error", err)
		return
	}
	for _, c := range open {
		if stop, ok := b.running.Load(c.ID); ok {
			stop.(attempt).stop()
		}
	}
}

// Tools lists what the caller may call, in the order of names: exactly the tools
// that its call would not be refused as not available or for a missing scope.
func (b *Boundary) Tools(ctx context.Context, c identity.Caller) []*registry.Tool {
	return b.Entries(ctx, c, registry.MethodTool)
}

// Entries is Tools for what is reached by another method.
func (b *Boundary) Entries(ctx context.Context, c identity.Caller, m registry.Method) []*registry.Tool {
	return b.entries(ctx, c, m, func(a *active, t *registry.Tool) bool { _, ok := a.admits(t, c); return ok })
}

func (b *Boundary) entries(ctx context.Context, c identity.Caller, m registry.Method, admits func(*active, *registry.Tool) bool) []*registry.Tool {
	a := b.now.Load()
	if a == nil || !c.Valid() {
		return nil
	}
	rs, err := b.store.Revocations(ctx, c.Owner().Tenant)
	if err != nil {
		return nil
	}
	revoked := revokedFor{rs, c.Owner(), b.clock()}
	var out []*registry.Tool
	for _, t := range a.Registry.Reached(m) {
		if !admits(a, t) {
			continue
		}
		server, ok := a.Registry.Server(t.Server)
		if !ok || !revoked.lists(t, server) {
			continue
		}
		if !server.Inproc {
			offer, err := b.invoker.Offer(ctx, server, t.Offered(), server.ToolsMaxAge)
			if err != nil || b.pins.check(t, offer) != nil {
				continue
			}
		}
		out = append(out, t)
	}
	return out
}
