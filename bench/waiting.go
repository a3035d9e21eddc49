package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/placet-dev/placet/config"
	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
)

// roleWaiting is Placet as rolePlacet, which also tells its goroutines.
const roleWaiting = "waiting"

const goroutinesPath = "/bench/goroutines"

func withGoroutines(next http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", next)
	mux.HandleFunc(goroutinesPath, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, runtime.NumGoroutine()) })
	return mux
}

// waiting reports what callers who wait for a person cost, and how long after the
// answer a call that was waited for is done. Server and callers are processes of
// their own: each has a socket for every caller. Nothing is asserted.
func (b *bench) waiting(ctx context.Context) (err error) {
	l, err := listen()
	if err != nil {
		return err
	}
	upstream, err := b.start(roleUpstream, "", l)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, upstream.stop()) }()
	door, err := listen()
	if err != nil {
		return err
	}
	dir, err := b.configure(ctx, "waiting", door.Addr().String(), "http://"+upstream.address+"/mcp")
	if err != nil {
		return err
	}
	if err := waitLong(dir); err != nil {
		return err
	}
	waiters, answers := 10_000, 200
	if b.short {
		waiters, answers = 300, 10
	}
	held, err := holdEach(ctx, dir, waiters+answers)
	if err != nil {
		return err
	}
	server, err := b.start(roleWaiting, dir, door)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	at := &waitingAt{address: server.address, pid: server.cmd.Process.Pid}
	if err := at.tokens(dir); err != nil {
		return err
	}
	took, err := at.answerToDone(ctx, held[:answers])
	if err != nil {
		return err
	}
	b.say("answer to result while the agent waits: median %s of %d, slowest %s (target 100ms; reported, not asserted)", median(took), len(took), longestOf(took))
	return at.manyWait(ctx, b, held[answers:])
}

// waitLong lets callers be held as long as may be.
func waitLong(dir string) error {
	path := filepath.Join(dir, "placet.yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return os.WriteFile(path, bytes.Replace(text, []byte("wait: 1ms"), []byte("wait: 55s"), 1), 0o600)
}

func longestOf(values []time.Duration) (most time.Duration) {
	for _, v := range values {
		most = max(most, v)
	}
	return most
}

// heldCall waits for a person; caller is the number of its owner.
type heldCall struct {
	call     record.CallID
	approval record.ApprovalID
	caller   int
}

// holdEach proposes calls that wait, of every caller in turn.
func holdEach(ctx context.Context, dir string, n int) (out []heldCall, err error) {
	p, issuer, err := open(ctx, dir, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	who, err := callers(ctx, p, issuer, dir, dispatchCallers)
	if err != nil {
		return nil, err
	}
	out = make([]heldCall, n)
	failed := make([]error, len(who))
	var work sync.WaitGroup
	for c := range who {
		work.Go(func() {
			for i := c; i < n && failed[c] == nil; i += len(who) {
				a, err := p.Boundary().Propose(ctx, dispatch.Proposal{Caller: who[c], Tool: "stripe.refund",
					Arguments: json.RawMessage(fmt.Sprintf(`{"table":"orders","customer":"c-%d","amount":1200}`, i))})
				if err == nil && a.State() != record.ApprovalPending {
					err = fmt.Errorf("the call is %s: %s %v", a.State(), a.Code, a.Decision.Reasons)
				}
				if failed[c] = err; err == nil {
					out[i] = heldCall{a.Call.ID, a.Approval.ID, c}
				}
			}
		})
	}
	work.Wait()
	return out, errors.Join(failed...)
}

// waitingAt is a server with callers who wait, and a person.
type waitingAt struct {
	address string
	pid     int
	bearer  []string // by caller
	person  string
}

func (w *waitingAt) tokens(dir string) error {
	c, err := config.Load(filepath.Join(dir, "placet.yaml"))
	if err != nil {
		return err
	}
	issuer, err := loadIssuer(dir)
	if err != nil {
		return err
	}
	w.bearer = make([]string, dispatchCallers)
	for i := range w.bearer {
		if w.bearer[i], err = token(issuer, c.Audience(), i); err != nil {
			return err
		}
	}
	w.person, err = issuer.Sign(identity.TokenSpec{Audience: c.ConsoleAudience(), Subject: "lena", Tenant: tenant, Groups: []string{"leads"}})
	return err
}

const waitBody = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"placet_wait","arguments":{"call":%q},"_meta":{"progressToken":"p",` +
	`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`

// wait sends placet_wait over a connection of its own, with a progress token, and
// leaves the answer to be read.
func (w *waitingAt) wait(ctx context.Context, h heldCall) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp4", w.address)
	if err != nil {
		return nil, err
	}
	body := fmt.Sprintf(waitBody, h.call)
	_, err = fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"+
		"Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: placet_wait\r\nContent-Length: %d\r\n\r\n%s", w.address, w.bearer[h.caller], len(body), body)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// answerToDone measures from a person's answer leaving to the agent's result.
func (w *waitingAt) answerToDone(ctx context.Context, held []heldCall) ([]time.Duration, error) {
	var took []time.Duration
	for _, h := range held {
		binding, err := w.binding(ctx, h)
		if err != nil {
			return nil, err
		}
		conn, err := w.wait(ctx, h)
		if err != nil {
			return nil, err
		}
		time.Sleep(20 * time.Millisecond) // it is held by now; if not, that is counted too
		begin := time.Now()
		answered := make(chan error, 1)
		go func() {
			answered <- w.ask(ctx, http.MethodPost, "/v1/approvals/"+string(h.approval)+"/approve", fmt.Sprintf(`{"binding":%q}`, binding), nil)
		}()
		text, err := readAnswer(conn)
		took = append(took, time.Since(begin))
		if err = errors.Join(err, <-answered, conn.Close()); err == nil && (strings.Contains(text, `"isError":true`) || !strings.Contains(text, `"result"`)) {
			err = fmt.Errorf("the agent read: %s", text)
		}
		if err != nil {
			return nil, err
		}
	}
	return took, nil
}

// readAnswer reads one HTTP answer whole.
func readAnswer(conn net.Conn) (string, error) {
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}

func (w *waitingAt) binding(ctx context.Context, h heldCall) (string, error) {
	var q struct{ Binding string }
	err := w.ask(ctx, http.MethodGet, "/v1/approvals/"+string(h.approval), "", &q)
	return q.Binding, err
}

// ask is the person's.
func (w *waitingAt) ask(ctx context.Context, method, path, body string, out any) error {
	r, err := http.NewRequestWithContext(ctx, method, "http://"+w.address+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+w.person)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return err
	case resp.StatusCode >= 300:
		return fmt.Errorf("%s: %d %s", path, resp.StatusCode, text)
	case out == nil:
		return nil
	}
	return json.Unmarshal(text, out)
}

// manyWait lets all wait at once, looks at the server, and lets them go.
func (w *waitingAt) manyWait(ctx context.Context, b *bench, held []heldCall) error {
	idle, resting := resident(w.pid), w.goroutines(ctx)
	conns := make([]net.Conn, len(held))
	begin := time.Now()
	for i, h := range held {
		conn, err := w.wait(ctx, h)
		if err != nil {
			return err
		}
		conns[i] = conn
	}
	for w.goroutines(ctx) < resting+len(held) && time.Since(begin) < 50*time.Second {
		time.Sleep(100 * time.Millisecond) // until all are held
	}
	// Each hears of progress every 5 s: the figure is of callers who are being told.
	time.Sleep(6 * time.Second)
	full, waiting := resident(w.pid), w.goroutines(ctx)
	b.say("%d callers wait with progress: memory %s, before them %s; goroutines %d, before them %d; all there after %s (target 200 MB; reported, not asserted)",
		len(held), megabytes(full), megabytes(idle), waiting, resting, time.Since(begin).Round(time.Millisecond)-6*time.Second)
	for _, c := range conns {
		if err := c.Close(); err != nil {
			return err
		}
	}
	for begin = time.Now(); w.goroutines(ctx) > resting+10 && time.Since(begin) < 30*time.Second; {
		time.Sleep(50 * time.Millisecond)
	}
	var q struct{ State record.ApprovalState }
	if err := w.ask(ctx, http.MethodGet, "/v1/approvals/"+string(held[0].approval), "", &q); err != nil {
		return err
	}
	b.say("after they went: goroutines %d, a question is still %s", w.goroutines(ctx), q.State)
	return nil
}

func (w *waitingAt) goroutines(ctx context.Context) (n int) {
	_ = w.ask(ctx, http.MethodGet, goroutinesPath, "", &n) // 0 says that it is not known
	return n
}
