package rego

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/tester"
)

// regoTests runs the layer's *_test.rego files with OPA's own tester, under
// the same built-ins and the same strictness as the layer.
func (l *Layer) regoTests(ctx context.Context, files Files, t *trial) error {
	tests, err := files.parse(l.name, isTest)
	if err != nil || len(tests) == 0 {
		return err
	}
	modules := maps.Clone(l.modules)
	maps.Copy(modules, tests)
	txn, err := l.store.NewTransaction(ctx)
	if err != nil {
		return err
	}
	defer l.store.Abort(ctx, txn)
	results, err := tester.NewRunner().
		SetCompiler(ast.NewCompiler().WithCapabilities(capabilities()).WithDefaultRegoVersion(ast.RegoV1)).
		SetStore(l.store).
		SetModules(modules).
		SetParallel(1).
		SetTimeout(5*time.Second).
		RaiseBuiltinErrors(true).
		SetCoverageQueryTracer(t.cover).
		RunTests(ctx, txn)
	if err != nil {
		return fmt.Errorf("policy layer %q: %w", l.name, err)
	}
	for r := range results {
		t.report.RegoTests++
		if r.Pass() || r.Skip {
			continue
		}
		message := "the test is not true"
		if r.Error != nil {
			message = r.Error.Error()
		}
		t.report.problem(RegoTest, r.Name, orNothing(places(r.Location)), "%s", message)
	}
	return nil
}
