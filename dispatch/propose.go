package dispatch

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/label"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
)

// maxConflicts bounds how often one request starts over because the record moved
// under it. It is reached only under a storm of changes to one effect.
const maxConflicts = 24

// toolName reports whether a name may be recorded as a tool's (rule G3):
// ^[a-z][a-z0-9_.-]{0,63}$. Whatever else a caller sends names no tool.
func toolName(s string) bool {
	if len(s) == 0 || len(s) > 64 || s[0] < 'a' || s[0] > 'z' {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '_', c == '.', c == '-':
		default:
			return false
		}
	}
	return true
}

// vouchedPrefix begins the occurrences that vouched statements name. Callers'
// labels have no such name, so that neither stands for the other.
const vouchedPrefix = "vouch:"

// maxLabel bounds what callers name things: runs, occurrences, purposes.
const maxLabel = 256

// Do proposes a call and, if it is allowed, dispatches it: one evaluation, two
// commits. It is what MCP's tools/call and the Go API use.
func (b *Boundary) Do(ctx context.Context, p Proposal) (Answer, error) {
	return b.propose(ctx, p, true)
}

// Propose decides and records a call without dispatching it.
func (b *Boundary) Propose(ctx context.Context, p Proposal) (Answer, error) {
	return b.propose(ctx, p, false)
}

func (b *Boundary) propose(ctx context.Context, p Proposal, dispatch bool) (a Answer, err error) {
	ctx, done := b.spans.call(ctx, p.Tool, "")
	defer func() { done(a, err) }()
	if !p.Caller.Valid() {
		return Answer{}, record.Errorf(record.Unauthenticated, "no verified identity came with this call")
	}
	for range maxConflicts {
		answer, err := b.once(ctx, &p, dispatch)
		if err == nil && answer.Ran && answer.State() == record.Unknown && ctx.Err() == nil {
			if again, ok := b.retryable(*answer.Call); ok && again {
				return b.Dispatch(ctx, p.Caller, answer.Call.ID, p.Progress)
			}
		}
		switch {
		case overQuota(err):
			return b.refusedByQuota(p.Caller.Owner().Tenant, p.Tool, err), nil
		case refusal(err) == nil:
			return answer, err
		}
		runtime.Gosched() // the record moved: read it again
	}
	return b.undecided(p.Tool, "the record kept changing"), nil
}

// undecided is the answer when no decision could be made or recorded. Nothing ran.
func (b *Boundary) undecided(tool, why string) Answer {
	b.log.Error("dispatch: cannot decide", "tool", tool, "why", why)
	return Answer{Verdict: record.Deny, Code: record.CodeCannotDecide, Tool: tool}
}

// once is one pass. A *record.Refusal among its errors means: start over.
func (b *Boundary) once(ctx context.Context, p *Proposal, dispatch bool) (Answer, error) {
	now := b.clock()
	a := b.now.Load()
	if a == nil {
		return b.undecided(p.Tool, "nothing is active"), nil
	}
	if err := b.Ready(); err != nil {
		return b.undecided(p.Tool, err.Error()), nil
	}
	if !toolName(p.Tool) {
		return b.refuse(ctx, p.Caller, now, "", record.CodeNotAvailable, "a tool name of another form")
	}
	if err := p.labels(); err != nil {
		return Answer{}, err
	}
	arguments, blank, err := canon.Object(p.Arguments, canon.Limits{Bytes: b.limits.ArgumentBytes})
	if err != nil {
		return b.refuse(ctx, p.Caller, now, p.Tool, record.CodeInvalidArguments, err.Error())
	}
	var input []byte
	if len(p.Input) > 0 {
		if input, _, err = canon.Object(p.Input, canon.Limits{Bytes: b.limits.ArgumentBytes}); err != nil {
			return b.refuse(ctx, p.Caller, now, p.Tool, record.CodeInvalidArguments, err.Error())
		}
	}
	run, err := b.runFor(ctx, p, now)
	if err != nil {
		return Answer{}, err
	}
	e := &evaluation{b: b, a: a, caller: p.Caller, now: now, run: run, questions: p.Questions}
	if err := e.candidate(p, arguments, input, blank); err != nil {
		return Answer{}, err
	}
	if err := e.climb(ctx); err != nil {
		return b.undecided(p.Tool, err.Error()), nil
	}
	if stale := p.staleTurn(run); stale != "" {
		return b.refuse(ctx, p.Caller, now, p.Tool, record.CodeCanceled, stale)
	}
	if p.Vouch != nil && p.Caller.Vouches() {
		if err := b.stateInput(ctx, run, p.Vouch.Input, now); err != nil {
			return Answer{}, err
		}
	}
	tool, listed := a.Registry.Tool(p.Tool)
	if listed && tool.Method != p.Method {
		e.elsewhere, listed = true, false // a prompt is no tool, and no tool a prompt
	}
	if listed {
		if err := b.witnessed(ctx, e, p); err != nil {
			return b.undecided(p.Tool, err.Error()), nil
		}
		e.normalise(tool)
		e.identify(tool)
		if !tool.Read {
			if e.prior, err = b.store.Prior(ctx, e.call.Tenant, e.call.Lineage, e.call.Effect, e.call.Occurrence); err != nil {
				return b.undecided(p.Tool, err.Error()), nil
			}
			if e.mayBeKnown(tool) {
				if answer, done, err := b.known(ctx, e, tool, p, dispatch); done || err != nil {
					return answer, err
				}
			}
		}
	}
	return b.decideNew(ctx, e, p, dispatch)
}

// IgnoredVouches counts statements about a model's proposal that came without a
// verified credential that may make them, and counted for nothing (rule A12).
func (b *Boundary) IgnoredVouches() int64 { return b.ignoredVouch.Load() }

// IgnoreVouch counts one that a door did not pass on (rule A12).
func (b *Boundary) IgnoreVouch() { b.ignoredVouch.Add(1) }

// labels checks what the caller may name freely. None of it is authority.
func (p *Proposal) labels() error {
	printable := func(s string) bool {
		return len(s) <= maxLabel && utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
	}
	if !printable(p.RunLabel) || !printable(p.Occurrence) {
		return record.Errorf(record.Invalid, "a run's label and an occurrence are at most %d bytes of printable text", maxLabel)
	}
	for prefix, what := range map[string]string{vouchedPrefix: "what an orchestrator vouches for", emittedPrefix: "what a model was seen to emit",
		record.SchedulePrefix: "a firing of a schedule"} {
		if strings.HasPrefix(p.Occurrence, prefix) {
			return record.Errorf(record.Invalid, "an occurrence must not start with %q: that names %s", prefix, what)
		}
	}
	if len(p.Purpose) > 4*maxLabel || !utf8.ValidString(p.Purpose) {
		return record.Errorf(record.Invalid, "the purpose must be at most %d bytes of text", 4*maxLabel)
	}
	return nil
}

// candidate is the call as it would be recorded, without a tool yet.
func (e *evaluation) candidate(p *Proposal, arguments, input []byte, blank bool) error {
	id, salt, err := e.b.newCall(e.now)
	if err != nil {
		return record.Because(record.Unavailable, err, "no call ID could be made")
	}
	source, occurrence := record.Direct, p.Occurrence
	if p.Vouch != nil {
		// Rule A12: the statement counts only with the workload's own verified
		// credential; without it, it is a message like any other.
		if p.Caller.Vouches() {
			source = record.Vouched
			occurrence = fmt.Sprintf(vouchedPrefix+"%d:%s:%d", len(p.Vouch.Response), p.Vouch.Response, p.Vouch.Position)
		} else {
			e.b.ignoredVouch.Add(1)
			e.b.log.Warn("dispatch: a vouch statement without the permission was ignored", "caller", p.Caller)
		}
	}
	route := p.Route
	switch {
	case route != "":
	case e.run.Replays != "":
		route = record.RouteReplay
	case e.run.Parent != "":
		route = record.RouteDelegate // its source is what it can show itself (rule A2)
	case source != record.Direct:
		route = record.RouteModel
	default:
		route = record.RouteAPI
	}
	e.call = record.Call{
		Owner: p.Caller.Owner(), ID: id, Salt: salt, Run: e.run.ID, Lineage: e.run.Lineage, Turn: e.run.Turn,
		Tool: record.ToolRef{Name: p.Tool}, Arguments: arguments, Input: input, BlankArguments: blank,
		Digest: record.ArgumentDigest(arguments, input), Occurrence: occurrence, Source: source, Route: route,
		Purpose: p.Purpose, Edits: p.Edits, Attempts: 1, Proposed: e.now, Changed: e.now, Expires: e.until(e.now.Add(e.b.limits.CallExpires)),
	}
	return nil
}

// identify fills in what depends on the registry's entry: its version and pin,
// targets, and what makes two calls the same effect.
func (e *evaluation) identify(t *registry.Tool) {
	e.tool = t
	c := &e.call
	c.Tool = record.ToolRef{Name: t.Name, Server: t.Server, Version: t.Digest, ReadOnly: t.Read}
	if t.Pin != nil {
		c.Tool.Pin = t.Pin.Digest
	}
	c.Targets = nil
	for _, name := range t.Targets {
		if value, ok := label.ValueAt(c.Arguments, name); ok {
			c.Targets = append(c.Targets, record.Target{Argument: name, Value: slices.Clone(value)})
		}
	}
	c.Effect = record.NewEffectKey(c.Owner, t.Name, effectArguments(t, c.Arguments, c.Input))
	c.Retention = e.b.retention(t)
	if t.Read {
		c.Occurrence = string(c.ID) // every read is an occurrence of its own (rule A5)
	}
	switch t.Retry {
	case registry.RetrySafe, registry.RetryIdempotent, registry.RetryReconcile:
		c.Attempts = 3
	}
}

// effectArguments are the arguments that make two calls the same effect: those
// the entry names, or all of them with the answers that go with them.
func effectArguments(t *registry.Tool, arguments, input []byte) []byte {
	if t.SameEffect == nil {
		if len(input) == 0 {
			return arguments
		}
		return slices.Concat(arguments, input)
	}
	var b []byte
	for _, name := range t.SameEffect {
		value, ok := canon.Lookup(arguments, name)
		b = fmt.Appendf(b, "%d:%s=%t,%d:", len(name), name, ok, len(value))
		b = append(b, value...)
	}
	return b
}

// staleTurn says why a vouched statement is not about the current turn, or nothing.
func (p *Proposal) staleTurn(run record.Run) string {
	turn := p.Turn
	if p.Vouch != nil && p.Caller.Vouches() {
		turn = p.Vouch.Turn
	}
	if turn != 0 && turn != run.Turn {
		return fmt.Sprintf("proposed for turn %d, and the run is in turn %d", turn, run.Turn)
	}
	return ""
}

// known answers a proposal that is not new: rules A6 and A7, and the repeats of
// an occurrence. done is false when the proposal is a new call.
func (b *Boundary) known(ctx context.Context, e *evaluation, tool *registry.Tool, p *Proposal, dispatch bool) (Answer, bool, error) {
	if same := e.prior.Same; same != nil {
		switch {
		case same.Owner != e.call.Owner:
			answer, err := b.refuse(ctx, p.Caller, e.now, p.Tool, record.CodeInvalidArguments, "this occurrence was stated for a call of another agent in the lineage")
			return answer, true, err
		case same.Effect != e.call.Effect || same.Digest != e.call.Digest:
			answer, err := b.refuse(ctx, p.Caller, e.now, p.Tool, record.CodeInvalidArguments,
				"this occurrence was stated for a call with other arguments: "+string(same.ID))
			return answer, true, err
		case same.State == record.Succeeded || same.State == record.Failed || same.State.Open():
			answer, err := b.resume(ctx, p.Caller, same.ID, dispatch && same.Again.IsZero(), p.Progress)
			return answer, true, err
		}
		// It was denied, canceled, revoked or expired: decided anew.
	}
	if equal := e.prior.Equal; equal != nil {
		// An edit is a new proposal (rule A10), unless it is this one sent again.
		if own := equal.Owner == e.call.Owner; own && (equal.Digest == e.call.Digest || equal.State.Waiting() && e.call.Edits == "") {
			// What the clock will dispatch is left to it.
			answer, err := b.resume(ctx, p.Caller, equal.ID, dispatch && equal.Again.IsZero(), p.Progress)
			return answer, true, err
		}
		// Another digest while the effect is unsettled (rule A8), an edit that keeps the
		// effect, or another agent's call in the lineage, is a call of its own.
		e.call.Occurrence = e.call.Occurrence + "#" + string(e.call.ID)
	}
	if done := e.prior.Done; done != nil && e.call.Occurrence == "" && tool.Repeat.Answer == registry.RepeatReturn && e.repeats(done) {
		answer, err := b.repeat(ctx, e, tool, done)
		return answer, answer.Code != record.CodeNone, err
	}
	return Answer{}, false, nil
}

// repeat answers a proposal from the record of an equal call that succeeded
// (rule A7). Whoever may not call the tool now may not read its result either.
func (b *Boundary) repeat(ctx context.Context, e *evaluation, tool *registry.Tool, done *record.Call) (Answer, error) {
	if _, ok := e.a.admits(tool, e.caller); !ok {
		return Answer{}, nil // decided, and denied, like any other call
	}
	if b.stopped(ctx, e.call) {
		return Answer{}, nil // likewise
	}
	if err := b.borrow(ctx, e, tool, done); err != nil {
		return b.undecided(tool.Name, err.Error()), nil
	}
	event := record.Event{At: e.now, Tenant: done.Tenant, Kind: record.EventReturned, Run: e.run.ID, Call: done.ID, Who: e.call.By()}
	body := record.Body{Tool: tool.Name, Code: record.CodeAlreadyDone, Arguments: done.Commit(e.call.Digest), Result: done.Commit(done.Outcome.Digest)}
	if err := b.apply(ctx, record.Return(event, body, e.call.Emission)); err != nil {
		if refusal(err) != nil {
			return Answer{}, err // the emission was used meanwhile, or the quota is used up
		}
		return b.undecided(tool.Name, err.Error()), nil
	}
	return b.fromRecord(*done, record.CodeAlreadyDone), nil
}

// fromRecord answers with a call's recorded outcome. Nothing ran now.
func (b *Boundary) fromRecord(c record.Call, code record.Code) Answer {
	a := Answer{Verdict: record.Allow, Code: code, Call: &c, Decision: c.Decision, Tool: c.Tool.Name}
	if c.Outcome != nil {
		a.Result, a.IsError, a.DoneAt = c.Outcome.Result, c.Outcome.IsError, c.Outcome.At
	}
	return a
}

// decideNew evaluates a call that does not exist yet and records what came of it.
func (b *Boundary) decideNew(ctx context.Context, e *evaluation, p *Proposal, dispatch bool) (Answer, error) {
	e.call.Queued = dispatch && e.tool != nil && e.tool.Queued
	d := e.evaluate(ctx)
	if e.moved != nil {
		return Answer{}, e.moved
	}
	step := e.step(d)
	switch d.Verdict {
	case record.Allow:
		e.call.Binding = record.BindingOf(e.call, nil, time.Time{}, d.DecidedBy)
		if e.call.Queued {
			return b.enqueue(ctx, e, d)
		}
		if dispatch {
			return b.run(ctx, e, d, nil, nil, p.Progress)
		}
		return b.record(ctx, e, d, func() (record.Change, error) { return record.Authorize(e.call, step) })
	case record.RequiresApproval:
		return b.hold(ctx, e, d, nil)
	default:
		return b.record(ctx, e, d, func() (record.Change, error) { return record.Refuse(e.call, step, nil) })
	}
}

// step is what the constructors need of this evaluation.
func (e *evaluation) step(d record.Decision) record.Step {
	return record.Step{At: e.now, Who: e.call.By(), Premise: e.premise(), Decision: d, OpenCap: e.b.limits.ProposalsOpen, OpenTurn: e.b.limits.OpenInTurn, OpenBy: e.b.limits.OpenOfOne, Route: e.route, Evidence: e.proof}
}

// record applies a change that dispatches nothing and answers with what it made.
// A store that does not answer denies: nothing runs on a guess.
func (b *Boundary) record(ctx context.Context, e *evaluation, d record.Decision, make func() (record.Change, error)) (Answer, error) {
	change, err := make()
	if err != nil {
		return Answer{}, err
	}
	if err := b.apply(ctx, change); err != nil {
		if r := refusal(err); r != nil && r.Kind == record.RefusedLimit && !overQuota(err) {
			return b.overCap(ctx, e, d, r)
		}
		if refusal(err) != nil {
			return Answer{}, err
		}
		return b.undecided(e.call.Tool.Name, err.Error()), nil
	}
	after := change.Facts().Call.After
	return e.answer(d, after), nil
}

// overCap denies a new call because too many of its turn, its lineage or its principal
// are waiting already.
func (b *Boundary) overCap(ctx context.Context, e *evaluation, d record.Decision, r *record.Refusal) (Answer, error) {
	if e.call.State != record.None {
		return Answer{}, record.Errorf(record.Limited, "too many calls are waiting")
	}
	d = limited(d, r, e.now)
	d.Verdict = record.Deny
	change, err := record.Refuse(e.call, e.step(d), nil)
	if err != nil {
		return Answer{}, err
	}
	if err := b.apply(ctx, change); err != nil {
		if refusal(err) != nil {
			return Answer{}, err
		}
		return b.undecided(e.call.Tool.Name, err.Error()), nil
	}
	return e.answer(d, change.Facts().Call.After), nil
}

// limited is the decision after a limit said no.
func limited(d record.Decision, r *record.Refusal, now time.Time) record.Decision {
	code := r.Charge.Code
	retry := r.Retry
	if retry.IsZero() && r.Charge.Hold {
		retry = now.Add(time.Second) // a place is free as soon as another call ends
	}
	d.Reasons = append(slices.Clone(d.Reasons), record.Reason{Rule: "limit " + string(r.Charge.Counter), Verdict: record.Deny, Code: code,
		Private: fmt.Sprintf("%d at most", r.Charge.Limit)})
	d.Verdict, d.Code, d.Rule, d.RetryAfter = record.Deny, code, nil, retry
	return d
}

// answer says what a caller is told of a decision on a call.
func (e *evaluation) answer(d record.Decision, c record.Call) Answer {
	a := Answer{Verdict: d.Verdict, Code: d.Code, Call: &c, Decision: d, Tool: c.Tool.Name, Retry: d.RetryAfter, Scope: e.scope}
	for _, r := range d.Reasons {
		if r.Observe || r.Verdict == record.Allow || r.Code != d.Code {
			continue
		}
		if a.Instead == "" {
			a.Instead = r.Instead
		}
		if a.Note == "" {
			a.Note = r.Public
		}
	}
	if a.Instead == "" && e.tool != nil && d.Verdict == record.Deny {
		a.Instead = e.tool.Instead
	}
	if d.Code == record.CodeNotAvailable {
		a.Instead, a.Note = "", "" // unlisted, quarantined and not yours are one answer, word for word
	}
	return a
}

// hold opens a question. An earlier one of the same call is voided with it.
func (b *Boundary) hold(ctx context.Context, e *evaluation, d record.Decision, earlier *record.Approval) (Answer, error) {
	id, err := b.newApproval(e.now)
	if err != nil {
		return Answer{}, record.Because(record.Unavailable, err, "no approval ID could be made")
	}
	if e.call.State == record.None && e.call.Shown == "" {
		// Is there a yes for other values that nobody used? It does not count here, and
		// whoever asks should know that the approved call itself can still run.
		unused, err := b.store.Unused(ctx, e.call.Tenant, e.call.Lineage, e.call.Tool.Name, e.now)
		if err != nil {
			return b.undecided(e.call.Tool.Name, err.Error()), nil
		}
		if unused != nil {
			d.Code, e.call.Shown = record.CodeNewQuestion, unused.ID
		}
	}
	shown, err := b.preview(ctx, e)
	if err != nil {
		return Answer{}, err
	}
	d.Rule.Preview = shown.Digest()
	expires := e.until(e.now.Add(d.Rule.Expires))
	e.call.Binding = record.BindingOf(e.call, d.Rule, expires, d.DecidedBy)
	if e.call.EffectText == "" {
		e.call.EffectText = e.tool.Effect.Render(e.call.Arguments)
	}
	q := record.Approval{Owner: e.call.Owner, ID: id, Call: e.call.ID, Run: e.call.Run, Lineage: e.call.Lineage, Binding: e.call.Binding,
		Rule: *d.Rule, Code: d.Code, Preview: shown, Asked: e.now, Expires: expires}
	if earlier != nil {
		q.Replaces = earlier.ID
	}
	answer, err := b.record(ctx, e, d, func() (record.Change, error) { return record.Hold(e.call, e.step(d), q, earlier) })
	if err == nil && answer.Verdict == record.RequiresApproval {
		q.State = record.Pending
		answer.Approval = &q
	}
	return answer, err
}

// refuse records a request that became no call, and answers it.
func (b *Boundary) refuse(ctx context.Context, c identity.Caller, now time.Time, tool string, code record.Code, why string) (Answer, error) {
	o := c.Owner()
	event := record.Event{At: now, Tenant: o.Tenant, Kind: record.EventRefused, Who: o.By()}
	body := record.Body{Tool: tool, Verdict: record.Deny, Code: code, Detail: why, Redacted: []string{"arguments"}}
	switch err := b.apply(ctx, record.Note(event, body)); {
	case overQuota(err):
		return b.refusedByQuota(o.Tenant, tool, err), nil
	case err != nil:
		return b.undecided(tool, err.Error()), nil
	}
	answer := Answer{Verdict: record.Deny, Code: code, Tool: tool}
	if code == record.CodeInvalidArguments || code == record.CodeCanceled {
		answer.Note = why // it names places and rules, never values
	}
	return answer, nil
}

// Refuse records that a door turned a caller's request away before it was a call.
func (b *Boundary) Refuse(ctx context.Context, c identity.Caller, tool string, code record.Code, why string) (Answer, error) {
	if !toolName(tool) {
		tool = ""
	}
	return b.refuse(ctx, c, b.clock(), tool, code, why)
}

// Throttled records that n requests of a caller were refused before the boundary in
// one window (rule J3).
func (b *Boundary) Throttled(ctx context.Context, owner record.Owner, n int64) error {
	event := record.Event{At: b.clock(), Tenant: owner.Tenant, Kind: record.EventThrottled, Who: owner.By()}
	return b.apply(ctx, record.Note(event, record.Body{Verdict: record.Deny, Code: record.CodeRateLimited, Detail: fmt.Sprintf("%d requests in a minute", n)}))
}

// Lacks records that a door turned somebody known away for want of a permission.
// what names the operation, never a value of the request. A workload without a
// tenant has no log of its own.
func (b *Boundary) Lacks(ctx context.Context, l identity.Lack, what string) error {
	if l.Tenant == "" {
		b.log.WarnContext(ctx, "dispatch: a workload without a tenant lacks a permission", "workload", l.Who.Workload, "permission", string(l.Permission))
		return nil
	}
	event := record.Event{At: b.clock(), Tenant: l.Tenant, Kind: record.EventRefused, Who: l.Who}
	err := b.apply(ctx, record.Note(event, record.Body{Verdict: record.Deny, Detail: "lacks the permission " + string(l.Permission) + ": " + what}))
	if overQuota(err) {
		b.refusedByQuota(l.Tenant, "", err)
		return nil
	}
	return err
}
