package identity_test

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
)

func TestLocalIssuer(t *testing.T) {
	at := newClock()
	path := filepath.Join(t.TempDir(), "dev.key")
	made := must(identity.NewLocal("urn:placet:dev", rand.Reader, at.now))
	if err := made.Save(path); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if err := made.Save(path); err == nil {
		t.Error("a key was written over")
	}
	l := must(identity.LoadLocal(path, rand.Reader, at.now))
	issuer := must(made.Issuer(mcp, console, []string{"acme"}))
	v := verifier(t, identity.Config{Issuers: []identity.Issuer{issuer}, Operate: []string{"group:platform"}}, at)

	proposing := must(l.Sign(identity.TokenSpec{Audience: mcp, Subject: "anna", Tenant: "acme", Agent: "helper", Scopes: []string{"a", "b"}, Groups: []string{"platform"}, TTL: time.Minute}))
	answering := must(l.Sign(identity.TokenSpec{Audience: console, Subject: "bert", Tenant: "acme", Groups: []string{"platform"}}))
	c, err := v.Caller(t.Context(), bearer(proposing))
	if err != nil || c.Owner().Agent != "helper" || c.Owner().Tenant != "acme" || !c.HasScope("b") || !c.InGroup(record.Group{Issuer: "urn:placet:dev", Name: "platform"}) {
		t.Errorf("proposing: %+v, %v", c.Owner(), err)
	}
	p, err := v.Person(t.Context(), answering)
	if err != nil || p.Principal().Subject != "bert" || !p.Operates() {
		t.Errorf("answering: %+v, %v", p.Principal(), err)
	}
	if _, err := v.Person(t.Context(), proposing); err == nil {
		t.Error("a proposing token answers")
	}
	if _, err := v.Caller(t.Context(), bearer(answering)); err == nil {
		t.Error("an answering token proposes")
	}
	for name, token := range map[string]string{
		"another tenant": must(l.Sign(identity.TokenSpec{Audience: mcp, Subject: "anna", Tenant: "globex", Agent: "helper"})),
		"no agent":       must(l.Sign(identity.TokenSpec{Audience: mcp, Subject: "anna", Tenant: "acme"})),
		"another issuer": must(must(identity.NewLocal("urn:placet:dev", rand.Reader, at.now)).Sign(identity.TokenSpec{Audience: mcp, Subject: "anna", Tenant: "acme", Agent: "a"})),
	} {
		if _, err := v.Caller(t.Context(), bearer(token)); record.KindOf(err) != record.Unauthenticated {
			t.Errorf("%s: %v", name, err)
		}
	}
	at.pass(time.Minute)
	if _, err := v.Caller(t.Context(), bearer(proposing)); err == nil {
		t.Error("an expired token proposes")
	}
	with := config(t)
	with.Issuers = append(with.Issuers, issuer)
	if _, err := identity.New(with, identity.Deps{}); record.KindOf(err) != record.Invalid {
		t.Errorf("a development issuer stands beside real ones: %v", err)
	}
}

func TestLocalRefusesNonsense(t *testing.T) {
	at := newClock()
	l := must(identity.NewLocal("dev", rand.Reader, at.now))
	good := identity.TokenSpec{Audience: mcp, Subject: "anna", Tenant: "acme"}
	for name, change := range map[string]func(*identity.TokenSpec){
		"no subject":      func(s *identity.TokenSpec) { s.Subject = "" },
		"no tenant":       func(s *identity.TokenSpec) { s.Tenant = "" },
		"no audience":     func(s *identity.TokenSpec) { s.Audience = "" },
		"control":         func(s *identity.TokenSpec) { s.Agent = "a\n" },
		"scope in two":    func(s *identity.TokenSpec) { s.Scopes = []string{"a b"} },
		"long life":       func(s *identity.TokenSpec) { s.TTL = 48 * time.Hour },
		"negative life":   func(s *identity.TokenSpec) { s.TTL = -time.Hour },
		"group of nobody": func(s *identity.TokenSpec) { s.Groups = []string{""} },
	} {
		s := good
		change(&s)
		if token, err := l.Sign(s); err == nil {
			t.Errorf("%s: signed %s", name, token)
		}
	}
	dir := t.TempDir()
	open, broken := filepath.Join(dir, "open"), filepath.Join(dir, "broken")
	if err := l.Save(open); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(broken, []byte(`{"version":1,"issuer":"dev","seed":"AAAA"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{open, broken, filepath.Join(dir, "absent")} {
		if _, err := identity.LoadLocal(path, rand.Reader, at.now); err == nil {
			t.Errorf("%s was taken", filepath.Base(path))
		}
	}
}

// A development issuer that serves at an address signs under it, and stays one
// issuer: the same person, whichever of its names a token gives.
func TestLocalIsOneIssuerUnderBothNames(t *testing.T) {
	at := newClock()
	l := must(identity.NewLocal("urn:placet:dev", rand.Reader, at.now))
	issuer := must(l.Issuer(mcp, console, []string{"acme"}))
	spec := identity.TokenSpec{Audience: mcp, Subject: "anna", Tenant: "acme", Agent: "helper", Groups: []string{"platform"}, Session: "s", Actors: []string{"helper", "first"}}
	served := must(l.At("http://127.0.0.1:1/dev/issuer").Sign(spec))
	without := verifier(t, identity.Config{Issuers: []identity.Issuer{issuer}}, at)
	if _, err := without.Caller(t.Context(), bearer(served)); record.KindOf(err) != record.Unauthenticated {
		t.Errorf("an address that is not configured: %v", err)
	}
	issuer.Address = "http://127.0.0.1:1/dev/issuer"
	v := verifier(t, identity.Config{Issuers: []identity.Issuer{issuer}, Operate: []string{"group:platform"}}, at)
	want := record.Principal{Issuer: "urn:placet:dev", Subject: "anna"}
	for name, token := range map[string]string{"by address": served, "by name": must(l.Sign(spec))} {
		c, err := v.Caller(t.Context(), bearer(token))
		if err != nil || c.Owner().Principal != want || !c.InGroup(record.Group{Issuer: "urn:placet:dev", Name: "platform"}) {
			t.Errorf("%s: %v, %v", name, c.Owner(), err)
		}
	}
	id := must(l.At(issuer.Address).SignID(map[string]any{"sub": "anna", "aud": mcp, "tenant": "acme", "client_id": "helper", "exp": at.now().Add(time.Hour).Unix()}))
	if _, err := v.Caller(t.Context(), bearer(id)); record.KindOf(err) != record.Unauthenticated {
		t.Errorf("an ID token proposes: %v", err)
	}
	issuer.Local = false
	if _, err := identity.New(identity.Config{Issuers: []identity.Issuer{issuer}}, identity.Deps{}); record.KindOf(err) != record.Invalid {
		t.Errorf("a real issuer with a second name: %v", err)
	}
}
