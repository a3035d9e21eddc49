package dispatch

import (
	"context"
	"sync"
	"time"

	"github.com/placet-dev/placet/record"
)

// waiting is who wants to know when a call moves. It shortens waits and decides
// nothing: whoever wakes reads the record.
type waiting struct {
	mu    sync.Mutex
	calls map[record.CallID][]chan struct{}
}

func (w *waiting) add(id record.CallID) chan struct{} {
	c := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls[id] = append(w.calls[id], c)
	return c
}

func (w *waiting) remove(id record.CallID, c chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := w.calls[id]
	for i := range list {
		if list[i] == c {
			list = append(list[:i], list[i+1:]...)
			break
		}
	}
	if len(list) == 0 {
		delete(w.calls, id)
		return
	}
	w.calls[id] = list
}

func (w *waiting) tell(id record.CallID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	wake(w.calls[id])
}

func (w *waiting) tellAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, list := range w.calls {
		wake(list)
	}
}

func wake(list []chan struct{}) {
	for _, c := range list {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// has reports whether somebody waits for a call here.
func (w *waiting) has(id record.CallID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.calls[id]) > 0
}

// moved tells waiters and the clock about a change that is durable.
func (b *Boundary) moved(f record.Facts) {
	if m := f.Call; m != nil {
		b.waiting.tell(m.After.ID)
		for _, at := range []time.Time{m.After.Due, m.After.Again} {
			if !at.IsZero() && at.UnixNano() < b.asleep.Load() {
				b.wakeClock()
			}
		}
	}
	for _, m := range f.Approvals {
		b.waiting.tell(m.After.Call)
		if m.After.State == record.Approved && b.delegations != nil && !b.waiting.has(m.After.Call) {
			b.wakeClock() // its run may hold a delegation
		}
	}
	if f.Wake != nil {
		b.wakeClock()
	}
	if m := f.Schedule; m != nil && !m.After.Next.IsZero() && m.After.Next.UnixNano() < b.asleep.Load() {
		b.wakeClock()
	}
	if f.Sweep != nil || f.Revocation != nil {
		b.waiting.tellAll()
	}
}

// Await holds its caller until the call's question is answered or the call moved
// on, at most for d. It reports whether there is something new; what it is, the
// caller finds out by Dispatch, with its credentials verified again (rule C2).
func (b *Boundary) Await(ctx context.Context, tenant record.TenantID, id record.CallID, d time.Duration) bool {
	changed := b.waiting.add(id)
	defer b.waiting.remove(id, changed)
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		l, err := b.store.Call(ctx, tenant, id)
		if err != nil {
			return false
		}
		switch l.Call.State {
		case record.ApprovalPending:
			if l.Approval == nil || l.Approval.State != record.Pending {
				return true
			}
		case record.Executing:
		default:
			return true
		}
		select {
		case <-changed:
		case <-timer.C:
			return false
		case <-b.leaving:
			return false
		case <-ctx.Done():
			return false
		}
	}
}
