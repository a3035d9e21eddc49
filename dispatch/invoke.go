package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
)

// errLate: the reservation took as long as the tool may, so nothing is sent (rule E5).
var errLate = errors.New("the deadline passed before the call was sent")

// invoke is step 10. The reservation is durable; whatever happens from here on,
// the call has an outcome, and where it is not known it is unknown.
func (b *Boundary) invoke(ctx context.Context, e *evaluation, c record.Call, t Ticket) (Answer, error) {
	within, cancel := context.WithTimeout(ctx, e.tool.Timeout)
	defer cancel()
	b.running.Store(c.ID, attempt{c, cancel})
	defer b.running.Delete(c.ID)
	if b.stopped(ctx, c) {
		cancel() // its authority was withdrawn since it was reserved
	}

	reached := Reached{Err: within.Err()}
	if t.late(time.Now()) {
		reached.Err = errLate
	}
	if reached.Err == nil { // a caller that is gone before the first byte: proof that nothing happened
		sent, done := b.spans.reach(within, e.tool, c)
		reached = b.reach(sent, t)
		done(reached)
	}
	if reached.Lease != nil {
		return e.leased(c, reached.Lease), nil
	}
	return b.settle(ctx, e, c, reached)
}

// reach calls the invoker and survives it: a panic there says nothing about the
// effect, so the outcome is not known.
func (b *Boundary) reach(ctx context.Context, t Ticket) (r Reached) {
	defer func() {
		if p := recover(); p != nil {
			r = Reached{Sent: true, Err: fmt.Errorf("the invoker panicked: %v", p)}
		}
	}()
	return b.invoker.Invoke(ctx, t)
}

// classify is rules E1 and E2: what an attempt came to.
func classify(tool *registry.Tool, c record.Call, r Reached) (record.State, record.Outcome) {
	out := record.Outcome{Sent: r.Sent, IsError: r.IsError}
	if r.Err != nil {
		out.Detail = r.Err.Error()
	}
	if r.Result != nil {
		out.Digest = canon.Of("placet/result/1", r.Result)
		out.Result = r.Result
	}
	switch {
	case r.Result != nil && r.Asks:
		// The server asks for input before it runs anything.
		out.Code, out.Detail = record.CodeFailed, "the server asked for input"
		return record.Failed, out
	case r.Result != nil && !r.IsError:
		return record.Succeeded, out
	case !r.Sent, r.Refused && (r.Result == nil || r.IsError):
		out.Code = record.CodeFailed
		return record.Failed, out
	case tool.Errors == registry.NoEffect && (r.Result != nil || r.Answered):
		out.Code = record.CodeFailed
		return record.Failed, out
	case tool.Read && !(tool.Retry == registry.RetrySafe && c.Attempt < c.Attempts):
		out.Code = record.CodeFailed
		return record.Failed, out
	default:
		out.Code = record.CodeOutcomeUnknown
		return record.Unknown, out
	}
}

// settle records the outcome and answers. Nothing of the result goes out before
// the outcome is durable.
func (b *Boundary) settle(ctx context.Context, e *evaluation, c record.Call, r Reached) (Answer, error) {
	to, out := classify(e.tool, c, r)
	if structured, ok := canon.Lookup(r.Result, "structuredContent"); ok && !r.IsError {
		if err := e.tool.CheckResult(structured); err != nil {
			out.BadOutput = record.PublicMessage(err) // recorded, not hidden
		}
	}
	if e.spends != nil && to != record.Unknown {
		out.Cost = e.spends.reported(r.Result)
	}
	r.Result = filtered(e.tool, r.Result)
	out.Result = r.Result
	if c.Emission != "" || !e.tool.Read && c.Occurrence != "" {
		out.Text = textDigest(r.Result) // histories may tell of it
	}
	kept := out
	if !b.keeps(e, c, r) {
		kept.Result = nil
	}
	step := record.Step{At: b.clock(), Who: c.By()}
	step.Again = b.retryAt(c, to, step.At)
	var change record.Change
	var err error
	if step.Lineage, step.Labels, err = e.reads(ctx, c, r.Result, r.Asks); err == nil {
		change, err = record.Settle(c, to, kept, step, record.ByBoundary)
	}
	if err == nil {
		err = b.apply(ctx, change)
	}
	if err != nil {
		b.late(ctx, c, out, err)
		a := e.answer(c.Decision, c)
		a.Verdict, a.Code, a.Ran = record.Allow, record.CodeOutcomeUnknown, r.Sent
		return a, nil
	}
	after := change.Facts().Call.After
	a := e.answer(c.Decision, after)
	a.Verdict, a.Code, a.Ran, a.Needs = record.Allow, out.Code, r.Sent, r.Needs
	a.Result, a.IsError, a.DoneAt = r.Result, r.IsError, after.Outcome.At
	return a, nil
}

// keeps reports whether the result is stored: for calls that may be answered from
// their record. Reads never are (rule A5), unless they were held for a person or queued.
func (b *Boundary) keeps(e *evaluation, c record.Call, r Reached) bool {
	return len(r.Result) <= b.limits.ResultKept && (!e.tool.Read || c.Approval != "" || c.Queued)
}

// late keeps the outcome of an attempt that was given up meanwhile, or that could
// not be recorded: evidence, not the outcome (rule E5).
func (b *Boundary) late(ctx context.Context, c record.Call, out record.Outcome, cause error) {
	b.log.Error("dispatch: an outcome was not recorded", "call", c.ID, "attempt", c.Attempt, "error", cause)
	event := record.Event{At: b.clock(), Tenant: c.Tenant, Kind: record.EventLate, Run: c.Run, Call: c.ID, Who: c.By()}
	body := record.Body{Tool: c.Tool.Name, Attempt: c.Attempt, Result: c.Commit(out.Digest), Detail: fmt.Sprintf("sent %t, error %t", out.Sent, out.IsError)}
	if err := b.apply(ctx, record.Note(event, body)); err != nil {
		b.log.Error("dispatch: nor was it kept as evidence", "call", c.ID, "error", err)
	}
}
