package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/guard"
	"github.com/placet-dev/placet/registry"
)

// Options say how servers are reached. The zero value works.
type Options struct {
	Log       *slog.Logger                // operators' log; nil: none
	Now       func() time.Time            // the clock of deadlines and ages; nil: time.Now
	Resolver  guard.Resolver              // finds servers whose entry names a network; nil: net.DefaultResolver
	Transport http.RoundTripper           // for HTTP; nil: one of our own, HTTP/1.1
	LookupEnv func(string) (string, bool) // environment for commands; nil: os.LookupEnv
	Version   string                      // of this program, as servers are told; empty: "dev"
	// Own is asked for servers with a credential; nil: they cannot be reached.
	Own func(context.Context, *registry.Server) (Own, error)

	MaxResult   int64         // bytes of one result; 0: 4 MiB
	MaxChildren int           // processes at the same time; 0: 64
	MaxSessions int           // legacy HTTP sessions at the same time; 0: 1,024
	Idle        time.Duration // after which a session or process that nobody uses ends; 0: 5 min
}

// Invoker reaches MCP servers. It implements [dispatch.Invoker].
type Invoker struct {
	opts Options
	wire *wire

	ctx  context.Context // ends with Close
	stop context.CancelFunc
	work sync.WaitGroup // goroutines that outlive a request

	mu        sync.RWMutex
	endpoints map[endpointKey]*endpoint
	closed    bool
}

var _ dispatch.Invoker = (*Invoker)(nil)

// New returns an invoker. Its Close must be called.
func New(o Options) *Invoker {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.LookupEnv == nil {
		o.LookupEnv = os.LookupEnv
	}
	o.Version = orElse(o.Version, "dev")
	o.MaxResult = orElse(o.MaxResult, 4<<20)
	o.MaxChildren = orElse(o.MaxChildren, 64)
	o.MaxSessions = orElse(o.MaxSessions, 1024)
	o.Idle = orElse(o.Idle, 5*time.Minute)
	if o.Resolver == nil {
		o.Resolver = net.DefaultResolver
	}
	own := o.Transport == nil
	if own {
		o.Transport = ownTransport()
	}
	v := &Invoker{opts: o, endpoints: map[endpointKey]*endpoint{}}
	v.wire = &wire{rt: o.Transport, own: own, max: int(o.MaxResult), version: o.Version, now: o.Now}
	v.ctx, v.stop = context.WithCancel(context.Background())
	v.spawn(v.reap)
	return v
}

func orElse[T comparable](v, fallback T) T {
	var zero T
	if v == zero {
		return fallback
	}
	return v
}

// ownTransport speaks HTTP/1.1 only: there a request's first byte leaves with
// its body, so that whether it left is known. Kept connections are dropped early,
// because servers drop theirs after some seconds (Node after five), and a call
// that meets a connection while it closes has an outcome nobody knows.
func ownTransport() *http.Transport {
	t := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		MaxIdleConns:        512,
		MaxIdleConnsPerHost: 128,
		IdleConnTimeout:     4 * time.Second,
		TLSHandshakeTimeout: 10 * time.Second,
		DisableCompression:  true,
		Protocols:           new(http.Protocols),
	}
	t.MaxResponseHeaderBytes = 64 << 10
	t.Protocols.SetHTTP1(true)
	return t
}

// Close ends every session and process, and waits for them.
func (v *Invoker) Close() error {
	v.mu.Lock()
	v.closed = true
	v.mu.Unlock()
	v.stop()
	v.endAll()
	v.work.Wait()
	if t, ok := v.wire.rt.(interface{ CloseIdleConnections() }); ok && v.wire.own {
		t.CloseIdleConnections()
	}
	return nil
}

// spawn runs f beside the caller; Close waits for it. After Close it does nothing
// and says so.
func (v *Invoker) spawn(f func()) bool {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if v.closed {
		return false
	}
	v.work.Go(f)
	return true
}

// Invoke sends the ticket's call to its server and says what became of it.
func (v *Invoker) Invoke(ctx context.Context, t dispatch.Ticket) dispatch.Reached {
	w, ok := t.Redeem()
	if !ok {
		return dispatch.Reached{Err: errors.New("the ticket is not good for a call")}
	}
	return v.invoke(ctx, w)
}

func (v *Invoker) invoke(ctx context.Context, w dispatch.Work) (out dispatch.Reached) {
	defer func() {
		if p := recover(); p != nil {
			out = dispatch.Reached{Sent: true, Err: errors.New("a defect in reaching the server")}
			v.opts.Log.ErrorContext(ctx, "panic while reaching a server", "server", w.Server.Name, "tool", w.Tool.Name, "call", string(w.Call), "panic", fmt.Sprintf("%T", p))
		}
	}()
	q, err := requestOf(w)
	if err != nil {
		return dispatch.Reached{Err: fmt.Errorf("%s: %w", w.Tool.Method, err)}
	}
	e, err := v.endpoint(w.Server)
	if err != nil {
		return dispatch.Reached{Err: err}
	}
	return v.send(ctx, e, ownerOf(w), q).reached(q.method, w.Server)
}

// send calls on the owner's session. A session that turned out to be over before
// anything could happen is replaced, once: the server said 404 to its name, which
// is a refusal before execution, or no byte left.
func (v *Invoker) send(ctx context.Context, e *endpoint, o owner, q *request) (a answer) {
	for again := false; ; again = true {
		s, release, err := v.session(ctx, e, o, q.credential)
		switch {
		case err != nil && a.sent:
			return a // the first server's refusal stands
		case err != nil:
			return answer{err: err}
		}
		if q.input != nil && s.speaks() != modern {
			release()
			return answer{err: errNotModern}
		}
		if err := q.renew(); err != nil {
			release()
			if a.sent {
				return a
			}
			return answer{err: err}
		}
		a = s.call(ctx, q)
		release()
		e.learn(s, a)
		over := a.lost || !a.sent && s.broken()
		if !over || again || ctx.Err() != nil {
			return a
		}
	}
}

// renew puts a dispatch token of its own on each sending: a server that takes
// every token once would refuse the second. Without one nothing is sent.
func (r *request) renew() (err error) {
	if r.sign == nil {
		return nil
	}
	if r.token, err = r.sign(); err == nil && r.token == "" {
		err = errors.New("the token is empty")
	}
	if err != nil {
		return fmt.Errorf("sign the dispatch token: %w", err)
	}
	return nil
}

// requestOf writes down what goes upstream of a call.
func requestOf(w dispatch.Work) (*request, error) {
	q := &request{
		method: "tools/call", name: w.Tool.Upstream, arguments: w.Arguments, input: w.Input,
		key: w.Key, credential: w.Credential, sign: w.Token, asks: w.Questions, progress: w.Progress, deadline: w.Deadline,
	}
	if len(q.arguments) == 0 {
		q.arguments = json.RawMessage("{}")
	}
	if w.Tool.Method != registry.MethodTool {
		return q, q.reads(w.Tool)
	}
	if w.Tool.Pin != nil && w.Server.URL != "" {
		var err error
		if q.headers, err = paramHeaders(w.Tool.Pin.InputSchema, q.arguments); err != nil {
			return nil, err
		}
	}
	return q, nil
}

func ownerOf(w dispatch.Work) owner {
	if w.Server.Stateless {
		return owner{shared: true}
	}
	return owner{tenant: w.Owner.Tenant, principal: w.Owner.Principal, lineage: w.Lineage}
}

// ListOffers returns every tool that a server offers now, in its order. It calls
// no tool.
func (v *Invoker) ListOffers(ctx context.Context, s *registry.Server) ([]registry.Offer, error) {
	e, err := v.endpoint(s)
	if err != nil {
		return nil, err
	}
	return v.all(ctx, e, &e.list)
}

// ListReadable returns the resources, resource templates and prompts that a server
// offers now. It reads none of them.
func (v *Invoker) ListReadable(ctx context.Context, s *registry.Server) ([]registry.Offer, error) {
	e, err := v.endpoint(s)
	if err != nil {
		return nil, err
	}
	return v.all(ctx, e, &e.readable)
}

func (v *Invoker) all(ctx context.Context, e *endpoint, c *catalog) ([]registry.Offer, error) {
	l, err := v.listing(ctx, e, c, 0)
	if err != nil {
		return nil, unavailable(e.key.name, err)
	}
	return l.offers, nil
}
