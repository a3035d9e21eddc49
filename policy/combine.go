package policy

import (
	"time"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/record"
)

// Combined is what the layers say together.
type Combined struct {
	Verdict record.Verdict
	Code    record.Code
	// Reasons has one entry for each opinion, in order; observed ones are
	// marked and had no part in the verdict.
	Reasons []record.Reason
	// Parts are the demands of the layers that ask and name approvers. Each
	// must be met (rule D8). Default says that a layer asks without naming
	// anybody, so that the configured default must be met too, by at least
	// Quorum persons.
	Parts   []record.ApprovalPart
	Default bool
	Quorum  int
	Expires time.Duration // the shortest that a layer states; 0 when none does
	Passkey bool          // some asking layer demands it
	Self    bool          // every asking layer that names its terms lets the principal answer
	Purpose bool          // a layer demands that the proposer stated a purpose
	Reason  bool          // a layer demands that whoever answers says why
}

// Combine takes the most restrictive verdict of the opinions that are applied.
// Without any, the layers allow, and what remains is the registry's word.
func Combine(opinions []Opinion) Combined {
	c := Combined{Verdict: record.Allow, Self: true}
	if len(opinions) > 0 {
		c.Reasons = make([]record.Reason, 0, len(opinions))
	}
	for i := range opinions {
		o := &opinions[i]
		c.Reasons = append(c.Reasons, o.Reason)
		if o.Mode == Observe {
			continue
		}
		c.Verdict = c.Verdict.Stricter(o.Verdict)
		if o.Err != nil {
			c.Verdict = record.Deny
		}
		if o.Verdict == record.RequiresApproval {
			c.demand(o)
		}
	}
	c.Code = c.code(opinions)
	if c.Verdict != record.RequiresApproval {
		c.Parts, c.Default, c.Quorum, c.Expires, c.Self, c.Purpose, c.Reason, c.Passkey = nil, false, 0, 0, false, false, false, false
	}
	return c
}

func (c *Combined) demand(o *Opinion) {
	if o.Part != nil {
		c.Parts = append(c.Parts, *o.Part)
	} else {
		c.Default = true
		c.Quorum = max(c.Quorum, 1)
	}
	if o.Ask == nil {
		return
	}
	if o.Part == nil {
		c.Quorum = max(c.Quorum, o.Ask.Quorum)
	}
	c.Self = c.Self && o.Ask.Self
	c.Purpose, c.Reason = c.Purpose || o.Ask.Purpose, c.Reason || o.Ask.Reason
	c.Passkey = c.Passkey || o.Ask.Passkey
	if e := o.Ask.Expires; e > 0 && (c.Expires == 0 || e < c.Expires) {
		c.Expires = e
	}
}

// code prefers a rule's own denial to a layer that could not decide: asking
// again would not help.
func (c *Combined) code(opinions []Opinion) record.Code {
	code := codeOf(c.Verdict)
	if c.Verdict != record.Deny {
		return code
	}
	code = record.CodeCannotDecide
	for i := range opinions {
		if o := &opinions[i]; o.Mode != Observe && o.Verdict == record.Deny && o.Reason.Code == record.CodePolicyDenied {
			return record.CodePolicyDenied
		}
	}
	return code
}

// Consulted digests which layers were asked, in which version and mode. It is
// part of what a decision rests on (rule D1): a change of another layer leaves
// it equal.
func Consulted(opinions []Opinion) canon.Digest {
	if len(opinions) == 0 {
		return canon.Digest{}
	}
	parts := make([][]byte, 0, 3*len(opinions))
	for i := range opinions {
		o := &opinions[i]
		parts = append(parts, []byte(o.Layer), o.Version[:], []byte(o.Mode))
	}
	return canon.Of("placet/layers/1", parts...)
}
