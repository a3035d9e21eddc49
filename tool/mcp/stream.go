package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/mcphttp"
)

const (
	maxEvents  = 100_000 // of one stream that answers a call
	maxResumes = 5       // in a row that brought nothing
)

var errCutOff = errors.New("the stream ended without an answer")

// readStream reads the events that answer a request, up to its response. A legacy
// server may end the stream at will and let us fetch the rest: that is reading,
// and sends nothing again.
func (r *remote) readStream(ctx context.Context, resp *http.Response, id int64, q *request) answer {
	var (
		last    string
		count   int
		barren  int
		wait    = time.Second
		current = resp
	)
	for {
		before := last
		a, done := r.readEvents(ctx, current, id, q, &last, &count, &wait)
		if done || r.era == modern || last == "" || ctx.Err() != nil {
			return a
		}
		if barren++; last != before {
			barren = 0
		}
		if barren > maxResumes {
			return a
		}
		select {
		case <-ctx.Done():
			return answer{err: ctx.Err()}
		case <-time.After(wait):
		}
		next, err := r.resume(ctx, last, q.credential)
		if err != nil {
			return answer{err: fmt.Errorf("fetch the rest of the answer: %w", err)}
		}
		defer next.Body.Close()
		current = next
	}
}

// readEvents reads one stream. done says that the answer is final.
func (r *remote) readEvents(ctx context.Context, resp *http.Response, id int64, q *request, last *string, count *int, wait *time.Duration) (a answer, done bool) {
	stream := mcphttp.NewEvents(resp.Body, r.wire.max+envelope)
	for {
		ev, err := stream.Next()
		if retry := stream.Retry(); retry > 0 {
			*wait = min(retry, 30*time.Second)
		}
		switch {
		case errors.Is(err, mcphttp.ErrTooLarge):
			return answer{err: err}, true
		case errors.Is(err, io.EOF):
			return answer{err: errCutOff}, false
		case err != nil:
			return answer{err: fmt.Errorf("%w: %w", errCutOff, err)}, false
		}
		if *count++; *count > maxEvents {
			return answer{err: errors.New("the server sent too many events")}, true
		}
		if ev.ID != "" {
			*last = ev.ID
		}
		if len(ev.Data) == 0 || ev.Name != "" && ev.Name != "message" {
			continue
		}
		m, err := readMessage(ev.Data)
		if err != nil {
			return answer{err: fmt.Errorf("read the answer: %w", err)}, true
		}
		if m.answers(id) {
			drain(resp)
			return r.accept(m), true
		}
		r.heed(ctx, m, id, q)
	}
}

// drain reads the end of a stream whose answer has come, so that the connection
// can be used again. Servers end it at once; for one that does not, a new
// connection is cheaper than to wait.
func drain(resp *http.Response) {
	stop := time.AfterFunc(5*time.Millisecond, func() { resp.Body.Close() })
	defer stop.Stop()
	io.Copy(io.Discard, io.LimitReader(resp.Body, 4<<10))
}

// heed takes a message that is not the answer: progress of this call goes to
// whoever waits for it, a question is refused, everything else is dropped.
func (r *remote) heed(ctx context.Context, m message, id int64, q *request) {
	switch {
	case m.isRequest() && r.era == legacy:
		ctx, stop := context.WithTimeout(ctx, cancelWait)
		defer stop()
		r.tell(ctx, refusal(m), q.credential)
	case m.isNotification() && listChanged(m.method):
		r.changed()
	case q.progress != nil:
		if token, ok := progressFor(m); ok && token == id {
			q.progress(m.params)
		}
	}
}

const (
	acknowledged = "notifications/subscriptions/acknowledged"
	wanted       = `"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}`
)

// listChanged reports whether a notification says that a list is another one now.
func listChanged(method string) bool {
	switch method {
	case "notifications/tools/list_changed", "notifications/prompts/list_changed", "notifications/resources/list_changed":
		return true
	}
	return false
}

// resume opens the legacy era's stream of what the server has to say: after the
// event named last, or from now on.
func (r *remote) resume(ctx context.Context, last string, c dispatch.Credential) (*http.Response, error) {
	req := r.request(ctx, http.MethodGet)
	req.Header["Accept"] = []string{"text/event-stream"}
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	c.Attach(req.Header)
	resp, err := r.wire.rt.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode != http.StatusOK || media != "text/event-stream" {
		resp.Body.Close()
		return nil, errNoStream
	}
	return resp, nil
}

var errNoStream = errors.New("the server offers no stream")

// listen hears changes of the list of tools until the stream ends. It returns
// errNoStream if the server does not announce them, and calls ready once no later
// change can be missed.
func (r *remote) listen(ctx context.Context, c dispatch.Credential, ready func()) error {
	var (
		resp *http.Response
		err  error
		q    = &request{method: "subscriptions/listen", extra: wanted, credential: c}
		id   = r.ids.Add(1)
	)
	if !r.tools {
		return errNoStream
	}
	if r.era == legacy {
		resp, err = r.resume(ctx, "", c)
	} else {
		var a answer
		resp, a = r.post(ctx, &outgoing{text: q.encode(id, r.era, r.wire.version), now: r.wire.now}, q, c)
		err = a.err
	}
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode != http.StatusOK || media != "text/event-stream" {
		return errNoStream
	}
	if r.era == legacy {
		ready()
	}
	stream := mcphttp.NewEvents(resp.Body, envelope)
	for {
		ev, err := stream.Next()
		if err != nil {
			return err
		}
		if len(ev.Data) == 0 {
			continue
		}
		m, err := readMessage(ev.Data)
		if err != nil {
			return err
		}
		if m.answers(id) && r.era == modern {
			return io.EOF
		}
		if m.method == acknowledged {
			ready()
		}
		r.heed(ctx, m, id, q)
	}
}
