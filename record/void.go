package record

import "time"

// Reask voids a question whose answers may not count any more, and asks q in its
// place, for the same call (rule D3). why is for the record. The new question expires
// at another moment than the old one, so that no answer to that fits it.
func Reask(c Call, old Approval, q Approval, why string, s Step) (Change, error) {
	if c.State != ApprovalPending || c.Approval != old.ID || !MayApproval(old.State, Void) {
		return Change{}, Errorf(Conflict, "the question %s is not open", old.ID)
	}
	if q.Expires.Equal(old.Expires) {
		q.Expires = q.Expires.Add(time.Microsecond)
	}
	q.Binding = BindingOf(c, &q.Rule, q.Expires, c.Decision.DecidedBy)
	q.State, q.Version, q.Changed, q.Replaces = Pending, 1, s.At, old.ID
	after := c
	after.Version++
	after.Changed, after.Binding, after.Approval = s.At, q.Binding, q.ID
	after.Expires, after.Due = q.Expires, q.Expires
	void := old
	void.State, void.Version, void.Changed = Void, old.Version+1, s.At
	event := func(kind EventKind, a Approval, b Body) Event {
		e := after.event(kind, s.Who, s.At, b)
		e.Approval = a.ID
		return e
	}
	f := finish(c, after, s, []Event{
		event(EventApprovalVoided, void, Body{Binding: old.Binding, Detail: why}),
		event(EventAsked, q, Body{Verdict: RequiresApproval, Code: q.Code, Binding: q.Binding, DecidedBy: c.Decision.DecidedBy, Generation: c.Decision.Generation}),
	})
	f.Approvals = []ApprovalMove{{From: old.State, FromVersion: old.Version, After: void}, {After: q}}
	return Change{f}, nil
}
