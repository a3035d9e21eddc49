package identity_test

import (
	"strings"
	"testing"

	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
)

// Who proposes cannot answer, and who answers cannot propose.
func TestRule_D4_ProposingAndAnsweringAreTwoTokens(t *testing.T) {
	at, k := newClock(), testKeys()
	c := config(t)
	key, err := identity.NewKey(strings.NewReader(strings.Repeat("k", 32)))
	if err != nil {
		t.Fatal(err)
	}
	c.Workloads = []identity.WorkloadKey{{Name: "ci", KeyHash: identity.HashKey(key), Tenant: "acme", Permissions: []identity.Permission{"propose", "vouch", "operate", "read"}}}
	v := verifier(t, c, at)
	answering := claims(at).with("aud", console)
	login := mint(t, k.rsa, rs256(), answering)

	p, err := v.Person(t.Context(), login)
	if err != nil || p.Principal() != (record.Principal{Issuer: staff, Subject: "anna"}) || p.Tenant() != "acme" || !p.Operates() || !p.Reads() {
		t.Fatalf("the person's login: %+v, %v", p.Principal(), err)
	}
	if _, err := v.Caller(t.Context(), bearer(login)); record.KindOf(err) != record.Unauthenticated {
		t.Errorf("a login proposes: %v", err)
	}
	if _, err := v.Caller(t.Context(), identity.Credentials{Bearer: login, WorkloadKey: key}); err == nil {
		t.Error("a login proposes beside a key")
	}
	for name, token := range map[string]string{
		"proposing":       mint(t, k.rsa, rs256(), claims(at)),
		"both audiences":  mint(t, k.rsa, rs256(), answering.with("aud", []string{console, mcp})),
		"acted for":       mint(t, k.rsa, rs256(), answering.with("act", object{"sub": "robot"})),
		"acted for, null": mint(t, k.rsa, rs256(), `{"act":null,`+strings.TrimPrefix(text(t, answering), "{")),
		"a program":       mint(t, k.rsa, rs256(), answering.with("azp", "anna")),
		"a program too":   mint(t, k.rsa, rs256(), answering.with("idtyp", "app")),
		"other issuer":    mint(t, k.ed, eddsa(), supportClaims(at).with("aud", console)),
		"workload key":    key,
		"nothing":         "",
		"an ID token":     mint(t, k.rsa, rs256().with("typ", "JWT"), answering.with("nonce", "n")),
	} {
		if p, err := v.Person(t.Context(), token); record.KindOf(err) != record.Unauthenticated || p.Valid() || p.Operates() {
			t.Errorf("%s: taken as a person: %v, %v", name, p.Principal(), err)
		}
		if o, err := v.Operator(t.Context(), bearer(token)); err == nil || o.Valid() {
			t.Errorf("%s: operates", name)
		}
	}
	// Groups of a token that may propose give no operating right, with or without a key beside it.
	if o, err := v.Operator(t.Context(), identity.Credentials{Bearer: login, WorkloadKey: key}); err == nil || o.Valid() {
		t.Error("a person and a workload operate at once")
	}
}

func TestOperators(t *testing.T) {
	at, k := newClock(), testKeys()
	c := config(t)
	key := func(letter string) string {
		return must(identity.NewKey(strings.NewReader(strings.Repeat(letter, 32))))
	}
	c.Workloads = []identity.WorkloadKey{
		{Name: "ci", KeyHash: identity.HashKey(key("c")), Tenant: "acme", Permissions: []identity.Permission{identity.Operate}},
		{Name: "siem", KeyHash: identity.HashKey(key("s")), Tenant: "acme", Permissions: []identity.Permission{identity.Read}},
		{Name: "app", KeyHash: identity.HashKey(key("a")), Tenant: "acme", Permissions: []identity.Permission{identity.Propose, identity.Vouch}},
	}
	v := verifier(t, c, at)
	login := func(groups ...string) identity.Credentials {
		return bearer(mint(t, k.rsa, rs256(), claims(at).with("aud", console, "groups", groups)))
	}
	for name, test := range map[string]struct {
		c              identity.Credentials
		operates, read bool
		as             string
	}{
		"platform":     {login("platform"), true, true, "anna@" + staff},
		"security":     {login("security"), false, true, "anna@" + staff},
		"support":      {login("support"), false, false, ""},
		"nobody":       {login(), false, false, ""},
		"look-alike":   {login("Platform", "platform ", "group:platform", "platform@"+staff), false, false, ""},
		"ci":           {identity.Credentials{WorkloadKey: key("c")}, true, true, "workload/ci"},
		"siem":         {identity.Credentials{WorkloadKey: key("s")}, false, true, "workload/siem"},
		"app":          {identity.Credentials{WorkloadKey: key("a")}, false, false, ""},
		"unknown key":  {identity.Credentials{WorkloadKey: key("x")}, false, false, ""},
		"key as token": {bearer(key("c")), false, false, ""},
		"nothing":      {identity.Credentials{}, false, false, ""},
	} {
		o, err := v.Operator(t.Context(), test.c)
		if o.Valid() != test.operates || o.Operates() != test.operates || (err == nil) != test.operates {
			t.Errorf("%s: operates %v, %v", name, o.Valid(), err)
		}
		r, err := v.Reader(t.Context(), test.c)
		if r.Valid() != test.read || (err == nil) != test.read || r.Name() != test.as || test.read && r.Tenant() != "acme" {
			t.Errorf("%s: reads %v as %q, %v", name, r.Valid(), r.Name(), err)
		}
	}
	if _, err := v.Operator(t.Context(), login("security")); record.KindOf(err) != record.Forbidden {
		t.Errorf("kind of a missing permission: %v", err)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
