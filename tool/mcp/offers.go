package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
)

// listing is what a server offered at one time. It is immutable.
type listing struct {
	at     time.Time // before the first page was asked for
	change uint64    // how many changes had been announced then
	offers []registry.Offer
	byName map[string]int // by [registry.Offer.Key]; -1: it offers that name twice
}

// catalog keeps the newest listing of a server: of its tools, or of everything else.
type catalog struct {
	lists []list // what it is made of

	changes atomic.Uint64 // announced, or possibly missed
	newest  atomic.Pointer[listing]
	wanted  atomic.Int64 // when it was last asked for, Unix nanoseconds

	mu        sync.Mutex
	flight    *flight
	listening bool
}

// flight is one request for a listing that several may wait for.
type flight struct {
	done    chan struct{}
	listing *listing
	err     error
}

const (
	maxPages  = 100
	maxOffers = 10_000
	maxList   = 32 << 20 // bytes of all pages
	listWait  = 30 * time.Second
)

// change notes that the list may be another one now (rule H5).
func (c *catalog) change() { c.changes.Add(1) }

// changed is change for all that the server lists: which list it is about is its word.
func (e *endpoint) changed() {
	e.list.change()
	e.readable.change()
}

// fresh returns the newest listing if it is young enough for a request made at now.
func (c *catalog) fresh(now time.Time, maxAge time.Duration) *listing {
	l := c.newest.Load()
	if l == nil || l.change != c.changes.Load() || l.at.Before(now.Add(-maxAge)) {
		return nil
	}
	return l
}

// Offer returns what the server offers under a key now, at most maxAge old. An
// announced change makes every earlier answer too old.
func (v *Invoker) Offer(ctx context.Context, s *registry.Server, upstream string, maxAge time.Duration) (registry.Offer, error) {
	e, err := v.endpoint(s)
	if err != nil {
		return registry.Offer{}, err
	}
	c := &e.list
	if registry.MethodOf(upstream) != registry.MethodTool {
		c = &e.readable
	}
	l, err := v.listing(ctx, e, c, maxAge)
	if err != nil {
		return registry.Offer{}, unavailable(s.Name, err)
	}
	i, ok := l.byName[upstream]
	switch {
	case !ok:
		return registry.Offer{}, record.Errorf(record.NotFound, "server %s does not offer tool %q", s.Name, upstream)
	case i < 0:
		return registry.Offer{}, record.Errorf(record.Unavailable, "server %s offers two tools named %q", s.Name, upstream)
	}
	return l.offers[i], nil
}

// listing returns a listing that is fresh for a request made now.
func (v *Invoker) listing(ctx context.Context, e *endpoint, c *catalog, maxAge time.Duration) (*listing, error) {
	now := v.opts.Now()
	e.list.wanted.Store(time.Now().UnixNano())
	for range 8 {
		if l := c.fresh(now, maxAge); l != nil {
			return l, nil
		}
		f := v.join(e, c)
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-f.done:
		}
		if f.err != nil {
			return nil, f.err
		}
	}
	return nil, errors.New("its list of tools keeps changing")
}

// join returns the flight under way, or starts one.
func (v *Invoker) join(e *endpoint, c *catalog) *flight {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.flight != nil {
		return c.flight
	}
	f := &flight{done: make(chan struct{})}
	started := v.spawn(func() {
		ctx, stop := context.WithTimeout(v.ctx, listWait)
		defer stop()
		f.listing, f.err = v.fetch(ctx, e, c)
		c.mu.Lock()
		if c.flight = nil; f.err == nil {
			c.newest.Store(f.listing)
		}
		c.mu.Unlock()
		close(f.done)
	})
	if !started {
		f.err = errClosed
		close(f.done)
		return f
	}
	c.flight = f
	return f
}

// fetch asks for all pages, on a session that does nothing else.
func (v *Invoker) fetch(ctx context.Context, e *endpoint, c *catalog) (*listing, error) {
	v.hear(e)
	own, err := v.own(ctx, e.server)
	if err != nil {
		return nil, err
	}
	l := &listing{at: v.opts.Now(), change: c.changes.Load(), byName: map[string]int{}}
	size := 0
	for _, of := range c.lists {
		if err := v.fetchList(ctx, e, own.Credential, l, of, &size); err != nil {
			return nil, fmt.Errorf("%s: %w", of.method, err)
		}
	}
	return l, nil
}

// fetchList asks for all pages of one list.
func (v *Invoker) fetchList(ctx context.Context, e *endpoint, c dispatch.Credential, l *listing, of list, size *int) error {
	cursor := ""
	for range maxPages {
		q := &request{method: of.method, credential: c}
		if cursor != "" {
			q.extra = `"cursor":` + string(quote(nil, cursor))
		}
		a := v.send(ctx, e, owner{discovery: true}, q)
		if of.optional && a.refused() {
			return nil // it has none of them for us
		}
		if err := a.failure(); err != nil {
			return err
		}
		next, err := l.addPage(a.result, of)
		if err != nil {
			return err
		}
		if *size += len(a.result); *size > maxList || len(l.offers) > maxOffers {
			return errors.New("the list is larger than the limit")
		}
		if next == "" {
			return nil
		}
		cursor = next
	}
	return errors.New("the list has too many pages")
}

func (l *listing) addPage(result json.RawMessage, of list) (next string, err error) {
	found := false
	err = eachMember(result, func(name string, value []byte) (err error) {
		switch name {
		case "nextCursor":
			if kind(value) != 'n' {
				next, err = unquote(value)
			}
		case of.member:
			found = true
			err = eachElement(value, func(v []byte) error { return of.add(l, v) })
		}
		return err
	})
	if err == nil && !found {
		err = errors.New("the answer has no " + of.member)
	}
	return next, err
}

// add reads one tool. Its texts are kept as they came.
func (l *listing) add(tool []byte) error {
	var o registry.Offer
	err := eachMember(tool, func(name string, value []byte) (err error) {
		switch name {
		case "name":
			o.Name, err = unquote(value)
		case "title":
			o.Title, err = optional(value)
		case "description":
			o.Description, err = optional(value)
		case "inputSchema":
			o.InputSchema = object(value)
		case "outputSchema":
			o.OutputSchema = object(value)
		case "annotations":
			o.Annotations = object(value)
		}
		return err
	})
	if err != nil || o.Name == "" {
		return errors.New("a tool of the list cannot be read")
	}
	l.keep(o)
	return nil
}

// keep takes an offer into the listing.
func (l *listing) keep(o registry.Offer) {
	if _, twice := l.byName[o.Key()]; twice {
		l.byName[o.Key()] = -1
	} else {
		l.byName[o.Key()] = len(l.offers)
	}
	l.offers = append(l.offers, o)
}

func optional(value []byte) (string, error) {
	if kind(value) == 'n' {
		return "", nil
	}
	return unquote(value)
}

// object copies a value out of the page, which is not kept; null is nothing.
func object(value []byte) json.RawMessage {
	if kind(value) == 'n' {
		return nil
	}
	return append(json.RawMessage(nil), value...)
}

// hear starts to listen for changes of the list, if nobody does.
func (v *Invoker) hear(e *endpoint) {
	c := &e.list
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.listening {
		return
	}
	c.listening = v.spawn(func() {
		defer func() {
			c.mu.Lock()
			c.listening = false
			c.mu.Unlock()
		}()
		v.hearing(e)
	})
}

// hearing listens while somebody asks for the list now and then. Whenever it
// begins or breaks off, changes may have been missed.
func (v *Invoker) hearing(e *endpoint) {
	ctx, stop := context.WithCancel(v.ctx)
	defer stop()
	idle := func() bool {
		return time.Since(time.Unix(0, e.list.wanted.Load())) > v.opts.Idle
	}
	v.spawn(func() {
		tick := time.NewTicker(max(v.opts.Idle/4, 10*time.Millisecond))
		defer tick.Stop()
		for !idle() {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
		stop()
	})
	rest := firstRest
	for ctx.Err() == nil {
		own, err := v.own(ctx, e.server)
		var s session
		var release func()
		if err == nil {
			s, release, err = v.session(ctx, e, owner{discovery: true}, own.Credential)
		}
		if err == nil {
			err = s.listen(ctx, own.Credential, func() {
				rest = firstRest
				e.changed()
			})
			release()
			if errors.Is(err, errNoStream) {
				return
			}
			e.changed()
		}
		select {
		case <-ctx.Done():
		case <-time.After(rest):
		}
		rest = min(2*rest, longestRest)
	}
}
