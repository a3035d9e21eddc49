package rego

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/storage/inmem"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/policy"
	"github.com/placet-dev/placet/record"
)

// DefaultQuery is a layer's entry point unless its configuration names another.
const DefaultQuery = "data.agent.call.decision"

// Source is one layer as configured.
type Source struct {
	Name  string
	Files Files
	Query string // empty: DefaultQuery
	Mode  policy.Mode
	For   policy.For
}

// Layer is one compiled layer. It is immutable and safe for concurrent use.
type Layer struct {
	engine   *Engine
	name     string
	mode     policy.Mode
	fits     policy.For
	version  canon.Digest
	entry    ast.Ref
	modules  map[string]*ast.Module // by place, "support/main.rego"
	data     map[string]any
	compiler *ast.Compiler
	query    ast.Body
	store    storage.Store
}

var _ interface {
	policy.Layer
	policy.Explainer
} = (*Layer)(nil)

func (l *Layer) Name() string          { return l.name }
func (l *Layer) Version() canon.Digest { return l.version }
func (l *Layer) Mode() policy.Mode     { return l.mode }
func (l *Layer) For() policy.For       { return l.fits }

// Load compiles one layer, alone. Its error names file and line.
func (e *Engine) Load(s Source) (*Layer, error) {
	l, err := e.load(s)
	if err != nil {
		return nil, record.Errorf(record.Invalid, "policy layer %q: %w", s.Name, err)
	}
	return l, nil
}

func (e *Engine) load(s Source) (*Layer, error) {
	if s.Query == "" {
		s.Query = DefaultQuery
	}
	l := &Layer{engine: e, name: s.Name, mode: s.Mode, fits: s.For, version: s.Files.version(s.Query)}
	var err error
	if l.entry, err = entryPoint(s.Query); err != nil {
		return nil, err
	}
	if l.modules, err = s.Files.parse(s.Name, isPolicy); err != nil {
		return nil, err
	}
	if len(l.modules) == 0 {
		return nil, errors.New("no .rego file")
	}
	if l.data, err = s.Files.data(); err != nil {
		return nil, err
	}
	l.store = inmem.NewFromObjectWithOpts(l.data, inmem.OptReturnASTValuesOnRead(true))
	if l.compiler, err = l.compile(l.modules); err != nil {
		return nil, err
	}
	e.needs.Or(uint32(needsOf(l.compiler.Modules)))
	return l, l.prepare()
}

// entryPoint reads a query such as data.agent.call.decision: a path below data.
func entryPoint(query string) (ast.Ref, error) {
	ref, err := ast.ParseRef(query)
	if err != nil || len(ref) < 2 || !ref.HasPrefix(ast.DefaultRootRef) || !ref.IsGround() {
		return nil, fmt.Errorf("query %q is not a path such as %s", query, DefaultQuery)
	}
	return ref, nil
}

// parse returns the modules of the files that keep accepts, by their place.
func (f Files) parse(layer string, keep func(string) bool) (map[string]*ast.Module, error) {
	modules := map[string]*ast.Module{}
	for _, p := range f.pick(keep) {
		place := layer + "/" + p
		m, err := ast.ParseModuleWithOpts(place, string(f[p]), ast.ParserOptions{
			RegoVersion: ast.RegoV1, Capabilities: capabilities(), ProcessAnnotation: true})
		if err != nil {
			return nil, err
		}
		if m == nil {
			return nil, fmt.Errorf("%s: the file is empty", place)
		}
		modules[place] = m
	}
	return modules, nil
}

// compile makes a compiler for modules over the layer's own data. Rules and
// data that claim the same path are an error.
func (l *Layer) compile(modules map[string]*ast.Module) (*ast.Compiler, error) {
	ctx := context.Background()
	txn, err := l.store.NewTransaction(ctx)
	if err != nil {
		return nil, err
	}
	defer l.store.Abort(ctx, txn)
	c := ast.NewCompiler().
		WithCapabilities(capabilities()).
		WithDefaultRegoVersion(ast.RegoV1).
		WithPathConflictsCheck(storage.NonEmpty(ctx, l.store, txn))
	if c.Compile(modules); c.Failed() {
		return nil, c.Errors
	}
	return c, nil
}

// prepare checks the entry point and compiles the query for it.
func (l *Layer) prepare() error {
	rules := l.compiler.GetRulesExact(l.entry)
	if len(rules) == 0 {
		return fmt.Errorf("no rule %s; name the layer's own entry point with query", l.entry)
	}
	for _, r := range rules {
		if len(r.Head.Args) > 0 {
			return fmt.Errorf("%s: %s is a function, the entry point must be a rule", r.Location, l.entry)
		}
	}
	q := ast.NewBody(ast.Equality.Expr(ast.VarTerm(string(answer)), ast.NewTerm(l.entry)))
	var err error
	l.query, err = l.compiler.QueryCompiler().Compile(q)
	return err
}

// answer is the variable that the query binds.
const answer = ast.Var("answer")

// places renders locations as file:line, without repeats.
func places(locations ...*ast.Location) []string {
	var out []string
	seen := map[string]bool{}
	for _, at := range locations {
		if at == nil || at.File == "" {
			continue
		}
		if p := fmt.Sprintf("%s:%d", at.File, at.Row); !seen[p] {
			seen[p] = true
			out = append(out, p)
		}
	}
	return out
}

// within reports whether the place lies in the layer's own files.
func (l *Layer) within(at *ast.Location) bool {
	return at != nil && strings.HasPrefix(at.File, l.name+"/")
}
