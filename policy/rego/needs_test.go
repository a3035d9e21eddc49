package rego

import (
	"testing"
	"time"

	"github.com/placet-dev/placet/policy"
	"github.com/placet-dev/placet/record"
)

// TestNeedsOf: a member that some rule can read is built, however it is reached.
func TestNeedsOf(t *testing.T) {
	const head = "package agent.call\nimport rego.v1\n"
	for body, want := range map[string]need{
		`decision := "allow"`:                                                             0,
		`decision := "allow" if input.tool.name == "x"`:                                   needTool,
		`decision := "allow" if input["args"].n > input.limits.autonomous`:                needArgs | needLimits,
		`decision := "allow" if input.args[input.tool.name]`:                              needArgs | needTool,
		`decision := "allow" if data.names[input.agent.id]`:                               needAgent,
		`decision := "allow" if { x := input; x.tool.name == "y" }`:                       everything,
		`decision := "allow" if { some k; input[k] == 1 }`:                                everything,
		`decision := "allow" if count(input) > 1`:                                         everything,
		`decision := "allow" if { walk(input, [p, v]); v == 1 }`:                          everything,
		`decision := "allow" if { k := "tool"; input[k].name == "x" }`:                    everything,
		`decision := {"decision": "allow", "reason": input.env.name}`:                     needEnv,
		`decision := "allow" if { some s in input.principal.scopes; s == "x" }`:           needPrincipal,
		`decision := "allow" if every t in input.targets { t.kind == "order" }`:           needTargets,
		`decision := "allow" if count([1 | input.run.labels[_] == "untrusted"]) == 0`:     needRun,
		`f(x) := x.call.source`:                                                           0,
		"decision := f(input.call)\nf(x) := x.source":                                     needCall,
		`decision := "allow" if object.get(input, ["tool", "name"], "") == "x"`:           everything,
		`decision := "allow" if { t := input.time; time.parse_rfc3339_ns(t) > 0 }`:        needTime,
		`decision := "allow" if not input.approval.state`:                                 needApproval,
		`decision := "allow" if input.nothing`:                                            0,
		`decision := "allow" if d with input.origins as {}` + "\n" + `d if input.origins`: needOrigins,
	} {
		text := head + body
		if body[0] == 'f' {
			text += "\ndecision := \"deny\""
		}
		l, err := New().Load(Source{Name: "one", Files: Files{"main.rego": []byte(text)}})
		if err != nil {
			t.Errorf("%s: %v", body, err)
			continue
		}
		if got := needsOf(l.compiler.Modules); got != want {
			t.Errorf("%s\nneeds %b, want %b", body, got, want)
		}
	}
}

// TestWhatIsNotNeededIsNotMissed: every answer is the same whether the whole input
// is built or only what can be read of it.
func TestWhatIsNotNeededIsNotMissed(t *testing.T) {
	in := &policy.Input{Tool: policy.Tool{Name: "stripe.refund", Server: "desk", Version: "v"}, Args: []byte(`{"amount":1200,"host":"10.0.4.7"}`),
		Principal: policy.Principal{Principal: record.Principal{Issuer: "i", Subject: "anna"}, Tenant: "acme", Scopes: []string{"x"}},
		Agent:     policy.Agent{ID: "bot"}, Env: "production", Time: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)}
	brief, err := ReadFiles("testdata/brief.rego")
	if err != nil {
		t.Fatal(err)
	}
	template, err := Template()
	if err != nil {
		t.Fatal(err)
	}
	for name, files := range map[string]Files{"brief": brief, "template": template} {
		for _, tool := range []string{"db.query", "http.post", "stripe.refund", "other"} {
			in.Tool.Name = tool
			lean, whole := New(), New()
			whole.needs.Store(uint32(everything))
			var got [2]policy.Opinion
			for i, e := range []*Engine{lean, whole} {
				l, err := e.Load(Source{Name: name, Files: files})
				if err != nil {
					t.Fatal(err)
				}
				got[i] = l.Evaluate(t.Context(), policy.Prepare(in))
			}
			if got[0].Verdict != got[1].Verdict || got[0].Reason != got[1].Reason || (got[0].Err == nil) != (got[1].Err == nil) {
				t.Errorf("%s, %s: %+v with what is needed, %+v with everything", name, tool, got[0], got[1])
			}
		}
	}
}
