package rego

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"

	"github.com/placet-dev/placet/policy"
)

// until cancels an evaluation when its context ends, without a goroutine.
type until struct{ ctx context.Context }

func (u until) Cancelled() bool { return u.ctx.Err() != nil }
func (u until) Cancel()         {}

// Evaluate answers for one input.
func (l *Layer) Evaluate(ctx context.Context, p *policy.Prepared) policy.Opinion {
	start := time.Now() // measures what is left of the deadline; no verdict depends on it
	input, err := l.input(p)
	if err != nil {
		return policy.Opinion{Err: err}
	}
	term, err := l.run(ctx, input, p.Input.Time, nil)
	return l.locate(ctx, input, p.Input.Time, start, l.opinion(term, err), err)
}

// input is the document as a term, built once for all layers of an engine.
func (l *Layer) input(p *policy.Prepared) (*ast.Term, error) {
	built, err := p.Form(l.engine, l.engine.build)
	if err != nil {
		return nil, fmt.Errorf("build the input: %w", err)
	}
	return built.(*ast.Term), nil
}

// opinion reads the answer, and finds its place without a second evaluation: a
// rule's value keeps the location it has in the file.
func (l *Layer) opinion(term *ast.Term, err error) policy.Opinion {
	if err != nil {
		return l.failure(err)
	}
	o := answerOf(term)
	if term != nil && l.within(term.Location) {
		o.Places = places(term.Location)
	}
	return o
}

// failure says what went wrong and where, without the values it went wrong on:
// OPA puts them behind the name of the built-in function.
func (l *Layer) failure(err error) policy.Opinion {
	var failed *topdown.Error
	if !errors.As(err, &failed) {
		return policy.Opinion{Err: err}
	}
	o := policy.Opinion{Err: fmt.Errorf("%s: %s", failed.Code, failed.Message)}
	if failed.Code == topdown.BuiltinErr {
		name, _, _ := strings.Cut(failed.Message, ":")
		o.Err = fmt.Errorf("%s: %s failed on its arguments", failed.Code, name)
	}
	if l.within(failed.Location) {
		o.Places = places(failed.Location)
	}
	return o
}

var errTwoAnswers = errors.New("the query gave several answers")

// run evaluates the entry point. The result is nil when it is undefined.
func (l *Layer) run(ctx context.Context, input *ast.Term, now time.Time, tracer topdown.QueryTracer) (*ast.Term, error) {
	txn, err := l.store.NewTransaction(ctx)
	if err != nil {
		return nil, err
	}
	defer l.store.Abort(ctx, txn)
	q := topdown.NewQuery(l.query).
		WithCompiler(l.compiler).
		WithStore(l.store).
		WithTransaction(txn).
		WithInput(input).
		WithTime(now).
		WithSeed(noSeed{}).
		WithMetrics(l.engine.metrics).
		WithCancel(until{ctx}).
		// Without this a failing built-in is merely undefined, and a denial
		// that rests on it disappears.
		WithStrictBuiltinErrors(true)
	if tracer != nil {
		q = q.WithQueryTracer(tracer)
	}
	var result *ast.Term
	err = q.Iter(ctx, func(r topdown.QueryResult) error {
		if result != nil {
			return errTwoAnswers
		}
		result = r[answer]
		return nil
	})
	if err != nil {
		return nil, err
	}
	return result, nil
}

// noSeed is the random source of an evaluation: there is none.
type noSeed struct{}

func (noSeed) Read([]byte) (int, error) { return 0, errors.New("a policy has no random source") }
