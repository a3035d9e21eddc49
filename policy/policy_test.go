package policy_test

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/policy"
	"github.com/placet-dev/placet/record"
)

// layer is a policy in Go.
type layer struct {
	name     string
	mode     policy.Mode
	fits     policy.For
	evaluate func(context.Context, *policy.Prepared) policy.Opinion
}

func (l layer) Name() string          { return l.name }
func (l layer) Version() canon.Digest { return canon.Of("test", []byte(l.name)) }
func (l layer) Mode() policy.Mode     { return l.mode }
func (l layer) For() policy.For       { return l.fits }
func (l layer) Evaluate(ctx context.Context, p *policy.Prepared) policy.Opinion {
	return l.evaluate(ctx, p)
}

func says(name string, o policy.Opinion) layer {
	return layer{name: name, evaluate: func(context.Context, *policy.Prepared) policy.Opinion { return o }}
}

func verdict(name string, v record.Verdict) layer {
	return says(name, policy.Opinion{Verdict: v, Reason: record.Reason{Public: name}})
}

func observed(l layer) layer { l.mode = policy.Observe; return l }

func evaluate(t *testing.T, in *policy.Input, layers ...policy.Layer) []policy.Opinion {
	t.Helper()
	s, err := policy.NewSet(layers, time.Second, func(_ *policy.Input, ref string, part *record.ApprovalPart) error {
		switch {
		case strings.HasPrefix(ref, "group:"):
			part.Groups = append(part.Groups, record.Group{Name: ref[6:]})
		case ref == "nobody":
		default:
			return errors.New("unknown")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return s.Evaluate(context.Background(), in)
}

func TestCombine(t *testing.T) {
	allow, deny, ask := verdict("a", record.Allow), verdict("d", record.Deny), verdict("q", record.RequiresApproval)
	broken := says("b", policy.Opinion{Verdict: record.Allow, Err: errors.New("broken")})
	odd := verdict("o", "permit")
	for _, c := range []struct {
		name   string
		layers []policy.Layer
		want   record.Verdict
		code   record.Code
	}{
		{"no layer", nil, record.Allow, ""},
		{"one allows", []policy.Layer{allow}, record.Allow, ""},
		{"one asks", []policy.Layer{allow, ask}, record.RequiresApproval, record.CodePolicyAsks},
		{"one denies", []policy.Layer{ask, deny, allow}, record.Deny, record.CodePolicyDenied},
		{"one is broken", []policy.Layer{allow, broken, ask}, record.Deny, record.CodeCannotDecide},
		{"one says something else", []policy.Layer{allow, odd}, record.Deny, record.CodeCannotDecide},
		{"a rule's denial before a broken layer", []policy.Layer{broken, deny}, record.Deny, record.CodePolicyDenied},
		{"an observed denial", []policy.Layer{allow, observed(deny)}, record.Allow, ""},
		{"an observed broken layer", []policy.Layer{ask, observed(broken)}, record.RequiresApproval, record.CodePolicyAsks},
		{"an observed denial beside a broken layer", []policy.Layer{observed(deny), broken}, record.Deny, record.CodeCannotDecide},
	} {
		opinions := evaluate(t, &policy.Input{}, c.layers...)
		got := policy.Combine(opinions)
		if got.Verdict != c.want || got.Code != c.code || len(got.Reasons) != len(c.layers) {
			t.Errorf("%s: got %s %q with %d reasons, want %s %q", c.name, got.Verdict, got.Code, len(got.Reasons), c.want, c.code)
		}
		for i, r := range got.Reasons {
			if r.Observe != (c.layers[i].Mode() == policy.Observe) || r.Version == "" {
				t.Errorf("%s: reason %+v", c.name, r)
			}
		}
	}
	// An opinion that no set has settled is judged as strictly.
	if got := policy.Combine([]policy.Opinion{{}}); got.Verdict != record.Deny || got.Code != record.CodeCannotDecide {
		t.Errorf("an empty opinion gives %s %q", got.Verdict, got.Code)
	}
	if got := policy.Combine([]policy.Opinion{{Verdict: record.Allow, Err: errors.New("x")}}); got.Verdict != record.Deny {
		t.Errorf("an allow with an error gives %s", got.Verdict)
	}
}

// Rule D8: every asking layer's demand is met, the shortest expiry holds, and
// the principal may answer only if all permit.
func TestRule_D8_AsksAddUp(t *testing.T) {
	ask := func(name string, a *policy.Ask) layer {
		return says(name, policy.Opinion{Verdict: record.RequiresApproval, Ask: a})
	}
	got := policy.Combine(evaluate(t, &policy.Input{},
		ask("leads", &policy.Ask{Approvers: []string{"group:leads"}, Self: true, Expires: 2 * time.Hour}),
		ask("finance", &policy.Ask{Approvers: []string{"group:finance"}, Quorum: 2, Expires: time.Hour, Self: true}),
		observed(ask("watching", &policy.Ask{Approvers: []string{"group:board"}, Expires: time.Second})),
	))
	if want := []record.ApprovalPart{
		{From: "leads", Quorum: 1, Groups: []record.Group{{Name: "leads"}}},
		{From: "finance", Quorum: 2, Groups: []record.Group{{Name: "finance"}}},
	}; !reflect.DeepEqual(got.Parts, want) || got.Expires != time.Hour || !got.Self || got.Default {
		t.Errorf("got %+v", got)
	}
	got = policy.Combine(evaluate(t, &policy.Input{},
		ask("leads", &policy.Ask{Approvers: []string{"group:leads"}, Self: true}),
		ask("two of them", &policy.Ask{Quorum: 2}),
		ask("anybody", nil),
	))
	if len(got.Parts) != 1 || !got.Default || got.Quorum != 2 || got.Self {
		t.Errorf("got %+v", got)
	}
	// A denial leaves nothing to approve.
	got = policy.Combine(evaluate(t, &policy.Input{},
		ask("leads", &policy.Ask{Approvers: []string{"group:leads"}}), verdict("d", record.Deny)))
	if got.Verdict != record.Deny || got.Parts != nil || got.Default || got.Self {
		t.Errorf("got %+v", got)
	}
}

func TestUnknownTermsDeny(t *testing.T) {
	for name, o := range map[string]policy.Opinion{
		"obligation":             {Verdict: record.Allow, Obligations: []string{"watermark"}},
		"approval of an allow":   {Verdict: record.Allow, Ask: &policy.Ask{}},
		"negative quorum":        {Verdict: record.RequiresApproval, Ask: &policy.Ask{Quorum: -1}},
		"negative expiry":        {Verdict: record.RequiresApproval, Ask: &policy.Ask{Expires: -1}},
		"unknown approver":       {Verdict: record.RequiresApproval, Ask: &policy.Ask{Approvers: []string{"group:a", "x"}}},
		"approvers that resolve": {Verdict: record.RequiresApproval, Ask: &policy.Ask{Approvers: []string{"nobody"}}},
		"no verdict":             {},
		"verdict in capitals":    {Verdict: "ALLOW"},
	} {
		got := evaluate(t, &policy.Input{}, says("x", o))[0]
		if got.Verdict != record.Deny || got.Reason.Code != record.CodeCannotDecide || got.Err == nil || got.Part != nil {
			t.Errorf("%s: got %+v", name, got)
		}
	}
	s, err := policy.NewSet([]policy.Layer{says("x", policy.Opinion{Verdict: record.RequiresApproval,
		Ask: &policy.Ask{Approvers: []string{"group:a"}}})}, time.Second, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Evaluate(context.Background(), &policy.Input{})[0]; got.Verdict != record.Deny {
		t.Errorf("approvers without anybody to resolve them: %+v", got)
	}
}

// A layer cannot speak in another's name, nor switch itself to observing.
func TestOpinionIsSigned(t *testing.T) {
	got := evaluate(t, &policy.Input{}, says("x", policy.Opinion{Layer: "y", Mode: policy.Observe, Version: canon.Of("z"),
		Verdict: record.Deny, Reason: record.Reason{Rule: "registry", Observe: true, Code: "x", Verdict: record.Allow}}))[0]
	if got.Layer != "x" || got.Mode != policy.Enforce || got.Version == canon.Of("z") ||
		got.Reason.Rule != "layer x" || got.Reason.Observe || got.Reason.Code != record.CodePolicyDenied || got.Reason.Verdict != record.Deny {
		t.Errorf("got %+v", got)
	}
}

func TestTextsAreBounded(t *testing.T) {
	long := strings.Repeat("ä", 5000)
	got := evaluate(t, &policy.Input{}, says("x", policy.Opinion{Verdict: record.Deny, Reason: record.Reason{
		Public: "a\x1b[31mb\nc\u202ed\xff", Private: long, Instead: " ok "}}))[0].Reason
	if got.Public != "a [31mb c d" || got.Instead != "ok" {
		t.Errorf("got %q and %q", got.Public, got.Instead)
	}
	if len(got.Private) > 1010 || !strings.HasSuffix(got.Private, "ä …") {
		t.Errorf("%d bytes: %.20q", len(got.Private), got.Private)
	}
}

func TestPanicDenies(t *testing.T) {
	bad := layer{name: "bad", evaluate: func(context.Context, *policy.Prepared) policy.Opinion { panic("oh") }}
	got := evaluate(t, &policy.Input{}, bad, verdict("a", record.Allow))
	if got[0].Verdict != record.Deny || got[0].Reason.Code != record.CodeCannotDecide || got[1].Verdict != record.Allow {
		t.Errorf("got %+v", got)
	}
}

// An answer after the deadline is none, and each layer has its own deadline.
func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := layer{name: "late", evaluate: func(ctx context.Context, _ *policy.Prepared) policy.Opinion {
			<-ctx.Done()
			return policy.Opinion{Verdict: record.Allow}
		}}
		s, err := policy.NewSet([]policy.Layer{observed(late), verdict("a", record.Allow)}, 50*time.Millisecond, nil)
		if err != nil {
			t.Fatal(err)
		}
		got := s.Evaluate(context.Background(), &policy.Input{})
		if got[0].Verdict != record.Deny || !strings.Contains(got[0].Reason.Private, "within 50ms") {
			t.Errorf("late: %+v", got[0])
		}
		if c := policy.Combine(got); c.Verdict != record.Allow {
			t.Errorf("an observing layer that is late holds up the call: %+v", c)
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if got := s.Evaluate(ctx, &policy.Input{}); got[1].Verdict != record.Deny {
			t.Errorf("the caller is gone: %+v", got[1])
		}
	})
}

func TestFor(t *testing.T) {
	in := &policy.Input{Tool: policy.Tool{Name: "refund", Server: "helpdesk"}, Agent: policy.Agent{ID: "bot"},
		Principal: policy.Principal{Principal: record.Principal{Issuer: "i", Subject: "anna"}, Tenant: "acme",
			Groups: []record.Group{{Issuer: "i", Name: "support"}}, GroupsKnown: true}}
	partly := *in
	partly.Principal.GroupsKnown = false
	const fits, not, unknown = 1, 0, -1
	for _, c := range []struct {
		name string
		f    policy.For
		in   *policy.Input
		want int
	}{
		{"everything", policy.For{}, &policy.Input{}, fits},
		{"tenant", policy.For{Tenants: []record.TenantID{"other", "acme"}}, in, fits},
		{"other tenant", policy.For{Tenants: []record.TenantID{"other"}}, in, not},
		{"other spelling", policy.For{Tenants: []record.TenantID{"Acme"}}, in, not},
		{"agent", policy.For{Agents: []record.AgentID{"bot"}}, in, fits},
		{"server and tool", policy.For{Servers: []string{"helpdesk"}, Tools: []string{"refund"}}, in, fits},
		{"server, other tool", policy.For{Servers: []string{"helpdesk"}, Tools: []string{"read"}}, in, not},
		{"group", policy.For{Groups: []record.Group{{Issuer: "i", Name: "support"}}}, in, fits},
		{"group of any issuer", policy.For{Groups: []record.Group{{Name: "support"}}}, in, fits},
		{"equal group of another issuer", policy.For{Groups: []record.Group{{Issuer: "j", Name: "support"}}}, in, not},
		{"other group", policy.For{Groups: []record.Group{{Name: "sales"}}}, in, not},
		{"a group, and the others unknown", policy.For{Groups: []record.Group{{Name: "support"}}}, &partly, fits},
		{"groups unknown", policy.For{Groups: []record.Group{{Name: "sales"}}}, &partly, unknown},
		{"groups unknown, another tool", policy.For{Groups: []record.Group{{Name: "sales"}}, Tools: []string{"read"}}, &partly, not},
		{"no tenant", policy.For{Tenants: []record.TenantID{"acme"}}, &policy.Input{}, unknown},
		{"no agent", policy.For{Agents: []record.AgentID{"bot"}}, &policy.Input{}, unknown},
		{"no server", policy.For{Servers: []string{"s"}}, &policy.Input{}, unknown},
		{"no tool", policy.For{Tools: []string{"t"}}, &policy.Input{}, unknown},
	} {
		ok, err := c.f.Fits(c.in)
		got := not
		if err != nil {
			got = unknown
		} else if ok {
			got = fits
		}
		if got != c.want {
			t.Errorf("%s: got %v, %v", c.name, ok, err)
		}
		l := verdict("a", record.Allow)
		l.fits = c.f
		opinions := evaluate(t, c.in, l)
		switch c.want {
		case not:
			if len(opinions) != 0 {
				t.Errorf("%s: the layer was asked", c.name)
			}
		case unknown:
			if len(opinions) != 1 || opinions[0].Reason.Code != record.CodeCannotDecide {
				t.Errorf("%s: got %+v", c.name, opinions)
			}
		}
	}
}

func TestNewSetRefuses(t *testing.T) {
	ok := verdict("a", record.Allow)
	blank := ok
	blank.fits.Tools = []string{""}
	mode := ok
	mode.mode = "dry-run"
	for name, c := range map[string]struct {
		layers  []policy.Layer
		timeout time.Duration
	}{
		"no timeout":  {[]policy.Layer{ok}, 0},
		"no name":     {[]policy.Layer{verdict("", record.Allow)}, 1},
		"equal names": {[]policy.Layer{ok, ok}, 1},
		"a mode":      {[]policy.Layer{mode}, 1},
		"blank for":   {[]policy.Layer{blank}, 1},
	} {
		if _, err := policy.NewSet(c.layers, c.timeout, nil); record.KindOf(err) != record.Invalid || err == nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	var none *policy.Set
	if none.Evaluate(context.Background(), &policy.Input{}) != nil || none.Explain(context.Background(), nil) != nil || none.Layers() != nil {
		t.Error("a nil set has layers")
	}
}

// Rule D1: what decided is the layers consulted, in their version and mode.
func TestRule_D1_Consulted(t *testing.T) {
	a, b := verdict("a", record.Allow), verdict("b", record.Allow)
	base := policy.Consulted(evaluate(t, &policy.Input{}, a))
	elsewhere := b
	elsewhere.fits.Tenants = []record.TenantID{"other"}
	in := &policy.Input{Principal: policy.Principal{Tenant: "acme"}}
	if policy.Consulted(evaluate(t, in, a, elsewhere)) != base {
		t.Error("a layer that does not apply changes the digest")
	}
	if policy.Consulted(evaluate(t, in, a, b)) == base {
		t.Error("a further layer leaves the digest")
	}
	if policy.Consulted(evaluate(t, in, observed(a))) == base {
		t.Error("another mode leaves the digest")
	}
	if !policy.Consulted(nil).IsZero() {
		t.Error("no layer, and a digest")
	}
}

// Layers of one kind build the input once in each evaluation.
func TestFormIsBuiltOnce(t *testing.T) {
	built := 0
	l := layer{name: "a", evaluate: func(_ context.Context, p *policy.Prepared) policy.Opinion {
		v, err := p.Form("kind", func(*policy.Input) (any, error) { built++; return record.Allow, nil })
		return policy.Opinion{Verdict: v.(record.Verdict), Err: err}
	}}
	l2 := l
	l2.name = "b"
	if got := policy.Combine(evaluate(t, &policy.Input{}, l, l2)); got.Verdict != record.Allow || built != 1 {
		t.Errorf("%s, built %d times", got.Verdict, built)
	}
}

func FuzzInput(f *testing.F) {
	f.Add(`{}`)
	f.Add(`{"version":"placet.input/1","tool":{"name":"x","flags":{"read":true}},"args":{"a":1},"amounts":{"a":1.50}}`)
	f.Add(`{"principal":{"groups":["a"],"other_groups":[{"issuer":"i","name":"b"}]},"approval":{"answers":1},"limits":{"autonomous":2}}`)
	f.Add(`{"args":null}`)
	f.Add(`{"env":{"name":"x"}} {}`)
	f.Fuzz(func(t *testing.T, text string) {
		var in policy.Input
		if json.Unmarshal([]byte(text), &in) != nil {
			return
		}
		first, err := json.Marshal(&in)
		if err != nil {
			return // a time that JSON has no form for
		}
		var again policy.Input
		if err := json.Unmarshal(first, &again); err != nil {
			t.Fatalf("cannot read back %s: %v", first, err)
		}
		second, err := json.Marshal(&again)
		if err != nil || string(first) != string(second) {
			t.Fatalf("read back it is\n%s\nnot\n%s (%v)", second, first, err)
		}
	})
}
