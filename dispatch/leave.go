package dispatch

import (
	"context"
	"time"
)

// Leave is for a process that is about to end: whoever is held here is let go, with
// what their call is now and how to come back, and nothing is begun for callers who
// are away. Calls that execute go on.
func (b *Boundary) Leave() { b.left.Do(func() { close(b.leaving) }) }

// Leaving is closed by Leave.
func (b *Boundary) Leaving() <-chan struct{} { return b.leaving }

// finishing is a context for what was begun: it outlasts ctx, by Finish at most.
func (b *Boundary) finishing(ctx context.Context) (context.Context, context.CancelFunc) {
	out, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		t := time.NewTimer(b.limits.Finish)
		defer t.Stop()
		select {
		case <-t.C:
			cancel()
		case <-out.Done():
		}
	})
	return out, func() { stop(); cancel() }
}
