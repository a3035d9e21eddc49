package dispatch

import (
	"context"
	"encoding/binary"
	"io"
	"time"

	"github.com/placet-dev/placet/record"
)

const (
	// leastBackOff and mostBackOff bound the time between two tries of a queued call.
	leastBackOff = 5 * time.Second
	mostBackOff  = 10 * time.Minute
	// queuePause is how long this process leaves alone what it just tried, so that a
	// store that records nothing is not asked all the time.
	queuePause = time.Second
)

// Queue is what of one tenant's queue may be dispatched now, the longest due first.
type Queue struct {
	Tenant record.TenantID
	Calls  []record.CallID
}

// Backlog is what waits in the queue for the clock.
type Backlog struct {
	Queued int64     // calls that the clock dispatches by itself, now or later
	Oldest time.Time // when the first of them is due
	Dead   int64     // queued calls that came to nothing, counted up to MostDead
}

// Condition is how a store looks to somebody who only looks.
type Condition struct {
	Schema, Known int       // the schema's version, and the one of this program
	Generation    int64     // the active version; 0: none
	Version       string    // its digest
	Events        int64     // the number of the last event
	Unsealed      time.Time // since when the oldest event waits for a checkpoint; zero: none does
	Unknown       int64     // calls whose outcome is not known
	Clock         time.Time // the database's; zero: it has none of its own
	Weak          []string  // settings by which it may lose or show what it should not
}

// Lag is for how long the first of them has been due.
func (l Backlog) Lag(now time.Time) time.Duration {
	if l.Oldest.IsZero() || now.Before(l.Oldest) {
		return 0
	}
	return now.Sub(l.Oldest)
}

// MostDead is how far calls that came to nothing are counted.
const MostDead = 10_000

// isAway reports whether a route is one of calls whose caller is away: the reservation
// then rests on the run's delegation.
func isAway(r record.Route) bool {
	return r == record.RouteDelegate || r == record.RouteQueue || r == record.RouteSchedule
}

// routeAway is how a call reaches dispatch while its caller is away.
func routeAway(c record.Call) record.Route {
	switch {
	case c.Route == record.RouteSchedule:
		return record.RouteSchedule
	case c.Queued:
		return record.RouteQueue
	default:
		return record.RouteDelegate
	}
}

// left reports whether a call is the clock's to dispatch: approved, or in the queue.
func left(c record.Call) bool {
	return c.State == record.ApprovalPending || c.InQueue() && !c.Again.IsZero()
}

// enqueue records an allowed call of a queued tool. Where the run holds a delegation
// the clock dispatches it from now on, else it waits for its agent (rule C2).
func (b *Boundary) enqueue(ctx context.Context, e *evaluation, d record.Decision) (Answer, error) {
	step := e.step(d)
	b.due(e.run, &step)
	answer, err := b.record(ctx, e, d, func() (record.Change, error) { return record.Authorize(e.call, step) })
	if err == nil && answer.State() == record.DispatchAuthorized {
		answer.Code, answer.Retry = record.CodeQueued, answer.Call.Again
	}
	return answer, err
}

// due says when the clock tries a call that is queued now: at once, or not before the
// run holds a delegation, and the commit must find it so.
func (b *Boundary) due(run record.Run, step *record.Step) {
	if run.Delegation.Live(step.At) {
		if b.delegations != nil {
			step.Again = step.At
		}
		return
	}
	step.Premise.Alone = true
}

// retryAt is when the clock tries an unknown call again, where the registry allows
// that (rule E2); zero: it does not.
func (b *Boundary) retryAt(c record.Call, to record.State, now time.Time) time.Time {
	if to != record.Unknown || !c.Queued || b.delegations == nil {
		return time.Time{}
	}
	if again, _ := b.retryable(c); !again {
		return time.Time{}
	}
	return now.Add(b.jitter(leastBackOff << (2 * min(c.Attempt, 4))))
}

// postpone notes that a call that exists is held back. One that the clock dispatches is
// put off, each time for about as long again as it has waited, and at least until the
// limit that it met says.
func (b *Boundary) postpone(ctx context.Context, c record.Call, step record.Step) error {
	if !c.InQueue() || c.Again.IsZero() {
		return b.apply(ctx, record.Postpone(c, step))
	}
	again := step.At.Add(b.jitter(step.At.Sub(c.Changed)))
	if retry := step.Decision.RetryAfter; retry.After(again) {
		again = retry
	}
	change, err := record.Requeue(c, again, step)
	if err != nil {
		return err
	}
	return b.apply(ctx, change)
}

// jitter is a pause within the bounds, and of it between half and all.
func (b *Boundary) jitter(pause time.Duration) time.Duration {
	pause = min(max(pause, leastBackOff), mostBackOff)
	var random [8]byte
	if _, err := io.ReadFull(b.random, random[:]); err != nil {
		return pause
	}
	return pause/2 + time.Duration(binary.BigEndian.Uint64(random[:])%uint64(pause/2))
}

// dispatchQueued dispatches what the queue holds, tenant by tenant in turn, and returns
// when to look again; zero: nothing is left.
func (b *Boundary) dispatchQueued(ctx context.Context) time.Time {
	if b.delegations == nil {
		return time.Time{}
	}
	now := b.clock()
	queues, next, err := b.store.Queued(ctx, now, awayOfOne)
	if err != nil {
		b.log.Error("dispatch: cannot read the queue", "error", err)
		return now.Add(awayPause)
	}
	for _, t := range inTurn(queues, b.away.last) {
		started, again := b.beginAway(ctx, t.tenant, t.call, now, func(ctx context.Context) time.Time { return b.runQueued(ctx, t.tenant, t.call) })
		if started {
			b.away.last = t.tenant
		} else if !again.IsZero() {
			next = earliest(next, again)
		}
	}
	return next
}

// turn is one call's.
type turn struct {
	tenant record.TenantID
	call   record.CallID
}

// inTurn takes one call of every tenant, then the next one of every, beginning behind
// the tenant that came last.
func inTurn(queues []Queue, last record.TenantID) (out []turn) {
	first := 0
	for first < len(queues) && queues[first].Tenant <= last {
		first++
	}
	queues = append(queues[first:len(queues):len(queues)], queues[:first]...)
	for n, more := 0, true; more; n++ {
		more = false
		for _, q := range queues {
			if n < len(q.Calls) {
				out, more = append(out, turn{q.Tenant, q.Calls[n]}), true
			}
		}
	}
	return out
}

// runQueued dispatches one call of the queue, if its run holds a delegation; if not, it
// waits for its agent. It returns when this process tries again, or zero.
func (b *Boundary) runQueued(ctx context.Context, tenant record.TenantID, id record.CallID) time.Time {
	now := b.clock()
	l, err := b.store.Call(ctx, tenant, id)
	switch {
	case err != nil:
		b.log.Error("dispatch: cannot read a queued call", "call", id, "error", err)
		return now.Add(awayPause)
	case !left(l.Call), now.Before(l.Call.Again):
		return time.Time{} // somebody else moved it
	case !l.Run.Live():
		return b.park(ctx, l, "its run has ended", nil)
	case !l.Run.Delegation.Live(now):
		return b.park(ctx, l, "its run holds no delegation", b.alone(l))
	}
	return b.runAway(ctx, l)
}

// alone is the premise that a call's run holds no delegation.
func (b *Boundary) alone(l Loaded) *record.Premise {
	p := &record.Premise{Tenant: l.Call.Tenant, Run: l.Run.ID, Owner: l.Run.Owner, Turn: l.Run.Turn, Alone: true}
	if a := b.now.Load(); a != nil {
		p.Generation = a.generation
	}
	return p
}

func (b *Boundary) park(ctx context.Context, l Loaded, why string, p *record.Premise) time.Time {
	change, err := record.Park(l.Call, why, record.Step{At: b.clock(), Who: record.Who{System: "clock"}, Premise: p})
	if err == nil {
		err = b.apply(ctx, change)
	}
	switch {
	case err == nil:
		return time.Time{}
	case refusal(err) == nil:
		b.log.Error("dispatch: a queued call was not left to its agent", "call", l.Call.ID, "error", err)
	}
	return b.clock().Add(queuePause)
}

// queuedText is for a call that was left to the clock or to its agent's return.
func (a Answer) queuedText(tool, call string) string {
	text := "Queued: the call of " + tool + " is accepted, and nothing has run yet. "
	if a.Call != nil && a.Call.Again.IsZero() {
		return text + "It runs when you come back for it: call `placet_wait` with " + call + ". Do not send it again."
	}
	return text + "It runs by itself. Go on with other work, and look for its result with `placet_wait` " + call + ". Do not send it again."
}
