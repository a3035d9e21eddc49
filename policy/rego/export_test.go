package rego

import (
	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/placet-dev/placet/policy"
)

// AnswerOf and Build are for tests.
var AnswerOf = answerOf

// InputSchema is for tests.
const InputSchema = inputSchema

func (e *Engine) Build(in *policy.Input) (*ast.Term, error) {
	v, err := e.build(in)
	if err != nil {
		return nil, err
	}
	return v.(*ast.Term), nil
}
