package policy

import (
	"context"
	"time"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/record"
)

// Mode says whether a layer's verdict is applied.
type Mode string

const (
	Enforce Mode = "enforce" // also the meaning of the zero value
	Observe Mode = "observe" // recorded and reported, not applied (rule H3)
)

// Layer is one policy, evaluated alone.
type Layer interface {
	Name() string
	Version() canon.Digest // of everything its answer depends on beside the input
	Mode() Mode
	For() For
	// Evaluate answers for one input. It returns when ctx ends; what it
	// returns after that is not used. It is called from many goroutines.
	Evaluate(ctx context.Context, in *Prepared) Opinion
}

// Explainer is a layer that can say which of its rules gave its answer. It
// costs several times an evaluation and gives the same verdict.
type Explainer interface {
	Explain(ctx context.Context, in *Prepared) Opinion
}

// Opinion is what one layer says. A layer fills Verdict, the texts of Reason,
// Ask, Obligations, Places and Err; a [Set] fills in the rest and overrides the verdict
// wherever the answer is not one that can be acted on.
type Opinion struct {
	Layer   string
	Version canon.Digest
	Mode    Mode
	Verdict record.Verdict
	Reason  record.Reason
	// Ask is who must approve, in the layer's own words. It is nil when the
	// layer asks without naming anybody; the configured default then holds.
	Ask *Ask
	// Part is Ask with its approvers resolved.
	Part *record.ApprovalPart
	// Obligations are conditions of an allow. None is known today, and an
	// unknown one denies.
	Obligations []string
	// Places are the rules that gave the verdict, file:line, as far as the
	// layer could tell.
	Places []string
	Err    error
}

// Ask is the approval a layer demands.
type Ask struct {
	Approvers []string // references such as "group:support-leads"
	Quorum    int      // distinct persons; 0 is 1
	Expires   time.Duration
	Self      bool // the principal may answer
	Purpose   bool // the proposer must have stated a purpose
	Reason    bool // whoever answers must say why
	Passkey   bool // a yes must be signed with a passkey
}

// Resolve adds what one approver reference of a layer names to part. A
// reference it cannot resolve is an error, and the call is denied.
type Resolve func(in *Input, ref string, part *record.ApprovalPart) error

// Prepared is one input on its way through the layers of one evaluation. It
// keeps the forms that evaluators build of the input, so that layers of one
// kind build it once. It belongs to one goroutine.
type Prepared struct {
	Input *Input
	forms []form
}

type form struct {
	key   any
	value any
	err   error
}

// Prepare starts an evaluation of in.
func Prepare(in *Input) *Prepared { return &Prepared{Input: in} }

// Form returns what build made for key, calling it at most once for each key.
func (p *Prepared) Form(key any, build func(*Input) (any, error)) (any, error) {
	for i := range p.forms {
		if p.forms[i].key == key {
			return p.forms[i].value, p.forms[i].err
		}
	}
	v, err := build(p.Input)
	p.forms = append(p.forms, form{key, v, err})
	return v, err
}
