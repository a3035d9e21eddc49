package rego

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"

	"github.com/placet-dev/placet/policy"
	"github.com/placet-dev/placet/record"
)

// Explain is Evaluate with the places of the rules that contributed: the rule
// that gave the value first, then the rules it rests on. For an error it gives
// OPA's whole message, which may quote values.
func (l *Layer) Explain(ctx context.Context, p *policy.Prepared) policy.Opinion {
	input, err := l.input(p)
	if err != nil {
		return policy.Opinion{Err: err}
	}
	f := &fired{layer: l}
	term, err := l.run(ctx, input, p.Input.Time, f)
	o := l.opinion(term, err)
	var failed *topdown.Error
	if errors.As(err, &failed) {
		o.Err = failed
	}
	o.Places = f.places(o.Places, err)
	return o
}

// locate finds the places of an answer that came without one, by evaluating
// once more with a tracer. It does so only for what people will ask about, and
// only while there is plenty of time.
func (l *Layer) locate(ctx context.Context, input *ast.Term, now, start time.Time, o policy.Opinion, err error) policy.Opinion {
	conflict := topdownCode(err) == topdown.ConflictErr
	if !conflict && (err != nil || len(o.Places) > 0 || o.Verdict == record.Allow) {
		return o
	}
	end, bounded := ctx.Deadline()
	if bounded && time.Until(end) < 4*time.Since(start) {
		return o
	}
	f := &fired{layer: l}
	_, again := l.run(ctx, input, now, f)
	o.Places = f.places(o.Places, again)
	if conflict && len(o.Places) > 1 {
		o.Err = errors.New("two rules conflict, " + strings.Join(o.Places, " and "))
	}
	return o
}

func topdownCode(err error) string {
	var failed *topdown.Error
	if errors.As(err, &failed) {
		return failed.Code
	}
	return ""
}

// fired collects the rules that gave a value, innermost first.
type fired struct {
	layer *Layer
	rules []*ast.Rule
}

func (f *fired) Enabled() bool               { return true }
func (f *fired) Config() topdown.TraceConfig { return topdown.TraceConfig{} }

func (f *fired) TraceEvent(e topdown.Event) {
	if e.Op != topdown.ExitOp {
		return
	}
	if r, ok := e.Node.(*ast.Rule); ok && f.layer.within(r.Location) {
		f.rules = append(f.rules, r)
	}
}

// maxPlaces bounds what one reason carries.
const maxPlaces = 8

// places lists where the collected rules stand, the deciding one first, after
// those already known. For a conflict only the rules that conflict are named.
func (f *fired) places(known []string, err error) []string {
	out := slices.Clone(known)
	var failed *topdown.Error
	conflict := errors.As(err, &failed) && failed.Code == topdown.ConflictErr
	switch {
	case conflict:
		out = nil
	case err != nil && len(out) > 0:
		return out // where it failed says more than what was true until then
	}
	for _, r := range slices.Backward(f.rules) {
		if conflict && !f.sameRule(r, failed.Location) {
			continue
		}
		if len(out) == maxPlaces {
			break
		}
		for _, at := range places(r.Location) {
			if !slices.Contains(out, at) {
				out = append(out, at)
			}
		}
	}
	if conflict {
		slices.Sort(out)
	}
	return out
}

// sameRule reports whether r is one of the bodies of the rule at a place.
func (f *fired) sameRule(r *ast.Rule, at *ast.Location) bool {
	return at != nil && slices.ContainsFunc(f.rules, func(other *ast.Rule) bool {
		return other.Location.Equal(at) && other.Ref().GroundPrefix().Equal(r.Ref().GroundPrefix())
	})
}
