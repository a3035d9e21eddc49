package mcp

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/edge/oauth"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
)

// Boundary is what this door needs of the dispatch boundary.
type Boundary interface {
	// Do decides, records and, if allowed, dispatches. A denial is an answer.
	Do(ctx context.Context, p dispatch.Proposal) (dispatch.Answer, error)
	// Dispatch takes up an existing call of this caller.
	Dispatch(ctx context.Context, c identity.Caller, id record.CallID, progress func(json.RawMessage)) (dispatch.Answer, error)
	// Await holds until the call's question is answered or the call moves.
	Await(ctx context.Context, t record.TenantID, id record.CallID, d time.Duration) (changed bool)
	// Cancel ends a call that has not run.
	Cancel(ctx context.Context, c identity.Caller, id record.CallID) (dispatch.Answer, error)
	// Tools are those that a call would not find missing, in name order.
	Tools(ctx context.Context, c identity.Caller) []*registry.Tool
	// Entries are Tools for what is reached by another method.
	Entries(ctx context.Context, c identity.Caller, m registry.Method) []*registry.Tool
	// EntriesUnder are Entries for the run that calls under a label belong to.
	EntriesUnder(ctx context.Context, c identity.Caller, runLabel string, m registry.Method) []*registry.Tool
	// OpenChildUnder opens a run below that one; Delegates says whether there are such.
	OpenChildUnder(ctx context.Context, c identity.Caller, runLabel string, want dispatch.Child) (record.Run, error)
	Delegates() bool
	// Resource is the entry by which a caller reads a URI, with the arguments it stands
	// for; "" when there is none, or more than one.
	Resource(c identity.Caller, uri string) (entry string, arguments json.RawMessage)
	// Completion is the entry by which a caller has a prompt's or a template's
	// arguments completed; "" when there is none, or more than one.
	Completion(c identity.Caller, of registry.Method, ref string) (entry string)
	// Refuse records a request that became no call.
	Refuse(ctx context.Context, c identity.Caller, tool string, code record.Code, why string) (dispatch.Answer, error)
	// Lacks records that somebody known lacks a permission.
	Lacks(ctx context.Context, l identity.Lack, what string) error
}

// Verifier turns what a request presents into who is calling.
type Verifier interface {
	Caller(ctx context.Context, c identity.Credentials) (identity.Caller, error)
}

// Ingress counts requests before anything is decided about them, and refuses those
// beyond a caller's rate as record.Limited.
type Ingress interface {
	Admit(ctx context.Context, c identity.Caller) error
}

// Options configure the door. Boundary, Verifier, Clock and Random are required.
type Options struct {
	Boundary Boundary
	Verifier Verifier
	Ingress  Ingress // nil: no limit
	Clock    func() time.Time
	Random   io.Reader    // nonces of sealed states, and the key if none is given
	Log      *slog.Logger // nil: no log
	Tracer   trace.Tracer // of spans; nil: none

	// Tool finds a tool by the registry's name, whoever is asking. It is needed
	// for schemas that mirror arguments into headers; nil means there are none.
	Tool func(name string) (*registry.Tool, bool)

	PublicURL string          // what clients open, without /mcp; empty: whatever they name on loopback
	OAuth     *oauth.Resource // what clients are told of tokens; nil: only that they need one
	Origins   []string        // further origins of browsers that may call

	// Wait is how long a caller is held while people are asked.
	Wait time.Duration
	// ProgressEvery is how often a held caller hears that it is still held.
	ProgressEvery time.Duration
	// StateFor is how long a sealed request state is good; default 1 h.
	StateFor time.Duration
	// Key seals request states, 32 bytes; replicas share it. Empty: a fresh one,
	// so that states end with the process.
	Key []byte

	Limits      canon.Limits  // of one request; default 4 MiB
	SessionIdle time.Duration // silence that ends a session of the older revisions; default 30 min
	Sessions    int           // most sessions of the older revisions at a time; default 10,000

	Name, Version string // what the server calls itself

	// Ignored counts what was sent and did not count, such as "vouch". nil: uncounted.
	Ignored func(what string)
}

const maxBody = 4 << 20

// withDefaults returns the options ready for use, or what is wrong with them.
func (o Options) withDefaults() (Options, error) {
	if o.Boundary == nil || o.Verifier == nil || o.Clock == nil || o.Random == nil {
		return Options{}, record.Errorf(record.Internal, "the MCP door needs a boundary, a verifier, a clock and randomness")
	}
	if o.PublicURL != "" {
		u, err := url.Parse(o.PublicURL)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return Options{}, record.Errorf(record.Invalid, "public_url %q must be http(s)://host", o.PublicURL)
		}
	}
	if len(o.Key) == 0 {
		o.Key = make([]byte, 32)
		if _, err := io.ReadFull(o.Random, o.Key); err != nil {
			return Options{}, record.Because(record.Internal, err, "no randomness for the key of request states")
		}
	}
	if len(o.Key) != 32 {
		return Options{}, record.Errorf(record.Invalid, "the key of request states must have 32 bytes")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Tool == nil {
		o.Tool = func(string) (*registry.Tool, bool) { return nil, false }
	}
	if o.Ignored == nil {
		o.Ignored = func(string) {}
	}
	if o.Limits.Bytes <= 0 {
		o.Limits.Bytes = maxBody
	}
	orDefault(&o.ProgressEvery, 5*time.Second)
	orDefault(&o.StateFor, time.Hour)
	orDefault(&o.SessionIdle, 30*time.Minute)
	orDefault(&o.Sessions, 10_000)
	orDefault(&o.Name, "placet")
	orDefault(&o.Version, "devel")
	return o, nil
}

func orDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// Handler serves /mcp. Make one with [New].
type Handler struct {
	Options
	seal     sealer
	guard    guard
	inflight inflight
	sdk      *sdkFront
}

// New makes the door.
func New(o Options) (*Handler, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	h := &Handler{Options: o, guard: newGuard(o)}
	if h.seal, err = newSealer(o.Key, o.Random); err != nil {
		return nil, err
	}
	h.sdk = newSDKFront(h)
	return h, nil
}

// Mount registers the endpoint.
func (h *Handler) Mount(mux *http.ServeMux) { mux.Handle("/mcp", h) }

// ToolsChanged tells clients that listen for it to list everything again.
func (h *Handler) ToolsChanged() { h.sdk.toolsChanged() }

// Close ends all sessions.
func (h *Handler) Close() { h.sdk.close() }
