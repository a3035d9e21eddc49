package identity

import (
	"container/list"
	"crypto/sha256"
	"sync"
	"time"
)

const (
	maxResults = 2048
	resultLife = time.Minute // how long a key that its issuer withdrew can still count
)

// results remembers tokens that were verified, by their digest, since checking a
// signature is the dearest part of a call. Refusals are not remembered: callers
// could fill the memory with them.
type results struct {
	mu     sync.Mutex
	max    int
	order  *list.List // of result, the one used last at the front
	places map[[sha256.Size]byte]*list.Element
}

type result struct {
	name  [sha256.Size]byte
	value *verified
	from  time.Time
}

func newResults(max int) *results {
	return &results{max: max, order: list.New(), places: map[[sha256.Size]byte]*list.Element{}}
}

// get returns what was verified within the last minute and has not expired. A clock
// that went back is no reason to trust the memory.
func (c *results) get(name [sha256.Size]byte, now time.Time) *verified {
	c.mu.Lock()
	defer c.mu.Unlock()
	place, ok := c.places[name]
	if !ok {
		return nil
	}
	r := place.Value.(result)
	if age := now.Sub(r.from); age < 0 || age >= resultLife || !now.Before(r.value.expires) {
		c.order.Remove(place)
		delete(c.places, name)
		return nil
	}
	c.order.MoveToFront(place)
	return r.value
}

func (c *results) put(name [sha256.Size]byte, v *verified, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if place, ok := c.places[name]; ok {
		c.order.Remove(place)
	}
	c.places[name] = c.order.PushFront(result{name, v, now})
	for c.order.Len() > c.max {
		last := c.order.Back()
		delete(c.places, last.Value.(result).name)
		c.order.Remove(last)
	}
}
