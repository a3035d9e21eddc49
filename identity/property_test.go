package identity_test

import (
	"crypto/ed25519"
	"slices"
	"testing"

	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
	"pgregory.net/rapid"
)

// Whatever claims an issuer signs, who it makes is in a tenant that the operator
// listed for that issuer, and principal, groups and session carry the issuer. No
// two issuers make the same anybody.
func TestNoClaimsCrossTenants(t *testing.T) {
	k, at, helper := testKeys(), newClock(), testing.TB(t) // rapid's t is no testing.TB
	private := []ed25519.PrivateKey{k.ed, k.otherEd}
	tenants := []string{"acme", "globex", "initech"}
	names := []string{"https://a.example", "https://b.example"}
	taken := 0
	rapid.Check(t, func(t *rapid.T) {
		var c identity.Config
		for n, name := range names {
			i := identity.Issuer{Issuer: name, Audience: []string{mcp}, ConsoleAudience: console, Algorithms: []string{"EdDSA"}, Claims: identity.Claims{Groups: "groups"},
				JWKS: jwks(helper, public("ed", "EdDSA", private[n].Public()))}
			if rapid.Bool().Draw(t, "constant") {
				i.Tenant = rapid.SampledFrom(tenants).Draw(t, "tenant")
			} else {
				i.TenantClaim = rapid.SampledFrom([]string{"tenant", "org.id", "https://x.example/tenant"}).Draw(t, "tenant claim")
				i.Tenants = rapid.SliceOfNDistinct(rapid.SampledFrom(tenants), 1, 3, rapid.ID[string]).Draw(t, "tenants")
			}
			c.Issuers = append(c.Issuers, i)
		}
		v, err := identity.New(c, identity.Deps{Clock: at.now})
		if err != nil {
			t.Fatal(err)
		}
		signer := rapid.IntRange(0, 1).Draw(t, "signer")
		word := rapid.OneOf(rapid.SampledFrom(append(append([]string{"", "anna", "anna@https://b.example", "https://b.example", "platform@https://b.example", "claims.tenant", console}, tenants...), names...)), rapid.String())
		value := rapid.OneOf(rapid.Map(word, func(s string) any { return s }), rapid.Map(rapid.SliceOfN(word, 0, 3), func(s []string) any { return s }),
			rapid.Map(word, func(s string) any { return object{"id": s, "sub": s} }), rapid.Just[any](nil), rapid.Just[any](7))
		member := rapid.SampledFrom(tenants).Draw(t, "member of")
		claims := claims(at).with("tenant", member, "org", object{"id": member}, "https://x.example/tenant", member, "iss", rapid.SampledFrom([]string{names[0], names[0], names[1], names[1], "https://c.example"}).Draw(t, "iss"))
		for _, name := range []string{"sub", "tenant", "org", "org.id", "https://x.example/tenant", "tid", "groups", "act", "azp", "client_id", "aud", "scope", "iss2", "issuer", "principal"} {
			if rapid.IntRange(0, 7).Draw(t, "set "+name) == 0 {
				claims = claims.with(name, value.Draw(t, name))
			}
		}
		token := mint(helper, private[signer], eddsa(), claims)
		check := func(what string, tenant record.TenantID, who record.Principal, groups []record.Group) {
			own := c.Issuers[signer]
			if claims["iss"] != own.Issuer || who.Issuer != own.Issuer || who.Subject != claims["sub"] {
				t.Fatalf("%s: %v from a token of %v, signed by %s", what, who, claims["iss"], own.Issuer)
			}
			if !slices.Contains(append(own.Tenants, own.Tenant), string(tenant)) || tenant == "" {
				t.Fatalf("%s: tenant %q, and the issuer speaks for %q %q", what, tenant, own.Tenant, own.Tenants)
			}
			for _, g := range groups {
				if g.Issuer != own.Issuer {
					t.Fatalf("%s: group %v", what, g)
				}
			}
		}
		caller, err := v.Caller(t.Context(), bearer(token))
		if err == nil {
			taken++
			check("caller", caller.Owner().Tenant, caller.Owner().Principal, caller.Groups())
			other := caller.Owner()
			other.Principal.Issuer = names[1-signer]
			if caller.SessionID() == "" || other == caller.Owner() {
				t.Fatal("two issuers make the same caller")
			}
		}
		person, perr := v.Person(t.Context(), token)
		if perr == nil {
			check("person", person.Tenant(), person.Principal(), person.Groups())
		}
		if err == nil && perr == nil {
			t.Fatal("one token proposes and answers")
		}
	})
	if taken == 0 {
		t.Error("nothing was taken: the property was not looked at")
	}
	t.Logf("%d tokens were taken", taken)
}

// What somebody may hold is what their own issuer says: a group of one issuer opens
// nothing that the operator gave to a group of another.
func TestNoGroupsCrossIssuers(t *testing.T) {
	k, at, helper := testKeys(), newClock(), testing.TB(t) // rapid's t is no testing.TB
	rapid.Check(t, func(t *rapid.T) {
		c := identity.Config{Operate: []string{"group:platform@https://a.example"}, Read: []string{"group:security@https://a.example"}}
		for n, key := range []ed25519.PrivateKey{k.ed, k.otherEd} {
			c.Issuers = append(c.Issuers, identity.Issuer{Issuer: []string{"https://a.example", "https://b.example"}[n], ConsoleAudience: console, Algorithms: []string{"EdDSA"}, Tenant: "acme",
				Claims: identity.Claims{Groups: "groups"}, JWKS: jwks(helper, public("ed", "EdDSA", key.Public()))})
		}
		v, err := identity.New(c, identity.Deps{Clock: at.now})
		if err != nil {
			t.Fatal(err)
		}
		groups := rapid.SliceOf(rapid.SampledFrom([]string{"platform", "security", "platform@https://a.example", "group:platform", "security@https://a.example", "x"})).Draw(t, "groups")
		for n, key := range []ed25519.PrivateKey{k.ed, k.otherEd} {
			token := mint(helper, key, eddsa(), claims(at).with("iss", c.Issuers[n].Issuer, "aud", console, "groups", append([]string{}, groups...)))
			p, err := v.Person(t.Context(), token)
			if err != nil {
				t.Fatal(err)
			}
			operates, reads := n == 0 && slices.Contains(groups, "platform"), n == 0 && slices.Contains(groups, "security")
			if p.Operates() != operates || p.Reads() != (reads || operates) {
				t.Fatalf("groups %q of issuer %d: operates %v, reads %v", groups, n, p.Operates(), p.Reads())
			}
			if _, err := v.Operator(t.Context(), bearer(token)); (err == nil) != operates {
				t.Fatalf("groups %q of issuer %d: %v", groups, n, err)
			}
		}
	})
}
