package rego

import (
	"sync/atomic"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/metrics"
)

// Engine compiles layers and builds their input. Layers of one engine share
// one built input in each evaluation, and the parts of it that seldom change
// from one call to the next. It is safe for concurrent use.
type Engine struct {
	tools      *cache
	principals *cache
	metrics    metrics.Metrics
	needs      atomic.Uint32 // members of the input that some layer can read; only grows
	names      names
	empty      empties
}

// empties are the parts of an input that have nothing in them.
type empties struct{ object, array, null, text *ast.Term }

// Bounds of the caches, in entries. A tool that falls out is built again.
const (
	cachedTools      = 8192
	cachedPrincipals = 4096
)

// New makes an engine.
func New() *Engine {
	return &Engine{
		tools:      newCache(cachedTools),
		principals: newCache(cachedPrincipals),
		metrics:    metrics.NoOp(),
		names:      newNames(),
		empty: empties{
			object: ast.ObjectTerm(), array: ast.ArrayTerm(), null: ast.NullTerm(), text: ast.StringTerm(""),
		},
	}
}
