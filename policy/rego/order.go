package rego

import (
	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// order watches for comparisons that order values of different types. In Rego
// every string is above every number: "60.00" > 500 is true, and so is
// "1" > 500, and a limit written as < never holds for it.
type order struct {
	report  *Report
	fixture *Fixture
}

func (o *order) Enabled() bool               { return true }
func (o *order) Config() topdown.TraceConfig { return topdown.TraceConfig{PlugLocalVars: true} }

func (o *order) TraceEvent(e topdown.Event) {
	expr, ok := e.Node.(*ast.Expr)
	if !ok || e.Op != topdown.EvalOp || !expr.IsCall() || !isOrdering(expr.Operator()) {
		return
	}
	operands := expr.Operands()
	if len(operands) < 2 {
		return
	}
	a, b := valueOf(&e, operands[0]), valueOf(&e, operands[1])
	if a == nil || b == nil || ast.ValueName(a) == ast.ValueName(b) {
		return
	}
	at := orNothing(places(expr.Location))
	for _, p := range o.report.Problems {
		if p.Kind == MixedOrder && p.Place == at && p.Fixture == o.fixture.Name {
			return
		}
	}
	o.report.problem(MixedOrder, o.fixture.Name, at,
		"orders %s against %s, which goes by type and not by size; use input.amounts, or to_number", ast.ValueName(a), ast.ValueName(b))
}

func isOrdering(op ast.Ref) bool {
	for _, b := range [...]*ast.Builtin{ast.GreaterThan, ast.GreaterThanEq, ast.LessThan, ast.LessThanEq} {
		if op.Equal(b.Ref()) {
			return true
		}
	}
	return false
}

// valueOf is the value of an operand, nil when it is not known at this point.
func valueOf(e *topdown.Event, t *ast.Term) ast.Value {
	switch v := t.Value.(type) {
	case ast.Var:
		if e.Locals == nil {
			return nil
		}
		return concrete(e.Locals.Get(v))
	case ast.Ref:
		return nil
	default:
		return concrete(v)
	}
}

func concrete(v ast.Value) ast.Value {
	switch v.(type) {
	case nil, ast.Var, ast.Ref:
		return nil
	}
	return v
}
