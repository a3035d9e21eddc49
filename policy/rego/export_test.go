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
	return e.document(in, everything)
}
