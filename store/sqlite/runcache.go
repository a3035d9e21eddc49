package sqlite

import (
	"sync"

	"github.com/placet-dev/placet/record"
)

type runKey struct {
	tenant record.TenantID
	id     record.RunID
}

type labelKey struct {
	owner record.Owner
	label string
}

// runCache holds committed runs for readers. A stale entry harms nobody: every
// change carries its premise, and the writer checks it against the file's truth.
type runCache struct {
	mu     sync.RWMutex
	byID   map[runKey]record.Run
	latest map[labelKey]runKey // the newest live run that an owner opened without vouch
}

const runCacheMax = 50_000

func newRunCache() *runCache {
	c := &runCache{}
	c.clear()
	return c
}

func (c *runCache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.byID = make(map[runKey]record.Run)
	c.latest = make(map[labelKey]runKey)
}

func (c *runCache) get(k runKey) (record.Run, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	r, ok := c.byID[k]
	return r, ok
}

func (c *runCache) live(owner record.Owner, label string) (record.Run, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	r, ok := c.byID[c.latest[labelKey{owner, label}]]
	return r, ok && r.Live() && r.Owner == owner
}

func (c *runCache) put(k runKey, r record.Run) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.byID) > runCacheMax {
		c.byID = make(map[runKey]record.Run)
		c.latest = make(map[labelKey]runKey)
	}
	c.byID[k] = r
	if r.Vouched || r.Parent != "" {
		return
	}
	l := labelKey{r.Owner, r.Label}
	have, known := c.byID[c.latest[l]]
	switch {
	case c.latest[l] == k:
		if !r.Live() {
			delete(c.latest, l)
		}
		return
	case !r.Live(), known && !opensLater(r, have):
		return
	case !known && r.Version > 1: // one that was not looked at since the start may be later: the file knows
		return
	}
	c.latest[l] = k
}

// opensLater is the order in which the file is asked.
func opensLater(a, b record.Run) bool {
	return a.Opened.After(b.Opened) || a.Opened.Equal(b.Opened) && a.ID > b.ID
}
