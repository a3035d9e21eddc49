package rego_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/placet-dev/placet/policy"
	"github.com/placet-dev/placet/policy/rego"
	"github.com/placet-dev/placet/record"
)

func load(t testing.TB, name string, files map[string]string) *rego.Layer {
	t.Helper()
	l, err := rego.New().Load(source(name, files))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func source(name string, files map[string]string) rego.Source {
	f := rego.Files{}
	for p, s := range files {
		f[p] = []byte(s)
	}
	return rego.Source{Name: name, Files: f}
}

func set(t testing.TB, layers ...policy.Layer) *policy.Set {
	t.Helper()
	s, err := policy.NewSet(layers, time.Second, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func call(tool, args string) *policy.Input {
	return &policy.Input{
		Tool: policy.Tool{Name: tool, Server: "helpdesk", Version: "sha256:00"},
		Args: []byte(args),
		Principal: policy.Principal{
			Principal: record.Principal{Issuer: "https://login.example.com", Subject: "anna"},
			Tenant:    "acme", Scopes: []string{"tickets:read", "refunds:write"}, GroupsKnown: true,
			Groups: []record.Group{{Issuer: "https://login.example.com", Name: "support"}},
		},
		Agent: policy.Agent{ID: "support-bot"},
		Run:   policy.Run{ID: "run_1", Turn: 1},
		Call:  policy.Call{ID: "call_1", Source: record.Direct, Route: record.RouteAPI},
		Env:   "production",
		Time:  time.Date(2026, 10, 12, 14, 2, 0, 0, time.UTC),
	}
}

func brief(t testing.TB) *rego.Layer {
	t.Helper()
	text, err := os.ReadFile("testdata/brief.rego")
	if err != nil {
		t.Fatal(err)
	}
	return load(t, "brief", map[string]string{"brief.rego": string(text)})
}

// The file printed in the third brief runs unmodified.
func TestBriefFile(t *testing.T) {
	text, err := os.ReadFile("../../../shared/brief/3-verdict-is-a-step-in-the-run.txt")
	mine, _ := os.ReadFile("testdata/brief.rego")
	switch {
	case err != nil:
		t.Log("the brief is not here; its file is taken from testdata")
	case !strings.Contains(string(text), strings.TrimSpace(string(mine))):
		t.Fatal("testdata/brief.rego differs from the file in the brief")
	}
	s := set(t, brief(t))
	for _, c := range []struct {
		name, tool, args string
		verdict          record.Verdict
		code             record.Code
		public, place    string
	}{
		{"read", "db.query", `{"sql":"select 1"}`, record.Allow, "", "", "brief/brief.rego:12"},
		{"other read", "git.log", `{}`, record.Allow, "", "", "brief/brief.rego:12"},
		{"private address", "http.post", `{"host":"10.0.4.7"}`, record.Deny, record.CodePolicyDenied, "private net, use proxy", "brief/brief.rego:19"},
		{"public address", "http.post", `{"host":"192.0.2.1"}`, record.Deny, record.CodePolicyDenied, "no rule for this call", "brief/brief.rego:5"},
		{"large refund", "stripe.refund", `{"amount":1200}`, record.RequiresApproval, record.CodePolicyAsks, "refund over 500", "brief/brief.rego:29"},
		{"small refund", "stripe.refund", `{"amount":500}`, record.Deny, record.CodePolicyDenied, "no rule for this call", "brief/brief.rego:5"},
		{"unnamed tool", "delete_file", `{}`, record.Deny, record.CodePolicyDenied, "no rule for this call", "brief/brief.rego:5"},
		{"host name", "http.post", `{"host":"example.com"}`, record.Deny, record.CodeCannotDecide, "", "brief/brief.rego:25"},
		{"hexadecimal host", "http.post", `{"host":"0x0a000407"}`, record.Deny, record.CodeCannotDecide, "", "brief/brief.rego:25"},
		{"trailing dot", "http.post", `{"host":"10.0.4.7."}`, record.Deny, record.CodeCannotDecide, "", "brief/brief.rego:25"},
		{"host is no string", "http.post", `{"host":7}`, record.Deny, record.CodeCannotDecide, "", "brief/brief.rego:25"},
	} {
		t.Run(c.name, func(t *testing.T) {
			opinions := s.Evaluate(context.Background(), call(c.tool, c.args))
			got := policy.Combine(opinions)
			if got.Verdict != c.verdict || got.Code != c.code {
				t.Fatalf("got %s %q (%v), want %s %q", got.Verdict, got.Code, opinions[0].Err, c.verdict, c.code)
			}
			r := got.Reasons[0]
			if r.Public != c.public || r.Place != c.place || r.Rule != "layer brief" {
				t.Errorf("reason is %+v, want %q at %s", r, c.public, c.place)
			}
		})
	}
}
