package dispatch

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/placet-dev/placet/record"
)

// standing is whether this process may reserve (rule H2): it decides by the version
// that the store says is active, and has met nothing that it does not know.
type standing struct {
	behind   atomic.Pointer[halted] // the active version is not loaded here
	unknown  atomic.Pointer[halted] // something that this program does not know; it stays
	catching sync.Mutex
}

type halted struct{ why error }

// Halt keeps this process from reserving: why the active version is not loaded here.
// Nil: it is.
func (b *Boundary) Halt(why error) {
	if why == nil {
		b.standing.behind.Store(nil)
		return
	}
	b.standing.behind.Store(&halted{why})
}

// Ready is nil while this process may reserve, and else says why it does not.
func (b *Boundary) Ready() error {
	for _, h := range []*halted{b.standing.unknown.Load(), b.standing.behind.Load()} {
		if h != nil {
			return h.why
		}
	}
	return nil
}

// meet notes something in the records that this program does not know: a newer one
// wrote it. From then on this process reserves nothing; it is to be replaced.
func (b *Boundary) meet(what string) error {
	err := record.Errorf(record.Unavailable, "the records hold %s, which this program does not know: a newer one wrote it; replace this program", what)
	if b.standing.unknown.CompareAndSwap(nil, &halted{err}) {
		b.log.Error("dispatch: nothing is dispatched here any more", "why", err)
	}
	return err
}

// otherVersion is told of a refusal: where another process activated a version, this
// one loads it before it tries again.
func (b *Boundary) otherVersion(ctx context.Context, r *record.Refusal) {
	if b.latest == nil || r == nil || r.Kind != record.RefusedPremise || r.What != record.OtherVersion {
		return
	}
	b.standing.catching.Lock()
	defer b.standing.catching.Unlock()
	if now, _, err := b.store.Generation(ctx); err != nil || now == b.Generation() {
		return
	}
	if err := b.latest(ctx); err != nil {
		b.log.Warn("dispatch: the active version is not loaded here", "error", err)
	}
}

// watchful is a store of which what is read is looked through for what this program
// does not know.
type watchful struct {
	Store
	meet func(what string) error
}

func (w watchful) call(c *record.Call) error {
	if c != nil && c.ID != "" && !c.State.Valid() {
		return w.meet("a call in the state " + string(c.State))
	}
	return nil
}

func (w watchful) loaded(l Loaded, err error) (Loaded, error) {
	if err == nil {
		err = w.call(&l.Call)
	}
	if a := l.Approval; err == nil && a != nil && !a.State.Valid() {
		err = w.meet("a question in the state " + string(a.State))
	}
	if err == nil && l.Run.ID != "" && !l.Run.State.Valid() {
		err = w.meet("a run in the state " + string(l.Run.State))
	}
	if err != nil {
		return Loaded{}, err
	}
	return l, nil
}

// page leaves out what is not known: what is due beside it still moves.
func (w watchful) page(list []Loaded, err error) ([]Loaded, error) {
	known := list[:0:len(list)]
	for _, l := range list {
		if _, unknown := w.loaded(l, nil); unknown == nil {
			known = append(known, l)
		}
	}
	return known, err
}

func (w watchful) Call(ctx context.Context, tenant record.TenantID, id record.CallID) (Loaded, error) {
	return w.loaded(w.Store.Call(ctx, tenant, id))
}

func (w watchful) Approval(ctx context.Context, tenant record.TenantID, id record.ApprovalID) (Loaded, error) {
	return w.loaded(w.Store.Approval(ctx, tenant, id))
}

func (w watchful) Due(ctx context.Context, now time.Time, n int) ([]Loaded, time.Time, error) {
	list, next, err := w.Store.Due(ctx, now, n)
	list, err = w.page(list, err)
	return list, next, err
}

func (w watchful) Ready(ctx context.Context, tenant record.TenantID, after record.CallID, n int) ([]Loaded, error) {
	return w.page(w.Store.Ready(ctx, tenant, after, n))
}

func (w watchful) Prior(ctx context.Context, tenant record.TenantID, lineage record.LineageID, effect record.EffectKey, occurrence string) (Prior, error) {
	p, err := w.Store.Prior(ctx, tenant, lineage, effect, occurrence)
	for _, c := range []*record.Call{p.Same, p.Equal, p.Done} {
		if err == nil {
			err = w.call(c)
		}
	}
	for i := range p.Unsettled {
		if err == nil {
			err = w.call(&p.Unsettled[i])
		}
	}
	if err != nil {
		return Prior{}, err
	}
	return p, nil
}
