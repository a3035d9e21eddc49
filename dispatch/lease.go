package dispatch

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"runtime"
	"time"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/label"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
)

const (
	// longestLease bounds how long heartbeats keep one attempt of a leased call alive,
	// from its reservation on.
	longestLease = time.Hour
	// leaseStep is what a heartbeat must add to be written down.
	leaseStep = time.Second
	// tokenLife is the longest that a dispatch token lasts (docs/dispatch-token.md).
	tokenLife = time.Minute
	// maxReport bounds the result in a report.
	maxReport = 4 << 20
)

// Lease is an attempt that its caller runs itself: everything that it may run, and
// what it shows to report (rule E6). It is handed out once, with the answer that
// reserved it, and found in no record.
type Lease struct {
	Attempt   int
	Tool      string          // its name where it runs, as the token states it
	Arguments json.RawMessage // canonical: these bytes are what was decided
	Key       string          // idempotency key, one for all attempts
	Ends      time.Time       // until when its holder may report or extend it
	Token     string          // the dispatch token that the tool verifies; empty: it verifies none
	Secret    string          // shows who holds it
}

// Said is what the holder of a lease says of its attempt.
type Said string

const (
	SaidSucceeded  Said = "succeeded"
	SaidFailed     Said = "failed"      // it began, and gave an error
	SaidNotStarted Said = "not_started" // nothing of it left the holder
)

// Report is a holder's word on one attempt.
type Report struct {
	Attempt int
	Secret  string
	Said    Said
	Result  json.RawMessage // the tool's result, an MCP tool result; nil: none
}

func (r Report) check() error {
	switch {
	case r.Said != SaidSucceeded && r.Said != SaidFailed && r.Said != SaidNotStarted:
		return record.Errorf(record.Invalid, "a report says %q, %q or %q", SaidSucceeded, SaidFailed, SaidNotStarted)
	case r.Said == SaidNotStarted && r.Result != nil:
		return record.Errorf(record.Invalid, "what did not start has no result")
	case len(r.Result) > maxReport:
		return record.Errorf(record.TooLarge, "a reported result is at most %d bytes", maxReport)
	case r.Result != nil && (r.Result[0] != '{' || !json.Valid(r.Result)):
		return record.Errorf(record.Invalid, "a reported result is a tool result: a JSON object")
	}
	return nil
}

func (r Report) digest() canon.Digest {
	return canon.Of("placet/report/1", []byte(r.Said), r.Result)
}

// Beat is what a heartbeat came to.
type Beat struct {
	Call    record.CallID
	Attempt int
	Ends    time.Time // the lease's end now
	Stop    bool      // the run has ended, or the caller may not call the tool any more: the lease is not extended
}

// leaseSecret makes what the holder of the next attempt will show, where the tool's
// server hands attempts to their callers. The record keeps its digest alone.
func (b *Boundary) leaseSecret(e *evaluation) (secret string, holder canon.Digest, err error) {
	if e.server == nil || e.server.Kind != registry.KindLease {
		return "", canon.Digest{}, nil
	}
	random := make([]byte, 32)
	if _, err := io.ReadFull(b.random, random); err != nil {
		return "", canon.Digest{}, record.Because(record.Unavailable, err, "no secret for the lease could be made")
	}
	secret = base64.RawURLEncoding.EncodeToString(random)
	return secret, record.LeaseHolder(e.call.ID, e.call.Attempt+1, secret), nil
}

// leased is the answer that hands an attempt out. The call executes until its
// holder reports, or its lease ends.
func (e *evaluation) leased(c record.Call, l *Lease) Answer {
	a := e.answer(c.Decision, c)
	a.Verdict, a.Code, a.Lease = record.Allow, record.CodeLeased, l
	return a
}

// leases reports whether a call's tool is run by its caller, as far as is active now.
func (b *Boundary) leases(tool string) bool {
	a := b.now.Load()
	if a == nil {
		return false
	}
	t, ok := a.Registry.Tool(tool)
	return ok && a.Registry.Leased(t)
}

// Heartbeat extends the lease of an attempt that its holder still runs: by the
// tool's time-out and ten seconds from now, up to an hour after it began.
func (b *Boundary) Heartbeat(ctx context.Context, c identity.Caller, id record.CallID, attempt int, secret string) (Beat, error) {
	for range maxConflicts {
		l, err := b.own(ctx, c, id)
		if err != nil {
			return Beat{}, err
		}
		beat, err := b.heartbeat(ctx, c, l, attempt, secret)
		if refusal(err) == nil {
			return beat, err
		}
		runtime.Gosched()
	}
	return Beat{}, record.Errorf(record.Conflict, "the call kept changing; try again")
}

func (b *Boundary) heartbeat(ctx context.Context, c identity.Caller, l Loaded, attempt int, secret string) (Beat, error) {
	call, now := l.Call, b.clock()
	if err := b.holder(ctx, call, attempt, secret, now); err != nil {
		return Beat{}, err
	}
	if attempt != call.Attempt || call.State != record.Executing || call.GivenUp() || !now.Before(call.Lease) {
		return Beat{}, leaseOver(call)
	}
	beat := Beat{Call: call.ID, Attempt: attempt, Ends: call.Lease}
	tool, ok := b.current(call)
	if !ok || !l.Run.Live() || l.Run.Over(now) || !b.admits(c, call.Tool.Name) || b.stopped(ctx, call) {
		beat.Stop = true
		return beat, nil
	}
	ends := now.Add(tool.Timeout + leaseSlack)
	if last := call.Changed.Add(longestLease); ends.After(last) {
		ends = last
	}
	if ends.Sub(call.Lease) < leaseStep {
		return beat, nil
	}
	change, err := record.Extend(call, ends, record.Step{At: now, Who: call.By()})
	if err != nil {
		return Beat{}, err
	}
	if err := b.apply(ctx, change); err != nil {
		return Beat{}, err
	}
	beat.Ends = ends
	return beat, nil
}

// current is the entry of a call's tool now, if there still is one that is leased.
func (b *Boundary) current(c record.Call) (*registry.Tool, bool) {
	a := b.now.Load()
	if a == nil {
		return nil, false
	}
	t, ok := a.Registry.Tool(c.Tool.Name)
	return t, ok && a.Registry.Leased(t)
}

// leaseOver is the answer to whoever holds a lease no longer.
func leaseOver(c record.Call) error {
	return record.Errorf(record.Conflict, "this lease is over, and the call is %s; do not run it, and look at the call before anything else", c.State)
}

// holder refuses whoever does not show that they hold the last attempt. A call's ID
// is no credential, and neither is being its caller (rules B2, E6). Of an attempt
// before the last one nothing is kept to compare with.
func (b *Boundary) holder(ctx context.Context, c record.Call, attempt int, secret string, now time.Time) error {
	switch {
	case !c.Leased():
		return record.Errorf(record.Conflict, "this call was not leased, and is %s", c.State)
	case attempt < 1 || attempt > c.Attempt:
		return record.Errorf(record.Conflict, "this call has no attempt %d", attempt)
	case attempt < c.Attempt || record.LeaseHolder(c.ID, attempt, secret) == c.Holder:
		return nil
	}
	event := record.Event{At: now, Tenant: c.Tenant, Kind: record.EventRefused, Run: c.Run, Call: c.ID, Who: c.By()}
	if err := b.apply(ctx, record.Note(event, record.Body{Tool: c.Tool.Name, Verdict: record.Deny, Attempt: attempt, Detail: "it does not hold the lease"})); err != nil {
		return err
	}
	return record.Errorf(record.Forbidden, "this is not the secret of this lease; only who was given the lease may extend it or report")
}

// Report settles a leased attempt by its holder's word, once (rule E6). While the
// lease lasts the word is the outcome, as far as rule E1 believes a word: an error
// after the start leaves the effect unknown, unless the tool only reads. The same
// report again gets the first answer. Any other one, for another attempt, after the
// lease's end or beside an earlier one, is evidence (rule E5).
func (b *Boundary) Report(ctx context.Context, c identity.Caller, id record.CallID, r Report) (Answer, error) {
	if err := r.check(); err != nil {
		return Answer{}, err
	}
	for range maxConflicts {
		l, err := b.own(ctx, c, id)
		if err != nil {
			return Answer{}, err
		}
		a, err := b.report(ctx, c, l.Call, r)
		if refusal(err) == nil {
			return a, err
		}
		runtime.Gosched()
	}
	return Answer{}, record.Errorf(record.Conflict, "the call kept changing; report again")
}

func (b *Boundary) report(ctx context.Context, caller identity.Caller, c record.Call, r Report) (Answer, error) {
	now := b.clock()
	if err := b.holder(ctx, c, r.Attempt, r.Secret, now); err != nil {
		return Answer{}, err
	}
	last := r.Attempt == c.Attempt
	switch {
	case last && c.Outcome != nil && c.Outcome.Report == r.digest():
		return b.reported(caller, c, r), nil
	case last && c.GivenUp():
		return b.contradicted(ctx, caller, c, r, now)
	case !last || c.State != record.Executing || !now.Before(c.Lease):
		return Answer{}, b.evidence(ctx, c, r, now)
	case r.Said == SaidNotStarted:
		return b.giveUp(ctx, caller, c, r, now)
	}
	return b.settleReport(ctx, caller, c, r, now)
}

// settleReport makes a holder's word the outcome.
func (b *Boundary) settleReport(ctx context.Context, caller identity.Caller, c record.Call, r Report, now time.Time) (Answer, error) {
	tool := b.believes(c)
	reached := Reached{Sent: true, Result: r.Result, IsError: r.Said == SaidFailed}
	if reached.Result == nil {
		reached.Result = json.RawMessage(`{"content":[]}`)
	}
	to, out := classify(tool, c, reached)
	out.Reported, out.Report = true, r.digest()
	if to != record.Succeeded {
		out.Detail = "its holder reported an error"
	}
	out.Result = b.handsOn(c, r.Result)
	if len(out.Result) > b.limits.ResultKept || c.Tool.ReadOnly && c.Approval == "" {
		out.Result = nil // as of any other result, what is never answered from is not kept
	}
	step := record.Step{At: now, Who: c.By()}
	lineage, err := b.store.Lineage(ctx, c.Tenant, c.Lineage)
	if err != nil {
		return Answer{}, err
	}
	labels := union(union(tool.Results.Labels(), label.Stated(r.Result)), []string{label.Untrusted})
	if step.Lineage, err = b.readingOf(lineage, tool, c, labels, reached.Result, false, false, now); err != nil {
		return Answer{}, err
	}
	step.Labels = lineage.New(labels)
	change, err := record.Settle(c, to, out, step, record.ByBoundary)
	if err != nil {
		return Answer{}, err
	}
	if err := b.apply(ctx, change); err != nil {
		return Answer{}, err
	}
	return b.reported(caller, change.Facts().Call.After, r), nil
}

// believes is the entry that a report is judged by: that of the reservation, where
// it is still the active one. Of another one nothing counts in the holder's favour.
// Nothing of a reported result is ever clean, minted, given or listed.
func (b *Boundary) believes(c record.Call) *registry.Tool {
	tool := &registry.Tool{Name: c.Tool.Name, Read: c.Tool.ReadOnly, Retry: registry.RetryNever}
	now, ok := b.current(c)
	if !ok {
		return tool
	}
	tool.Results = label.Results{Untrusted: true, Sensitive: now.Results.Sensitive, Classes: now.Results.Classes}
	if now.Digest == c.Tool.Version {
		tool.Retry, tool.Errors = now.Retry, now.Errors
	}
	return tool
}

// handsOn is what of a reported result may be kept and returned: what the entry
// returns now. Without an entry that is nothing.
func (b *Boundary) handsOn(c record.Call, result json.RawMessage) json.RawMessage {
	tool, ok := b.current(c)
	if !ok {
		return nil
	}
	return filtered(tool, result)
}

// reported is the answer to a report that is on record. Whoever may not call the
// tool any more is given no result.
func (b *Boundary) reported(caller identity.Caller, c record.Call, r Report) Answer {
	a := b.fromRecord(c, c.Outcome.Code)
	a.Result = nil
	switch {
	case c.GivenUp():
		a.Code = record.CodeInProgress
	case b.admits(caller, c.Tool.Name):
		a.Result = b.handsOn(c, r.Result)
	}
	return a
}

// giveUp keeps the word that an attempt did not begin. It frees the effect only when
// the lease and the dispatch token have ended: until then somebody may hold both.
func (b *Boundary) giveUp(ctx context.Context, caller identity.Caller, c record.Call, r Report, now time.Time) (Answer, error) {
	ends := c.Changed.Add(tokenLife)
	if ends.Before(now) {
		ends = now
	}
	if ends.After(c.Lease) {
		ends = c.Lease
	}
	out := record.Outcome{Code: record.CodeFailed, Reported: true, Report: r.digest(), Detail: "its holder reported that it did not start"}
	change, err := record.GiveUp(c, ends, out, record.Step{At: now, Who: c.By()})
	if err != nil {
		return Answer{}, err
	}
	if err := b.apply(ctx, change); err != nil {
		return Answer{}, err
	}
	return b.reported(caller, change.Facts().Call.After, r), nil
}

// contradicted settles an attempt that its holder gave up, and then reported: what
// happened is not known.
func (b *Boundary) contradicted(ctx context.Context, caller identity.Caller, c record.Call, r Report, now time.Time) (Answer, error) {
	out := record.Outcome{Code: record.CodeOutcomeUnknown, Sent: true, Reported: true, Report: r.digest(),
		Detail: "its holder reported that it did not start, and then " + string(r.Said)}
	change, err := record.Settle(c, record.Unknown, out, record.Step{At: now, Who: c.By()}, record.ByBoundary)
	if err != nil {
		return Answer{}, err
	}
	if err := b.apply(ctx, change); err != nil {
		return Answer{}, err
	}
	after := change.Facts().Call.After
	a := b.reported(caller, after, r)
	a.Result = nil
	return a, nil
}

// evidence keeps a report that cannot be the outcome any more, and says so.
func (b *Boundary) evidence(ctx context.Context, c record.Call, r Report, now time.Time) error {
	event := record.Event{At: now, Tenant: c.Tenant, Kind: record.EventLate, Run: c.Run, Call: c.ID, Who: c.By()}
	body := record.Body{Tool: c.Tool.Name, Attempt: r.Attempt, Reported: true, Detail: "reported " + string(r.Said)}
	if r.Result != nil {
		body.Result = canon.Of("placet/result/1", r.Result)
	}
	if r.Attempt != c.Attempt {
		body.Detail += " for an attempt before the last one; whether its holder said so is not known"
	}
	if err := b.apply(ctx, record.Note(event, body)); err != nil {
		return err
	}
	return record.Errorf(record.Conflict, "this lease is over, and the call is %s; the report was kept as evidence and is not the outcome", c.State)
}

// Unleased is the boundary for doors whose callers cannot run a tool themselves:
// tools of frameworks are not there, and nothing is leased to whom it would be lost.
type Unleased struct{ *Boundary }

// Tools are those of [Boundary.Tools] that Placet calls itself.
func (u Unleased) Tools(ctx context.Context, c identity.Caller) []*registry.Tool {
	var out []*registry.Tool
	for _, t := range u.Boundary.Tools(ctx, c) {
		if !u.leases(t.Name) {
			out = append(out, t)
		}
	}
	return out
}

// EntriesUnder are those of [Boundary.EntriesUnder] that Placet calls itself.
func (u Unleased) EntriesUnder(ctx context.Context, c identity.Caller, runLabel string, m registry.Method) []*registry.Tool {
	var out []*registry.Tool
	for _, t := range u.Boundary.EntriesUnder(ctx, c, runLabel, m) {
		if !u.leases(t.Name) {
			out = append(out, t)
		}
	}
	return out
}

// Do is [Boundary.Do]; a tool that a framework runs is not available.
func (u Unleased) Do(ctx context.Context, p Proposal) (Answer, error) {
	if u.leases(p.Tool) && p.Caller.Valid() {
		return u.Refuse(ctx, p.Caller, p.Tool, record.CodeNotAvailable, notHere)
	}
	return u.Boundary.Do(ctx, p)
}

// Dispatch is [Boundary.Dispatch]; a call that a framework runs is left as it is.
func (u Unleased) Dispatch(ctx context.Context, c identity.Caller, id record.CallID, progress func(json.RawMessage)) (Answer, error) {
	l, err := u.own(ctx, c, id)
	if err != nil {
		return Answer{}, err
	}
	if u.leases(l.Call.Tool.Name) {
		return u.Refuse(ctx, c, l.Call.Tool.Name, record.CodeNotAvailable, notHere)
	}
	return u.Boundary.Dispatch(ctx, c, id, progress)
}

const notHere = "a framework runs this tool itself; it is leased over the API alone"
