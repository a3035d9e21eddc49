// Package feed tells who waits what has moved. The log is read once for all of
// them, after a change and not by the clock, and a call that moved is loaded once.
//
// It promises that
//   - whoever follows before reading misses nothing: it gets every later move, or
//     is told that it lost some;
//   - nobody who is slow holds up others, or makes what waits for them grow;
//   - while nobody follows, nothing runs.
//
// It hands on what was recorded, to whoever asks: who may see it is for them to say.
// It may import dispatch and record.
package feed

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

// Reader is what a feed reads.
type Reader interface {
	Events(context.Context, dispatch.EventQuery) ([]record.Event, error)
	Call(context.Context, record.TenantID, record.CallID) (dispatch.Loaded, error)
}

// Feed is safe for concurrent use.
type Feed struct {
	reader Reader
	moved  func() <-chan struct{}
	log    *slog.Logger

	mu      sync.Mutex
	last    int64 // newest event that was read; known while it runs
	stop    context.CancelFunc
	tenants map[record.TenantID]map[*Follower]bool
	calls   map[record.CallID]map[*Follower]bool
}

// New makes a feed. moved is closed at the next change, as dispatch.Boundary.Moved is.
func New(reader Reader, moved func() <-chan struct{}, log *slog.Logger) *Feed {
	return &Feed{reader: reader, moved: moved, log: log,
		tenants: map[record.TenantID]map[*Follower]bool{}, calls: map[record.CallID]map[*Follower]bool{}}
}

// Follower is somebody who waits.
type Follower struct {
	C    chan struct{} // something is there to take
	From int64         // the newest event when it began

	feed   *Feed
	tenant record.TenantID
	call   record.CallID // empty: all of the tenant

	items map[record.CallID]Item
	lost  bool
}

// Item is a call as it is after an event.
type Item struct {
	Seq int64
	dispatch.Loaded
}

// most bounds what waits for one follower.
const most = 1024

// Follow begins to follow the calls of a tenant, or one of them. It must be closed.
func (f *Feed) Follow(ctx context.Context, tenant record.TenantID, call record.CallID) (*Follower, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stop == nil {
		if err := f.begin(ctx); err != nil {
			return nil, err
		}
	}
	w := &Follower{C: make(chan struct{}, 1), From: f.last, feed: f, tenant: tenant, call: call}
	if call != "" {
		add(f.calls, call, w)
	} else {
		add(f.tenants, tenant, w)
	}
	return w, nil
}

func add[K comparable](to map[K]map[*Follower]bool, key K, w *Follower) {
	if to[key] == nil {
		to[key] = map[*Follower]bool{}
	}
	to[key][w] = true
}

func remove[K comparable](from map[K]map[*Follower]bool, key K, w *Follower) {
	delete(from[key], w)
	if len(from[key]) == 0 {
		delete(from, key)
	}
}

// begin finds where the log ends and reads on from there. What is written
// meanwhile is read as well: the channel is older than the look.
func (f *Feed) begin(ctx context.Context) error {
	moved := f.moved()
	newest, err := f.reader.Events(ctx, dispatch.EventQuery{All: true, Newest: true, Limit: 1})
	if err != nil {
		return err
	}
	f.last = 0
	if len(newest) > 0 {
		f.last = newest[0].Seq
	}
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	f.stop = stop
	go f.run(life, f.last, moved)
	return nil
}

// Close ends following.
func (w *Follower) Close() {
	f := w.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	if w.call != "" {
		remove(f.calls, w.call, w)
	} else {
		remove(f.tenants, w.tenant, w)
	}
	if len(f.calls) == 0 && len(f.tenants) == 0 && f.stop != nil {
		f.stop()
		f.stop = nil
	}
}

// Take returns what moved since the last time, each call once. lost says that more
// moved than is kept, or that it could not be read: look at all of it again.
func (w *Follower) Take() (items []Item, lost bool) {
	w.feed.mu.Lock()
	defer w.feed.mu.Unlock()
	for _, i := range w.items {
		items = append(items, i)
	}
	lost = w.lost
	w.items, w.lost = nil, false
	return items, lost
}

// again is when to read once more what could not be read.
const again = time.Second

// page is how many events are read at once.
const page = 500

func (f *Feed) run(ctx context.Context, last int64, moved <-chan struct{}) {
	for {
		var retry <-chan time.Time
		for more := true; more; {
			events, err := f.reader.Events(ctx, dispatch.EventQuery{All: true, After: last, Limit: page})
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				f.log.Error("what moved could not be read", "error", err)
				retry = time.After(again)
				break
			}
			if more = len(events) == page; len(events) > 0 {
				last = events[len(events)-1].Seq
				f.tell(ctx, events, last)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-moved:
		case <-retry:
		}
		moved = f.moved()
	}
}

// tell hands on one page of the log.
func (f *Feed) tell(ctx context.Context, events []record.Event, last int64) {
	type key struct {
		tenant record.TenantID
		call   record.CallID
	}
	at := map[key]int64{}
	var order []key
	for _, e := range events {
		k := key{e.Tenant, e.Call}
		if _, seen := at[k]; !seen {
			order = append(order, k)
		}
		at[k] = e.Seq
	}
	for _, k := range order {
		if !f.wanted(k.tenant, k.call) {
			continue
		}
		if k.call == "" {
			f.hand(ctx, k.tenant, k.call, nil, nil)
			continue
		}
		l, err := f.reader.Call(ctx, k.tenant, k.call)
		f.hand(ctx, k.tenant, k.call, &Item{at[k], l}, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if ctx.Err() == nil { // another run may have begun since
		f.last = last
	}
}

// wanted reports whether anybody follows a call, or its tenant. What belongs to no
// tenant is everybody's news.
func (f *Feed) wanted(tenant record.TenantID, call record.CallID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return tenant == "" || len(f.tenants[tenant]) > 0 || len(f.calls[call]) > 0
}

func (f *Feed) hand(ctx context.Context, tenant record.TenantID, call record.CallID, item *Item, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	give := func(w *Follower) {
		switch {
		case err != nil:
			w.lost = true
		case item != nil && len(w.items) >= most:
			w.items, w.lost = nil, true
		case item != nil && !w.lost:
			if w.items == nil {
				w.items = map[record.CallID]Item{}
			}
			w.items[call] = *item
		}
		select {
		case w.C <- struct{}{}:
		default:
		}
	}
	for w := range f.tenants[tenant] {
		give(w)
	}
	for w := range f.calls[call] {
		if w.tenant == tenant {
			give(w)
		}
	}
	if tenant != "" {
		return
	}
	for _, all := range f.tenants {
		for w := range all {
			give(w)
		}
	}
}
