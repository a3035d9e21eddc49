package rego

import (
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
)

// need is a set of the input's members.
type need uint32

const everything = ^need(0)

// members are the input's members in the order of their bits. What a layer's rules
// never mention need not be built for it: it cannot be seen.
var members = [...]string{"version", "tool", "args", "amounts", "principal", "agent", "run", "call", "targets",
	"origins", "approval", "limits", "env", "time"}

const (
	needVersion need = 1 << iota
	needTool
	needArgs
	needAmounts
	needPrincipal
	needAgent
	needRun
	needCall
	needTargets
	needOrigins
	needApproval
	needLimits
	needEnv
	needTime
)

// needsOf says which members of the input the modules can read. Whoever uses the
// input as a whole, or names a member by a variable, can read everything.
func needsOf(modules map[string]*ast.Module) need {
	var n need
	for _, m := range modules {
		ast.WalkTerms(m, func(t *ast.Term) bool {
			switch v := t.Value.(type) {
			case ast.Var:
				if v.Equal(ast.InputRootDocument.Value) {
					n = everything
				}
			case ast.Ref:
				n |= needOf(v)
				return true // needOf walked the terms within
			}
			return n == everything
		})
	}
	return n
}

// needOf is what one reference reads of the input, with what its own terms read.
func needOf(r ast.Ref) need {
	var n need
	rest := r
	if len(r) > 0 && r[0].Equal(ast.InputRootDocument) {
		name := ast.String("")
		if len(r) > 1 {
			name, _ = r[1].Value.(ast.String)
		}
		i := slices.Index(members[:], string(name))
		if len(r) == 1 || name == "" {
			return everything
		}
		if i >= 0 { // another name is no member, and so never there
			n |= 1 << i
		}
		rest = r[2:]
	}
	for _, t := range rest {
		switch v := t.Value.(type) {
		case ast.Ref:
			n |= needOf(v)
		case ast.Var:
			if v.Equal(ast.InputRootDocument.Value) {
				return everything
			}
		case ast.String, ast.Number, ast.Boolean, ast.Null:
		default:
			ast.WalkTerms(t, func(u *ast.Term) bool {
				switch v := u.Value.(type) {
				case ast.Ref:
					n |= needOf(v)
					return true
				case ast.Var:
					if v.Equal(ast.InputRootDocument.Value) {
						n = everything
					}
				}
				return n == everything
			})
		}
	}
	return n
}
