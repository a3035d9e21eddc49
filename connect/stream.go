package connect

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"
)

const (
	resumes  = 5 // in a row, without a message
	pause    = time.Second
	maxPause = 30 * time.Second
)

// stream hands a request's stream to the client until its answer comes, and
// returns that. A server of an older revision that numbers its events may break
// the stream off: it is asked for the rest, and the request is not sent again.
func (b *Bridge) stream(ctx context.Context, m *message, s session, resp *http.Response) ([]byte, error) {
	last, again, tried := "", pause, 0
	for body := io.ReadCloser(resp.Body); ; {
		es := newEvents(body)
		answer, err := b.relay(es, m.id, &last, &tried)
		body.Close()
		if answer != nil || err == errTooLarge || ctx.Err() != nil {
			return answer, err
		}
		if last == "" || m.modern() {
			return nil, fmt.Errorf("its stream ended without an answer")
		}
		if es.retry > 0 {
			again = min(es.retry, maxPause)
		}
		for body = nil; body == nil; tried++ {
			if tried == resumes {
				return nil, fmt.Errorf("its stream broke and could not be resumed")
			}
			if !sleep(ctx, again) {
				return nil, ctx.Err()
			}
			body, _ = b.get(ctx, s, last)
		}
	}
}

// relay hands messages to the client until the one that answers id, or the end.
func (b *Bridge) relay(es *events, id []byte, last *string, tried *int) ([]byte, error) {
	for {
		e, err := es.next()
		if err != nil {
			return nil, err
		}
		if e.id != "" {
			*last = e.id
		}
		if len(e.data) == 0 || e.name != "" && e.name != "message" {
			continue
		}
		*tried = 0
		m, err := readMessage(e.data)
		switch {
		case err != nil:
			b.log.Warn("the server sent something that is not a JSON-RPC message")
		case !m.isResponse():
			b.write(e.data)
		case id != nil && bytes.Equal(m.id, id):
			return e.data, nil
		default:
			b.log.Warn("the server answered something that was not asked here")
		}
	}
}

// listen takes what the server sends of itself in a session (revisions before
// 2026-07-28): changed lists, log messages, requests.
func (b *Bridge) listen(ctx context.Context) {
	s := b.current()
	b.work.Go(func() {
		last, again, tried := "", pause, 0
		for b.current().id == s.id {
			body, more := b.get(ctx, s, last)
			if body != nil {
				es := newEvents(body)
				_, err := b.relay(es, nil, &last, &tried)
				body.Close()
				if more = err != errTooLarge; es.retry > 0 {
					again = min(es.retry, maxPause)
				}
			}
			if tried++; !more || !sleep(ctx, min(again<<min(tried-1, 5), maxPause)) {
				return
			}
		}
	})
}

// get opens a stream; more says whether it may be asked for again.
func (b *Bridge) get(ctx context.Context, s session, last string) (body io.ReadCloser, more bool) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.url, nil)
	if err != nil {
		return nil, false
	}
	token, err := b.account.token(ctx)
	if err != nil {
		return nil, true
	}
	b.mark(req, s, token)
	req.Header.Set("Accept", "text/event-stream")
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	resp, err := b.http.Do(req)
	if err != nil {
		return nil, true
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode == http.StatusOK && kind == "text/event-stream" {
		return resp.Body, true
	}
	resp.Body.Close()
	// Not signed in any more: the next request sees to it.
	return nil, resp.StatusCode == http.StatusUnauthorized || resp.StatusCode >= 500
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
