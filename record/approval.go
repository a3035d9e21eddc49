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
	Preview  *Preview      `json:"preview,omitempty"`  // what a dry run showed; nil: the tool has none
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
	Proof   *Proof       `json:"proof,omitempty"`   // what it was signed with; see passkey.go
	Session string       `json:"session,omitempty"` // the login it was given in, where the issuer names it; see [SessionName]

	// Proved says that Proof was verified in this request. It is never stored:
	// whoever counts answers verifies them first.
	Proved bool `json:"-"`
}

// Issuers are where those sign in whom a part names.
func (p ApprovalPart) Issuers() []string {
	var out []string
	for _, g := range p.Groups {
		out = append(out, g.Issuer)
	}
	for _, person := range p.People {
		out = append(out, person.Issuer)
	}
	slices.Sort(out)
	return slices.Compact(out)
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

// Barred reports whether a person's yes cannot count, whoever names them: they are
// the agent itself, or not certainly another person than the one it acts for, unless
// every part permits that.
func (r ApprovalRule) Barred(person Principal, by Owner, people *People) bool {
	agent := Principal{Issuer: by.Principal.Issuer, Subject: string(by.Agent)}
	return people.Same(person, agent) || !r.Self && !people.Apart(person, by.Principal)
}

// Met reports whether every part has its quorum of distinct persons who said yes
// to this binding (rules D5, D8). A rule without parts is never met.
func (r ApprovalRule) Met(answers []Reply, binding canon.Digest, by Owner, people *People) bool {
	if len(r.Parts) == 0 {
		return false
	}
	for _, part := range r.Parts {
		if r.Said(part, answers, binding, by, people) < max(part.Quorum, 1) {
			return false
		}
	}
	return true
}

// Said is how many distinct persons said yes to this binding for a part of the rule.
func (r ApprovalRule) Said(part ApprovalPart, answers []Reply, binding canon.Digest, by Owner, people *People) int {
	var yes []Principal
	for _, a := range answers {
		if a.Word != Yes || a.Binding != binding || r.Barred(a.Person, by, people) || r.Passkey && !a.Proved {
			continue
		}
		if people.Known(a.Person) && part.Eligible(a.Person, a.Groups, by.Principal) {
			yes = append(yes, a.Person)
		}
	}
	return people.Count(yes)
}

// Reachable reports whether answers could meet the rule. Who is in a group is not
// known here; that one of its issuer's people could count is enough.
func (r ApprovalRule) Reachable(by Owner, people *People) bool {
	for _, part := range r.Parts {
		if slices.ContainsFunc(part.Groups, func(g Group) bool { return r.Self || people.Others(g.Issuer, by.Principal) }) {
			continue
		}
		var may []Principal
		for _, person := range part.People {
			if !r.Barred(person, by, people) {
				may = append(may, person)
			}
		}
		if part.Principal && r.Self && by.Principal.Issuer != WorkloadIssuer {
			may = append(may, by.Principal)
		}
		if people.Count(may) < max(part.Quorum, 1) {
			return false
		}
	}
	return len(r.Parts) > 0
}

// AsGiven takes signed answers for proved because their proof is there: for whoever
// shows and counts them. The boundary verifies, and relies on that alone.
func AsGiven(answers []Reply) []Reply {
	out := slices.Clone(answers)
	for i := range out {
		out[i].Proved = out[i].Proof != nil
	}
	return out
}
