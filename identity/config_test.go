package identity_test

import (
	"strings"
	"testing"

	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
)

func TestIssuerConfiguration(t *testing.T) {
	for want, change := range map[string]func(*identity.Config){
		"needs a name":                func(c *identity.Config) { c.Issuers[0].Issuer = "" },
		"exact value of iss":          func(c *identity.Config) { c.Issuers[0].Issuer = identity.WorkloadIssuer },
		"configured twice":            func(c *identity.Config) { c.Issuers[1] = c.Issuers[0] },
		"state its audience":          func(c *identity.Config) { c.Issuers[0].Audience, c.Issuers[0].ConsoleAudience = nil, "" },
		"must not be able to answer":  func(c *identity.Config) { c.Issuers[0].ConsoleAudience = mcp },
		"must not be empty":           func(c *identity.Config) { c.Issuers[1].Audience = []string{""} },
		"state its algorithms":        func(c *identity.Config) { c.Issuers[0].Algorithms = nil },
		"HS256 is refused":            func(c *identity.Config) { c.Issuers[0].Algorithms = []string{"RS256", "HS256"} },
		`"none" is not supported`:     func(c *identity.Config) { c.Issuers[0].Algorithms = []string{"none"} },
		`"rs256" is not supported`:    func(c *identity.Config) { c.Issuers[0].Algorithms = []string{"rs256"} },
		"exactly one of the two":      func(c *identity.Config) { c.Issuers[0].TenantClaim = "org" },
		"either the tenant":           func(c *identity.Config) { c.Issuers[0].Tenant = "" },
		"those that its tenant claim": func(c *identity.Config) { c.Issuers[1].Tenants = nil },
		"leave it out":                func(c *identity.Config) { c.Issuers[0].Tenants = []string{"acme"} },
		"hold control characters":     func(c *identity.Config) { c.Issuers[0].Tenant = "ac\nme" },
		"keys twice":                  func(c *identity.Config) { c.Issuers[0].Keys = "https://x.example/keys" },
		"clock skew":                  func(c *identity.Config) { c.Issuers[0].Skew = 1 << 50 },
		"token age":                   func(c *identity.Config) { c.Issuers[0].MaxTokenAge = -1 },
		"must be the only one":        func(c *identity.Config) { c.Issuers[1].Local = true },
		"no usable address":           func(c *identity.Config) { c.Issuers[0].JWKS, c.Issuers[0].Keys = nil, "http://x.example/keys" },
		"not configured":              func(c *identity.Config) { c.Operate = []string{"group:a@https://x.example"} },
		"is not a group":              func(c *identity.Config) { c.Read = []string{"platform"} },
	} {
		c := config(t)
		change(&c)
		if _, err := identity.New(c, identity.Deps{}); record.KindOf(err) != record.Invalid || !strings.Contains(err.Error(), want) {
			t.Errorf("wanted %q, got %v", want, err)
		}
	}
}

func TestResolveGroup(t *testing.T) {
	at := newClock()
	one := verifier(t, config(t), at)
	c := config(t)
	c.Issuers[1].Claims.Groups = "groups"
	c.Operate = []string{"group:platform@" + staff}
	two := verifier(t, c, at)
	c.Issuers[0].Claims.Groups, c.Issuers[1].Claims.Groups, c.Operate, c.Read = "", "", nil, nil
	none := verifier(t, c, at)

	for ref, want := range map[string]record.Group{
		"group:support":                    {Issuer: staff, Name: "support"},
		"group:support@" + staff:           {Issuer: staff, Name: "support"},
		"group:all@example.com":            {Issuer: staff, Name: "all@example.com"},
		"group:all@example.com@" + staff:   {Issuer: staff, Name: "all@example.com"},
		"group:/staff/support leads":       {Issuer: staff, Name: "/staff/support leads"},
		"group:a@" + support + "@" + staff: {Issuer: staff, Name: "a@" + support},
	} {
		if g, err := one.ResolveGroup(ref); err != nil || g != want {
			t.Errorf("%s: %v, %v", ref, g, err)
		}
	}
	if g, err := two.ResolveGroup("group:support@" + support); err != nil || g.Issuer != support {
		t.Errorf("%v, %v", g, err)
	}
	for name, test := range map[string]struct {
		v    *identity.Verifier
		ref  string
		want string
	}{
		"ambiguous":     {two, "group:support", "NAME@ISSUER"},
		"no groups":     {none, "group:support", "asserts groups"},
		"issuer's none": {one, "group:support@" + support, "asserts no groups"},
		"unknown":       {one, "group:support@https://evil.example", "not configured"},
		"no name":       {one, "group:@" + staff, "names no group"},
		"empty":         {one, "group:", "not a group"},
		"no prefix":     {one, "support", "not a group"},
		"control":       {one, "group:a\n", "not a group"},
	} {
		if g, err := test.v.ResolveGroup(test.ref); record.KindOf(err) != record.Invalid || !strings.Contains(err.Error(), test.want) || g != (record.Group{}) {
			t.Errorf("%s: %v, %v", name, g, err)
		}
	}
}
