package dispatch

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"time"

	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
)

// Ticket lets its holder invoke one attempt of one call, once. Only the boundary
// mints one, after the reservation is durable. The zero value never redeems.
type Ticket struct{ w *pending }

type pending struct {
	taken atomic.Bool
	work  Work
}

// Work is what a ticket is good for: the exact call, as it was decided.
type Work struct {
	Tool      *registry.Tool
	Server    *registry.Server
	Owner     record.Owner
	Lineage   record.LineageID
	Run       record.RunID
	Call      record.CallID
	Attempt   int
	Arguments json.RawMessage // canonical; goes upstream byte for byte
	Input     json.RawMessage // answers to the server's own questions, or nil
	Key       string          // idempotency key, one for all attempts
	Targets   []record.Target // what the call acts on
	Questions Questions       // what the server may ask back in place of a result
	Deadline  time.Time       // with a monotonic reading; checked just before the first byte leaves (rule E5)
	Lease     time.Time       // by the boundary's clock: until when the attempt may have its effect (rules A11, E5)
	Progress  func(json.RawMessage)
	Secret    string // what the holder of a leased attempt shows; empty where Placet calls the tool itself
	// Credential is what the call is made with.
	Credential Credential
	// Token makes a dispatch token for one sending of the call, or is nil when the
	// server verifies none. When it fails nothing may be sent.
	Token func() (string, error)
}

// Signer makes dispatch tokens. A token says what the work is and who it is for,
// ends no later than the lease, and is never the same twice.
type Signer interface {
	Sign(Work) (string, error)
}

// Questions are the kinds of question that a request's client can answer in the
// call's course (MCP's input_required). They decide nothing.
type Questions struct{ Form, Sampling, Roots bool }

// None reports whether there are none.
func (q Questions) None() bool { return q == Questions{} }

// Redeem returns the work, once. Every later call, and any call on the zero
// value, returns false.
func (t Ticket) Redeem() (Work, bool) {
	if t.w == nil || !t.w.taken.CompareAndSwap(false, true) {
		return Work{}, false
	}
	return t.w.work, true
}

// late reports whether the work's deadline is over.
func (t Ticket) late(now time.Time) bool {
	return t.w != nil && !t.w.work.Deadline.IsZero() && !now.Before(t.w.work.Deadline)
}

// Invoker reaches tools.
type Invoker interface {
	// Invoke runs the ticket's call and says what is known of its effect. It
	// returns when the call is over or ctx ends, whichever is first, and passes
	// a cancellation on to the right call. It never panics.
	Invoke(ctx context.Context, t Ticket) Reached

	// Offer returns what the tool's server offers under that name now, at most
	// maxAge old. record.NotFound: it does not offer it. Any other error: not known.
	Offer(ctx context.Context, s *registry.Server, upstream string, maxAge time.Duration) (registry.Offer, error)
}

// Reached is what an invocation came to.
type Reached struct {
	// Sent is false only if no byte of the call left this process: proof that
	// nothing happened. When in doubt it is true.
	Sent bool
	// Result is the tool's result object, byte for byte, when it answered with one.
	Result json.RawMessage
	// IsError is the result's own flag.
	IsError bool
	// Asks is set when the result asks the caller for input before the tool runs.
	Asks bool
	// Answered says that the server itself answered, with an error in place of a result.
	Answered bool
	// Refused says that the answer was a refusal before execution: unknown tool,
	// invalid parameters, or HTTP 400, 401, 403, 404, 422 (rule E1).
	Refused bool
	// Needs is set when the server refused since it may not ask these questions.
	Needs Questions
	// Err is why there is no result. Its text is for operators.
	Err error
	// Lease is set when the caller runs the call itself. Nothing is known of it then
	// until its holder reports, and nothing else here counts.
	Lease *Lease
}

// mint is called by reserve alone, with the reservation durable.
func mint(w Work) Ticket { return Ticket{&pending{work: w}} }

// Inproc reports whether the tool is a handler of this program, for whoever
// passes tickets on. It redeems nothing.
func (t Ticket) Inproc() bool { return t.w != nil && t.w.work.Server != nil && t.w.work.Server.Inproc }

// Kind is how the tool's server is reached, for whoever chooses between invokers.
func (t Ticket) Kind() registry.Kind {
	if t.w == nil || t.w.work.Server == nil {
		return registry.KindMCP
	}
	return t.w.work.Server.Kind
}
