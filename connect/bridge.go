package connect

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// A Bridge carries messages between one client and one server.
type Bridge struct {
	account *account
	http    *http.Client
	url     string
	log     *slog.Logger

	writing sync.Mutex // a client that reads slowly slows the server's streams down
	out     io.Writer
	broken  context.CancelFunc

	reopening sync.Mutex

	mu      sync.Mutex
	running map[string]*running // requests of the client without an answer, by ID
	session session
	tools   map[string][]byte // schemas that ask for headers, by tool

	work sync.WaitGroup
}

// running is a request on its way.
type running struct {
	cancel   context.CancelFunc
	modern   bool
	sent     atomic.Bool
	canceled atomic.Bool // by the client, which wants no answer
}

const (
	atOnce    = 256              // requests under way
	slowest   = 10 * time.Minute // until an answer begins
	quick     = time.Minute      // for what has no answer
	farewell  = 5 * time.Second  // to end a session
	tooLong   = "the message is longer than 16 MiB"
	cancelled = "notifications/cancelled"
)

// Serve carries messages until the client closes its side or ctx ends, and then
// ends the session. What is under way then is given up.
func (b *Bridge) Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, stop := context.WithCancel(ctx)
	b.out, b.broken = out, stop
	b.account.life = ctx
	defer func() {
		stop()
		b.work.Wait()
		b.account.work.Wait()
		b.leave(context.WithoutCancel(ctx))
	}()
	lines := make(chan []byte)
	ended := make(chan error, 1)
	go func() { ended <- read(ctx, in, lines) }() // stays in Read until the process ends
	// What a message must wait for: the handshake, and notifications before it.
	gate := closedGate
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-ended:
			return err
		case line := <-lines:
			gate = b.accept(ctx, line, gate)
		}
	}
}

var closedGate = func() <-chan struct{} { c := make(chan struct{}); close(c); return c }()

// read sends every line on; nil stands for one that is too long.
func read(ctx context.Context, in io.Reader, lines chan<- []byte) error {
	r := bufio.NewReaderSize(in, 64<<10)
	for {
		line, err := readLine(r)
		if len(bytes.TrimSpace(line)) > 0 || line == nil && err == nil {
			select {
			case lines <- line:
			case <-ctx.Done():
				return nil
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// readLine returns a line, or nil if it is longer than a message may be.
func readLine(r *bufio.Reader) ([]byte, error) {
	line, long := []byte{}, false
	for {
		part, err := r.ReadSlice('\n')
		if long = long || len(line)+len(part) > most; !long {
			line = append(line, part...)
		}
		switch {
		case err == bufio.ErrBufferFull:
		case long:
			return nil, err
		default:
			return line, err
		}
	}
}

// accept starts what one line asks for, and returns what the next must wait for.
func (b *Bridge) accept(ctx context.Context, line []byte, gate <-chan struct{}) <-chan struct{} {
	if line == nil {
		b.write(answerTo(nil, notRequest, tooLong))
		return gate
	}
	m, err := readMessage(line)
	if err != nil {
		code := notJSON
		if errors.Is(err, errShape) {
			code = notRequest
		}
		b.write(answerTo(nil, code, "this is not one JSON-RPC 2.0 message of valid JSON with unique names"))
		return gate
	}
	done := make(chan struct{})
	switch {
	case m.isRequest():
		ctx, r, words := b.begin(ctx, &m)
		if words != "" {
			b.write(answerTo(m.id, notRequest, words))
			return gate
		}
		b.work.Go(func() {
			defer close(done)
			defer b.end(&m, r)
			if wait(ctx, gate) {
				b.request(ctx, &m, r)
			}
		})
		if m.method == "initialize" {
			return done
		}
		return gate
	case m.method == cancelled && b.cancel(&m):
		return gate
	}
	b.work.Go(func() {
		defer close(done)
		ctx, stop := context.WithTimeout(ctx, quick)
		defer stop()
		if wait(ctx, gate) {
			b.tell(ctx, &m)
		}
		if m.method == cancelled {
			b.drop(&m)
		}
	})
	if m.isResponse() {
		return gate
	}
	return done
}

func wait(ctx context.Context, gate <-chan struct{}) bool {
	select {
	case <-gate:
		return true
	case <-ctx.Done():
		return false
	}
}

// begin registers a request; the words say why it cannot be taken.
func (b *Bridge) begin(ctx context.Context, m *message) (context.Context, *running, string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.running) >= atOnce {
		return nil, nil, "too many requests at once; wait for answers"
	}
	if b.running[string(m.id)] != nil {
		return nil, nil, "a request with this ID has no answer yet"
	}
	ctx, stop := context.WithCancel(ctx)
	r := &running{cancel: stop, modern: m.modern()}
	b.running[string(m.id)] = r
	return ctx, r, ""
}

// end gives a request's ID and context back. It may be called twice.
func (b *Bridge) end(m *message, r *running) {
	r.cancel()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.running[string(m.id)] == r {
		delete(b.running, string(m.id))
	}
}

func (b *Bridge) cancels(m *message) *running {
	id := member(m.params, "requestId")
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.running[string(id)]
}

// cancel gives a request up if the server need not be told: over HTTP a closed
// stream says it, from revision 2026-07-28 on. It reports whether that was all.
func (b *Bridge) cancel(m *message) bool {
	r := b.cancels(m)
	if r == nil {
		return b.current().id == ""
	}
	r.canceled.Store(true)
	if r.modern || !r.sent.Load() {
		r.cancel()
		return true
	}
	return false
}

// drop gives a request up of which the server was told.
func (b *Bridge) drop(m *message) {
	if r := b.cancels(m); r != nil {
		r.cancel()
	}
}

// write hands the client one message.
func (b *Bridge) write(text []byte) {
	b.writing.Lock()
	defer b.writing.Unlock()
	if _, err := b.out.Write(oneLine(text)); err != nil {
		b.log.Warn("the client is gone", "error", err)
		b.broken()
	}
}
