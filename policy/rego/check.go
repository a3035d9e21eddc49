package rego

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/cover"
	"github.com/open-policy-agent/opa/v1/topdown"

	"github.com/placet-dev/placet/policy"
	"github.com/placet-dev/placet/record"
)

// Problem is one reason for which a test of policies fails.
type Problem struct {
	Kind    string `json:"kind"`              // see the constants
	Fixture string `json:"fixture,omitempty"` // its name
	Place   string `json:"place"`             // where to look
	Message string `json:"message"`
}

// The kinds of problem.
const (
	WrongVerdict   = "verdict"       // a fixture did not get what it wants
	Weakened       = "weakened"      // a fixture got less than was recorded
	Conflict       = "conflict"      // two rules gave different values
	Undecided      = "cannot_decide" // the policy erred, and the fixture did not say so
	MixedOrder     = "mixed_order"   // a string was ordered against a number
	MissingOutcome = "outcome"       // no fixture reaches one of the three outcomes
	UnknownInput   = "input"         // a rule reads a member the input does not have
	RegoTest       = "rego_test"     // a rule test_… of a *_test.rego file failed
)

// Result is what one fixture got.
type Result struct {
	Fixture string         `json:"fixture"`
	Place   string         `json:"place"`
	Want    record.Verdict `json:"want"`
	Got     record.Verdict `json:"got"`
	Code    record.Code    `json:"code"`
	Rules   []string       `json:"rules,omitempty"` // file:line
	Passed  bool           `json:"passed"`
}

// Lines is the coverage of one file.
type Lines struct {
	Covered int     `json:"covered"`
	Missed  []int   `json:"missed,omitempty"` // line numbers
	Percent float64 `json:"percent"`
}

// Report is the outcome of a test of policies. It passed if there is no problem.
type Report struct {
	Results   []Result         `json:"results"`
	RegoTests int              `json:"rego_tests"` // rules test_… that ran
	Coverage  map[string]Lines `json:"coverage"`   // by place of the file
	Problems  []Problem        `json:"problems"`
}

// Passed reports whether nothing is wrong.
func (r *Report) Passed() bool { return len(r.Problems) == 0 }

func (r *Report) problem(kind, fixture, place, format string, args ...any) {
	r.Problems = append(r.Problems, Problem{kind, fixture, place, fmt.Sprintf(format, args...)})
}

// TestLayer tests one layer alone with the fixtures in its own directory,
// whatever calls it is for.
func (e *Engine) TestLayer(ctx context.Context, s Source, timeout time.Duration) (*Report, error) {
	fixtures, err := s.Files.Fixtures()
	if err != nil {
		return nil, err
	}
	s.For, s.Mode = policy.For{}, policy.Enforce
	return e.Test(ctx, []Source{s}, fixtures, timeout)
}

// Test runs fixtures against layers together, and each layer's *_test.rego
// files. A fixture's verdict is the most restrictive of the layers that apply
// to it. An error means that the layers could not be loaded.
func (e *Engine) Test(ctx context.Context, sources []Source, fixtures []Fixture, timeout time.Duration) (*Report, error) {
	t := &trial{report: &Report{Coverage: map[string]Lines{}}, cover: cover.New()}
	var layers []policy.Layer
	for _, s := range sources {
		l, err := e.Load(s)
		if err != nil {
			return nil, err
		}
		t.layers = append(t.layers, l)
		layers = append(layers, &watched{Layer: l, trial: t})
	}
	set, err := policy.NewSet(layers, timeout, anyApprover)
	if err != nil {
		return nil, err
	}
	for _, f := range fixtures {
		t.run(ctx, set, f)
	}
	t.outcomes(fixtures)
	for i, l := range t.layers {
		l.checkInput(t.report)
		if err := l.regoTests(ctx, sources[i].Files, t); err != nil {
			return nil, err
		}
	}
	t.coverage()
	return t.report, nil
}

// anyApprover lets fixtures name approvers that only an installation knows.
func anyApprover(_ *policy.Input, ref string, part *record.ApprovalPart) error {
	if strings.TrimSpace(ref) == "" {
		return fmt.Errorf("an approver is named by a blank text")
	}
	part.Groups = append(part.Groups, record.Group{Name: ref})
	return nil
}

// trial is one run of Test.
type trial struct {
	report  *Report
	layers  []*Layer
	cover   *cover.Cover
	fixture *Fixture
	reached map[record.Verdict]bool
}

// watched is a layer that is explained with coverage and order watched.
type watched struct {
	*Layer
	trial *trial
}

func (w *watched) Evaluate(ctx context.Context, p *policy.Prepared) policy.Opinion {
	o := w.Explain(ctx, p)
	input, err := w.input(p)
	if err != nil {
		return o
	}
	order := &order{report: w.trial.report, fixture: w.trial.fixture}
	_, _ = w.run(ctx, input, p.Input.Time, tracers{w.trial.cover, order})
	return o
}

// tracers is several tracers at once.
type tracers []topdown.QueryTracer

func (t tracers) Enabled() bool               { return true }
func (t tracers) Config() topdown.TraceConfig { return topdown.TraceConfig{PlugLocalVars: true} }
func (t tracers) TraceEvent(e topdown.Event) {
	for _, each := range t {
		each.TraceEvent(e)
	}
}

// run gives one fixture to the layers and judges what it got.
func (t *trial) run(ctx context.Context, set *policy.Set, f Fixture) {
	t.fixture = &f
	opinions := set.Evaluate(ctx, f.Input)
	got := policy.Combine(opinions)
	res := Result{Fixture: f.Name, Place: f.Place, Want: f.Want, Got: got.Verdict, Code: got.Code}
	before := len(t.report.Problems)
	for _, o := range opinions {
		res.Rules = append(res.Rules, o.Places...)
		t.undecided(&f, o)
	}
	undecided := got.Code == record.CodeCannotDecide
	if !undecided {
		t.reach(got.Verdict)
	}
	if got.Verdict != f.Want || f.CannotDecide && !undecided {
		t.report.problem(WrongVerdict, f.Name, f.Place, "wants %s, got %s from %s",
			wanted(f), got.Verdict, orNothing(res.Rules))
	}
	if f.Recorded != "" && got.Verdict.Stricter(f.Recorded) != got.Verdict {
		t.report.problem(Weakened, f.Name, f.Place, "weakened: recorded as %s, now %s", f.Recorded, got.Verdict)
	}
	res.Passed = len(t.report.Problems) == before
	t.report.Results = append(t.report.Results, res)
}

func wanted(f Fixture) string {
	if f.CannotDecide {
		return "deny, because it cannot be decided"
	}
	return string(f.Want)
}

func orNothing(rules []string) string {
	if len(rules) == 0 {
		return "no rule"
	}
	return strings.Join(rules, " ")
}

// undecided reports a layer that erred. A conflict is a mistake whatever the
// fixture wants; other errors may be what it wants.
func (t *trial) undecided(f *Fixture, o policy.Opinion) {
	place := orNothing(o.Places)
	switch {
	case o.Err == nil:
	case topdownCode(o.Err) == topdown.ConflictErr:
		t.report.problem(Conflict, f.Name, place, "rules conflict: %v", o.Err)
	case !f.CannotDecide:
		t.report.problem(Undecided, f.Name, place, "layer %s cannot decide: %v", o.Layer, o.Err)
	}
}

func (t *trial) reach(v record.Verdict) {
	if t.reached == nil {
		t.reached = map[record.Verdict]bool{}
	}
	t.reached[v] = true
}

// outcomes demands that each of the three outcomes was reached by a rule.
func (t *trial) outcomes(fixtures []Fixture) {
	where := "fixtures"
	if len(fixtures) > 0 {
		where, _, _ = strings.Cut(fixtures[0].Place, ",")
	}
	for _, v := range []record.Verdict{record.Allow, record.Deny, record.RequiresApproval} {
		if !t.reached[v] {
			t.report.problem(MissingOutcome, "", where, "no fixture reaches %s; add one that does", v)
		}
	}
}

// coverage counts the lines of rules, without tests.
func (t *trial) coverage() {
	modules := map[string]*ast.Module{}
	for _, l := range t.layers {
		for place, m := range l.modules {
			modules[place] = m
		}
	}
	report := t.cover.Report(modules)
	for place := range modules {
		f := report.Files[place]
		if f == nil {
			continue
		}
		lines := Lines{Covered: f.CoveredLines, Percent: f.Coverage}
		for _, r := range f.NotCovered {
			for row := r.Start.Row; row <= r.End.Row; row++ {
				lines.Missed = append(lines.Missed, row)
			}
		}
		t.report.Coverage[place] = lines
	}
}
