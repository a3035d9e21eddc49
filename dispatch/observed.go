package dispatch

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/placet-dev/placet/record"
)

// examples is how many calls a count names.
const examples = 5

// Observation is what one rule that only observes said about the calls of one tool
// (rule H3).
type Observation struct {
	Rule     string          // "layer support", "registry sources"
	Tool     string          //
	Denied   int             // calls that it would have denied
	Asked    int             // calls that it would have asked a person about
	Examples []record.CallID // the newest of them
}

// Observations are those of a tenant since a time.
type Observations struct {
	Calls int // that were looked at
	More  bool
	Since time.Time
	Rules []Observation // the most denials first
}

// Observed counts what rules that only observe would have denied or asked, in the
// decisions that stand in the calls' records, of at most n calls. A call counts once for
// each rule, with the decision that was made of it last.
func Observed(ctx context.Context, r Reader, tenant record.TenantID, since time.Time, n int) (Observations, error) {
	out := Observations{Since: since}
	found := map[[2]string]*Observation{}
	var err error
	out.Calls, out.More, err = recent(ctx, r, tenant, since, n, func(c record.Call) error {
		said := map[string]record.Verdict{}
		for _, reason := range c.Decision.Reasons {
			if reason.Observe && reason.Verdict != record.Allow {
				rule := ruleName(reason.Rule)
				said[rule] = reason.Verdict.Stricter(cmp.Or(said[rule], record.Allow))
			}
		}
		for rule, verdict := range said {
			key := [2]string{rule, c.Tool.Name}
			o := found[key]
			if o == nil {
				o = &Observation{Rule: rule, Tool: c.Tool.Name}
				found[key] = o
			}
			if verdict == record.RequiresApproval {
				o.Asked++
			} else {
				o.Denied++
			}
			o.Examples = sample(o.Examples, c.ID)
		}
		return nil
	})
	for _, o := range found {
		out.Rules = append(out.Rules, *o)
	}
	slices.SortFunc(out.Rules, func(a, b Observation) int {
		return cmp.Or(cmp.Compare(b.Denied, a.Denied), cmp.Compare(b.Asked, a.Asked), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Tool, b.Tool))
	})
	return out, err
}

func sample(of []record.CallID, c record.CallID) []record.CallID {
	if len(of) < examples {
		of = append(of, c)
	}
	return of
}

// ruleName is a rule without the call that it names.
func ruleName(rule string) string {
	for _, of := range []string{"unsettled", "rejection", "approval"} {
		if strings.HasPrefix(rule, of+" ") {
			return of
		}
	}
	return rule
}

// recent hands over the calls of a tenant that were proposed since a time, newest
// first, at most n. more: there are others.
func recent(ctx context.Context, r Reader, tenant record.TenantID, since time.Time, n int, f func(record.Call) error) (seen int, more bool, err error) {
	const page = 500
	for before := record.CallID(""); ; {
		list, err := r.Calls(ctx, CallQuery{Tenant: tenant, Before: before, Limit: page})
		if err != nil {
			return seen, more, err
		}
		for _, c := range list {
			before = c.ID
			switch {
			case c.Proposed.Before(since):
				return seen, false, nil
			case c.Route == record.RouteSupport:
				continue // a look-up of the boundary's own
			case seen == n:
				return seen, true, nil
			}
			seen++
			if err := f(c); err != nil {
				return seen, more, err
			}
		}
		if len(list) < page {
			return seen, false, nil
		}
	}
}
