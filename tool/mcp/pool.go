package mcp

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/placet-dev/placet/record"
)

var errFull = errors.New("too many sessions with tool servers are in use")

// admit makes room for one more session on e, whose lock is held: when there are
// too many, the one that has been idle longest ends. Slots of an endpoint that is
// locked by somebody else are left alone.
func (v *Invoker) admit(e *endpoint) error {
	child := e.url == nil
	limit := v.opts.MaxSessions
	if child {
		limit = v.opts.MaxChildren
	}
	v.mu.RLock()
	all := make([]*endpoint, 0, len(v.endpoints))
	for _, other := range v.endpoints {
		if (other.url == nil) == child {
			all = append(all, other)
		}
	}
	v.mu.RUnlock()
	var (
		count  int
		oldest *slot
		where  *endpoint
		whose  owner
	)
	for _, other := range all {
		if other != e && !other.mu.TryLock() {
			continue
		}
		count += len(other.slots)
		for o, sl := range other.slots {
			if sl.users == 0 && (oldest == nil || sl.since.Before(oldest.since)) {
				oldest, where, whose = sl, other, o
			}
		}
		if other != e {
			other.mu.Unlock()
		}
	}
	if count < limit {
		return nil
	}
	if oldest == nil {
		return record.Because(record.Limited, errFull, "no connection to server %s is free now; try again", e.key.name)
	}
	if where != e {
		// Only tried: who holds that lock may want ours.
		if !where.mu.TryLock() {
			return record.Because(record.Limited, errFull, "no connection to server %s is free now; try again", e.key.name)
		}
		defer where.mu.Unlock()
	}
	if where.slots[whose] != oldest || oldest.users > 0 {
		return record.Because(record.Limited, errFull, "no connection to server %s is free now; try again", e.key.name)
	}
	delete(where.slots, whose)
	v.spawn(func() { oldest.end(v.ctx) })
	return nil
}

// reap ends sessions that nobody has used for a while, until Close.
func (v *Invoker) reap() {
	tick := time.NewTicker(max(v.opts.Idle/4, 10*time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-v.ctx.Done():
			return
		case <-tick.C:
		}
		for _, sl := range v.take(func(sl *slot) bool {
			return sl.users == 0 && (sl.over() || time.Since(sl.since) > v.opts.Idle)
		}) {
			v.spawn(func() { sl.end(v.ctx) })
		}
	}
}

// take removes the slots that fit.
func (v *Invoker) take(fits func(*slot) bool) []*slot {
	v.mu.RLock()
	all := make([]*endpoint, 0, len(v.endpoints))
	for _, e := range v.endpoints {
		all = append(all, e)
	}
	v.mu.RUnlock()
	var out []*slot
	for _, e := range all {
		e.mu.Lock()
		for o, sl := range e.slots {
			if fits(sl) {
				out = append(out, sl)
				delete(e.slots, o)
			}
		}
		e.mu.Unlock()
	}
	return out
}

// endAll ends every session, all at the same time. Nothing new is connected.
func (v *Invoker) endAll() {
	var done sync.WaitGroup
	for _, sl := range v.take(func(*slot) bool { return true }) {
		done.Go(func() { sl.end(context.Background()) })
	}
	done.Wait()
}
