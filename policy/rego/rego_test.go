package rego_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/placet-dev/placet/policy"
	"github.com/placet-dev/placet/policy/rego"
	"github.com/placet-dev/placet/record"
)

func decide(t testing.TB, in *policy.Input, layers ...policy.Layer) (policy.Combined, []policy.Opinion) {
	t.Helper()
	s, err := policy.NewSet(layers, 2*time.Second, groups)
	if err != nil {
		t.Fatal(err)
	}
	o := s.Evaluate(context.Background(), in)
	return policy.Combine(o), o
}

// groups resolves group:NAME only.
func groups(in *policy.Input, ref string, part *record.ApprovalPart) error {
	name, ok := strings.CutPrefix(ref, "group:")
	if !ok {
		return errors.New("is not a group")
	}
	part.Groups = append(part.Groups, record.Group{Issuer: in.Principal.Issuer, Name: name})
	return nil
}

func rule(body string) map[string]string {
	return map[string]string{"main.rego": "package agent.call\n" + body + "\n"}
}

// Rule H1: whatever is not an answer in the documented shape denies.
func TestRule_H1_OddResultsDeny(t *testing.T) {
	for name, body := range map[string]string{
		"undefined":                  `decision := "allow" if input.args.missing`,
		"null":                       `decision := null`,
		"not applicable":             `decision := "not-applicable"`,
		"not applicable, object":     `decision := {"decision": "not-applicable"}`,
		"true":                       `decision := true`,
		"false":                      `decision := false`,
		"number":                     `decision := 1`,
		"array":                      `decision := ["allow"]`,
		"set":                        `decision contains "allow"`,
		"empty object":               `decision := {}`,
		"empty string":               `decision := ""`,
		"capitals":                   `decision := "Allow"`,
		"space":                      `decision := "allow "`,
		"look-alike":                 `decision := "аllow"`,
		"user-approval":              `decision := "user-approval"`,
		"nested outcome":             `decision := {"decision": {"decision": "allow"}}`,
		"decision is true":           `decision := {"decision": true}`,
		"decision is null":           `decision := {"decision": null}`,
		"no decision":                `decision := {"reason": "fine"}`,
		"other case of decision":     `decision := {"Decision": "allow"}`,
		"unknown member":             `decision := {"decision": "allow", "only_if": "x"}`,
		"a member that is no string": `decision := {"decision": "allow", 1: "x"}`,
		"unknown obligation":         `decision := {"decision": "allow", "obligations": ["log"]}`,
		"obligations are a string":   `decision := {"decision": "allow", "obligations": "log"}`,
		"obligations are an object":  `decision := {"decision": "allow", "obligations": {"log": true}}`,
		"an obligation is a number":  `decision := {"decision": "allow", "obligations": [1]}`,
		"reason is a number":         `decision := {"decision": "allow", "reason": 1}`,
		"instead is a list":          `decision := {"decision": "allow", "instead": []}`,
		"approval of an allow":       `decision := {"decision": "allow", "approval": {"quorum": 2}}`,
		"approval is true":           `decision := {"decision": "requires-approval", "approval": true}`,
		"approval has more":          `decision := {"decision": "requires-approval", "approval": {"who": "x"}}`,
		"quorum of zero":             `decision := {"decision": "requires-approval", "approval": {"quorum": 0}}`,
		"quorum of minus one":        `decision := {"decision": "requires-approval", "approval": {"quorum": -1}}`,
		"quorum of a half":           `decision := {"decision": "requires-approval", "approval": {"quorum": 1.5}}`,
		"quorum is a string":         `decision := {"decision": "requires-approval", "approval": {"quorum": "2"}}`,
		"quorum is huge":             `decision := {"decision": "requires-approval", "approval": {"quorum": 1e30}}`,
		"expiry is a number":         `decision := {"decision": "requires-approval", "approval": {"expires": 60}}`,
		"expiry is no duration":      `decision := {"decision": "requires-approval", "approval": {"expires": "soon"}}`,
		"expiry has passed":          `decision := {"decision": "requires-approval", "approval": {"expires": "-1h"}}`,
		"self is a string":           `decision := {"decision": "requires-approval", "approval": {"self": "true"}}`,
		"approver is a number":       `decision := {"decision": "requires-approval", "approval": {"approvers": [1]}}`,
		"approver is unknown":        `decision := {"decision": "requires-approval", "approval": {"approvers": ["lena"]}}`,
		"conflict":                   "decision := \"allow\" if true\ndecision := \"deny\" if input.args",
		"conflict of two allows":     "decision := {\"decision\": \"allow\"} if true\ndecision := \"allow\" if input.args",
		"failing built-in":           "default decision := \"allow\"\ndecision := \"deny\" if net.cidr_contains(\"10.0.0.0/8\", input.args.host)",
		"failing built-in, negated":  "default decision := \"deny\"\ndecision := \"allow\" if not net.cidr_contains(\"10.0.0.0/8\", input.args.host)",
		"failing to_number":          "default decision := \"allow\"\ndecision := \"deny\" if to_number(input.args.host) > 5",
	} {
		t.Run(name, func(t *testing.T) {
			l := load(t, "odd", rule(body))
			got, o := decide(t, call("x", `{"host":"0x0a000407"}`), l)
			if got.Verdict != record.Deny || got.Code != record.CodeCannotDecide || o[0].Err == nil {
				t.Fatalf("got %s %q, error %v", got.Verdict, got.Code, o[0].Err)
			}
			if got.Reasons[0].Private == "" || got.Reasons[0].Public != "" {
				t.Errorf("reason is %+v", got.Reasons[0])
			}
			if strings.Contains(got.Reasons[0].Private, "0a000407") {
				t.Errorf("the reason quotes an argument: %s", got.Reasons[0].Private)
			}
		})
	}
}

// The neighbours of the above that are answers.
func TestAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		body string
		want record.Verdict
	}{
		"plain allow":         {`decision := "allow"`, record.Allow},
		"plain deny":          {`decision := "deny"`, record.Deny},
		"plain ask":           {`decision := "requires-approval"`, record.RequiresApproval},
		"object":              {`decision := {"decision": "allow"}`, record.Allow},
		"no obligations":      {`decision := {"decision": "allow", "obligations": []}`, record.Allow},
		"an empty set":        {`decision := {"decision": "allow", "obligations": set()}`, record.Allow},
		"approvers in a set":  {`decision := {"decision": "requires-approval", "approval": {"approvers": {"group:a"}}}`, record.RequiresApproval},
		"two equal rules":     {"decision := \"allow\" if true\ndecision := \"allow\" if input.args", record.Allow},
		"a quorum of its own": {`decision := {"decision": "requires-approval", "approval": {"quorum": 2, "expires": "90m", "self": false}}`, record.RequiresApproval},
	} {
		got, o := decide(t, call("x", `{}`), load(t, "plain", rule(c.body)))
		if got.Verdict != c.want || o[0].Err != nil {
			t.Errorf("%s: got %s, %v", name, got.Verdict, o[0].Err)
		}
	}
}

func TestApproval(t *testing.T) {
	l := load(t, "support", rule(`decision := {
		"decision": "requires-approval", "reason": "big", "instead": "ask for less", "private": "rule 7",
		"approval": {"approvers": ["group:leads", "group:finance"], "quorum": 2, "expires": "90m", "self": true}}`))
	got, _ := decide(t, call("x", `{}`), l)
	want := []record.ApprovalPart{{From: "support", Quorum: 2, Groups: []record.Group{
		{Issuer: "https://login.example.com", Name: "leads"}, {Issuer: "https://login.example.com", Name: "finance"}}}}
	if !reflect.DeepEqual(got.Parts, want) || got.Expires != 90*time.Minute || !got.Self || got.Default {
		t.Errorf("got %+v", got)
	}
	if r := got.Reasons[0]; r.Public != "big" || r.Instead != "ask for less" || r.Private != "rule 7" {
		t.Errorf("reason is %+v", r)
	}
}

// Both places of a conflict are named for operators.
func TestConflictNamesBothPlaces(t *testing.T) {
	l := load(t, "support", rule("decision := \"allow\" if true\nhelper := 1\ndecision := \"deny\" if { input.args; helper }"))
	got, _ := decide(t, call("x", `{}`), l)
	r := got.Reasons[0]
	if r.Place != "support/main.rego:2 support/main.rego:4" || !strings.Contains(r.Private, "two rules conflict") {
		t.Errorf("reason is %+v", r)
	}
}

// A denial that is put together names the rules it rests on.
func TestPlacesOfComposedDenial(t *testing.T) {
	files, err := rego.Template()
	if err != nil {
		t.Fatal(err)
	}
	l, err := rego.New().Load(rego.Source{Name: "organisation", Files: files})
	if err != nil {
		t.Fatal(err)
	}
	in := refund()
	in.Amounts["amount"] = "1200.00"
	got, _ := decide(t, in, l)
	line := 0
	for i, s := range strings.Split(string(files["main.rego"]), "\n") {
		if strings.HasPrefix(s, "asks contains {\"reason\": \"money") {
			line = i + 1
		}
	}
	if want := fmt.Sprintf("organisation/main.rego:%d", line); !strings.Contains(got.Reasons[0].Place+" ", want+" ") {
		t.Errorf("place is %q, want %s among them", got.Reasons[0].Place, want)
	}
}

func TestExplain(t *testing.T) {
	asks := load(t, "support", rule("decision := \"requires-approval\" if big\nbig if input.amounts.amount > 500"))
	other, err := rego.New().Load(rego.Source{Name: "finance", For: policy.For{Tools: []string{"payout"}}, Files: allows()})
	if err != nil {
		t.Fatal(err)
	}
	s := set(t, asks, other)
	in := refund()
	got := s.Explain(context.Background(), in)
	if len(got) != 2 || !got[0].Applies || got[1].Applies {
		t.Fatalf("got %+v", got)
	}
	if want := []string{"support/main.rego:2", "support/main.rego:3"}; !reflect.DeepEqual(got[0].Opinion.Places, want) {
		t.Errorf("places are %v, want %v", got[0].Opinion.Places, want)
	}
	if v := s.Evaluate(context.Background(), in)[0].Verdict; v != got[0].Opinion.Verdict {
		t.Errorf("explained %s, evaluated %s", got[0].Opinion.Verdict, v)
	}
}

func allows() rego.Files {
	return rego.Files{"main.rego": []byte("package agent.call\ndecision := \"allow\"\n")}
}

// Rule H1: two layers with one package do not see each other's rules or data.
func TestRule_H1_LayersAreAlone(t *testing.T) {
	organisation := load(t, "organisation", map[string]string{
		"main.rego": "package agent.call\nallowed contains \"read\"\ndefault decision := \"deny\"\ndecision := \"allow\" if input.tool.name in allowed\n",
		"data.json": `{"extra": []}`,
	})
	team := load(t, "team", map[string]string{
		"main.rego": "package agent.call\nallowed contains \"delete\"\ndefault decision := \"deny\"\ndecision := \"allow\" if input.tool.name in allowed\ndecision := \"allow\" if input.tool.name in data.extra\n",
		"data.json": `{"extra": ["read"]}`,
	})
	for tool, want := range map[string][2]record.Verdict{
		"read":   {record.Allow, record.Allow},
		"delete": {record.Deny, record.Allow},
	} {
		got, o := decide(t, call(tool, `{}`), organisation, team)
		if o[0].Verdict != want[0] || o[1].Verdict != want[1] || got.Verdict != want[0].Stricter(want[1]) {
			t.Errorf("%s: got %s and %s, together %s", tool, o[0].Verdict, o[1].Verdict, got.Verdict)
		}
	}
}

// Rule H1: a loop is cut off, the others are not held against their will.
func TestRule_H1_TimeoutDenies(t *testing.T) {
	for name, endless := range map[string]string{
		"nested loops":    "count([1 | some i in numbers.range(1, 20000); some j in numbers.range(1, 20000); i == j + 1000000]) == 0",
		"a long built-in": "count(numbers.range(1, 1000000000)) > 0",
	} {
		t.Run(name, func(t *testing.T) { cutOff(t, endless) })
	}
}

func cutOff(t *testing.T, endless string) {
	loop := load(t, "loop", rule(`decision := "allow" if `+endless))
	fine := load(t, "fine", rule(`decision := "allow"`))
	s, err := policy.NewSet([]policy.Layer{loop, fine}, 50*time.Millisecond, nil)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	o := s.Evaluate(context.Background(), call("x", `{}`))
	if took := time.Since(start); took > 3*time.Second {
		t.Errorf("took %s", took)
	}
	if o[0].Verdict != record.Deny || o[0].Reason.Code != record.CodeCannotDecide || !strings.Contains(o[0].Reason.Private, "no answer within 50ms") {
		t.Errorf("loop: %+v", o[0])
	}
	if o[1].Verdict != record.Allow {
		t.Errorf("fine: %+v", o[1])
	}
}

// A layer cannot read a clock, a random source, the network or the process.
func TestImpureBuiltinsDoNotCompile(t *testing.T) {
	for _, expr := range []string{
		`http.send({"method": "get", "url": "http://127.0.0.1/"})`, `net.lookup_ip_addr("example.com")`, `opa.runtime()`,
		`time.now_ns()`, `rand.intn("x", 5)`, `uuid.rfc4122("x")`, `io.jwt.decode_verify("x", {})`,
		`io.jwt.encode_sign({}, {}, {})`, `io.jwt.encode_sign_raw("", "", "")`,
		`crypto.x509.parse_and_verify_certificates("x")`, `json.match_schema({}, {})`, `json.verify_schema({})`,
		`rego.parse_module("x", "package x")`, `trace("x")`,
	} {
		_, err := rego.New().Load(source("impure", rule("decision := \"allow\" if x := "+expr)))
		if err == nil || !strings.Contains(err.Error(), "undefined function") || !strings.Contains(err.Error(), "impure/main.rego:2") {
			t.Errorf("%s: %v", expr, err)
		}
	}
	for _, expr := range []string{`time.parse_rfc3339_ns(input.time)`, `regex.match("^a", "a")`, `sprintf("%d", [1])`} {
		if _, err := rego.New().Load(source("pure", rule("decision := \"allow\" if x := "+expr))); err != nil {
			t.Errorf("%s: %v", expr, err)
		}
	}
}

func TestLoadRefuses(t *testing.T) {
	ok := "package agent.call\ndecision := \"allow\"\n"
	for name, c := range map[string]struct {
		s    rego.Source
		want string
	}{
		"no file":              {source("x", nil), "no .rego file"},
		"only tests":           {source("x", map[string]string{"a_test.rego": ok}), "no .rego file"},
		"an empty file":        {source("x", map[string]string{"a.rego": ""}), "a.rego"},
		"syntax":               {source("x", map[string]string{"a.rego": "package agent.call\ndecision :="}), "x/a.rego:2"},
		"another package":      {source("x", map[string]string{"a.rego": "package other\ndecision := \"allow\"\n"}), "query"},
		"no such query":        {rego.Source{Name: "x", Query: "data.other.decision", Files: rego.Files{"a.rego": []byte(ok)}}, "data.other.decision"},
		"a query of input":     {rego.Source{Name: "x", Query: "input.decision", Files: rego.Files{"a.rego": []byte(ok)}}, "not a path"},
		"a query that is code": {rego.Source{Name: "x", Query: "data.agent.call[x]", Files: rego.Files{"a.rego": []byte(ok)}}, "not a path"},
		"the whole of data":    {rego.Source{Name: "x", Query: "data", Files: rego.Files{"a.rego": []byte(ok)}}, "not a path"},
		"a partial object":     {source("x", map[string]string{"a.rego": "package agent.call\ndecision.decision := \"allow\"\n"}), "no rule"},
		"a function":           {source("x", map[string]string{"a.rego": "package agent.call\ndecision(x) := x\n"}), "function"},
		"data over a rule":     {source("x", map[string]string{"a.rego": ok, "data.json": `{"agent": {"call": {"decision": "allow"}}}`}), "conflict"},
		"data set twice":       {source("x", map[string]string{"a.rego": ok, "data.json": `{"a": 1}`, "data.yaml": "a: 2\n"}), "twice"},
		"data set twice below": {source("x", map[string]string{"a.rego": ok, "data.json": `{"a": {"b": 1}}`, "a/data.json": `{"b": 2}`}), "twice"},
		"a name twice":         {source("x", map[string]string{"a.rego": ok, "data.json": `{"a": 1, "a": 2}`}), "equal"},
		"a name twice, YAML":   {source("x", map[string]string{"a.rego": ok, "data.yaml": "a: 1\na: 2\n"}), "data.yaml"},
		"data is a list":       {source("x", map[string]string{"a.rego": ok, "data.json": `[1]`}), "object"},
	} {
		_, err := rego.New().Load(c.s)
		if err == nil || !strings.Contains(err.Error(), c.want) || record.KindOf(err) != record.Invalid {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

func TestQueryAndData(t *testing.T) {
	l, err := rego.New().Load(rego.Source{Name: "x", Query: "data.team.verdict", Files: rego.Files{
		"a.rego":                []byte("package team\nimport rego.v1\nverdict := data.team_data.tools[input.tool.name]\n"),
		"team_data/data.yaml":   []byte("tools:\n  read: allow\n"),
		"team_data/data.json":   []byte(`{"limit": 9007199254740993}`),
		"team_data/b/data.json": []byte(`{}`),
	}})
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := decide(t, call("read", `{}`), l); got.Verdict != record.Allow {
		t.Errorf("got %+v", got)
	}
	if got, _ := decide(t, call("write", `{}`), l); got.Code != record.CodeCannotDecide {
		t.Errorf("got %+v", got)
	}
}

func TestVersionIsOfContent(t *testing.T) {
	v := func(files map[string]string, query string) string {
		l, err := rego.New().Load(rego.Source{Name: "x", Query: query, Files: source("x", files).Files})
		if err != nil {
			t.Fatal(err)
		}
		return l.Version().String()
	}
	policyText := "package agent.call\ndecision := \"allow\"\nother := \"deny\"\n"
	base := v(map[string]string{"a.rego": policyText}, "")
	seen := map[string]string{base: "base"}
	for name, got := range map[string]string{
		"another text":  v(map[string]string{"a.rego": policyText + "# x\n"}, ""),
		"another name":  v(map[string]string{"b.rego": policyText}, ""),
		"data":          v(map[string]string{"a.rego": policyText, "data.json": "{}"}, ""),
		"another query": v(map[string]string{"a.rego": policyText}, "data.agent.call.other"),
	} {
		if seen[got] != "" {
			t.Errorf("%s has the version of %s", name, seen[got])
		}
		seen[got] = name
	}
	if again := v(map[string]string{"a.rego": policyText}, rego.DefaultQuery); again != base {
		t.Error("the default query, spelt out, changes the version")
	}
}

// In Rego every string is above every number; amounts therefore come as numbers.
func TestAmountsAreNumbers(t *testing.T) {
	trap := load(t, "trap", rule("default decision := \"allow\"\ndecision := \"requires-approval\" if input.args.amount > 500"))
	sound := load(t, "sound", rule("default decision := \"allow\"\ndecision := \"requires-approval\" if input.amounts.amount > 500"))
	in := call("refund", `{"amount":"60.00"}`)
	in.Amounts = map[string]string{"amount": "60.00"}
	if got, _ := decide(t, in, trap); got.Verdict != record.RequiresApproval {
		t.Errorf("the trap is gone: %s", got.Verdict)
	}
	if got, _ := decide(t, in, sound); got.Verdict != record.Allow {
		t.Errorf("60.00 is above 500: %+v", got)
	}
	for _, amount := range []string{"500.01", "1200.00", "10000000000000000000000000.5"} {
		in.Amounts["amount"] = amount
		if got, _ := decide(t, in, sound); got.Verdict != record.RequiresApproval {
			t.Errorf("%s is not above 500", amount)
		}
	}
	for _, amount := range []string{"", "abc", "1e400", "0x10", "1.", ".5", "--1", "1,5", "007", strings.Repeat("9", 65)} {
		in.Amounts["amount"] = amount
		if got, _ := decide(t, in, sound); got.Code != record.CodeCannotDecide {
			t.Errorf("amount %q: %+v", amount, got)
		}
	}
}

// What is not strict JSON never becomes an input.
func TestInputIsStrict(t *testing.T) {
	l := load(t, "any", rule(`decision := "allow"`))
	for _, args := range []string{`[]`, `"x"`, `null`, `{"a":1,"a":2}`, `{"a":1}x`, `{"a":1}{}`, `{`, `{"a":` + "\"\xff\"" + `}`,
		`{"a":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}`} {
		if got, _ := decide(t, call("x", args), l); got.Code != record.CodeCannotDecide {
			t.Errorf("%.40s: %+v", args, got)
		}
	}
	if got, _ := decide(t, call("x", `{"a":[1,2.5,"x",null,true,{"b":{}}],"c":9007199254740992}`), l); got.Verdict != record.Allow {
		t.Errorf("got %+v", got)
	}
}

// The document built as terms is the one that policy.Input's JSON form says.
func TestInputEqualsDocument(t *testing.T) {
	full := refund()
	full.Principal.Groups = append(full.Principal.Groups, record.Group{Issuer: "https://other.example.com", Name: "support"})
	full.Run.Labels, full.Run.Parent = []string{"untrusted"}, "run_0"
	full.Origins = map[string]string{"order_id": "user", "amount": "tainted"}
	full.Approval = &policy.Approval{ID: "apr_1", State: "approved", Answers: 1}
	full.Limits = policy.Limits{CallsInTurn: 3, CallsInRun: 9, Autonomous: "200"}
	full.Call.Purpose, full.Call.Attempt = "refund the \u2028 customer", 2
	full.Amounts["fee"] = "-0.50"
	for name, in := range map[string]*policy.Input{"zero": {}, "usual": call("x", `{"a":1}`), "full": full} {
		text, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		want, err := ast.ValueFromReader(strings.NewReader(string(text)))
		if err != nil {
			t.Fatal(err)
		}
		got, err := rego.New().Build(in)
		if err != nil {
			t.Fatal(err)
		}
		if got.Value.Compare(want) != 0 {
			t.Errorf("%s: built\n%v\nand the document says\n%v", name, got, want)
		}
		again := &policy.Input{}
		if err := json.Unmarshal(text, again); err != nil {
			t.Errorf("%s: read back: %v", name, err)
		}
		if text2, _ := json.Marshal(again); string(text2) != string(text) {
			t.Errorf("%s: read back it is\n%s\nnot\n%s", name, text2, text)
		}
	}
}

// A cached part must not outlive what it was built from.
func TestCacheIsByContent(t *testing.T) {
	l := load(t, "x", rule("default decision := \"deny\"\ndecision := \"allow\" if { input.tool.flags.read; \"support\" in input.principal.groups }"))
	in := call("x", `{}`)
	in.Tool.Flags.Read = true
	if got, _ := decide(t, in, l); got.Verdict != record.Allow {
		t.Fatalf("got %+v", got)
	}
	in.Principal.Groups[0].Name = "sales"
	if got, _ := decide(t, in, l); got.Verdict != record.Deny {
		t.Error("a group that was taken away still counts")
	}
	in.Principal.Groups[0].Name = "support"
	in.Tool.Flags.Read = false
	if got, _ := decide(t, in, l); got.Verdict != record.Deny {
		t.Error("a flag that was taken away still counts")
	}
	in.Tool.Flags.Read = true
	in.Principal.Groups[0].Issuer = "https://evil.example.com"
	if got, _ := decide(t, in, l); got.Verdict != record.Deny {
		t.Error("another issuer's group counts as the principal's own")
	}
}

// Many callers share one engine; each gets the answer to its own question.
func TestConcurrent(t *testing.T) {
	files, err := rego.Template()
	if err != nil {
		t.Fatal(err)
	}
	engine := rego.New()
	var layers []policy.Layer
	for _, name := range []string{"organisation", "support"} {
		l, err := engine.Load(rego.Source{Name: name, Files: files})
		if err != nil {
			t.Fatal(err)
		}
		layers = append(layers, l)
	}
	s, err := policy.NewSet(layers, 10*time.Second, nil)
	if err != nil {
		t.Fatal(err)
	}
	shared := refund()
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 50 {
				in := *shared
				in.Amounts = map[string]string{"amount": fmt.Sprint(900 + 200*((g+i)%2))}
				in.Tool.Name = fmt.Sprintf("tool%d", i%7)
				want := [2]record.Verdict{record.Allow, record.RequiresApproval}[(g+i)%2]
				if got := policy.Combine(s.Evaluate(context.Background(), &in)); got.Verdict != want {
					t.Errorf("%s: got %s, want %s: %+v", in.Amounts, got.Verdict, want, got.Reasons)
					return
				}
			}
		})
	}
	wg.Wait()
}

// Whatever a policy returns, the outcome is one of three, and allow only for
// the two spellings of allow.
func FuzzAnswer(f *testing.F) {
	f.Add(`{"decision":"allow"}`)
	f.Add(`"allow"`)
	f.Add(`{"decision":"requires-approval","approval":{"approvers":["group:a"],"quorum":2,"expires":"1h","self":true}}`)
	f.Add(`{"decision":"deny","reason":"x","instead":"y","obligations":[]}`)
	f.Add(`{"decision":"allow","obligations":["x"]}`)
	f.Add(`[]`)
	f.Fuzz(func(t *testing.T, text string) {
		v, err := ast.ValueFromReader(strings.NewReader(text))
		if err != nil {
			return
		}
		o := rego.AnswerOf(ast.NewTerm(v))
		if o.Err != nil {
			if o.Verdict != "" || o.Ask != nil {
				t.Fatalf("an error with an answer: %+v", o)
			}
			return
		}
		switch o.Verdict {
		case record.Deny, record.RequiresApproval:
		case record.Allow:
			if s, ok := v.(ast.String); ok && s == "allow" {
				return
			}
			d := v.(ast.Object).Get(ast.StringTerm("decision"))
			if d == nil || !d.Equal(ast.StringTerm("allow")) {
				t.Fatalf("%s allows", text)
			}
		default:
			t.Fatalf("verdict %q", o.Verdict)
		}
	})
}
