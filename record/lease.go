package record

import (
	"strconv"
	"time"

	"github.com/placet-dev/placet/canon"
)

// LeaseHolder digests what the holder of one leased attempt shows. The secret is
// given out once and stored nowhere; it is good for this attempt of this call.
func LeaseHolder(id CallID, attempt int, secret string) canon.Digest {
	return canon.Of("placet/lease/1", []byte(id), strconv.AppendInt(nil, int64(attempt), 10), []byte(secret))
}

// Leased reports whether the call's last attempt was handed to its caller, who
// runs it and reports what came of it (rule E6).
func (c Call) Leased() bool { return !c.Holder.IsZero() }

// GivenUp reports whether the holder of an attempt that still executes said that it
// did not begin. Nothing more is taken from it, and the end of the lease makes it fail.
func (c Call) GivenUp() bool { return c.State == Executing && c.Leased() && c.Outcome != nil }

// Extend lets the holder of an attempt report until later. Changed stays what it
// is: since when the attempt runs.
func Extend(c Call, lease time.Time, s Step) (Change, error) {
	if c.State != Executing || !c.Leased() || c.GivenUp() || !lease.After(c.Lease) {
		return Change{}, Errorf(Conflict, "call %s is %s; there is no lease to extend", c.ID, stateName(c.State))
	}
	after := c
	after.Lease, after.Due, after.Version = lease, lease, c.Version+1
	return Change{finish(c, after, s, []Event{after.event(EventExtended, s.Who, s.At, Body{Attempt: c.Attempt, Lease: lease})})}, nil
}

// GiveUp keeps a holder's word that the attempt did not begin. It is no proof while
// lease and dispatch token last (rule E3): the attempt executes until ends, and then
// the clock makes it what out says.
func GiveUp(c Call, ends time.Time, out Outcome, s Step) (Change, error) {
	if c.State != Executing || !c.Leased() || c.GivenUp() || ends.After(c.Lease) {
		return Change{}, Errorf(Conflict, "call %s is %s; there is no lease to give up", c.ID, stateName(c.State))
	}
	after := c
	out.At = s.At
	after.Outcome, after.Lease, after.Due, after.Version = &out, ends, ends, c.Version+1
	body := Body{Attempt: c.Attempt, Lease: ends, Detail: out.Detail, Reported: true}
	return Change{finish(c, after, s, []Event{after.event(EventNotStarted, s.Who, s.At, body)})}, nil
}
