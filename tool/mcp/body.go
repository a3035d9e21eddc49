package mcp

import (
	"io"
	"sync"
	"time"
)

// outgoing is a request's body. Its first read is the last moment before a byte
// can leave; what is late by then does not (rule E5).
type outgoing struct {
	text     []byte
	deadline time.Time
	now      func() time.Time

	mu     sync.Mutex // a transport may still read when RoundTrip has returned
	at     int
	left   bool // somebody has the first byte
	late   bool
	sealed bool // nobody gets it any more
}

func (o *outgoing) Read(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.left {
		if o.late = !o.deadline.IsZero() && !o.now().Before(o.deadline); o.late || o.sealed {
			return 0, errDeadline
		}
		o.left = true
	}
	n := copy(p, o.text[o.at:])
	if o.at += n; o.at == len(o.text) {
		return n, io.EOF
	}
	return n, nil
}

// seal says whether anybody has the first byte; if not, nobody will.
func (o *outgoing) seal() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sealed = true
	return o.left
}

func (o *outgoing) Close() error { return nil }
