package dispatch

import (
	"context"
	"time"

	"github.com/placet-dev/placet/record"
)

const (
	dueBatch = 256
	// longestSleep bounds how long the clock trusts its last look.
	longestSleep = 30 * time.Second
)

// Work lets time pass: it expires what is over, settles attempts whose lease ran
// out, those of a process that died among them, and dispatches for callers who are
// away. Recovery after a start is this same path. It returns when ctx ends and
// nothing that it started is running any more.
func (b *Boundary) Work(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	defer b.away.work.Wait()
	b.away.work.Go(func() { b.watchRevoked(ctx) })
	if b.peers != nil {
		b.away.work.Go(func() { b.peers.Listen(ctx, b.heard) })
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.wake:
		case <-timer.C:
		}
		next := b.workOnce(ctx)
		for _, work := range []func(context.Context) time.Time{b.endOver, b.fireSchedules, b.dispatchAway, b.dispatchQueued} {
			if again := work(ctx); !again.IsZero() {
				next = earliest(next, again)
			}
		}
		sleep := longestSleep
		if !next.IsZero() {
			sleep = min(max(next.Sub(b.clock()), time.Millisecond), longestSleep)
		}
		b.asleep.Store(b.clock().Add(sleep).UnixNano())
		timer.Reset(sleep)
	}
}

func (b *Boundary) wakeClock() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// workOnce handles everything that is due and returns when the next thing is.
func (b *Boundary) workOnce(ctx context.Context) time.Time {
	for ctx.Err() == nil {
		now := b.clock()
		due, next, err := b.store.Due(ctx, now, dueBatch)
		if err != nil {
			b.log.Error("dispatch: cannot read what is due", "error", err)
			return now.Add(time.Second)
		}
		moved := 0
		for _, l := range due {
			if err := b.lapse(ctx, l, now); err == nil {
				moved++
			} else if refusal(err) == nil {
				b.log.Error("dispatch: a due call could not be moved", "call", l.Call.ID, "state", l.Call.State, "error", err)
			}
		}
		if len(due) < dueBatch {
			if len(due) > 0 && moved < len(due) {
				return now.Add(time.Second) // somebody else moved them, or the store is in trouble: look again soon
			}
			return next
		}
		if moved == 0 {
			return now.Add(time.Second)
		}
	}
	return time.Time{}
}

// lapse moves one call whose time has come. Claiming it is the guarded
// transition itself: whoever loses gets the conflict.
func (b *Boundary) lapse(ctx context.Context, l Loaded, now time.Time) error {
	clock := record.Who{System: "clock"}
	if l.Call.State.Waiting() {
		_, err := b.expire(ctx, l, now)
		return err
	}
	if l.Call.State.Terminal() {
		change, err := record.Outlived(l.Call, l.Approval, now)
		if err != nil {
			return err
		}
		return b.apply(ctx, change)
	}
	if l.Call.State != record.Executing {
		return nil
	}
	// The lease ran out: its holder may not report any more, and whether the effect
	// happened is not known. A read that has no attempt left has failed (rule E1).
	to, out := record.Unknown, record.Outcome{Code: record.CodeOutcomeUnknown, Sent: true, Detail: "the lease ran out without an outcome"}
	if l.Call.Tool.ReadOnly && l.Call.Attempt >= l.Call.Attempts {
		to, out.Code = record.Failed, record.CodeFailed
	}
	if l.Call.GivenUp() {
		to, out = record.Failed, *l.Call.Outcome // lease and dispatch token are over: now it counts (rule E3)
	}
	change, err := record.Settle(l.Call, to, out, record.Step{At: now, Who: clock, Again: b.retryAt(l.Call, to, now)}, record.ByClock)
	if err != nil {
		return err
	}
	return b.apply(ctx, change)
}
