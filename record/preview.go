package record

import "github.com/placet-dev/placet/canon"

// Preview is what a dry run showed of a call when its question was opened. It is text
// from outside, for people to read; nothing is decided by it. Its digest is part of
// the question's rule, and so of the binding that answers are for (rule D1).
type Preview struct {
	Tool string `json:"tool"`
	Call CallID `json:"call,omitempty"` // the support call that made it (rule C5)
	Text string `json:"text,omitempty"`
	Left int    `json:"left,omitempty"` // bytes that were not kept
	Code Code   `json:"code,omitempty"` // why none could be made; none: it was made
}

// Digest is of all that approvers are shown of it.
func (p *Preview) Digest() canon.Digest {
	if p == nil {
		return canon.Digest{}
	}
	return canon.Of("placet/preview/1", []byte(p.Tool), []byte(p.Call), []byte(p.Text), decimal(int64(p.Left)), []byte(p.Code))
}
