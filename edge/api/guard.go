package api

import (
	"net/http"
	"net/url"
	"path"
	"runtime/debug"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/placet-dev/placet/record"
)

// once are the headers of which a second one would be read by somebody else.
// Authorization and Placet-Workload are identity's to check.
var once = [...]string{"Idempotency-Key", "Content-Type", "Content-Length"}

// ServeHTTP guards what is common to all operations, then routes.
func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	started := &startedWriter{ResponseWriter: w}
	defer d.catch(started, r)
	deadline(w, time.Now().Add(d.body))
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if err := plainRequest(r); err != nil {
		d.send(started, err)
		return
	}
	// The mux would redirect a path that is not clean; one resource has one address.
	handler, pattern := d.mux.Handler(r)
	if pattern == "" || path.Clean(r.URL.Path) != r.URL.Path {
		d.send(started, unrouted(handler, r))
		return
	}
	d.mux.ServeHTTP(started, r)
}

// plainRequest refuses what two readers could read in two ways.
func plainRequest(r *http.Request) error {
	for _, name := range once {
		if values := r.Header.Values(name); len(values) > 1 || len(values) == 1 && values[0] == "" {
			return invalid("header."+name, "send it once and not empty, or not at all")
		}
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return invalid("query", "it cannot be read")
	}
	for name, values := range query {
		if len(values) > 1 {
			return invalid("query."+clean(name), "send it once")
		}
	}
	return nil
}

// unrouted is the problem for a path without an operation, or with others. The
// mux knows which: its own answer is looked at, not sent.
func unrouted(handler http.Handler, r *http.Request) error {
	var probe probeWriter
	handler.ServeHTTP(&probe, r)
	if probe.status == http.StatusMethodNotAllowed {
		return problem(probe.status, "method_not_allowed", "this path does not take this method; see the Allow header").
			header("Allow", probe.Header().Get("Allow"))
	}
	return problem(http.StatusNotFound, string(record.NotFound), "there is no such path; see /v1/openapi.json")
}

// probeWriter keeps status and header, and drops the rest.
type probeWriter struct {
	header http.Header
	status int
}

func (p *probeWriter) Header() http.Header {
	if p.header == nil {
		p.header = http.Header{}
	}
	return p.header
}

func (p *probeWriter) WriteHeader(status int) {
	if p.status == 0 {
		p.status = status
	}
}

func (p *probeWriter) Write(b []byte) (int, error) { return len(b), nil }

// startedWriter knows whether the answer has begun.
type startedWriter struct {
	http.ResponseWriter
	started bool
}

func (s *startedWriter) WriteHeader(status int) {
	s.started = true
	s.ResponseWriter.WriteHeader(status)
}

func (s *startedWriter) Write(b []byte) (int, error) {
	s.started = true
	return s.ResponseWriter.Write(b)
}

func (s *startedWriter) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// catch keeps a panic, which huma uses for writes that fail too, inside this
// package. What was decided is in the record; the caller may ask for it.
func (d *door) catch(w *startedWriter, r *http.Request) {
	cause := recover()
	if cause == nil {
		return
	}
	if r.Context().Err() == nil {
		d.log.Error("request panicked", "path", r.Pattern, "cause", cause, "stack", string(debug.Stack()))
	}
	if !w.started {
		d.send(w, problem(http.StatusInternalServerError, string(record.Internal), "something went wrong here; the operator's log has the details"))
	}
}

// send writes a problem outside of huma.
func (d *door) send(w http.ResponseWriter, err error) {
	p, _ := d.refusal(err).(*Problem)
	for name, values := range p.headers {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Type", p.ContentType(""))
	w.WriteHeader(p.Status)
	if err := write(w, p); err != nil {
		d.log.Debug("answer not written", "error", err)
	}
}

// refuse writes a problem from a middleware.
func (d *door) refuse(ctx huma.Context, err error) {
	p, _ := d.refusal(err).(*Problem)
	for name, values := range p.headers {
		ctx.SetHeader(name, values[0])
	}
	ctx.SetHeader("Content-Type", p.ContentType(""))
	ctx.SetStatus(p.Status)
	if err := write(ctx.BodyWriter(), p); err != nil {
		d.log.Debug("answer not written", "error", err)
	}
}

// foldedStatus makes statuses that the table of kinds lacks those it has.
type foldedStatus struct{ inner }

type inner huma.Context

func (f foldedStatus) SetStatus(status int) { f.inner.SetStatus(statusOf(status)) }

// Unwrap lets the adapter find its own context.
func (f foldedStatus) Unwrap() huma.Context { return f.inner }

func fold(ctx huma.Context, next func(huma.Context)) { next(foldedStatus{ctx}) }
