package record

import (
	"math"
	"slices"
	"time"

	"github.com/placet-dev/placet/canon"
)

// Step is what a constructor needs besides the call it moves.
type Step struct {
	At       time.Time
	Who      Who
	Premise  *Premise
	Decision Decision
	Charges  []Charge
	Route    Route        // how it reached dispatch, where that is not how it was proposed
	OpenCap  int64        // the lineage's cap on waiting calls; 0: none
	OpenTurn int64        // the turn's
	OpenBy   int64        // the principal's
	Lineage  *LineageMove // what the step adds to the lineage; nil or empty: nothing
	Holder   canon.Digest // of an attempt that is handed to its caller: who may report (rule E6)
	Labels   []string     // of it, the labels that the lineage did not carry
	Evidence string       // that nothing happened before, where a later attempt rests on it (rule E2)
	Again    time.Time    // when the clock next tries a queued call
}

// illegal is returned by constructors when the table does not allow the move.
// The boundary meets it only when another change came first, so it is a conflict.
func illegal(c Call, to State, by Cause) error {
	return Errorf(Conflict, "call %s is %s; it cannot become %s by %s", c.ID, stateName(c.State), to, by)
}

func stateName(s State) string {
	if s == None {
		return "new"
	}
	return string(s)
}

// walk moves a call along a path, each hop legal for the cause. A new call goes
// through Proposed first.
func walk(c Call, by Cause, at time.Time, path ...State) (Call, []State, error) {
	if c.State == None {
		path = append([]State{Proposed}, path...)
	}
	if len(path) == 0 {
		return c, nil, illegal(c, Proposed, by) // only a call that does not exist yet becomes proposed
	}
	from := c.State
	for _, to := range path {
		if !May(from, to, by) {
			return c, nil, illegal(c, to, by)
		}
		from = to
	}
	c.State = path[len(path)-1]
	c.Version++
	c.Changed, c.Again = at, time.Time{}
	return c, path, nil
}

// open are the counters of waiting calls: of the lineage, of the turn that the call was
// proposed in, and of the principal (rule J3). A limit of 0 is none.
func (c Call) open(s Step) []Charge {
	out := make([]Charge, 0, 3)
	for _, cap := range []struct {
		counter Counter
		limit   int64
	}{
		{CounterFor("open", string(c.Lineage)), s.OpenCap},
		{CounterFor("open_turn", string(c.Run), c.Turn.String()), s.OpenTurn},
		{CounterFor("open_principal", c.Principal.Issuer, c.Principal.Subject), s.OpenBy},
	} {
		if cap.limit <= 0 {
			cap.limit = math.MaxInt64 // counted all the same: another configuration may give it one
		}
		out = append(out, Charge{Counter: cap.counter, Amount: 1, Limit: cap.limit, Code: CodeLimitReached})
	}
	return out
}

// finish builds the facts every call change shares: the guarded move, the count
// of waiting calls, the premise and the charges.
func finish(before, after Call, s Step, events []Event) Facts {
	f := Facts{
		At:      s.At,
		Call:    &CallMove{From: before.State, FromVersion: before.Version, After: after},
		Premise: s.Premise,
		Charges: s.Charges,
		Events:  events,
	}
	if after.State.Terminal() {
		f.Call.After.Due = after.ends()
	}
	if !s.Lineage.Empty() {
		f.Lineage = s.Lineage
	}
	if before.State == None && after.Emission != "" {
		f.Emissions = &EmissionMove{Consume: &EmissionUse{EmissionRef{after.Tenant, after.Emission}, after.ID, s.At}}
	}
	if len(s.Labels) > 0 {
		f.Events = append(f.Events, after.labelled(s.Who, s.At, s.Labels))
	}
	switch {
	case before.State == None && after.State.Waiting():
		f.Charges = append(slices.Clone(f.Charges), after.open(s)...)
	case before.State.Waiting() && !after.State.Waiting():
		f.Release = append(f.Release, before.open(s)...)
	}
	return f
}

// proposedEvent is the first event of every call.
func (c Call) proposedEvent(s Step) Event {
	return c.event(EventProposed, c.By(), s.At, Body{
		Source: c.Source, Route: c.Route, Arguments: c.Commit(c.Digest), Received: c.Commit(c.Received), Effect: c.Commit(c.Effect),
		Version: c.Tool.Version, Turn: c.Turn, Emission: c.Emission, Redacted: []string{"arguments"},
	})
}

func (s Step) body(c Call) Body {
	return Body{Verdict: s.Decision.Verdict, Code: s.Decision.Code, Reasons: s.Decision.Reasons, Origins: s.Decision.Origins,
		DecidedBy: s.Decision.DecidedBy, Generation: s.Decision.Generation, Binding: c.Binding, Retry: s.Decision.RetryAfter}
}

// HeldBack leaves a new call proposed because a limit was met at its first
// decision (rule A11). An equal proposal gets this call.
func HeldBack(c Call, s Step) (Change, error) {
	after, _, err := walk(c, ByBoundary, s.At)
	if err != nil {
		return Change{}, err
	}
	after.Decision = s.Decision
	after.Due = after.Expires
	after.queue(s)
	events := []Event{after.proposedEvent(s), after.event(EventLimited, c.By(), s.At, s.body(after))}
	return Change{finish(c, after, s, events)}, nil
}

// Postpone notes that a limit held back a call that exists. State and approval
// stay as they are (rule A9).
func Postpone(c Call, s Step) Change {
	return Change{Facts{At: s.At, Events: []Event{c.event(EventLimited, c.By(), s.At, s.body(c))}}}
}

// Refuse denies a call, and voids the question it had, if any.
func Refuse(c Call, s Step, open *Approval) (Change, error) {
	after, path, err := walk(c, ByBoundary, s.At, Denied)
	if err != nil {
		return Change{}, err
	}
	after.Decision, after.Due, after.Approval = s.Decision, time.Time{}, c.Approval
	var events []Event
	if path[0] == Proposed {
		after.Queued = false // it never was
		events = append(events, after.proposedEvent(s))
	}
	events = append(events, after.event(EventDenied, c.By(), s.At, s.body(after)))
	f := finish(c, after, s, events)
	f.voids(open, s, Who{System: "boundary"})
	return Change{f}, nil
}

// Hold asks: the call waits for the question q. An earlier question of the same
// call is voided with it (rule D3), in the same change.
func Hold(c Call, s Step, q Approval, earlier *Approval) (Change, error) {
	var path []State
	after := c
	if c.State == ApprovalPending {
		after.Version++ // a new question; the state is unchanged
		after.Changed, after.Again = s.At, time.Time{}
	} else {
		var err error
		if after, path, err = walk(c, ByBoundary, s.At, ApprovalPending); err != nil {
			return Change{}, err
		}
	}
	after.Decision, after.Binding, after.Approval = s.Decision, q.Binding, q.ID
	after.Expires, after.Due = q.Expires, q.Expires
	var events []Event
	if len(path) > 0 && path[0] == Proposed {
		events = append(events, after.proposedEvent(s))
	}
	asked := after.event(EventAsked, c.By(), s.At, s.body(after))
	asked.Approval = q.ID
	events = append(events, asked)
	f := finish(c, after, s, events)
	f.voids(earlier, s, Who{System: "boundary"})
	q.State, q.Version, q.Changed = Pending, 1, s.At
	f.Approvals = append(f.Approvals, ApprovalMove{After: q})
	return Change{f}, nil
}

// Authorize records an allow that its caller will dispatch in a later request.
func Authorize(c Call, s Step) (Change, error) {
	after, path, err := walk(c, ByBoundary, s.At, DispatchAuthorized)
	if err != nil {
		return Change{}, err
	}
	after.Decision, after.Due = s.Decision, after.Expires
	var events []Event
	if path[0] == Proposed {
		events = append(events, after.proposedEvent(s))
	}
	events = append(events, after.event(EventAuthorized, c.By(), s.At, s.body(after)))
	if after.queue(s) {
		events = append(events, after.queuedEvent(s))
	}
	return Change{finish(c, after, s, events)}, nil
}

// Reserve starts an attempt: step 9 of the boundary. When it is durable, and only
// then, a ticket may be minted. The approval is consumed by its first attempt;
// later ones rest on it consumed (rule D2).
func Reserve(c Call, s Step, lease time.Time, rest *Approval, void *Approval) (Change, error) {
	path := []State{Executing}
	switch c.State {
	case None, Proposed, ApprovalPending:
		path = []State{DispatchAuthorized, Executing}
	}
	after, path, err := walk(c, ByBoundary, s.At, path...)
	if err != nil {
		return Change{}, err
	}
	if c.Redacted != nil {
		return Change{}, notThere(c)
	}
	if c.State == ApprovalPending && rest == nil && void == nil {
		return Change{}, Errorf(Internal, "a held call cannot run without its approval being settled")
	}
	after.Decision = s.Decision
	after.Attempt++
	after.Key = IdempotencyKey(c.Tenant, c.Run, c.ID)
	if c.Lease.After(lease) {
		lease = c.Lease // of an attempt before this one: both are over when it is (rule E3)
	}
	after.Lease, after.Due, after.Holder = lease, lease, s.Holder
	after.Outcome = nil
	after.Holds = c.owed()
	for _, ch := range s.Charges {
		if ch.Hold || ch.Proof {
			ch.At = s.At
			after.Holds = append(after.Holds, ch)
		}
	}
	var events []Event
	if path[0] == Proposed {
		events = append(events, after.proposedEvent(s))
	}
	if slices.Contains(path, DispatchAuthorized) {
		events = append(events, after.event(EventAuthorized, c.By(), s.At, s.body(after)))
	}
	executing := after.event(EventExecuting, s.Who, s.At, Body{Route: s.Route, Arguments: after.Commit(after.Digest), Binding: after.Binding,
		DecidedBy: s.Decision.DecidedBy, Generation: s.Decision.Generation, Attempt: after.Attempt, Key: after.Key, Lease: lease,
		Evidence: s.Evidence})
	if rest != nil {
		executing.Approval = rest.ID
	}
	events = append(events, executing)
	f := finish(c, after, s, events)
	switch {
	case rest != nil && rest.State == Approved:
		if rest.Binding != after.Binding || rest.Call != c.ID {
			return Change{}, Errorf(Internal, "an approval is consumed only by the call and the binding it was given for")
		}
		f.approval(*rest, Consumed, s, Who{System: "boundary"}, EventApprovalConsumed)
	case rest != nil && rest.State == Consumed && c.State == Unknown && rest.Binding == after.Binding && rest.Call == c.ID:
		// A later attempt of the same call rests on what its first one consumed.
	case rest != nil:
		return Change{}, Errorf(Conflict, "the approval is %s", rest.State)
	}
	f.voids(void, s, Who{System: "boundary"})
	return Change{f}, nil
}

// Settle records what is known of an attempt's effect: Succeeded, Failed or Unknown.
func Settle(c Call, to State, out Outcome, s Step, by Cause) (Change, error) {
	if to != Succeeded && to != Failed && to != Unknown {
		return Change{}, illegal(c, to, by)
	}
	after, _, err := walk(c, by, s.At, to)
	if err != nil {
		return Change{}, err
	}
	if to == Failed && by == ByReconcile && s.At.Before(c.Lease) {
		return Change{}, Errorf(Conflict, "the last attempt may act until %s; until then nothing proves that nothing happened", c.Lease.UTC().Format(time.RFC3339))
	}
	out.At = s.At
	after.Outcome, after.Lease, after.Due, after.Holds = &out, time.Time{}, time.Time{}, nil
	kind := map[State]EventKind{Succeeded: EventSucceeded, Failed: EventFailed, Unknown: EventUnknown}[to]
	body := Body{Code: out.Code, Attempt: c.Attempt, Result: c.Commit(out.Digest), Detail: out.Detail, Reported: out.Reported}
	if by == ByReconcile {
		kind, body.Evidence, body.Detail = EventReconciled, out.Evidence, string(to)
	}
	if to == Unknown {
		after.Holds, after.Lease = c.owed(), c.Lease // before its end nothing proves that nothing happened (rule E3)
		if after.queue(s) && after.Attempt < after.Attempts {
			body.Retry = after.Again
		}
	}
	f := finish(c, after, s, []Event{after.event(kind, s.Who, s.At, body)})
	f.returns(c, to, out)
	return Change{f}, nil
}

// owed are the charges that only proof gives back.
func (c Call) owed() []Charge {
	var owed []Charge
	for _, ch := range c.Holds {
		if ch.Proof {
			owed = append(owed, ch)
		}
	}
	return owed
}

// returns gives back what the outcome frees (rule E4): places at once; money and
// counts when it is proved that nothing happened; and of a cost that the result
// reports, what was charged too much. A cost above what was charged is charged too,
// whatever the limit: it was spent. The word of a lease's holder gives nothing back
// but its place: it comes from whom the limits are there for (rule E6).
func (f *Facts) returns(c Call, to State, out Outcome) {
	word := out.Reported && out.By == ""
	nothing := to == Failed && !(c.Tool.ReadOnly && out.Sent) && !word
	for _, ch := range c.Holds {
		switch {
		case ch.Hold, nothing && ch.Proof:
			f.Release = append(f.Release, ch)
		case to == Unknown || !ch.Cost || out.Cost == nil:
		case *out.Cost < ch.Amount && word:
		case *out.Cost < ch.Amount:
			ch.Amount -= *out.Cost
			f.Release = append(f.Release, ch)
		case *out.Cost > ch.Amount:
			ch.Amount, ch.Limit = *out.Cost-ch.Amount, math.MaxInt64
			f.Charges = append(f.Charges, ch)
		}
	}
}

// End closes a waiting call: expired by the clock, canceled by its principal,
// revoked by an operator. Its open question ends with it.
func End(c Call, to State, by Cause, code Code, s Step, open *Approval) (Change, error) {
	if !c.State.Waiting() {
		return Change{}, illegal(c, to, by)
	}
	after, _, err := walk(c, by, s.At, to)
	if err != nil {
		return Change{}, err
	}
	after.Due = time.Time{}
	after.Outcome = &Outcome{Code: code, At: s.At}
	kind := map[State]EventKind{Expired: EventExpired, Canceled: EventCanceled, Revoked: EventRevoked}[to]
	f := finish(c, after, s, []Event{after.event(kind, s.Who, s.At, Body{Code: code})})
	if to == Expired && open != nil {
		f.approval(*open, Lapsed, s, s.Who, EventApprovalExpired)
	} else {
		f.voids(open, s, s.Who)
	}
	return Change{f}, nil
}

// Keep lets a waiting call live on in a new turn; its approval stays, because the
// binding names the turn it was proposed in.
func Keep(c Call, turn Turn, s Step) Change {
	after := c
	after.Kept, after.Version, after.Changed = turn, c.Version+1, s.At
	return Change{finish(c, after, s, nil)}
}

// Of moves one call that the sweep found, with its open question.
func (w Sweep) Of(c Call, open *Approval) (Change, error) {
	s := Step{At: w.At, Who: w.Who}
	if slices.Contains(w.Keep, c.ID) {
		return Keep(c, w.Turn, s), nil
	}
	return End(c, w.To, w.By, w.Code, s, open)
}

// approval adds a move of an approval with its event. The table decides.
func (f *Facts) approval(a Approval, to ApprovalState, s Step, who Who, kind EventKind) {
	if !MayApproval(a.State, to) {
		return
	}
	after := a
	after.State, after.Version, after.Changed = to, a.Version+1, s.At
	f.Approvals = append(f.Approvals, ApprovalMove{From: a.State, FromVersion: a.Version, After: after})
	f.Events = append(f.Events, Event{At: s.At, Tenant: a.Tenant, Kind: kind, Run: a.Run, Call: a.Call, Approval: a.ID,
		Who: who, Body: Body{Binding: a.Binding}.encode()})
}

func (f *Facts) voids(a *Approval, s Step, who Who) {
	if a != nil {
		f.approval(*a, Void, s, who, EventApprovalVoided)
	}
}

// Answer adds a person's answer to a question. A yes that completes the rule
// approves it, and moves nothing else: the call is moved by the boundary alone.
// A no rejects it, denies the call and stays for equal effects in the lineage.
func Answer(a Approval, c Call, r Reply, decision Decision, people *People) (Change, error) {
	s := Step{At: r.At, Who: Who{Principal: &r.Person}, Decision: decision}
	if a.State != Pending {
		return Change{}, Errorf(Conflict, "the question %s is already %s", a.ID, a.State)
	}
	if c.Redacted != nil {
		return Change{}, notThere(c)
	}
	if r.Binding != a.Binding || c.Approval != a.ID {
		return Change{}, Errorf(Conflict, "the question %s has changed since it was shown; read it again", a.ID)
	}
	after := a
	after.Answers = append(slices.Clone(a.Answers), r)
	after.Version, after.Changed = a.Version+1, r.At
	event := func(kind EventKind) Event {
		return Event{At: r.At, Tenant: a.Tenant, Kind: kind, Run: a.Run, Call: a.Call, Approval: a.ID, Who: s.Who,
			Body: Body{Word: r.Word, Note: r.Note, Binding: r.Binding, Evidence: r.Proof.evidence(), Session: r.Session}.encode()}
	}
	f := Facts{At: r.At, Events: []Event{event(EventAnswered)}}
	if p := r.Proof; p != nil && r.Word == Yes {
		f.Passkey = &PasskeyMove{Used: &PasskeyUse{PasskeyRef: PasskeyRef{a.Tenant, r.Person, p.Passkey.ID}, Count: p.Count, At: r.At}}
	}
	switch r.Word {
	case Yes:
		if after.Rule.Met(after.Answers, a.Binding, a.Owner, people) {
			after.State = Approved
			f.Events = append(f.Events, event(EventApproved))
		}
	case No:
		after.State = Rejected
		moved, _, err := walk(c, ByPerson, r.At, Denied)
		if err != nil {
			return Change{}, err
		}
		moved.Due, moved.Decision = time.Time{}, decision
		moved.Outcome = &Outcome{Code: CodeRejected, At: r.At, Detail: r.Note}
		f2 := finish(c, moved, s, nil)
		f.Call, f.Release = f2.Call, f2.Release
		f.Events = append(f.Events, event(EventRejected), moved.event(EventDenied, s.Who, r.At, s.body(moved)))
		f.Rejection = &Rejection{Tenant: a.Tenant, Lineage: a.Lineage, Effect: c.Effect, Approval: a.ID, Note: r.Note, At: r.At}
	default:
		return Change{}, Errorf(Invalid, "an answer is %q or %q", Yes, No)
	}
	f.Approvals = []ApprovalMove{{From: a.State, FromVersion: a.Version, After: after, Answer: &r}}
	return Change{f}, nil
}

// OpenRun records a new run.
func OpenRun(r Run, who Who) Change {
	r.Version, r.State = 1, ModelPending
	b := Body{Turn: r.Turn}
	if r.Replays != "" {
		b.Route, b.Detail = RouteReplay, "replays "+string(r.Replays)
	}
	return Change{Facts{At: r.Opened, Run: &RunMove{After: r}, Events: []Event{r.event(EventRunOpened, who, r.Opened, b)}}}
}

// StartTurn begins the next turn and supersedes what earlier ones left waiting,
// except the calls in keep (rule B3).
func StartTurn(r Run, keep []CallID, who Who, at time.Time) (Change, error) {
	if !r.Live() {
		return Change{}, Errorf(Conflict, "the run has ended")
	}
	after := r
	after.Turn, after.Turns, after.State = r.Turn+1, true, ModelPending
	after.Version, after.Active = r.Version+1, at
	return Change{Facts{
		At:  at,
		Run: &RunMove{From: r.Version, After: after},
		Sweep: &Sweep{Tenant: r.Tenant, Run: r.ID, To: Canceled, By: ByPrincipal, Code: CodeCanceled, Who: who,
			Keep: keep, Turn: after.Turn, At: at},
		Events: []Event{r.event(EventTurnStarted, who, at, Body{Turn: after.Turn, Kept: keep})},
	}}, nil
}

// EndRun terminates a run: waiting calls are canceled and their questions void in
// the same transaction; executing ones finish as they finish.
func EndRun(r Run, why string, who Who, at time.Time) (Change, error) {
	if !r.Live() {
		return Change{}, Errorf(Conflict, "the run has ended")
	}
	after := r
	after.State, after.Ended, after.Why, after.Version, after.Delegation = Terminated, at, why, r.Version+1, nil
	f := Facts{
		At:     at,
		Run:    &RunMove{From: r.Version, After: after},
		Sweep:  &Sweep{Tenant: r.Tenant, Run: r.ID, To: Canceled, By: ByPrincipal, Code: CodeRunEnded, Who: who, At: at},
		Events: []Event{r.event(EventRunEnded, who, at, Body{Detail: why})},
	}
	f.leaves(r)
	return Change{f}, nil
}

// Transfer gives a run to another principal or agent of its tenant (rule B2). What
// waits is canceled and its questions void; a new turn begins, so that nothing
// stated for earlier ones counts for the new owner; a delegation of the old one ends.
func Transfer(r Run, to Owner, who Who, at time.Time) (Change, error) {
	switch {
	case !r.Live():
		return Change{}, Errorf(Conflict, "the run has ended")
	case to.Tenant != r.Tenant:
		return Change{}, Errorf(Invalid, "a run stays in its tenant")
	case to == r.Owner:
		return Change{}, Errorf(Conflict, "the run is theirs already")
	case r.Parent != "":
		return Change{}, Errorf(Conflict, "a child run stays with its principal and agent; end it and open another")
	case !r.Vouched:
		// Its lineage is that of its owner, and would carry the new owner's calls.
		return Change{}, Errorf(Conflict, "a run that was opened without vouch belongs to its owner's lineage; let the new owner open one")
	}
	after, next := r, to.By()
	after.Owner, after.Turn, after.State, after.Delegation = to, r.Turn+1, ModelPending, nil
	after.Version, after.Active = r.Version+1, at
	return Change{Facts{
		At:     at,
		Run:    &RunMove{From: r.Version, After: after},
		Sweep:  &Sweep{Tenant: r.Tenant, Run: r.ID, To: Canceled, By: ByPrincipal, Code: CodeCanceled, Who: who, At: at},
		Events: []Event{r.event(EventTransferred, who, at, Body{To: &next, Turn: after.Turn})},
	}}, nil
}

// Delegate lets a run's calls be dispatched while its caller is away (rule C2).
// used says that the live source was asked and d is what it is asked with next.
func Delegate(r Run, d Delegation, used bool, who Who, at time.Time) (Change, error) {
	if !r.Live() {
		return Change{}, Errorf(Conflict, "the run has ended")
	}
	kind := EventDelegated
	if used {
		kind = EventDelegationUsed
	}
	change := r.delegation(&d, r.event(kind, who, at, Body{Until: d.Until, Scopes: d.Scopes}), at)
	if !used {
		change.f.Wake = &Wake{Tenant: r.Tenant, Run: r.ID, Lineage: r.Lineage, At: at}
	}
	return change, nil
}

// Withdraw ends a run's delegation.
func Withdraw(r Run, why string, who Who, at time.Time) Change {
	return r.delegation(nil, r.event(EventDelegationWithdrawn, who, at, Body{Detail: why}), at)
}

func (r Run) delegation(d *Delegation, e Event, at time.Time) Change {
	after := r
	after.Delegation, after.Version = d, r.Version+1
	return Change{Facts{At: at, Run: &RunMove{From: r.Version, After: after}, Events: []Event{e}}}
}

func (r Run) event(kind EventKind, who Who, at time.Time, b Body) Event {
	return Event{At: at, Tenant: r.Tenant, Kind: kind, Run: r.ID, Who: who, Body: b.encode()}
}

// Activate makes a version the one that decides, and records every override in it. v
// is what others load it from; nil: nobody can.
func Activate(a Activation, v *Version, overrides []string) (Change, error) {
	if a.To != a.From+1 {
		return Change{}, Errorf(Conflict, "an activation follows the one before it")
	}
	if v != nil {
		if v.Digest != a.Digest {
			return Change{}, Errorf(Internal, "an activation stores another version than its own")
		}
		if err := v.Sound(); err != nil {
			return Change{}, err
		}
		a.Sum = v.Sum
	}
	f := Facts{At: a.At, Activate: &a, Version: v}
	f.Events = append(f.Events, Event{At: a.At, Kind: EventActivated, Who: a.Who,
		Body: Body{Generation: a.To, DecidedBy: a.Digest, Detail: string(a.Files)}.encode()})
	for _, o := range overrides {
		f.Events = append(f.Events, Event{At: a.At, Kind: EventOverride, Who: a.Who, Body: Body{Generation: a.To, Detail: o}.encode()})
	}
	return Change{f}, nil
}

// Note records something that moved nothing: a request that became no call, a
// late outcome, an answer from a record.
func Note(e Event, b Body) Change {
	e.Body = b.encode()
	return Change{Facts{At: e.At, Events: []Event{e}}}
}
