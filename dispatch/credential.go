package dispatch

import (
	"context"
	"log/slog"
	"time"

	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
)

// Credential is what one call is made with at its server: short-lived, narrow,
// and never seen by the agent. The zero value attaches nothing. It shows itself
// as "redacted".
type Credential struct {
	Header  string    // the HTTP header that carries it; "" for a command
	Value   string    // the header's whole value
	Expires time.Time // when it ends; zero: it does not say

	// Refused tells the source that the server did not take it, so that it is not
	// handed out again. May be nil.
	Refused func()
}

func (Credential) String() string       { return "redacted" }
func (Credential) GoString() string     { return "redacted" }
func (Credential) LogValue() slog.Value { return slog.StringValue("redacted") }

// None reports whether there is nothing to attach.
func (c Credential) None() bool { return c.Header == "" && c.Value == "" }

// Credentials obtains what servers are called with, by the profile that the
// registry names for them (rule I2).
type Credentials interface {
	// Obtain returns the credential for one call. It is asked before the
	// reservation, so that a failure is a denial before the effect. Errors are
	// record.Unavailable when the source does not answer, anything else when it
	// says no.
	Obtain(ctx context.Context, c identity.Caller, s *registry.Server, t *registry.Tool) (Credential, error)
}

// obtainTimeout bounds how long a call waits for its credential. It is shorter
// than the slack of a lease, which is counted from before it.
const obtainTimeout = 5 * time.Second

// obtain gets the credential of a call that is about to be reserved, or the
// reason why there is none.
func (b *Boundary) obtain(ctx context.Context, e *evaluation) (Credential, *record.Reason) {
	if e.server.Credential == "" {
		return Credential{}, nil
	}
	no := &record.Reason{Rule: "credential " + e.server.Credential, Place: e.server.Place, Verdict: record.Deny, Code: record.CodeCannotDecide}
	if b.credentials == nil {
		no.Private = "this boundary obtains no credentials"
		return Credential{}, no
	}
	ctx, cancel := context.WithTimeout(ctx, obtainTimeout)
	defer cancel()
	c, err := b.credentials.Obtain(ctx, e.caller, e.server, e.tool)
	if err == nil && c.None() {
		return Credential{}, nil
	}
	if err != nil {
		no.Private = err.Error()
		if record.KindOf(err) != record.Unavailable {
			no.Code = record.CodeNotAvailable
		}
		return Credential{}, no
	}
	return c, nil
}

// uncredited answers a call that may run and has nothing to run with. When the
// source only does not answer, a call that exists stays as it is, its approval
// unused; when it says no, the call is denied.
func (b *Boundary) uncredited(ctx context.Context, e *evaluation, d record.Decision, why record.Reason, rest, void *record.Approval) (Answer, error) {
	d.Verdict, d.Code, d.Rule = record.Deny, why.Code, nil
	d.Reasons = append(d.Reasons[:len(d.Reasons):len(d.Reasons)], why)
	b.log.Error("dispatch: no credential for a call", "tool", e.tool.Name, "why", why.Private)
	step := e.step(d)
	switch {
	case e.call.State == record.Unknown:
		return b.fromRecord(e.call, record.CodeOutcomeUnknown), nil // says nothing about what happened (rule D2)
	case e.call.State != record.None && why.Code == record.CodeCannotDecide:
		return b.keep(ctx, e, d)
	}
	open := rest
	if open == nil {
		open = void
	}
	return b.record(ctx, e, d, func() (record.Change, error) { return record.Refuse(e.call, step, live(open)) })
}
