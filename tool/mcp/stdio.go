package mcp

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/placet-dev/placet/dispatch"
)

// pipe is a session with a child process, in either era.
type pipe struct {
	child   *child
	era     era
	tools   bool
	version string // ours
	max     int
	now     func() time.Time
	changed func()

	ids      atomic.Int64
	refusing atomic.Int64  // refusals being written
	turn     chan struct{} // holds one token: whoever has it may write

	mu      sync.Mutex
	waiting map[int64]*waiter // by request ID; nil when the session is over
	why     error             // why it is over
}

// waiter is one request without its answer.
type waiter struct {
	done     chan answer // holds one
	progress chan []byte // nil: nobody asked for it
	begun    func()      // called once when the server acknowledges; or nil
}

const (
	maxRefusals  = 16              // at once; what a server asks beyond that stays without an answer
	heldProgress = 256             // what is more than this ahead of its reader is dropped
	discoverWait = 5 * time.Second // for an answer to server/discover
)

// connect starts a child and greets it.
func connect(ctx context.Context, c *child, max int, version string, now func() time.Time, changed func()) (*pipe, error) {
	p := &pipe{
		child: c, version: version, max: max, now: now, changed: changed,
		turn: make(chan struct{}, 1), waiting: map[int64]*waiter{},
	}
	p.turn <- struct{}{}
	go p.read()
	ask := func(ctx context.Context, e era, q *request) answer {
		p.era = e
		if e == legacy {
			return p.call(ctx, q)
		}
		// A server that ignores what it does not know says nothing at all.
		short, stop := context.WithTimeout(ctx, discoverWait)
		defer stop()
		a := p.call(short, q)
		if a.err != nil && ctx.Err() == nil && short.Err() != nil {
			return answer{sent: true, fault: &fault{code: -32601, message: "no answer"}}
		}
		return a
	}
	g, err := greet(ctx, ask, version)
	if err == nil && g.era == legacy {
		_, err = p.write(ctx, notification("notifications/initialized", nil), time.Time{})
	}
	if err != nil {
		p.end(err, false)
		return nil, c.errs.explain(err)
	}
	p.era, p.tools = g.era, g.tools
	c.errs.silence()
	return p, nil
}

func (p *pipe) broken() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waiting == nil
}

// call writes a request and waits for its answer.
func (p *pipe) call(ctx context.Context, q *request) answer {
	id := p.ids.Add(1)
	w := &waiter{done: make(chan answer, 1), begun: q.acknowledged}
	if q.progress != nil {
		w.progress = make(chan []byte, heldProgress)
	}
	if err := p.register(id, w); err != nil {
		return answer{err: err}
	}
	defer p.forget(id)
	sent, err := p.write(ctx, q.encode(id, p.era, p.version), q.deadline)
	if err != nil {
		return answer{sent: sent, err: err}
	}
	for {
		select {
		case params := <-w.progress:
			q.progress(params)
		case a := <-w.done:
			w.drain(q)
			a.sent = true
			return a
		case <-ctx.Done():
			p.cancel(ctx, id)
			return answer{sent: true, err: ctx.Err()}
		}
	}
}

// drain hands on progress that came before the answer.
func (w *waiter) drain(q *request) {
	for {
		select {
		case params := <-w.progress:
			q.progress(params)
		default:
			return
		}
	}
}

func (p *pipe) register(id int64, w *waiter) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting == nil {
		return fmt.Errorf("%w: %w", errClosed, p.why)
	}
	p.waiting[id] = w
	return nil
}

func (p *pipe) forget(id int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.waiting, id)
}

// write writes one message as one line. sent is false only if the pipe took no
// byte of it. A line that was cut short ends the session, for nothing that comes
// after it could be understood.
func (p *pipe) write(ctx context.Context, text []byte, deadline time.Time) (sent bool, err error) {
	select {
	case <-p.turn:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	defer func() { p.turn <- struct{}{} }()
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	if !deadline.IsZero() && !p.now().Before(deadline) {
		return false, errDeadline
	}
	p.child.in.SetWriteDeadline(time.Time{})
	stop := context.AfterFunc(ctx, func() { p.child.in.SetWriteDeadline(time.Unix(1, 0)) })
	defer stop()
	n, err := p.child.in.Write(append(text, '\n'))
	if err != nil && n > 0 {
		p.end(errors.New("a message was cut short"), false)
	}
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	return n > 0, err
}

// cancel tells the server that nobody waits for this request any more.
func (p *pipe) cancel(ctx context.Context, id int64) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), cancelWait)
	go func() {
		defer stop()
		p.write(ctx, cancelled(id), time.Time{})
	}()
}

// end ends the session and its child. Requests that wait get no answer.
func (p *pipe) end(why error, patient bool) {
	p.mu.Lock()
	waiting := p.waiting
	if waiting != nil {
		p.waiting, p.why = nil, why
	}
	p.mu.Unlock()
	for _, w := range waiting {
		select {
		case w.done <- answer{err: fmt.Errorf("%w: %w", errClosed, why)}:
		default:
		}
	}
	p.child.stop(patient)
}

func (p *pipe) close(context.Context) { p.end(errors.New("closed by us"), true) }

// listen asks a modern child to announce changes of its list. A legacy one does
// by itself. It returns when the session is over.
func (p *pipe) listen(ctx context.Context, _ dispatch.Credential, ready func()) error {
	if !p.tools {
		return errNoStream
	}
	if p.era == legacy {
		ready()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.child.ended:
			return errClosed
		}
	}
	return p.call(ctx, &request{method: "subscriptions/listen", extra: wanted, acknowledged: ready}).failure()
}
