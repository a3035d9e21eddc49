package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"

	"github.com/placet-dev/placet/mcphttp"
)

// read turns a response into an answer.
func (r *remote) read(ctx context.Context, resp *http.Response, id int64, q *request) answer {
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return r.failed(resp, id, q)
	}
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch media {
	case "application/json":
		return r.readJSON(resp, id)
	case "text/event-stream":
		return r.readStream(ctx, resp, id, q)
	}
	return answer{err: fmt.Errorf("the server answered status %d with content that is neither JSON nor an event stream", resp.StatusCode)}
}

// failed reads what an unsuccessful status says. The status decides; the body
// is for operators, and for the two errors that tell the eras apart.
func (r *remote) failed(resp *http.Response, id int64, q *request) answer {
	a := answer{status: resp.StatusCode, err: fmt.Errorf("the server answered HTTP status %d", resp.StatusCode)}
	if resp.StatusCode >= 300 && resp.StatusCode <= 399 {
		a.err = fmt.Errorf("the server answered with a redirect (status %d), which is not followed", resp.StatusCode)
	}
	if q.credential.Unwelcome(resp.StatusCode) {
		a.err = fmt.Errorf("%w: %w", errCredential, a.err)
	}
	switch {
	case r.session == "":
	case resp.StatusCode == http.StatusNotFound:
		a.lost = true
		r.gone.Store(true)
	case resp.StatusCode == http.StatusBadRequest:
		// Some servers say this of a session they do not know. It may be about the
		// call, which therefore is not sent again, but the next gets a new session.
		r.gone.Store(true)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, envelope))
	if err != nil {
		return a
	}
	if m, err := readMessage(text); err == nil && m.fault != nil {
		a.fault = m.fault
		a.err = fmt.Errorf("the server answered HTTP status %d and %w", resp.StatusCode, m.fault)
	}
	return a
}

func (r *remote) readJSON(resp *http.Response, id int64) answer {
	text, err := mcphttp.ReadBody(resp, r.wire.max+envelope)
	if err != nil {
		return answer{err: err}
	}
	m, err := readMessage(text)
	if err != nil {
		return answer{err: fmt.Errorf("read the answer: %w", err)}
	}
	if !m.answers(id) {
		return answer{err: errors.New("the answer belongs to another request")}
	}
	return r.accept(m)
}

func (r *remote) accept(m message) answer {
	if len(m.result) > r.wire.max {
		return answer{err: mcphttp.ErrTooLarge}
	}
	return answer{result: m.result, fault: m.fault}
}
