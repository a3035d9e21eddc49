package dispatch

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
)

const (
	awayAtOnce  = 32               // calls of callers who are away that run at the same time
	awayOfOne   = awayAtOnce / 2   // of one tenant, so that there is room for another's
	awayPause   = 10 * time.Second // between two tries of one call whose source did not answer
	longestAway = 30 * 24 * time.Hour
)

// away is the dispatching for callers who are away.
type away struct {
	work    sync.WaitGroup
	mu      sync.Mutex
	running int
	of      map[record.TenantID]int        // of it, each tenant's
	last    record.TenantID                // whose queued call began last
	later   map[record.CallID]time.Time    // running ones: zero; else when to try again
	asking  map[record.RunID]chan struct{} // whose live source is being asked; closed afterwards
}

// DelegateRun lets a run of the caller be dispatched while they are away, no
// longer than until. What it delegates is asked of a live source at every
// dispatch, and is never more than the caller may do now (rule C2).
func (b *Boundary) DelegateRun(ctx context.Context, c identity.Caller, id record.RunID, until time.Time) (record.Run, error) {
	now := b.clock()
	switch run, err := b.ownRun(ctx, c, id); {
	case err != nil:
		return run, err
	case b.delegations == nil:
		return run, record.Errorf(record.Invalid, "this server has no live source to ask about callers who are away; configure delegation for the issuer")
	case !run.Live():
		return run, record.Errorf(record.Conflict, "the run has ended")
	case !until.After(now) || until.Sub(now) > longestAway:
		return run, record.Errorf(record.Invalid, "a delegation ends between now and 30 days from now")
	}
	d, err := b.delegations.Grant(ctx, c, until)
	if err != nil {
		return record.Run{}, err
	}
	d.Granted, d.Until = now, earliest(d.Until, until)
	run, err := b.moveRun(ctx, c, id, func(r record.Run) (record.Change, error) {
		return record.Delegate(r, d, false, c.Owner().By(), b.clock())
	})
	if err != nil {
		b.withdraw(ctx, &d)
	}
	return run, err
}

func earliest(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// WithdrawDelegation ends what DelegateRun began.
func (b *Boundary) WithdrawDelegation(ctx context.Context, c identity.Caller, id record.RunID) (record.Run, error) {
	var had *record.Delegation
	run, err := b.moveRun(ctx, c, id, func(r record.Run) (record.Change, error) {
		if had = r.Delegation; had == nil {
			return record.Change{}, record.Errorf(record.Conflict, "the run holds no delegation")
		}
		return record.Withdraw(r, "by its owner", c.Owner().By(), b.clock()), nil
	})
	if err == nil {
		b.withdraw(ctx, had)
	}
	return run, err
}

// TransferRun gives a run of the caller to another principal or agent of its
// tenant (rule B2). What waits in it is canceled.
func (b *Boundary) TransferRun(ctx context.Context, c identity.Caller, id record.RunID, to record.Owner) (record.Run, error) {
	to.Tenant = c.Owner().Tenant
	if to.Principal.Issuer == "" || to.Principal.Subject == "" || to.Agent == "" {
		return record.Run{}, record.Errorf(record.Invalid, "a transfer names the principal's issuer and subject, and the agent")
	}
	var had *record.Delegation
	run, err := b.moveRun(ctx, c, id, func(r record.Run) (record.Change, error) {
		had = r.Delegation
		return record.Transfer(r, to, c.Owner().By(), b.clock())
	})
	if err == nil {
		b.stopRunning(ctx, run)
		b.stopBelow(ctx, run, run.Active)
		b.withdraw(ctx, had)
	}
	return run, err
}

// moveRun changes a run of the caller, starting over while it moves under the request.
func (b *Boundary) moveRun(ctx context.Context, c identity.Caller, id record.RunID, change func(record.Run) (record.Change, error)) (record.Run, error) {
	for range maxConflicts {
		run, err := b.ownRun(ctx, c, id)
		if err != nil {
			return run, err
		}
		next, err := change(run)
		if err != nil {
			return run, err
		}
		if err = b.apply(ctx, next); err == nil {
			return next.Facts().Run.After, nil
		}
		if refusal(err) == nil {
			return run, err
		}
	}
	return record.Run{}, record.Errorf(record.Conflict, "the run kept changing; try again")
}

// withdraw tells the source that a delegation is not needed any more. It is gone
// from the record; the source forgetting it too is courtesy.
func (b *Boundary) withdraw(ctx context.Context, d *record.Delegation) {
	if d == nil || b.delegations == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), obtainTimeout)
	defer cancel()
	if err := b.delegations.Withdraw(ctx, *d); err != nil {
		b.log.Warn("dispatch: a delegation was not withdrawn at its source", "error", err)
	}
}

// dispatchAway dispatches what people approved in runs that hold a delegation,
// and returns when to look again; zero: nothing is left. A call somebody waits for
// here is left to them.
func (b *Boundary) dispatchAway(ctx context.Context) time.Time {
	if b.delegations == nil {
		return time.Time{}
	}
	now := b.clock()
	var next time.Time
	var seen []record.CallID
	for last := (record.Call{}); ctx.Err() == nil; {
		ready, err := b.store.Ready(ctx, last.Tenant, last.ID, dueBatch)
		if err != nil {
			b.log.Error("dispatch: cannot read what may run for callers who are away", "error", err)
			return now.Add(awayPause)
		}
		for _, l := range ready {
			seen = append(seen, l.Call.ID)
			if again := b.startAway(ctx, l, now); !again.IsZero() {
				next = earliest(next, again)
			}
		}
		if len(ready) < dueBatch {
			break
		}
		last = ready[len(ready)-1].Call // all of them: what one tenant's calls wait for holds up nobody else's
	}
	b.away.forget(seen, now)
	return next
}

// startAway dispatches a call beside the clock, or says when to look at it again.
func (b *Boundary) startAway(ctx context.Context, l Loaded, now time.Time) (again time.Time) {
	select {
	case <-b.leaving:
		return now.Add(awayPause)
	default:
	}
	if b.waiting.has(l.Call.ID) {
		return now.Add(awayPause)
	}
	switch {
	case l.Call.State == record.Unknown:
		if at, ok := b.looksAt(l.Call); !ok || now.Before(at) {
			return at
		}
	case b.leases(l.Call.Tool.Name):
		return time.Time{} // it runs where its caller is
	}
	_, again = b.beginAway(ctx, l.Call.Tenant, l.Call.ID, now, func(ctx context.Context) time.Time { return b.runAway(ctx, l) })
	return again
}

// beginAway runs f for a call beside the clock, if there is room, or says when to look at
// the call again. f returns when to try it again, or zero.
func (b *Boundary) beginAway(ctx context.Context, tenant record.TenantID, id record.CallID, now time.Time, f func(context.Context) time.Time) (started bool, again time.Time) {
	if started, again = b.away.begin(tenant, id, now); !started {
		return false, again
	}
	b.away.work.Go(func() {
		ctx, done := b.finishing(ctx)
		defer done()
		later := f(ctx)
		b.away.end(tenant, id, later)
		b.wakeClock() // for the next one, or to sleep until this one's time
	})
	return true, time.Time{}
}

// begin claims a call for this process, or says when to try.
func (a *away) begin(tenant record.TenantID, id record.CallID, now time.Time) (start bool, again time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at, known := a.later[id]
	switch {
	case known && at.IsZero(), a.running >= awayAtOnce, a.of[tenant] >= awayOfOne:
		return false, now.Add(awayPause) // it ends, or another does, and wakes the clock
	case known && now.Before(at):
		return false, at
	}
	a.later[id] = time.Time{}
	a.running++
	a.of[tenant]++
	return true, time.Time{}
}

func (a *away) end(tenant record.TenantID, id record.CallID, later time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.running--
	if a.of[tenant]--; a.of[tenant] == 0 {
		delete(a.of, tenant)
	}
	if later.IsZero() {
		delete(a.later, id)
		return
	}
	a.later[id] = later
}

// ask claims the asking of a run's live source, and waits for its turn: what it is
// asked with may be good for one question only.
func (a *away) ask(ctx context.Context, id record.RunID) error {
	for {
		a.mu.Lock()
		asked, busy := a.asking[id]
		if !busy {
			a.asking[id] = make(chan struct{})
		}
		a.mu.Unlock()
		if !busy {
			return nil
		}
		select {
		case <-asked:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (a *away) asked(id record.RunID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	close(a.asking[id])
	delete(a.asking, id)
}

// forget drops what is not there any more.
func (a *away) forget(ready []record.CallID, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for id, at := range a.later {
		if !at.IsZero() && now.After(at) && !slices.Contains(ready, id) {
			delete(a.later, id)
		}
	}
}

// runAway dispatches one call for its caller, whom the live source describes now.
// It returns when to try again, or zero: the call has moved, or will not.
func (b *Boundary) runAway(ctx context.Context, l Loaded) time.Time {
	for range maxConflicts {
		later := b.clock().Add(awayPause)
		caller, l, err := b.standIn(ctx, l)
		switch {
		case errors.Is(err, errMoved):
			return time.Time{}
		case ctx.Err() != nil:
			return time.Time{}
		case err != nil && refusal(err) == nil:
			return b.standInRefused(ctx, l, err)
		case err != nil:
			continue
		}
		if l.Call.State == record.Unknown && !left(l.Call) {
			return b.reconcileAway(ctx, caller, l)
		}
		a, err := b.decideAgain(ctx, caller, l, again{at: b.clock(), route: routeAway(l.Call)}, nil)
		if err == nil {
			b.fired(ctx, l.Call, l.Run, a.Code)
		}
		switch {
		case err == nil && l.Call.InQueue():
			return b.clock().Add(queuePause) // the record says when it is tried again, if it is
		case err == nil && a.State().Waiting():
			return earliest(a.Retry, later)
		case err == nil:
			return time.Time{}
		case refusal(err) == nil:
			b.log.Error("dispatch: a call could not be dispatched for its caller", "call", l.Call.ID, "error", err)
			return later
		}
	}
	return b.clock().Add(awayPause)
}

var (
	errDelegationOver = errors.New("the delegation has ended")
	errMoved          = errors.New("the call does not wait any more")
)

// standIn asks the delegation's live source who the run's owner is now, and
// returns the call as it is then. A *record.Refusal among its errors means: the
// record moved.
func (b *Boundary) standIn(ctx context.Context, l Loaded) (identity.Caller, Loaded, error) {
	if err := b.away.ask(ctx, l.Run.ID); err != nil {
		return identity.Caller{}, l, err
	}
	defer b.away.asked(l.Run.ID)
	l, err := b.store.Call(ctx, l.Call.Tenant, l.Call.ID)
	now := b.clock()
	switch {
	case err != nil:
		return identity.Caller{}, l, record.Because(record.Unavailable, err, "the store does not answer")
	case !l.Run.Live() || l.Run.Delegation == nil, l.Call.State.Waiting() && !now.Before(l.Call.Expires),
		l.Call.State != record.Unknown && !left(l.Call):
		return identity.Caller{}, l, errMoved
	case !l.Run.Delegation.Live(now):
		return identity.Caller{}, l, errDelegationOver
	}
	run := l.Run
	asking, cancel := context.WithTimeout(ctx, obtainTimeout)
	defer cancel()
	caller, next, err := b.delegations.Caller(asking, run.Owner, *run.Delegation)
	if err == nil && (!caller.Valid() || caller.Owner() != run.Owner) {
		err = record.Errorf(record.Forbidden, "the live source speaks of somebody else")
	}
	if slices.Equal(next.Sealed, run.Delegation.Sealed) {
		return caller, l, err
	}
	// What the source was asked with is used up, whatever it said: unless what replaces
	// it is durable, nobody acts on the answer.
	next.Granted, next.Until, next.Scopes = run.Delegation.Granted, run.Delegation.Until, run.Delegation.Scopes
	change, cerr := record.Delegate(run, next, true, record.Who{System: "delegation"}, now)
	if cerr == nil {
		cerr = b.apply(ctx, change)
	}
	if cerr != nil {
		return identity.Caller{}, l, cerr
	}
	l.Run = change.Facts().Run.After
	return caller, l, err
}

// standInRefused handles a live source that did not speak for the caller, and
// returns when to try again. One that does not answer leaves the call as it is,
// with an event; one that says no denies it.
func (b *Boundary) standInRefused(ctx context.Context, l Loaded, cause error) time.Time {
	now := b.clock()
	later := now.Add(awayPause)
	if errors.Is(cause, errDelegationOver) {
		// Without a delegation the call waits for its agent, as any other.
		return b.endDelegation(ctx, l.Run, "it has ended", later)
	}
	reason := record.Reason{Rule: "delegation", Verdict: record.Deny, Code: record.CodeCannotDecide, Private: cause.Error()}
	gone := record.KindOf(cause) != record.Unavailable && ctx.Err() == nil
	switch {
	case l.Call.State == record.Unknown && !gone:
		return later
	case l.Call.State == record.Unknown:
		return b.endDelegation(ctx, l.Run, "its source says that the authority is gone", later)
	case gone:
		reason.Code = record.CodeRevoked
	}
	step := record.Step{At: now, Who: record.Who{System: "delegation"}, Route: routeAway(l.Call), Decision: record.Decision{
		Verdict: record.Deny, Code: reason.Code, Reasons: []record.Reason{reason}, At: now, Generation: l.Call.Decision.Generation}}
	if !gone {
		if err := b.postpone(ctx, l.Call, step); err != nil {
			b.log.Error("dispatch: an event was not recorded", "error", err)
		}
		return later
	}
	if l.Call.State.Waiting() { // else it stays unknown, and is not sent again
		change, err := record.Refuse(l.Call, step, live(l.Approval))
		if err == nil {
			err = b.apply(ctx, change)
		}
		if err != nil {
			return later
		}
	}
	b.fired(ctx, l.Call, l.Run, record.CodeRevoked)
	return b.endDelegation(ctx, l.Run, "its source says that the authority is gone", time.Time{})
}

// endDelegation withdraws a delegation that is worth nothing any more. later is
// when to try again if that cannot be recorded.
func (b *Boundary) endDelegation(ctx context.Context, run record.Run, why string, later time.Time) time.Time {
	if err := b.apply(ctx, record.Withdraw(run, why, record.Who{System: "delegation"}, b.clock())); err != nil {
		return later
	}
	b.withdraw(ctx, run.Delegation)
	return time.Time{}
}
