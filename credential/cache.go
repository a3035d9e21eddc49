package credential

import (
	"container/list"
	"context"
	"sync"
	"time"

	"github.com/placet-dev/placet/record"
)

const (
	maxCached  = 4096             // tokens; the one used longest ago goes first
	flightTime = 10 * time.Second // for one answer of an issuer
	spare      = 10 * time.Second // a token is not handed out in its last moments
)

// issued is a token as it came from its issuer.
type issued struct {
	value Secret    // as the header has it
	ends  time.Time // of the token itself
	until time.Time // how long it is handed out: the shorter of the two tokens, minus a bit
}

// cache keeps tokens by key, and lets one caller fetch what several wait for.
type cache struct {
	clock func() time.Time
	ctx   context.Context // ends with the profiles; no caller's

	mu      sync.Mutex
	order   *list.List // of *kept, the one used last at the front
	places  map[Key]*list.Element
	flights map[Key]*flight
}

type kept struct {
	key   Key
	token issued
}

// flight is one request to an issuer. It has a context of its own, so that who
// gives up does not fail the others.
type flight struct {
	done    chan struct{}
	token   issued
	err     error
	dropped bool // what it brings must not be kept
}

func newCache(ctx context.Context, clock func() time.Time) *cache {
	return &cache{ctx: ctx, clock: clock, order: list.New(), places: map[Key]*list.Element{}, flights: map[Key]*flight{}}
}

// get returns the token kept, or the one that fetch brings.
func (c *cache) get(ctx context.Context, k Key, fetch func(context.Context) (issued, error)) (issued, error) {
	c.mu.Lock()
	if t, ok := c.fresh(k); ok {
		c.mu.Unlock()
		return t, nil
	}
	f := c.flights[k]
	if f == nil {
		f = &flight{done: make(chan struct{})}
		c.flights[k] = f
		go c.fly(k, f, fetch)
	}
	c.mu.Unlock()
	select {
	case <-f.done:
		return f.token, f.err
	case <-ctx.Done():
		return issued{}, record.Because(record.Unavailable, ctx.Err(), "the issuer has not answered in time")
	}
}

// fresh returns what is kept under a key and may be handed out. The lock is held.
func (c *cache) fresh(k Key) (issued, bool) {
	place, ok := c.places[k]
	if !ok {
		return issued{}, false
	}
	t := place.Value.(*kept).token
	if !c.clock().Before(t.until) {
		c.remove(place)
		return issued{}, false
	}
	c.order.MoveToFront(place)
	return t, true
}

func (c *cache) fly(k Key, f *flight, fetch func(context.Context) (issued, error)) {
	ctx, stop := context.WithTimeout(c.ctx, flightTime)
	defer stop()
	f.token, f.err = fetch(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.flights[k] == f {
		delete(c.flights, k)
	}
	if f.err == nil && !f.dropped && c.clock().Before(f.token.until) {
		c.put(k, f.token)
	}
	close(f.done)
}

func (c *cache) put(k Key, t issued) {
	if place, ok := c.places[k]; ok {
		c.remove(place)
	}
	c.places[k] = c.order.PushFront(&kept{k, t})
	for c.order.Len() > maxCached {
		c.remove(c.order.Back())
	}
}

func (c *cache) remove(place *list.Element) {
	delete(c.places, place.Value.(*kept).key)
	c.order.Remove(place)
}

// refuse forgets one token, unless another one has taken its place.
func (c *cache) refuse(k Key, value Secret) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if place, ok := c.places[k]; ok && place.Value.(*kept).token.value == value {
		c.remove(place)
	}
}

// drop forgets every token whose key fits, also those that are on their way:
// whoever waits for such a one gets it, the next asks anew. It returns how many
// were kept.
func (c *cache) drop(fits func(Key) bool) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for k, place := range c.places {
		if fits(k) {
			c.remove(place)
			n++
		}
	}
	for k, f := range c.flights {
		if fits(k) {
			f.dropped = true
			delete(c.flights, k)
		}
	}
	return n
}
