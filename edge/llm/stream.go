package llm

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"time"
)

// stream passes on an answer that comes as server-sent events. Each event goes on
// unchanged and at once, until one from which a client could act on a call of ours.
// From there on events are held, until the answer is whole and its calls are
// recorded; then they follow, unchanged and in order. An answer that ends early, or
// is not understood, is no emission: what is held is passed on as it is.
type stream struct {
	door     *door
	exchange *exchange
	out      io.Writer
	control  *http.ResponseController
	reader   assembler

	pending []byte // the event that is not whole yet
	scan    scan
	held    []byte
	holding bool
	raw     bool // nothing is looked into any more
	gone    bool // the client is
}

// run passes on until the answer ends.
func (s *stream) run(ctx context.Context, resp *http.Response, c *clock) {
	chunk := make([]byte, 32<<10)
	for !s.gone {
		c.timer.Reset(s.door.Limits.Idle)
		n, err := resp.Body.Read(chunk)
		if n > 0 {
			s.take(ctx, chunk[:n])
		}
		switch {
		case err == io.EOF:
			s.end(ctx, framed(resp))
			return
		case err != nil:
			s.release()
			s.write(s.pending)
			s.flush()
			s.gone = true
		}
	}
	// The answer broke off, or its client did. An end that looks like a whole answer
	// would be a lie; this is how net/http ends one without it.
	panic(http.ErrAbortHandler)
}

// framed reports whether the end of a body is its sender's word, and no cut.
func framed(resp *http.Response) bool {
	return resp.ContentLength >= 0 || resp.ProtoMajor > 1 || len(resp.TransferEncoding) > 0
}

// take passes on what came. An event is looked into before its last byte goes on.
func (s *stream) take(ctx context.Context, chunk []byte) {
	defer s.flush()
	if s.raw {
		s.write(chunk)
		return
	}
	s.pending = append(s.pending, chunk...)
	from := 0
	for !s.raw {
		end := s.scan.next(s.pending[from:])
		if end == 0 {
			break
		}
		s.event(ctx, s.pending[from:from+end])
		from += end
	}
	if s.raw {
		s.write(s.pending[from:])
		s.pending = nil
		return
	}
	s.pending = append(s.pending[:0], s.pending[from:]...)
	if len(s.pending) > s.door.Limits.Event {
		s.giveUp(ctx, "an event is too large")
		s.write(s.pending)
		s.pending = nil
	}
}

// event looks into one event and passes it on, or holds it.
func (s *stream) event(ctx context.Context, raw []byte) {
	name, data, ok := parseEvent(raw)
	next := pass
	if ok {
		next = s.reader.event(name, data)
	}
	if s.reader.broken() {
		s.giveUp(ctx, "it is not understood")
		s.write(raw)
		return
	}
	if next != pass && !s.holding {
		a := s.reader.done()
		_, recorded := s.exchange.emitted(a)
		s.holding = s.exchange.ours(a) || next == last && recorded
	}
	if !s.holding {
		s.write(raw)
		s.raw = next == last
		return
	}
	s.held = append(s.held, raw...)
	switch {
	case next == last:
		s.door.witness(ctx, s.exchange, s.reader.done())
		s.release()
		s.raw = true
	case len(s.held) > s.door.Limits.Held:
		s.giveUp(ctx, "too much of it would be held")
	}
}

// end is the sender's own end of the answer.
func (s *stream) end(ctx context.Context, whole bool) {
	if len(s.pending) > 0 && !s.raw {
		rest := bytes.Clone(s.pending)
		s.pending = nil
		s.event(ctx, rest)
	}
	if e, ok := s.reader.(ending); ok && !s.raw && whole && !s.reader.broken() {
		e.end()
		s.door.witness(ctx, s.exchange, s.reader.done())
	}
	s.release()
	s.flush()
}

// ending is a reader of answers that have no mark of their end but the end itself.
type ending interface{ end() }

// giveUp passes on what is held, unwitnessed, and looks into nothing from here on.
func (s *stream) giveUp(ctx context.Context, why string) {
	s.door.Log.WarnContext(ctx, "an answer is passed on and not witnessed: "+why, "provider", s.exchange.request.provider.Name, "run", s.exchange.asked.Run.ID)
	s.release()
	s.raw = true
}

// release passes on what is held.
func (s *stream) release() {
	s.write(s.held)
	s.held, s.holding = nil, false
}

func (s *stream) write(b []byte) {
	if len(b) == 0 || s.gone {
		return
	}
	_ = s.control.SetWriteDeadline(time.Now().Add(writeTime)) // where there is none, the client's own end is one
	if _, err := s.out.Write(b); err != nil {
		s.gone = true
	}
}

func (s *stream) flush() {
	if !s.gone && s.control.Flush() != nil {
		s.gone = true
	}
}

// scan finds the ends of events: an empty line (server-sent events, section
// "parsing an event stream").
type scan struct {
	at   int // what was looked at already
	line int // where the line begins
}

// next returns the length of the first event with the empty line that ends it; 0: it
// is not whole. After that, it starts over with what follows.
func (s *scan) next(b []byte) int {
	for s.at < len(b) {
		i := bytes.IndexAny(b[s.at:], "\r\n")
		if i < 0 {
			s.at = len(b)
			break
		}
		end := s.at + i + 1
		if b[end-1] == '\r' {
			if end == len(b) {
				s.at = end - 1 // a line feed may follow
				break
			}
			if b[end] == '\n' {
				end++
			}
		}
		empty := s.at+i == s.line
		s.at, s.line = end, end
		if empty {
			*s = scan{}
			return end
		}
	}
	return 0
}

// parseEvent reads one event; without data it is none.
func parseEvent(raw []byte) (name string, data []byte, ok bool) {
	raw = bytes.TrimPrefix(raw, []byte("\xef\xbb\xbf"))
	for len(raw) > 0 {
		line := raw
		if i := bytes.IndexAny(raw, "\r\n"); i >= 0 {
			line, raw = raw[:i], raw[i+1:]
		} else {
			raw = nil
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			name = string(value)
		case "data":
			if ok {
				data = append(data, '\n')
			}
			data, ok = append(data, value...), true
		}
	}
	return name, data, len(data) > 0
}
