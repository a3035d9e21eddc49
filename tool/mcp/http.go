package mcp

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/propagation"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/mcphttp"
)

// remote is a server over Streamable HTTP: in the modern era as it is, in the
// legacy era one session on it.
type remote struct {
	wire    *wire
	url     *url.URL
	era     era
	version string              // legacy: as negotiated
	session string              // legacy: the server's name for it; empty: it keeps none
	tools   bool                // it says that it announces changes of its list of tools
	opened  dispatch.Credential // legacy: what the session was opened with, and is ended with
	ids     *atomic.Int64
	gone    atomic.Bool

	changed func() // called for each notifications/tools/list_changed
}

// wire is what all HTTP sessions share.
type wire struct {
	rt      http.RoundTripper
	own     bool // rt is a transport that we made
	max     int  // bytes of one result
	version string
	now     func() time.Time
}

// envelope is how much a message may hold beside its result.
const envelope = 64 << 10

func (r *remote) broken() bool { return r.gone.Load() }

// call posts a request and reads its answer. The answer's stream is over, or
// closed, when it returns.
func (r *remote) call(ctx context.Context, q *request) answer {
	id := r.ids.Add(1)
	body := &outgoing{text: q.encode(id, r.era, r.wire.version), deadline: q.deadline, now: r.wire.now}
	resp, a := r.post(ctx, body, q, q.credential)
	if resp == nil {
		if a.sent && ctx.Err() != nil {
			r.cancel(ctx, id, q.credential)
		}
		return a
	}
	defer resp.Body.Close()
	a = r.read(ctx, resp, id, q)
	a.sent = true
	if ctx.Err() != nil && a.result == nil && a.fault == nil {
		r.cancel(ctx, id, q.credential)
	}
	return a
}

// post sends one message with a credential; q is nil for a message that gets no
// answer. It returns a response, whose body is bounded, or the answer that there
// is none.
func (r *remote) post(ctx context.Context, body *outgoing, q *request, c dispatch.Credential) (*http.Response, answer) {
	req := r.request(ctx, http.MethodPost)
	req.Body, req.ContentLength = body, int64(len(body.text))
	// A POST with an Idempotency-Key counts as replayable for net/http, which
	// would send it again on a new connection when the answer was lost on a kept
	// one. Without GetBody it cannot.
	req.GetBody = nil
	req.Header["Content-Type"] = []string{"application/json"}
	req.Header["Accept"] = []string{"application/json, text/event-stream"}
	var wrote *atomic.Bool
	if q != nil {
		if q.key != "" {
			req.Header["Idempotency-Key"] = []string{q.key}
		}
		if q.token != "" {
			req.Header["Placet-Dispatch-Token"] = []string{q.token}
		}
		if r.era == modern {
			req.Header["Mcp-Method"] = []string{q.method}
			if q.name != "" {
				req.Header["Mcp-Name"] = []string{mcphttp.HeaderValue(q.name)}
			}
			for _, h := range q.headers {
				req.Header.Set(h.name, h.value)
			}
		}
		if !r.wire.own || len(q.headers) > 0 || q.token != "" || !c.None() {
			req, wrote = traced(req)
		}
	}
	c.Attach(req.Header)
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(req.Header)) // nothing without a span
	resp, err := r.wire.rt.RoundTrip(req)
	if err != nil {
		// Our transport has written nothing before it reads the body, unless the
		// headers outgrow its buffer; another one may do as it likes.
		sent := body.seal() || wrote != nil && wrote.Load()
		if body.late {
			err = errDeadline
		}
		return nil, answer{sent: sent, err: err}
	}
	return resp, answer{}
}

// traced notes when headers have been written.
func traced(req *http.Request) (*http.Request, *atomic.Bool) {
	wrote := new(atomic.Bool)
	note := func() { wrote.Store(true) }
	return req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		WroteHeaders: note,
		WroteRequest: func(httptrace.WroteRequestInfo) { note() },
	})), wrote
}

func (r *remote) request(ctx context.Context, method string) *http.Request {
	h := make(http.Header, 8)
	switch {
	case r.era == modern:
		h["Mcp-Protocol-Version"] = []string{modernVersion}
	case r.version != "":
		h["Mcp-Protocol-Version"] = []string{r.version}
	}
	if r.session != "" {
		h["Mcp-Session-Id"] = []string{r.session}
	}
	req := &http.Request{
		Method: method, URL: r.url, Host: r.url.Host, Header: h,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	return req.WithContext(ctx)
}

// cancel tells the server that nobody waits any more. A modern server sees that
// its stream closed; a legacy one must be told, as a broken stream means nothing.
// It waits a moment at most, and not for the caller, who has gone.
func (r *remote) cancel(ctx context.Context, id int64, c dispatch.Credential) {
	if r.era != legacy {
		return
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), cancelWait)
	go func() {
		defer stop()
		r.tell(ctx, cancelled(id), c)
	}()
}

const cancelWait = 5 * time.Second

// tell posts a message that gets no answer.
func (r *remote) tell(ctx context.Context, text []byte, c dispatch.Credential) error {
	resp, a := r.post(ctx, &outgoing{text: text, now: r.wire.now}, nil, c)
	if resp == nil {
		return a.err
	}
	resp.Body.Close()
	if resp.StatusCode > 299 {
		return fmt.Errorf("the server answered HTTP status %d", resp.StatusCode)
	}
	return nil
}

// close ends a legacy session. It waits for the server a moment at most.
func (r *remote) close(ctx context.Context) {
	if r.gone.Swap(true) || r.session == "" {
		return
	}
	ctx, stop := context.WithTimeout(ctx, cancelWait)
	defer stop()
	req := r.request(ctx, http.MethodDelete)
	r.opened.Attach(req.Header)
	if resp, err := r.wire.rt.RoundTrip(req); err == nil {
		resp.Body.Close()
	}
}
