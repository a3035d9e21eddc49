package dispatch

import (
	"context"

	"github.com/placet-dev/placet/record"
)

// Peers are other processes on the same store. What they tell shortens waits and
// decides nothing: whoever hears it reads the record, and a notice that is lost or
// late costs time alone.
type Peers interface {
	// Listen hands on what the others changed, until ctx ends. Now and then, and
	// whenever notices may have been lost, it says that anything may have moved.
	Listen(ctx context.Context, heard func(Notice))
	// Stop asks whichever process runs these calls to stop. It is said once, and
	// not repeated where it is lost.
	Stop(ctx context.Context, calls ...record.CallID) error
}

// Notice is what another process tells.
type Notice struct {
	Moved    []record.CallID // these changed
	Anything bool            // and anything else may have
	Stop     []record.CallID // their principal, or who may, wants these stopped
}

// heard wakes who waits here for what moved elsewhere, and stops what is to stop.
func (b *Boundary) heard(n Notice) {
	for _, id := range n.Stop {
		b.stopHere(id)
	}
	if !n.Anything && len(n.Moved) == 0 {
		return
	}
	if n.Anything {
		b.waiting.tellAll()
	}
	for _, id := range n.Moved {
		b.waiting.tell(id)
	}
	b.moves.tell()
}

// stop asks executing calls to stop, wherever they run. What they came to is
// recorded by who runs them.
func (b *Boundary) stop(ctx context.Context, calls ...record.CallID) {
	var elsewhere []record.CallID
	for _, id := range calls {
		if !b.stopHere(id) {
			elsewhere = append(elsewhere, id)
		}
	}
	if b.peers == nil || len(elsewhere) == 0 {
		return
	}
	if err := b.peers.Stop(context.WithoutCancel(ctx), elsewhere...); err != nil {
		b.log.Warn("dispatch: other processes could not be asked to stop calls", "calls", len(elsewhere), "error", err)
	}
}

func (b *Boundary) stopHere(id record.CallID) bool {
	running, ok := b.running.Load(id)
	if ok {
		running.(attempt).stop()
	}
	return ok
}
