package notify

import (
	"slices"
	"time"

	"github.com/placet-dev/placet/record"
)

// Receiver is one address that notices are sent to.
type Receiver struct {
	Name string // what records call it: another name is another receiver, which knows nothing yet

	For     record.ApprovalPart // whose questions it is told: those that ask one of these groups or people
	Alerts  bool                // it is told of alerts
	Tenants []record.TenantID   // only of these; none: of all

	Address func() (string, error) // read for each sending, so that it can be replaced in its place
	Secret  func() (string, error) // of a webhook; nil: the message is for a chat room

	ShowArguments bool
	Reminders     int                                    // how often it is told again of a question that is still open
	Remind        func(life time.Duration) time.Duration // how long after it was told last
}

// asks reports whether a question is for this receiver.
func (r *Receiver) asks(a record.Approval) bool {
	if !r.tells(a.Tenant) || r.alone(a.Principal) && !a.Rule.Self {
		return false
	}
	return slices.ContainsFunc(a.Rule.Parts, func(p record.ApprovalPart) bool { return r.names(p, a) })
}

func (r *Receiver) tells(t record.TenantID) bool {
	return len(r.Tenants) == 0 || slices.Contains(r.Tenants, t)
}

// alone reports whether the receiver stands for one person only.
func (r *Receiver) alone(p record.Principal) bool {
	return len(r.For.Groups) == 0 && len(r.For.People) == 1 && r.For.People[0] == p
}

// names reports whether a part of a rule asks anybody that the receiver stands for.
func (r *Receiver) names(p record.ApprovalPart, a record.Approval) bool {
	return slices.ContainsFunc(r.For.Groups, func(g record.Group) bool { return slices.Contains(p.Groups, g) }) ||
		slices.ContainsFunc(r.For.People, func(w record.Principal) bool {
			return slices.Contains(p.People, w) || p.Principal && w == a.Principal
		})
}

// answered reports whether nobody that the receiver stands for is still asked:
// each part that names them has its answers, or each of them gave theirs.
func (r *Receiver) answered(a record.Approval, people *record.People) bool {
	if len(r.For.Groups) == 0 && !slices.ContainsFunc(r.For.People, func(p record.Principal) bool {
		return !slices.ContainsFunc(a.Answers, func(y record.Reply) bool { return y.Person == p && y.Binding == a.Binding })
	}) {
		return true
	}
	return !slices.ContainsFunc(a.Rule.Parts, func(p record.ApprovalPart) bool {
		alone := record.ApprovalRule{Parts: []record.ApprovalPart{p}, Self: a.Rule.Self, Passkey: a.Rule.Passkey}
		return r.names(p, a) && !alone.Met(record.AsGiven(a.Answers), a.Binding, a.Owner, people)
	})
}
