package verify

import (
	"context"
	"sync"
	"time"
)

// Seen remembers used tokens.
type Seen interface {
	// Use notes a token's ID, to be kept until the given time, and reports whether
	// it was not there before. Of many callers with one ID exactly one may be told
	// true. With an error nobody knows, and the call is refused.
	Use(ctx context.Context, id string, until time.Time) (first bool, err error)
}

// PerProcess remembers used tokens in this process alone. A token works once in
// each process: with several replicas behind one address, or across a restart
// within a token's minute, that is more than once. Where that matters, take [Shared].
func PerProcess(clock func() time.Time) Seen {
	if clock == nil {
		clock = time.Now
	}
	return &perProcess{clock: clock, until: map[string]time.Time{}, sweep: sweepAt}
}

// sweepAt is how many IDs are kept before the first look for ended ones. Only
// verified tokens get here, so their number is that of real calls in a minute.
const sweepAt = 1024

type perProcess struct {
	clock func() time.Time

	mu    sync.Mutex
	until map[string]time.Time
	sweep int
}

func (p *perProcess) Use(_ context.Context, id string, until time.Time) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, used := p.until[id]; used {
		return false, nil
	}
	p.until[id] = until
	if len(p.until) >= p.sweep {
		now := p.clock()
		for k, end := range p.until {
			if !end.After(now) {
				delete(p.until, k)
			}
		}
		p.sweep = max(sweepAt, 2*len(p.until))
	}
	return true, nil
}
