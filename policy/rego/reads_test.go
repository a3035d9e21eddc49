package rego_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/placet-dev/placet/policy/rego"
)

// What a layer reads of the input is never less than its rules mention.
func TestReads(t *testing.T) {
	for rule, want := range map[string][]string{
		`decision := "allow" if input.args.path == "x"`:                    {"args.path"},
		`decision := "allow" if { p := input.principal; "a" in p.scopes }`: {"principal"},
		`decision := "allow" if input.principal.scopes[_] == "a"`:          {"principal.scopes"},
		`decision := "allow" if input[x] == 1`:                             {"input"},
		`decision := "allow" if count(input) > 1`:                          {"input"},
		`decision := "allow" if input.args[input.call.source] == 1`:        {"args", "call.source"},
		`decision := "allow" if every s in input.run.labels { s != "a" }`:  {"run.labels"},
		`decision := "allow"`:                                              {},
	} {
		l, err := rego.New().Load(rego.Source{Name: "x", Files: rego.Files{"main.rego": []byte("package agent.call\nimport rego.v1\n" + rule + "\n")}})
		if err != nil {
			t.Fatalf("%s: %v", rule, err)
		}
		got := l.Reads()
		if len(got) == 0 {
			got = []string{}
		}
		for _, w := range want {
			found := false
			for _, g := range got {
				found = found || g == w
			}
			if !found {
				t.Errorf("%s reads %v, want %v\n%s", rule, got, want, cmp.Diff(want, got))
			}
		}
	}
}
