package identity_test

import (
	"crypto/rand"
	"fmt"
	"strings"
	"testing"

	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
)

func TestRule_A12_OnlyAWorkloadKeyVouches(t *testing.T) {
	at, k := newClock(), testKeys()
	vouching, plain, globex := must(identity.NewKey(rand.Reader)), must(identity.NewKey(rand.Reader)), must(identity.NewKey(rand.Reader))
	c := config(t)
	c.Workloads = []identity.WorkloadKey{
		{Name: "support-app", KeyHash: identity.HashKey(vouching) + "\n", Permissions: []identity.Permission{identity.Propose, identity.Vouch}},
		{Name: "plain", KeyHash: identity.HashKey(plain), Tenant: "acme", Permissions: []identity.Permission{identity.Propose}},
		{Name: "globex", KeyHash: identity.HashKey(globex), Tenant: "globex", Permissions: []identity.Permission{identity.Vouch}},
	}
	v := verifier(t, c, at)
	// A token cannot give itself what a workload's key gives.
	token := mint(t, k.rsa, rs256(), claims(at).with("scope", "vouch operate", "vouch", true, "permissions", []string{"vouch"}, "groups", []string{"vouch"}))

	for name, test := range map[string]struct {
		c       identity.Credentials
		kind    record.Kind
		vouches bool
		subject string
	}{
		"token alone":             {bearer(token), "", false, "anna"},
		"token and vouching key":  {identity.Credentials{Bearer: token, WorkloadKey: vouching}, "", true, "anna"},
		"token and other key":     {identity.Credentials{Bearer: token, WorkloadKey: plain}, "", false, "anna"},
		"other tenant's key":      {identity.Credentials{Bearer: token, WorkloadKey: globex}, record.Forbidden, false, ""},
		"token and unknown key":   {identity.Credentials{Bearer: token, WorkloadKey: must(identity.NewKey(rand.Reader))}, record.Unauthenticated, false, ""},
		"token and the hash":      {identity.Credentials{Bearer: token, WorkloadKey: identity.HashKey(vouching)}, record.Unauthenticated, false, ""},
		"token and a cut key":     {identity.Credentials{Bearer: token, WorkloadKey: vouching[:20]}, record.Unauthenticated, false, ""},
		"wrong token and key":     {identity.Credentials{Bearer: "x.y.z", WorkloadKey: vouching}, record.Unauthenticated, false, ""},
		"key alone":               {identity.Credentials{WorkloadKey: plain}, "", false, "plain"},
		"key alone, no tenant":    {identity.Credentials{WorkloadKey: vouching}, record.Forbidden, false, ""},
		"key alone, only vouches": {identity.Credentials{WorkloadKey: globex}, record.Forbidden, false, ""},
	} {
		c, err := v.Caller(t.Context(), test.c)
		if test.kind != "" {
			if record.KindOf(err) != test.kind || c.Valid() || c.Vouches() || strings.Contains(fmt.Sprint(err), "plk_") {
				t.Errorf("%s: %v, %v", name, c.Owner(), err)
			}
			continue
		}
		if err != nil || c.Vouches() != test.vouches || c.Owner().Principal.Subject != test.subject {
			t.Errorf("%s: %v, vouches %v, %v", name, c.Owner(), c.Vouches(), err)
		}
	}
	self, _ := v.Caller(t.Context(), identity.Credentials{WorkloadKey: plain})
	if self.Owner() != (record.Owner{Tenant: "acme", Principal: record.Principal{Issuer: identity.WorkloadIssuer, Subject: "plain"}, Agent: "plain"}) || len(self.Scopes())+len(self.Groups()) > 0 {
		t.Errorf("a workload as itself is %+v", self.Owner())
	}
}

func TestWorkloadConfiguration(t *testing.T) {
	hash := identity.HashKey("plk_" + strings.Repeat("a", 43))
	for want, w := range map[string][]identity.WorkloadKey{
		"must be a hash":       {{Name: "a", KeyHash: "plk_" + strings.Repeat("a", 43)}},
		"unknown permission":   {{Name: "a", KeyHash: hash, Permissions: []identity.Permission{"admin"}}},
		"another's too":        {{Name: "a", KeyHash: hash}, {Name: "b", KeyHash: strings.Replace(hash, hash[7:], strings.ToUpper(hash[7:]), 1)}},
		"needs a name":         {{KeyHash: hash}},
		"state its tenant":     {{Name: "a", KeyHash: hash, Permissions: []identity.Permission{"operate"}}},
		"its tenant's name is": {{Name: "a", KeyHash: hash, Tenant: "a\n"}},
	} {
		c := config(t)
		c.Workloads = w
		if _, err := identity.New(c, identity.Deps{}); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "plk_") {
			t.Errorf("wanted %q, got %v", want, err)
		}
	}
}

func TestNewKey(t *testing.T) {
	a, b := must(identity.NewKey(rand.Reader)), must(identity.NewKey(rand.Reader))
	if a == b || len(a) != 47 || !strings.HasPrefix(a, "plk_") || identity.HashKey(a) == identity.HashKey(b) {
		t.Errorf("%s, %s", a, b)
	}
	if _, err := identity.NewKey(strings.NewReader("short")); err == nil {
		t.Error("a key was made without randomness")
	}
}
