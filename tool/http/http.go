package http

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	nethttp "net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/guard"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
	"github.com/placet-dev/placet/tool/local"
)

// tokenHeader carries the dispatch token (docs/dispatch-token.md).
const tokenHeader = "Placet-Dispatch-Token"

// Options say how services are reached.
type Options struct {
	World   guard.World      // finds hosts; where Placet itself listens, nothing is reached (rule K2)
	Now     func() time.Time // the clock of deadlines; nil: time.Now
	Log     *slog.Logger     // operators' log; nil: none
	Version string           // of this program, as services are told; empty: "dev"
	TLS     *tls.Config      // nil: the system's authorities
	// Held is the text of a file that is not read from the disk; false: it is. Nil: all are.
	Held func(path string) ([]byte, bool)
	// Dial connects to an address that was checked; nil: a plain net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Invoker makes the requests. It implements [dispatch.Invoker].
type Invoker struct {
	opts Options

	mu    sync.Mutex
	files map[string]*opened // by path
}

// opened is a file as it was read last, and the way to its service.
type opened struct {
	text       []byte
	server     canon.Digest
	operations map[string]*operation
	offers     []registry.Offer
	line       *line
}

var _ dispatch.Invoker = (*Invoker)(nil)

// New returns an invoker. Its Close must be called.
func New(o Options) *Invoker {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Version == "" {
		o.Version = "dev"
	}
	return &Invoker{opts: o, files: map[string]*opened{}}
}

// Close ends the connections that nobody uses.
func (v *Invoker) Close() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	for path, f := range v.files {
		f.line.transport.CloseIdleConnections()
		delete(v.files, path)
	}
	return nil
}

func (v *Invoker) read(path string) ([]byte, error) {
	if v.opts.Held != nil {
		if text, ok := v.opts.Held(path); ok {
			return text, nil
		}
	}
	return os.ReadFile(path)
}

// open reads a server's file. It is read each time, so that what runs is what it
// holds now; what it says is worked out once for each text.
func (v *Invoker) open(s *registry.Server) (*opened, error) {
	text, err := v.read(s.Operations)
	if err != nil {
		return nil, record.Errorf(record.Unavailable, "the operations of server %s cannot be read; look at its file", s.Name)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	last := v.files[s.Operations]
	if last != nil && bytes.Equal(last.text, text) && last.server == s.Digest {
		return last, nil
	}
	f, err := Parse(filepath.Base(s.Operations), text)
	if err != nil {
		return nil, record.Errorf(record.Unavailable, "the operations of server %s are not valid: %w", s.Name, err)
	}
	now := &opened{text: text, server: s.Digest}
	if now.operations, now.offers, err = f.operations(); err != nil {
		return nil, record.Errorf(record.Unavailable, "the operations of server %s are not valid: %w", s.Name, err)
	}
	base, err := f.base()
	if err != nil {
		return nil, record.Errorf(record.Unavailable, "the operations of server %s are not valid: %w", s.Name, err)
	}
	now.line = newLine(v.opts, f, base.Scheme == "https", s.Network)
	if last != nil {
		last.line.transport.CloseIdleConnections()
	}
	v.files[s.Operations] = now
	return now, nil
}

// ListOffers returns the operations of a server's file, in its order. It asks
// nobody.
func (v *Invoker) ListOffers(_ context.Context, s *registry.Server) ([]registry.Offer, error) {
	f, err := v.open(s)
	if err != nil {
		return nil, err
	}
	return f.offers, nil
}

// Offer returns one of them, as the file has it now.
func (v *Invoker) Offer(_ context.Context, s *registry.Server, upstream string, _ time.Duration) (registry.Offer, error) {
	f, err := v.open(s)
	if err != nil {
		return registry.Offer{}, err
	}
	o := f.operations[upstream]
	if o == nil {
		return registry.Offer{}, record.Errorf(record.NotFound, "server %s has no operation %q", s.Name, upstream)
	}
	return o.offer, nil
}

// Invoke makes the request of the ticket's call.
func (v *Invoker) Invoke(ctx context.Context, t dispatch.Ticket) dispatch.Reached {
	w, ok := t.Redeem()
	if !ok {
		return dispatch.Reached{Err: errors.New("the ticket is not good for a call")}
	}
	return v.invoke(ctx, w)
}

func (v *Invoker) invoke(ctx context.Context, w dispatch.Work) (out dispatch.Reached) {
	defer func() {
		if p := recover(); p != nil {
			out = dispatch.Reached{Sent: true, Err: errors.New("a defect in reaching the service")}
			v.opts.Log.ErrorContext(ctx, "panic while reaching a service", "server", w.Server.Name, "tool", w.Tool.Name, "call", string(w.Call), "panic", fmt.Sprintf("%T", p))
		}
	}()
	f, err := v.open(w.Server)
	if err != nil {
		return dispatch.Reached{Refused: true, Err: err}
	}
	o := f.operations[w.Tool.Upstream]
	if o == nil || w.Tool.Pin == nil || w.Tool.Pin.Digest != o.digest {
		// The file changed after the boundary looked.
		return dispatch.Reached{Refused: true, Err: errors.New("the operation is not the one that was reviewed")}
	}
	req, body, err := o.request(ctx, w, v.opts.Version)
	if no := (refused{}); errors.As(err, &no) {
		// Nothing was sent, and the model reads why.
		return dispatch.Reached{Refused: true, IsError: true, Result: local.Failure(no.text), Err: err}
	}
	if err == nil {
		err = authorise(req.Header, w)
	}
	if err != nil {
		return dispatch.Reached{Refused: true, Err: err}
	}
	resp, sent, err := f.line.send(req, body, w.Deadline)
	if err != nil {
		return dispatch.Reached{Sent: sent, Err: err}
	}
	defer resp.Body.Close()
	out = o.reached(resp)
	if w.Credential.Unwelcome(resp.StatusCode) {
		out.Err = fmt.Errorf("the service did not take the credential: %w", out.Err)
	}
	return out
}

// authorise adds what shows who calls: the credential, in a header that nothing
// else sets, and the dispatch token. Without its token nothing is sent.
func authorise(h nethttp.Header, w dispatch.Work) error {
	if name := nethttp.CanonicalHeaderKey(w.Credential.Header); name != "" && h[name] != nil {
		return errors.New("the credential's header is set by the operation too")
	}
	w.Credential.Attach(h)
	if w.Token == nil {
		return nil
	}
	token, err := w.Token()
	if err == nil && token == "" {
		err = errors.New("the token is empty")
	}
	if err != nil {
		return fmt.Errorf("sign the dispatch token: %w", err)
	}
	h[tokenHeader] = []string{token}
	return nil
}
