package record

import "time"

// Wake gives the clock a run's queued calls that wait for their agent: in the
// transaction that carries it, each is tried from At on.
type Wake struct {
	Tenant  TenantID
	Run     RunID
	Lineage LineageID
	At      time.Time
}

// queue sets when the clock next tries a queued call, and reports whether it is one.
func (c *Call) queue(s Step) bool {
	if c.Queued {
		c.Again = s.Again
	}
	return c.Queued
}

// queuedEvent says that a call is left to the clock, from when on; without a time it
// waits for its agent.
func (c Call) queuedEvent(s Step) Event {
	return c.event(EventQueued, c.By(), s.At, Body{Retry: c.Again})
}

// InQueue reports whether a call is one that the clock may dispatch: queued, and
// neither held for a person nor running nor over. Whether it does, and when, Again
// says.
func (c Call) InQueue() bool {
	if !c.Queued {
		return false
	}
	switch c.State {
	case Proposed, DispatchAuthorized:
		return true
	case Unknown:
		return c.Attempt < c.Attempts // a later attempt of the same call (rule E2)
	default:
		return false
	}
}

// Dead reports whether a queued call came to nothing that anybody was told of when it
// happened: it failed, was denied or expired while it waited, or its outcome is not
// known and no attempt is left. It stays as it is; its owner may propose it anew.
func (c Call) Dead() bool {
	switch c.State {
	case Failed, Denied, Expired:
		return c.Queued
	case Unknown:
		return c.Queued && c.Attempt >= c.Attempts
	default:
		return false
	}
}

// Requeue puts off a queued call: a limit, or a check that could not be completed,
// holds it back until again. State and decision stay (rule A9).
func Requeue(c Call, again time.Time, s Step) (Change, error) {
	if !c.InQueue() {
		return Change{}, Errorf(Conflict, "call %s is %s; it is not in the queue", c.ID, stateName(c.State))
	}
	after := c
	after.Again, after.Version = again, c.Version+1
	body := s.body(c)
	body.Retry = again
	return Change{finish(c, after, Step{At: s.At}, []Event{c.event(EventLimited, c.By(), s.At, body)})}, nil
}

// Park leaves a queued call to its agent's return, on the premise that its run holds
// no delegation.
func Park(c Call, why string, s Step) (Change, error) {
	if !c.InQueue() || c.Again.IsZero() {
		return Change{}, Errorf(Conflict, "call %s is %s; the clock does not wait for it", c.ID, stateName(c.State))
	}
	after := c
	after.Again, after.Version = time.Time{}, c.Version+1
	return Change{finish(c, after, s, []Event{c.event(EventParked, s.Who, s.At, Body{Detail: why})})}, nil
}
