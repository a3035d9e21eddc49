package identity_test

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
)

// provingCase is a token that is bound to the key ed, and its good proof.
func provingCase(t testing.TB, at *clock) (v *identity.Verifier, token string, header, claims object) {
	t.Helper()
	k := testKeys()
	jwk := jose.JSONWebKey{Key: k.ed.Public()}
	sum := must(jwk.Thumbprint(crypto.SHA256))
	token = mint(t, k.ed, eddsa(), supportClaims(at).with("cnf", object{"jkt": b64.EncodeToString(sum)}))
	c := config(t)
	c.PublicURL = "https://tools.example.com/"
	access := sha256.Sum256([]byte(token))
	header = object{"typ": "dpop+jwt", "alg": "EdDSA", "jwk": object{"kty": "OKP", "crv": "Ed25519", "x": b64.EncodeToString(k.ed.Public().(ed25519.PublicKey))}}
	claims = object{"htm": "POST", "htu": mcp, "iat": at.now().Unix(), "jti": "1", "ath": b64.EncodeToString(access[:])}
	return verifier(t, c, at), token, header, claims
}

func proving(t testing.TB, token, proof string) (identity.Credentials, error) {
	t.Helper()
	r := httptest.NewRequest("POST", "/mcp", nil)
	r.Header = http.Header{"Authorization": {"DPoP " + token}, "Dpop": {proof}}
	return identity.CredentialsOf(r)
}

// A request that waited is verified again with its own proof; another request with
// the same proof is refused.
func TestAProofIsForOneRequest(t *testing.T) {
	at := newClock()
	v, token, header, claims := provingCase(t, at)
	proof := mint(t, testKeys().ed, header, claims)
	first := must(proving(t, token, proof))
	for range 2 {
		if c, err := v.Caller(t.Context(), first); err != nil || !c.Valid() {
			t.Fatal(err)
		}
		at.pass(70 * time.Second)
	}
	if _, err := v.Caller(t.Context(), must(proving(t, token, proof))); err == nil {
		t.Error("an old proof is taken")
	}
	if _, err := v.Caller(t.Context(), bearer(token)); err == nil || identity.DPoPChallenge(err) == "" {
		t.Errorf("the token alone: %v", err)
	}
}

// No proof is taken but one that is signed with the token's key and about this
// request; and it is taken once.
func FuzzProof(f *testing.F) {
	at, k := newClock(), testKeys()
	_, token, header, claims := provingCase(f, at)
	good := mint(f, k.ed, header, claims)
	f.Add(good, text(f, header), text(f, claims))
	f.Add(strings.Split(good, ".")[0]+"..", text(f, header.with("crit", []string{"x"})), text(f, claims.with("htu", "HTTPS://tools.example.com:443/mcp#x")))
	f.Add("", `{"typ":"dpop+jwt","alg":"EdDSA","jwk":{"kty":"RSA","n":"AQAB","e":"AQAB"}}`, text(f, claims.with("jti", nil)))
	f.Add("a.b.c", text(f, header.with("jwk", object{"kty": "OKP", "crv": "Ed25519", "x": "AA", "d": "AA"})), `{"iat":1e300}`)
	f.Fuzz(func(t *testing.T, raw, header, claims string) {
		v, _, _, _ := provingCase(t, at)
		take := func(proof string) bool {
			c, err := proving(t, token, proof)
			if err != nil {
				return false
			}
			caller, err := v.Caller(t.Context(), c)
			if err != nil && record.KindOf(err) != record.Unauthenticated || (err == nil) != caller.Valid() {
				t.Fatalf("%v", err)
			}
			return err == nil
		}
		if take(raw) && raw != good {
			t.Fatalf("taken: %q", raw)
		}
		proof := mint(t, k.ed, header, claims)
		if proof == raw || !take(proof) {
			return
		}
		var c struct{ Htm, Htu, Jti string }
		if err := json.Unmarshal([]byte(claims), &c); err != nil || c.Htm != "POST" || !strings.Contains(strings.ToLower(c.Htu), "//tools.example.com") || !strings.Contains(c.Htu, "/mcp") || c.Jti == "" {
			t.Fatalf("taken: %s", claims)
		}
		if take(proof) {
			t.Fatalf("taken twice: %s", claims)
		}
	})
}

// certified is an authority for tests that need the same certificates in each process.
func certified(t testing.TB, at *clock, change func(*x509.Certificate)) (root, leaf *x509.Certificate) {
	t.Helper()
	k := testKeys()
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotBefore: at.now().Add(-time.Hour), NotAfter: at.now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	root = must(x509.ParseCertificate(must(x509.CreateCertificate(rand.Reader, ca, ca, k.ed.Public(), k.ed))))
	template := &x509.Certificate{SerialNumber: big.NewInt(2), NotBefore: at.now().Add(-time.Hour), NotAfter: at.now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, DNSNames: []string{"billing.example"}}
	change(template)
	return root, must(x509.ParseCertificate(must(x509.CreateCertificate(rand.Reader, template, root, k.otherEd.Public(), k.ed))))
}

// No certificates but those that the authority signed are taken, whatever bytes
// come over the connection, and none makes the check panic.
func FuzzCertificate(f *testing.F) {
	at := newClock()
	root, leaf := certified(f, at, func(*x509.Certificate) {})
	_, svid := certified(f, at, func(c *x509.Certificate) {
		c.DNSNames, c.URIs = nil, []*url.URL{{Scheme: "spiffe", Host: "example.org", Path: "/bot"}}
	})
	_, server := certified(f, at, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} })
	_, old := certified(f, at, func(c *x509.Certificate) { c.NotAfter = at.now().Add(-time.Minute) })
	stranger := testKeys().otherEd
	own := must(x509.CreateCertificate(rand.Reader, leaf, leaf, stranger.Public(), stranger))
	roots := func(context.Context) ([]*x509.Certificate, error) { return []*x509.Certificate{root}, nil }
	c := config(f)
	c.Authorities = []identity.Authority{{Name: "plain", Roots: roots}, {Name: "mesh", Domain: "example.org", Roots: roots}}
	c.Workloads = []identity.WorkloadKey{
		{Name: "billing", Tenant: "acme", Certificate: identity.CertificateName{Authority: "plain", DNS: "billing.example"}, Permissions: []identity.Permission{"propose"}},
		{Name: "bot", Tenant: "acme", SPIFFE: "spiffe://example.org/bot", Permissions: []identity.Permission{"propose"}},
	}
	v := verifier(f, c, at)
	call := func(chain []*x509.Certificate) error {
		r := httptest.NewRequest("POST", "/mcp", nil)
		r.TLS = &tls.ConnectionState{PeerCertificates: chain}
		creds, err := identity.CredentialsOf(r)
		if err != nil {
			return err
		}
		_, err = v.Caller(context.Background(), creds)
		return err
	}
	for _, good := range []*x509.Certificate{leaf, svid} {
		if err := call([]*x509.Certificate{good}); err != nil {
			f.Fatal(err)
		}
	}
	for _, bad := range []*x509.Certificate{server, old, root} {
		if call([]*x509.Certificate{bad}) == nil {
			f.Fatal("taken: " + bad.Subject.String())
		}
	}
	for _, seed := range [][]byte{leaf.Raw, svid.Raw, server.Raw, old.Raw, root.Raw, own, append(append([]byte{}, own...), leaf.Raw...), append(append([]byte{}, leaf.Raw...), root.Raw...)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, der []byte) {
		chain, err := x509.ParseCertificates(der)
		if err != nil || len(chain) == 0 {
			return
		}
		err = call(chain)
		if err == nil && !chain[0].Equal(leaf) && !chain[0].Equal(svid) {
			t.Fatalf("taken: %x", der)
		}
		if err != nil && record.KindOf(err) != record.Unauthenticated {
			t.Fatalf("%v", err)
		}
	})
}

func TestCertificateConfiguration(t *testing.T) {
	roots := func(context.Context) ([]*x509.Certificate, error) { return nil, nil }
	plain, mesh := identity.Authority{Name: "plain", Roots: roots}, identity.Authority{Name: "mesh", Domain: "example.org", Roots: roots}
	for want, c := range map[string]identity.Config{
		"name or trust domain is another's": {Authorities: []identity.Authority{plain, plain}},
		"is no trust domain":                {Authorities: []identity.Authority{{Name: "mesh", Domain: "Example.org", Roots: roots}}},
		"has no roots":                      {Authorities: []identity.Authority{{Name: "plain"}}},
		"wants a SPIFFE ID":                 {Authorities: []identity.Authority{mesh}, Workloads: []identity.WorkloadKey{{Name: "a", SPIFFE: "spiffe://example.org"}}},
		"is the trust domain elsewhere.org": {Authorities: []identity.Authority{mesh}, Workloads: []identity.WorkloadKey{{Name: "a", SPIFFE: "spiffe://elsewhere.org/a"}}},
		"exactly one of the two":            {Authorities: []identity.Authority{plain}, Workloads: []identity.WorkloadKey{{Name: "a", Certificate: identity.CertificateName{Authority: "plain"}}}},
		"no plain authority":                {Authorities: []identity.Authority{mesh}, Workloads: []identity.WorkloadKey{{Name: "a", Certificate: identity.CertificateName{Authority: "mesh", DNS: "a"}}}},
		"without wildcards":                 {Authorities: []identity.Authority{plain}, Workloads: []identity.WorkloadKey{{Name: "a", Certificate: identity.CertificateName{Authority: "plain", DNS: "*.a"}}}},
		"use spiffe":                        {Authorities: []identity.Authority{plain}, Workloads: []identity.WorkloadKey{{Name: "a", Certificate: identity.CertificateName{Authority: "plain", URI: "spiffe://a/b"}}}},
		"certificate is that of a too": {Authorities: []identity.Authority{plain}, Workloads: []identity.WorkloadKey{
			{Name: "a", Certificate: identity.CertificateName{Authority: "plain", DNS: "a"}}, {Name: "b", Certificate: identity.CertificateName{Authority: "plain", DNS: "A"}}}},
		"its name is another's": {Authorities: []identity.Authority{plain}, Workloads: []identity.WorkloadKey{
			{Name: "a", Certificate: identity.CertificateName{Authority: "plain", DNS: "a"}}, {Name: "a", Certificate: identity.CertificateName{Authority: "plain", DNS: "b"}}}},
	} {
		if _, err := identity.New(c, identity.Deps{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("wanted %q, got %v", want, err)
		}
	}
}
