package mcp

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
)

// session is a way to talk to a server.
type session interface {
	call(context.Context, *request) answer
	// listen hears changes of the list of tools until the session ends.
	listen(ctx context.Context, c dispatch.Credential, ready func()) error
	speaks() era
	broken() bool
	close(context.Context)
}

func (r *remote) speaks() era { return r.era }
func (p *pipe) speaks() era   { return p.era }

// owner is whom a session belongs to (rule I2). discovery belongs to nobody.
type owner struct {
	tenant    record.TenantID
	principal record.Principal
	lineage   record.LineageID
	shared    bool // the registry entry says stateless
	discovery bool
}

// none reports whether the session is nobody's in particular.
func (o owner) none() bool { return o.shared || o.discovery }

type endpointKey struct{ name, url, command, credential, network string }

// endpoint is one server as the registry describes it, with what was learned of
// it and the sessions on it.
type endpoint struct {
	key     endpointKey
	server  *registry.Server
	command []string
	env     []string
	url     *url.URL // nil for a command

	wire   *wire // with a network: its own; nil: not made yet
	ids    atomic.Int64
	modern atomic.Pointer[remote] // HTTP, modern: everybody's, as there is no session
	list   catalog                // of tools

	readable catalog // of resources, templates and prompts; asked for only where an entry needs it

	mu       sync.Mutex
	era      era // HTTP: as it was last
	slots    map[owner]*slot
	failures int // attempts to connect that failed in a row
	rest     time.Time
	last     error
}

// slot is one owner's session, or the attempt to get one.
type slot struct {
	ready   chan struct{} // closed when session or err is set
	session session
	err     error
	users   int       // guarded by endpoint.mu
	since   time.Time // when the last user left
}

const (
	connectWait = 30 * time.Second
	firstRest   = 100 * time.Millisecond
	longestRest = 30 * time.Second
	patience    = 2 * time.Second // for a rest to be over; a longer one fails at once
)

func (v *Invoker) endpoint(s *registry.Server) (*endpoint, error) {
	k := endpointKey{name: s.Name, url: s.URL, credential: s.Credential, network: fmt.Sprint(s.Network)}
	if len(s.Command) > 0 {
		k.command = strings.Join(s.Command, "\x00") + "\x00\x00" + strings.Join(s.Env, "\x00")
	}
	v.mu.RLock()
	e, closed := v.endpoints[k], v.closed
	v.mu.RUnlock()
	if closed {
		return nil, record.Errorf(record.Unavailable, "the server is shutting down")
	}
	if e != nil {
		return e, nil
	}
	e = &endpoint{key: k, server: s, command: s.Command, env: s.Env, slots: map[owner]*slot{}}
	e.list.lists, e.readable.lists = toolLists, readableLists
	if len(s.Command) == 0 {
		u, err := url.Parse(s.URL)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, record.Errorf(record.Invalid, "server %s has no URL of an MCP endpoint", s.Name)
		}
		e.url = u
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if other := v.endpoints[k]; other != nil {
		return other, nil
	}
	v.endpoints[k] = e
	return e, nil
}

// session returns the owner's session, connecting if there is none. An owner's own
// session is opened with the credential of the call that needs it, since servers
// bind sessions to who opened them; one that is nobody's, with our own. release
// must be called when it is no longer used.
func (v *Invoker) session(ctx context.Context, e *endpoint, o owner, c dispatch.Credential) (session, func(), error) {
	if r := e.modern.Load(); r != nil {
		return r, func() {}, nil
	}
	sl, err := v.slot(ctx, e, o, c)
	if err != nil {
		return nil, nil, err
	}
	release := func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		sl.users--
		sl.since = time.Now()
	}
	select {
	case <-sl.ready:
	case <-ctx.Done():
		release()
		return nil, nil, ctx.Err()
	}
	if sl.err != nil {
		release()
		return nil, nil, fmt.Errorf("connect: %w", sl.err)
	}
	return sl.session, release, nil
}

// slot returns the owner's slot, counted as used.
func (v *Invoker) slot(ctx context.Context, e *endpoint, o owner, c dispatch.Credential) (*slot, error) {
	for {
		e.mu.Lock()
		if sl := e.slots[o]; sl != nil && !sl.over() {
			sl.users++
			e.mu.Unlock()
			return sl, nil
		}
		rest := time.Until(e.rest)
		if rest <= 0 {
			break // with e.mu held
		}
		last := e.last
		e.mu.Unlock()
		if rest > patience {
			return nil, fmt.Errorf("connect: resting for %v after: %w", rest.Round(time.Second), last)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(rest):
		}
	}
	defer e.mu.Unlock()
	old := e.slots[o]
	sl := &slot{ready: make(chan struct{}), users: 1}
	if err := v.admit(e); err != nil {
		return nil, err
	}
	started := v.spawn(func() {
		if old != nil {
			old.end(v.ctx)
		}
		v.connect(e, o, c, sl)
	})
	if !started {
		return nil, errClosed
	}
	e.slots[o] = sl
	return sl, nil
}

// over reports whether the slot is of no use any more.
func (sl *slot) over() bool {
	select {
	case <-sl.ready:
		return sl.err != nil || sl.session.broken()
	default:
		return false
	}
}

// end closes what the slot holds.
func (sl *slot) end(ctx context.Context) {
	<-sl.ready
	if sl.session != nil {
		sl.session.close(context.WithoutCancel(ctx))
	}
}

// connect fills a slot. It is not the caller's context that bounds it: others may
// wait for the same session.
func (v *Invoker) connect(e *endpoint, o owner, c dispatch.Credential, sl *slot) {
	ctx, stop := context.WithTimeout(v.ctx, connectWait)
	defer stop()
	s, err := v.dial(ctx, e, o, c)
	e.mu.Lock()
	if err != nil {
		e.era = unknownEra
		if o.none() || !errors.Is(err, errCredential) { // one caller's credential is no reason for others to wait
			e.last, e.failures = err, min(e.failures+1, 16)
			e.rest = time.Now().Add(min(longestRest, firstRest<<(e.failures-1)))
		}
		e.drop(o, sl)
	} else {
		e.failures, e.last = 0, nil
		if r, ok := s.(*remote); ok {
			if e.era = r.era; r.era == modern {
				e.modern.Store(r)
				e.drop(o, sl)
			}
		}
	}
	sl.session, sl.err, sl.since = s, err, time.Now()
	close(sl.ready)
	e.mu.Unlock()
	if err != nil {
		v.opts.Log.Warn("cannot connect to a server", "server", e.key.name, "error", err.Error())
	}
}

// drop removes a slot if it is still there. The lock is held.
func (e *endpoint) drop(o owner, sl *slot) {
	if e.slots[o] == sl {
		delete(e.slots, o)
	}
}

// dial returns a session, or nil and why not.
func (v *Invoker) dial(ctx context.Context, e *endpoint, o owner, c dispatch.Credential) (session, error) {
	var own Own
	if o.none() || e.url == nil {
		var err error
		if own, err = v.own(ctx, e.server); err != nil {
			return nil, err
		}
		c = own.Credential
	}
	if e.url != nil {
		e.mu.Lock()
		known := e.era
		e.mu.Unlock()
		w, err := v.wireTo(e)
		if err != nil {
			return nil, err
		}
		r, err := w.dial(ctx, e.url, known, c, &e.ids, e.changed)
		if err != nil {
			return nil, err
		}
		return r, nil
	}
	process, err := start(e.command, e.env, own, v.opts.LookupEnv)
	if err != nil {
		return nil, err
	}
	p, err := connect(ctx, process, v.wire.max, v.opts.Version, v.opts.Now, e.changed)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// learn forgets what is no longer so: a modern server that now refuses our
// revision is greeted again.
func (e *endpoint) learn(s session, a answer) {
	r, ok := s.(*remote)
	if !ok || r.era != modern {
		return
	}
	if a.fault != nil && (a.fault.code == -32022 || a.fault.code == -32601) || a.fault == nil && (a.status == 404 || a.status == 400) {
		e.modern.CompareAndSwap(r, nil)
		e.mu.Lock()
		e.era = unknownEra
		e.mu.Unlock()
	}
}
