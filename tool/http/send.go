package http

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	nethttp "net/http"
	"net/http/httptrace"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/otel/propagation"

	"github.com/placet-dev/placet/guard"
)

var (
	errDeadline = errors.New("the deadline passed before the call was sent")
	errAgain    = errors.New("a call is sent once")
	errOwn      = errors.New("where Placet itself listens, no operation goes")
	errLost     = errors.New("the connection ended before the service had answered")
)

// sending is one request on its way. It is asked before each write to a
// connection, which is the last moment before a byte leaves: what is late by then
// does not (rule E5), and what began on one connection is not begun on another,
// whatever the transport takes for repeatable.
type sending struct {
	deadline time.Time
	now      func() time.Time

	mu     sync.Mutex
	on     *gate // the connection that has its first byte; nil: none left
	late   bool
	sealed bool // none will leave any more
}

func (s *sending) pass(g *gate) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.on == g:
		return nil
	case s.on != nil || s.sealed:
		return errAgain
	case !s.deadline.IsZero() && !s.now().Before(s.deadline):
		s.late = true
		return errDeadline
	}
	s.on = g
	return nil
}

// seal says whether a byte left; if not, none will.
func (s *sending) seal() (sent, late bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sealed = true
	return s.on != nil, s.late
}

// gate is a connection that writes for the request that was given it last. TLS,
// where there is any, lies below it: what passes are bytes of requests.
type gate struct {
	net.Conn
	mu  sync.Mutex
	now *sending
}

func (g *gate) give(s *sending) {
	g.mu.Lock()
	g.now = s
	g.mu.Unlock()
}

// Write implements net.Conn.
func (g *gate) Write(p []byte) (int, error) {
	g.mu.Lock()
	s := g.now
	g.mu.Unlock()
	if s == nil {
		return 0, errAgain
	}
	if err := s.pass(g); err != nil {
		return 0, err
	}
	return g.Conn.Write(p)
}

// line is the way to one service.
type line struct {
	transport *nethttp.Transport
	now       func() time.Time
}

const (
	connectTime = 10 * time.Second
	// idle connections are dropped early, because servers drop theirs after some
	// seconds, and a call that meets a connection while it closes has an outcome
	// nobody knows.
	idleTime = 4 * time.Second
)

// newLine makes a line of its own for each file: connections that one file's
// networks admit are not another's. It speaks HTTP/1.1 only and asks no proxy.
func newLine(o Options, f *File, secure bool, zones guard.Zones) *line {
	d := &guard.Dialer{Resolver: o.World.Resolver, Networks: f.Networks, Zones: zones, Dial: o.Dial}
	if d.Dial == nil {
		d.Dial = (&net.Dialer{Timeout: connectTime}).DialContext
	}
	dial := d.Dial
	d.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		a, err := netip.ParseAddrPort(address)
		switch {
		case err != nil || !secure && !within(a.Addr(), f.Networks):
			return nil, errors.New("plain HTTP beyond the networks that the file names")
		case o.World.Listens(a.Addr().String(), strconv.Itoa(int(a.Port()))):
			return nil, errOwn
		}
		return dial(ctx, network, address)
	}
	t := &nethttp.Transport{
		DisableCompression: true, MaxIdleConns: 64, MaxIdleConnsPerHost: 32, IdleConnTimeout: idleTime,
		MaxResponseHeaderBytes: 64 << 10, Protocols: new(nethttp.Protocols),
	}
	t.Protocols.SetHTTP1(true)
	connect := func(ctx context.Context, network, address string) (net.Conn, error) {
		if host, port, err := net.SplitHostPort(address); err != nil || o.World.Listens(host, port) {
			return nil, errOwn
		}
		return d.DialContext(ctx, network, address)
	}
	t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := connect(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &gate{Conn: conn}, nil
	}
	t.DialTLSContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := connect(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return shaken(ctx, conn, address, o.TLS)
	}
	return &line{t, o.Now}
}

// shaken is a connection whose TLS handshake is over.
func shaken(ctx context.Context, conn net.Conn, address string, base *tls.Config) (net.Conn, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if base != nil {
		c = base.Clone()
	}
	var err error
	if c.ServerName, _, err = net.SplitHostPort(address); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	secure := tls.Client(conn, c)
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &gate{Conn: secure}, nil
}

// send makes one request, once. No response: sent says whether a byte of it left.
func (l *line) send(req *nethttp.Request, body []byte, deadline time.Time) (resp *nethttp.Response, sent bool, err error) {
	s := &sending{deadline: deadline, now: l.now}
	req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		GotConn: func(i httptrace.GotConnInfo) {
			if g, ok := i.Conn.(*gate); ok {
				g.give(s)
			}
		},
	}))
	// net/http would send a request again that it takes for repeatable, one with an
	// Idempotency-Key among them. Without GetBody it cannot where there is a body;
	// where there is none, the second sending is stopped at the gate.
	req.GetBody = nil
	if body != nil {
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}
	propagation.TraceContext{}.Inject(req.Context(), propagation.HeaderCarrier(req.Header)) // nothing without a span
	resp, err = l.transport.RoundTrip(req)
	if err == nil {
		return resp, true, nil
	}
	sent, late := s.seal()
	switch {
	case late:
		err = errDeadline
	case req.Context().Err() != nil:
		err = req.Context().Err()
	case sent:
		err = errLost // what the transport says may quote what was received
	}
	return nil, sent, err
}
