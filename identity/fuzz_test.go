package identity_test

import (
	"crypto/ed25519"
	"strings"
	"testing"

	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
)

// No text but a token that was signed here is taken, and none makes it panic.
func FuzzToken(f *testing.F) {
	at, k := newClock(), testKeys()
	v := verifier(f, config(f), at)
	good := mint(f, k.ed, eddsa(), supportClaims(at))
	parts := strings.Split(good, ".")
	f.Add(good)
	f.Add(mint(f, nil, object{"alg": "none", "typ": "at+jwt"}, claims(at)))
	f.Add(parts[0] + "." + parts[1] + "." + strings.Repeat("A", 86))
	f.Add(parts[0] + ".." + parts[2])
	f.Add("..")
	f.Add("plk_")
	if _, err := v.Caller(f.Context(), identity.Credentials{Bearer: good}); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, token string) {
		c, err := v.Caller(t.Context(), identity.Credentials{Bearer: token})
		if err == nil && token != good {
			t.Fatalf("taken: %q", token)
		}
		if err != nil && (c.Valid() || record.KindOf(err) != record.Unauthenticated) {
			t.Fatalf("%q: %v", token, err)
		}
		v.Explain(t.Context(), identity.Credentials{Bearer: token})
	})
}

// Whatever header and claims a rightly signed token holds, it is refused or says
// nothing that could not be written down.
func FuzzClaims(f *testing.F) {
	at, k := newClock(), testKeys()
	v := verifier(f, config(f), at)
	f.Add(text(f, eddsa()), text(f, supportClaims(at)))
	f.Add(text(f, eddsa()), text(f, supportClaims(at).with("act", object{"sub": "x"})))
	f.Add(`{"alg":"EdDSA","kid":"ed","typ":"JWT","typ":"at+jwt"}`, text(f, supportClaims(at)))
	f.Add(text(f, eddsa()), text(f, supportClaims(at).with("act", chain(5))))
	f.Add(text(f, eddsa()), text(f, supportClaims(at).with("act", object{"sub": "x", "act": []any{}})))
	f.Add(text(f, eddsa()), text(f, supportClaims(at).with("scope", []any{1, nil}, "org", "acme")))
	f.Add(text(f, eddsa()), `{"iss":"`+support+`","aud":["`+mcp+`"],"sub":"\ud83d\ude02","exp":1e10,"client_id":"a","org":{"id":"acme"}}`)
	f.Fuzz(func(t *testing.T, header, claims string) {
		c, err := v.Caller(t.Context(), identity.Credentials{Bearer: mint(t, k.ed, header, claims)})
		if err != nil {
			if record.KindOf(err) != record.Unauthenticated || len(err.Error()) > 1000 {
				t.Fatalf("%v", err)
			}
			return
		}
		o := c.Owner()
		names := append(c.Scopes(), string(o.Agent), o.Principal.Subject)
		if !c.Valid() || o.Principal.Issuer != support || o.Tenant != "acme" && o.Tenant != "globex" || len(c.Groups()) > 0 || c.Vouches() {
			t.Fatalf("%+v", o)
		}
		for _, name := range names {
			if name == "" || len(name) > 512 || strings.ContainsAny(name, "\x00\x1b\r\n\u202e\u200b") {
				t.Fatalf("the name %q was taken", name)
			}
		}
		if !at.now().Before(c.Expires()) {
			t.Fatalf("expired at %v", c.Expires())
		}
	})
}

// A key set is refused, or a token of none of its keys is: no set lets everybody in.
func FuzzKeySet(f *testing.F) {
	at, k := newClock(), testKeys()
	f.Add(jwks(f, public("ed", "EdDSA", k.otherEd.Public()), public("r1", "", &k.rsa.PublicKey)))
	f.Add([]byte(`{"keys":[{"kty":"OKP","crv":"Ed25519","x":"AAAA","kid":"ed"},null,7,{"kty":"oct","k":"AA"}]}`))
	f.Add([]byte(`{"keys":{"kty":"OKP"}}`))
	f.Add([]byte(`{"keys":[{"kty":"RSA","n":"","e":"AQAB"},{"kty":"EC","crv":"P-256","x":"","y":""}]}`))
	token := mint(f, testKeys().ed, eddsa(), supportClaims(at))
	own := string(k.ed.Public().(ed25519.PublicKey))
	f.Fuzz(func(t *testing.T, set []byte) {
		c := config(t)
		c.Issuers = c.Issuers[1:]
		c.Operate, c.Read, c.Issuers[0].JWKS = nil, nil, set
		if len(set) == 0 || strings.Contains(string(set), b64.EncodeToString([]byte(own))) {
			return
		}
		v, err := identity.New(c, identity.Deps{Clock: at.now})
		if err != nil {
			return
		}
		if _, err := v.Caller(t.Context(), bearer(token)); err == nil {
			t.Fatalf("taken with keys %s", set)
		}
	})
}

// A reference that is taken names a configured issuer and a group that it holds.
func FuzzResolveGroup(f *testing.F) {
	v := verifier(f, config(f), newClock())
	for _, s := range []string{"group:a", "group:a@" + staff, "group:@", "group:a@@" + staff, "group:a@" + support, "group:\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, ref string) {
		g, err := v.ResolveGroup(ref)
		if err == nil && (g.Issuer != staff || g.Name == "" || ref != "group:"+g.Name && ref != "group:"+g.Name+"@"+staff) {
			t.Fatalf("%q is %v", ref, g)
		}
	})
}
