package mcp

import (
	"bytes"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/placet-dev/placet/canon"
)

// responder writes the answer of one modern request: plain JSON, or an event
// stream from the first progress notification on.
type responder struct {
	w     http.ResponseWriter
	id    []byte
	token []byte // the client's progress token

	mu        sync.Mutex
	streaming bool
	done      bool
}

func newResponder(w http.ResponseWriter, x *request) *responder {
	// How long a held call or a slow tool may take is not the listener's to say.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
	return &responder{w: w, id: x.id, token: x.meta.progressToken}
}

// progress passes one notification on, in the order of the calls. What comes
// after the answer is dropped.
func (o *responder) progress(params json.RawMessage) {
	text, ok := progressParams(params, o.token)
	if !ok {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.done {
		return
	}
	if !o.streaming {
		o.streaming = true
		header := o.w.Header()
		header.Set("Content-Type", "text/event-stream")
		header.Set("Cache-Control", "no-store")
		header.Set("X-Accel-Buffering", "no")
		o.w.WriteHeader(http.StatusOK)
	}
	o.event(append(append([]byte(`{"jsonrpc":"2.0","method":"notifications/progress","params":`), text...), '}'))
}

// event writes one server-sent event. Line ends in the data start a new data
// line; readers put them together again.
func (o *responder) event(data []byte) {
	var b bytes.Buffer
	b.Grow(len(data) + 32)
	b.WriteString("event: message\n")
	for line := range bytes.SplitSeq(bytes.ReplaceAll(data, []byte("\r"), []byte("\n")), []byte("\n")) {
		b.WriteString("data: ")
		b.Write(line)
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
	_, _ = o.w.Write(b.Bytes()) // a client that is gone reads it from the record
	_ = http.NewResponseController(o.w).Flush()
}

// finish writes the one answer: a result, or why there is none.
func (o *responder) finish(result []byte, f *refusal) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.done = true
	if f != nil {
		if o.streaming {
			o.event(f.body(o.id))
			return
		}
		f.write(o.w, o.id)
		return
	}
	body := make([]byte, 0, len(result)+len(o.id)+40)
	body = append(append(body, `{"jsonrpc":"2.0","id":`...), o.id...)
	body = append(append(append(body, `,"result":`...), result...), '}')
	if o.streaming {
		o.event(body)
		return
	}
	header := o.w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Cache-Control", "no-store")
	_, _ = o.w.Write(body)
}

// progressParams puts the client's token in the place of ours and keeps what MCP
// defines.
func progressParams(params, token []byte) ([]byte, bool) {
	object, _, err := canon.Object(params, canon.Limits{})
	if err != nil {
		return nil, false
	}
	out := append([]byte(`{"progressToken":`), token...)
	for _, name := range []string{"progress", "total", "message"} {
		if v, ok := canon.Lookup(object, name); ok {
			out = append(append(append(append(out, `,"`...), name...), `":`...), v...)
		}
	}
	return append(out, '}'), true
}
