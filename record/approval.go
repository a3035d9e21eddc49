package record

import (
	"slices"
	"time"

	"github.com/placet-dev/placet/canon"
)

// Approval is a question to approvers and their answers. It is valid for one
// binding and consumed by one call.
type Approval struct {
	Owner
	ID       ApprovalID    `json:"id"`
	Call     CallID        `json:"call"`
	Run      RunID         `json:"run"`
	Lineage  LineageID     `json:"lineage"`
	Binding  canon.Digest  `json:"binding"`
	Rule     ApprovalRule  `json:"rule"`
	Code     Code          `json:"code"` // why it is asked
	State    ApprovalState `json:"state"`
	Version  int64         `json:"version"`
	Answers  []Reply       `json:"answers"`
	Replaces ApprovalID    `json:"replaces,omitempty"` // the voided question this one takes the place of (rule D3)
	Asked    time.Time     `json:"asked_at"`
	Expires  time.Time     `json:"expires_at"`
	Changed  time.Time     `json:"changed_at"`
}

// Word is what an approver said. Policy denies; people reject.
type Word string

const (
	Yes Word = "approved"
	No  Word = "rejected"
)

// Reply is one person's answer, for the binding they saw.
type Reply struct {
	Person  Principal    `json:"person"`
	Groups  []Group      `json:"groups,omitempty"` // those of the rule that the person was in
	Word    Word         `json:"word"`
	Note    string       `json:"note,omitempty"`
	Binding canon.Digest `json:"binding"`
	At      time.Time    `json:"at"`
	Proof   *Proof       `json:"proof,omitempty"` // what it was signed with; see passkey.go

	// Proved says that Proof was verified in this request. It is never stored:
	// whoever counts answers verifies them first.
	Proved bool `json:"-"`
}

// Eligible reports whether a person in groups may answer a part of a rule.
func (p ApprovalPart) Eligible(person Principal, groups []Group, caller Principal) bool {
	if p.Principal && person == caller {
		return true
	}
	if slices.Contains(p.People, person) {
		return true
	}
	return slices.ContainsFunc(p.Groups, func(g Group) bool { return slices.Contains(groups, g) })
}

// Eligible reports whether a person may answer at all: named by some part, and
// not the call's own principal unless every part permits that.
func (r ApprovalRule) Eligible(person Principal, groups []Group, caller Principal) bool {
	if person == caller && !r.Self {
		return false
	}
	return slices.ContainsFunc(r.Parts, func(p ApprovalPart) bool { return p.Eligible(person, groups, caller) })
}

// Met reports whether every part has its quorum of distinct persons who said yes
// to this binding (rules D5, D8). A rule without parts is never met.
func (r ApprovalRule) Met(answers []Reply, binding canon.Digest, caller Principal) bool {
	if len(r.Parts) == 0 {
		return false
	}
	for _, part := range r.Parts {
		var yes []Principal
		for _, a := range answers {
			if a.Word != Yes || a.Binding != binding || slices.Contains(yes, a.Person) {
				continue
			}
			if a.Person == caller && !r.Self {
				continue
			}
			if r.Passkey && !a.Proved {
				continue
			}
			if part.Eligible(a.Person, a.Groups, caller) {
				yes = append(yes, a.Person)
			}
		}
		if len(yes) < max(part.Quorum, 1) {
			return false
		}
	}
	return true
}

// Named reports whether anybody could answer.
func (r ApprovalRule) Named() bool {
	if len(r.Parts) == 0 {
		return false
	}
	for _, p := range r.Parts {
		if len(p.Groups) == 0 && len(p.People) == 0 && !(p.Principal && r.Self) {
			return false
		}
	}
	return true
}
