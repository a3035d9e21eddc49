package rego

import (
	"maps"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
)

// Reads implements policy.Reading. Whoever uses the input as a whole, or names a
// member by a variable, reads "input".
func (l *Layer) Reads() []string {
	found := map[string]bool{}
	for _, m := range l.compiler.Modules {
		ast.WalkTerms(m, func(t *ast.Term) bool {
			switch v := t.Value.(type) {
			case ast.Var:
				if v.Equal(ast.InputRootDocument.Value) {
					found["input"] = true
				}
			case ast.Ref:
				if len(v) == 0 || !v[0].Equal(ast.InputRootDocument) {
					return false
				}
				found[member(v)] = true
				for _, within := range v[1:] {
					if _, plain := within.Value.(ast.String); !plain {
						return false // it may hold references of its own, and the input itself is noted once more
					}
				}
				return true
			}
			return false
		})
	}
	return slices.Sorted(maps.Keys(found))
}

// member is the path of what a reference reads, two names deep.
func member(r ast.Ref) string {
	path := ""
	for _, t := range r[1:min(len(r), 3)] {
		name, ok := t.Value.(ast.String)
		if !ok {
			break
		}
		if path != "" {
			path += "."
		}
		path += string(name)
	}
	if path == "" {
		return "input"
	}
	return path
}
