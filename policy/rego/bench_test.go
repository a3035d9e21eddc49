package rego_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	oparego "github.com/open-policy-agent/opa/v1/rego"

	"github.com/placet-dev/placet/policy"
	"github.com/placet-dev/placet/policy/rego"
	"github.com/placet-dev/placet/record"
)

// BenchmarkDecision prints decision_vs_opa: one whole decision of ours (input
// built, layer evaluated, opinions combined) against a prepared plain OPA
// EvalInput of the same document, which is given to OPA ready decoded.
func BenchmarkDecision(b *testing.B) {
	b.Run("opa", func(b *testing.B) { benchOPA(b, refund()) })
	b.Run("placet", func(b *testing.B) { benchPlacet(b, 1, refund()) })
}

// BenchmarkDecisionTools prints how a decision's time grows with the number of
// tools that are called in turn.
func BenchmarkDecisionTools(b *testing.B) {
	for _, n := range []int{10, 5000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) { benchPlacet(b, 1, toolsOf(n)...) })
	}
}

func BenchmarkThreeLayers(b *testing.B) { benchPlacet(b, 3, refund()) }

func BenchmarkParallel(b *testing.B) {
	s, in := set(b, brief(b)), refund()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			policy.Combine(s.Evaluate(context.Background(), in))
		}
	})
}

// TestDecisionVersusOPA prints and asserts the two ratios that must hold. Each
// is of the best of several rounds taken in turn, since a machine may be shared.
func TestDecisionVersusOPA(t *testing.T) {
	if os.Getenv("PLACET_BENCH") == "" {
		t.Skip("a measurement; set PLACET_BENCH=1")
	}
	opa, ours := preparedOPA(t), set(t, brief(t))
	doc, in := document(t, refund()), refund()
	vs := ratio(20, 100,
		func(int) { opaOnce(t, opa, doc) },
		func(int) { ourOnce(t, ours, in) })
	fmt.Printf("bench: decision_vs_opa ratio=%.2f\n", vs)
	few, many := toolsOf(10), toolsOf(5000)
	growth := ratio(10, 5000,
		func(i int) { ourOnce(t, ours, few[i%len(few)]) },
		func(i int) { ourOnce(t, ours, many[i%len(many)]) })
	fmt.Printf("bench: decision_5000_tools_vs_10 ratio=%.2f\n", growth)
	if vs > 1.0 || growth > 1.3 {
		t.Errorf("decision_vs_opa %.2f must be at most 1.0, 5,000 tools %.2f at most 1.3", vs, growth)
	}
}

// ratio returns the shortest time of b divided by the shortest of a.
func ratio(rounds, calls int, a, b func(int)) float64 {
	shortest := [2]time.Duration{1 << 62, 1 << 62}
	for range rounds {
		for i, f := range [2]func(int){a, b} {
			start := time.Now()
			for n := range calls {
				f(n)
			}
			shortest[i] = min(shortest[i], time.Since(start))
		}
	}
	return float64(shortest[1]) / float64(shortest[0])
}

func refund() *policy.Input {
	in := call("stripe.refund", `{"amount":1200,"currency":"EUR","order_id":"ord_1001"}`)
	in.Tool.Flags = policy.Flags{Write: true, Destructive: true, Financial: true}
	in.Tool.Annotations = []byte(`{"destructiveHint":true,"title":"Refund"}`)
	in.Principal.Claims = []byte(`{"department":"support","level":3}`)
	in.Targets = []policy.Target{{Argument: "order_id", Kind: "order", Value: "ord_1001"}}
	in.Amounts = map[string]string{"amount": "1200.00"}
	return in
}

func toolsOf(n int) []*policy.Input {
	out := make([]*policy.Input, n)
	for i := range out {
		out[i] = refund()
		out[i].Tool.Name = fmt.Sprintf("tool.number%d", i)
	}
	return out
}

func document(t testing.TB, in *policy.Input) any {
	t.Helper()
	text, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	var doc any
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

func preparedOPA(t testing.TB) oparego.PreparedEvalQuery {
	t.Helper()
	text, err := os.ReadFile("testdata/brief.rego")
	if err != nil {
		t.Fatal(err)
	}
	q, err := oparego.New(oparego.Query("data.agent.call.decision"), oparego.Module("brief.rego", string(text))).
		PrepareForEval(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func opaOnce(t testing.TB, q oparego.PreparedEvalQuery, doc any) {
	rs, err := q.Eval(context.Background(), oparego.EvalInput(doc))
	if err != nil || len(rs) != 1 {
		t.Fatal(rs, err)
	}
}

func ourOnce(t testing.TB, s *policy.Set, in *policy.Input) {
	if got := policy.Combine(s.Evaluate(context.Background(), in)); got.Code == record.CodeCannotDecide {
		t.Fatalf("%+v", got.Reasons)
	}
}

func benchOPA(b *testing.B, in *policy.Input) {
	q, doc := preparedOPA(b), document(b, in)
	b.ReportAllocs()
	for b.Loop() {
		opaOnce(b, q, doc)
	}
}

func benchPlacet(b *testing.B, layers int, inputs ...*policy.Input) {
	text, err := os.ReadFile("testdata/brief.rego")
	if err != nil {
		b.Fatal(err)
	}
	engine := rego.New()
	var all []policy.Layer
	for i := range layers {
		l, err := engine.Load(source(fmt.Sprintf("layer%d", i), map[string]string{"main.rego": string(text)}))
		if err != nil {
			b.Fatal(err)
		}
		all = append(all, l)
	}
	s := set(b, all...)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		ourOnce(b, s, inputs[i%len(inputs)])
		i++
	}
}
