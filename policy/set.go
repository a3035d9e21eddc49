package policy

import (
	"context"
	"fmt"
	"time"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/record"
)

// Set is the layers of one activation. It is immutable. The zero Set and the
// nil *Set have no layer: the registry alone decides.
type Set struct {
	layers  []Layer
	timeout time.Duration
	resolve Resolve
}

// NewSet makes a set. Each layer has timeout for its answer; resolve turns the
// approver references of layers into groups and people, and with a nil one
// every named approver denies.
func NewSet(layers []Layer, timeout time.Duration, resolve Resolve) (*Set, error) {
	if timeout <= 0 {
		return nil, record.Errorf(record.Invalid, "policy.timeout must be above zero, it is %s", timeout)
	}
	seen := make(map[string]bool, len(layers))
	for i, l := range layers {
		name := l.Name()
		switch {
		case name == "":
			return nil, record.Errorf(record.Invalid, "policy layer %d has no name", i+1)
		case seen[name]:
			return nil, record.Errorf(record.Invalid, "two policy layers are named %q", name)
		case l.Mode() != "" && l.Mode() != Enforce && l.Mode() != Observe:
			return nil, record.Errorf(record.Invalid, "policy layer %q: mode is enforce or observe, not %q", name, l.Mode())
		case l.For().blank() != "":
			return nil, record.Errorf(record.Invalid, "policy layer %q: for.%s holds an empty name", name, l.For().blank())
		}
		seen[name] = true
	}
	return &Set{layers: append([]Layer(nil), layers...), timeout: timeout, resolve: resolve}, nil
}

// Layers returns the layers in their order.
func (s *Set) Layers() []Layer {
	if s == nil {
		return nil
	}
	return append([]Layer(nil), s.layers...)
}

// Evaluate asks every layer that applies, each alone, and returns what each
// says, in the set's order. Every opinion is one that can be acted on: see
// [Combine].
func (s *Set) Evaluate(ctx context.Context, in *Input) []Opinion {
	if s == nil || len(s.layers) == 0 {
		return nil
	}
	p := Prepare(in)
	opinions := make([]Opinion, 0, len(s.layers))
	for _, l := range s.layers {
		fits, err := l.For().Fits(in)
		switch {
		case err != nil:
			opinions = append(opinions, s.settle(l, in, cannot(err)))
		case fits:
			opinions = append(opinions, s.settle(l, in, s.ask(ctx, l.Evaluate, p)))
		}
	}
	return opinions
}

// ask bounds one layer by the timeout. An answer that comes after it is none.
func (s *Set) ask(ctx context.Context, evaluate func(context.Context, *Prepared) Opinion, p *Prepared) (o Opinion) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	defer func() {
		// A panic in a layer must not take other calls with it, and must not allow.
		if r := recover(); r != nil {
			o = cannot(fmt.Errorf("the layer panicked: %v", r))
		}
	}()
	o = evaluate(ctx, p)
	switch ended := ctx.Err(); {
	case ended == nil:
		return o
	case context.Cause(ctx) == context.DeadlineExceeded:
		return cannot(fmt.Errorf("no answer within %s", s.timeout))
	default:
		return cannot(ended)
	}
}

// Explained is one layer's part of an explanation.
type Explained struct {
	Layer   string
	Version canon.Digest
	Mode    Mode
	Applies bool
	Opinion Opinion // meaningful when Applies
}

// Explain is Evaluate with the places of the rules that decided, and with the
// layers that do not apply. It changes nothing.
func (s *Set) Explain(ctx context.Context, in *Input) []Explained {
	if s == nil {
		return nil
	}
	p := Prepare(in)
	out := make([]Explained, 0, len(s.layers))
	for _, l := range s.layers {
		e := Explained{Layer: l.Name(), Version: l.Version(), Mode: modeOf(l)}
		fits, err := l.For().Fits(in)
		switch {
		case err != nil:
			e.Applies, e.Opinion = true, s.settle(l, in, cannot(err))
		case fits:
			evaluate := l.Evaluate
			if x, ok := l.(Explainer); ok {
				evaluate = x.Explain
			}
			e.Applies, e.Opinion = true, s.settle(l, in, s.ask(ctx, evaluate, p))
		}
		out = append(out, e)
	}
	return out
}

func modeOf(l Layer) Mode {
	if l.Mode() == Observe {
		return Observe
	}
	return Enforce
}

func cannot(err error) Opinion { return Opinion{Err: err} }
