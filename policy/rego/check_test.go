package rego_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/placet-dev/placet/policy"
	"github.com/placet-dev/placet/policy/rego"
)

func test(t *testing.T, files rego.Files) *rego.Report {
	t.Helper()
	r, err := rego.New().TestLayer(context.Background(), rego.Source{Name: "support", Files: files}, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func clean(t *testing.T, r *rego.Report) {
	t.Helper()
	for _, p := range r.Problems {
		t.Errorf("%s %s: %s: %s", p.Kind, p.Fixture, p.Place, p.Message)
	}
	for file, c := range r.Coverage {
		if len(c.Missed) > 0 {
			t.Errorf("%s: lines %v are not covered", file, c.Missed)
		}
	}
	if len(r.Coverage) == 0 || len(r.Results) == 0 {
		t.Error("nothing was covered")
	}
}

// What `policy new` leaves passes its own tests and covers its own lines.
func TestTemplate(t *testing.T) {
	files, err := rego.Template()
	if err != nil {
		t.Fatal(err)
	}
	r := test(t, files)
	clean(t, r)
	if r.RegoTests != 2 {
		t.Errorf("%d rules of main_test.rego ran, want 2", r.RegoTests)
	}
}

func TestDemoPolicy(t *testing.T) {
	files, err := rego.ReadFiles("../../demo/policy")
	if err != nil {
		t.Fatal(err)
	}
	clean(t, test(t, files))
}

const threeOutcomes = `
- {name: a, input: {tool: {name: a}}, want: allow}
- {name: b, input: {tool: {name: b}}, want: deny}
- {name: c, input: {tool: {name: c}}, want: requires-approval}
`

const threeRules = `package agent.call
default decision := "deny"
decision := "allow" if input.tool.name == "a"
decision := "requires-approval" if input.tool.name == "c"
`

func TestTestFinds(t *testing.T) {
	for _, c := range []struct{ name, policy, fixtures, kind, place, message string }{
		{"nothing, when all is well", threeRules, threeOutcomes, "", "", ""},
		{"a wrong verdict", threeRules,
			threeOutcomes + `- {name: d, input: {tool: {name: d}}, want: allow}`,
			rego.WrongVerdict, "fixtures/f.yaml, fixture 4", "wants allow, got deny"},
		{"a weakening", threeRules,
			threeOutcomes + `- {name: was paused, input: {tool: {name: a}}, want: allow, recorded: requires-approval}`,
			rego.Weakened, "fixtures/f.yaml, fixture 4", "recorded as requires-approval, now allow"},
		{"a conflict", threeRules + `decision := "deny" if input.args.bad`,
			threeOutcomes + `- {name: d, input: {tool: {name: a}, args: {bad: true}}, want: deny, cannot_decide: true}`,
			rego.Conflict, "support/main.rego:3 support/main.rego:5", "conflict"},
		{"an error", threeRules + `decision := "deny" if net.cidr_contains("10.0.0.0/8", input.args.host)`,
			threeOutcomes + `- {name: d, input: {tool: {name: d}, args: {host: example.com}}, want: deny}`,
			rego.Undecided, "support/main.rego:5", "cannot decide"},
		{"a missing outcome", threeRules, `[{name: b, input: {tool: {name: b}}, want: deny}, {name: a, input: {tool: {name: a}}, want: allow}]`,
			rego.MissingOutcome, "fixtures/f.yaml", "no fixture reaches requires-approval"},
		{"an order of text and number", threeRules + `decision := "requires-approval" if { input.tool.name == "r"; input.args.amount > 500 }`,
			threeOutcomes + `- {name: r, input: {tool: {name: r}, args: {amount: "60.00"}}, want: requires-approval}`,
			rego.MixedOrder, "support/main.rego:5", "orders string against number"},
		{"such an order behind a function", threeRules + "above(x, y) if x >= y\n" + `decision := "requires-approval" if { input.tool.name == "r"; not above(500, input.args.amount) }`,
			threeOutcomes + `- {name: r, input: {tool: {name: r}, args: {amount: "60.00"}}, want: requires-approval}`,
			rego.MixedOrder, "support/main.rego:5", "orders number against string"},
		{"a member that the input has not", threeRules + `decision := "deny" if input.tol.name == "x"`, threeOutcomes,
			rego.UnknownInput, "support/main.rego:5", "input.tol"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := test(t, rego.Files{"main.rego": []byte(c.policy), "fixtures/f.yaml": []byte(c.fixtures)})
			if c.kind == "" {
				clean(t, r)
				return
			}
			if len(r.Problems) != 1 {
				t.Fatalf("got %d problems, want one: %+v", len(r.Problems), r.Problems)
			}
			if p := r.Problems[0]; p.Kind != c.kind || p.Place != c.place || !strings.Contains(p.Message, c.message) {
				t.Errorf("got %+v, want %s at %s: %s", p, c.kind, c.place, c.message)
			}
		})
	}
}

func TestTestRunsRegoTests(t *testing.T) {
	r := test(t, rego.Files{
		"main.rego": []byte(threeRules), "fixtures/f.yaml": []byte(threeOutcomes),
		"main_test.rego": []byte("package agent.call_test\nimport data.agent.call\ntest_wrong if call.decision == \"allow\" with input.tool.name as \"b\"\ntest_right if call.decision == \"allow\" with input.tool.name as \"a\"\n"),
	})
	if r.RegoTests != 2 || len(r.Problems) != 1 || r.Problems[0].Kind != rego.RegoTest || r.Problems[0].Place != "support/main_test.rego:3" {
		t.Fatalf("%d tests ran, problems %+v", r.RegoTests, r.Problems)
	}
}

// Coverage names the line of the rule that no fixture reached.
func TestTestCoverage(t *testing.T) {
	r := test(t, rego.Files{
		"main.rego":       []byte(threeRules + "decision := \"deny\" if {\n\tinput.tool.name == \"never\"\n\tinput.args.x\n}\n"),
		"fixtures/f.yaml": []byte(threeOutcomes),
	})
	c := r.Coverage["support/main.rego"]
	if len(c.Missed) == 0 || c.Missed[0] < 5 || c.Percent >= 100 {
		t.Fatalf("coverage is %+v", c)
	}
}

// A layer's tests and fixtures are no part of it.
func TestTestsAreNotPolicy(t *testing.T) {
	plain := load(t, "support", map[string]string{"main.rego": threeRules})
	full := load(t, "support", map[string]string{
		"main.rego":      threeRules,
		"main_test.rego": "package agent.call\ndecision := \"allow\" if input.tool.name == \"b\"\n",
		// A data file below fixtures is a fixture.
		"fixtures/data.json":  `{"x": 1}`,
		"fixtures/other.rego": "package agent.call\ndecision := \"allow\" if input.tool.name == \"b\"\n",
	})
	if plain.Version() != full.Version() {
		t.Error("the version depends on tests")
	}
	if got := policy.Combine(set(t, full).Evaluate(context.Background(), call("b", `{}`))); got.Verdict != "deny" {
		t.Errorf("a rule in a test file decided: %s", got.Verdict)
	}
}

func FuzzParseFixtures(f *testing.F) {
	f.Add("f.yaml", threeOutcomes)
	f.Add("f.json", `{"name":"a","input":{"args":{"a":[1,null,{"b":"c"}]}},"want":"deny","cannot_decide":true}`)
	f.Add("f.yaml", "- name: a\n  want: maybe\n")
	f.Add("f.yaml", "a: &a [*a]\n")
	f.Add("f.json", `{"name":"a","name":"b","want":"allow"}`)
	f.Fuzz(func(t *testing.T, name, text string) {
		fixtures, err := rego.ParseFixtures(name, []byte(text))
		if err != nil {
			return
		}
		for _, x := range fixtures {
			if x.Name == "" || x.Input == nil || (x.Want != "allow" && x.Want != "deny" && x.Want != "requires-approval") {
				t.Fatalf("accepted %+v", x)
			}
			if !json.Valid(x.Input.Args) || x.Input.Args[0] != '{' {
				t.Fatalf("arguments are %q", x.Input.Args)
			}
		}
	})
}

func TestFixturesRefuse(t *testing.T) {
	for _, text := range []string{
		`{"want":"allow"}`,
		`{"name":"a","want":"maybe"}`,
		`{"name":"a","want":"allow","wants":"deny"}`,
		`{"name":"a","want":"allow","recorded":"ok"}`,
		`{"name":"a","want":"allow","cannot_decide":true}`,
		`{"name":"a","name":"a","want":"allow"}`,
		`{"name":"a","want":"allow","input":{"tol":{}}}`,
		`{"name":"a","want":"allow","input":{"args":[]}}`,
		`{"name":"a","want":"allow","input":{"tool":{"flags":{"raed":true}}}}`,
		`[1]`, `1`, ``, `{`,
	} {
		if _, err := rego.ParseFixtures("f.json", []byte(text)); err == nil {
			t.Errorf("accepted %s", text)
		}
	}
}
