package placet

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/placet-dev/placet/config"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
)

// shape is a token as a vendor's documents describe it, and what it comes to here.
type shape struct {
	Name          string
	Header        map[string]any
	Claims        map[string]any
	Lifetime, Age string
	Raw           string // not a JWT
	Refused       string // by which check
	Want          struct {
		Tenant, Subject, Agent string
		Scopes, Groups         []string
	}
}

// issuerKeys are the keys of every issuer in this test.
type issuerKeys struct {
	rsa *rsa.PrivateKey
	ec  *ecdsa.PrivateKey
	ed  ed25519.PrivateKey
}

func newIssuerKeys(t *testing.T) issuerKeys {
	t.Helper()
	var k issuerKeys
	var err [3]error
	k.rsa, err[0] = rsa.GenerateKey(rand.Reader, 2048)
	k.ec, err[1] = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	_, k.ed, err[2] = ed25519.GenerateKey(rand.Reader)
	if err := errors.Join(err[:]...); err != nil {
		t.Fatal(err)
	}
	return k
}

func (k issuerKeys) set(t *testing.T) []byte {
	t.Helper()
	var set jose.JSONWebKeySet
	for _, key := range []crypto.Signer{k.rsa, k.ec, k.ed} {
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: key.Public(), KeyID: "k1", Use: "sig"})
	}
	text, err := json.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func (k issuerKeys) sign(t *testing.T, s shape, now time.Time) string {
	t.Helper()
	if s.Raw != "" {
		return s.Raw
	}
	life, err := time.ParseDuration(s.Lifetime)
	if err != nil {
		t.Fatal(err)
	}
	age := time.Duration(0)
	if s.Age != "" {
		if age, err = time.ParseDuration(s.Age); err != nil {
			t.Fatal(err)
		}
	}
	issued := now.Add(-age)
	s.Claims["iat"], s.Claims["exp"] = issued.Unix(), issued.Add(life).Unix()
	if _, there := s.Claims["nbf"]; there {
		s.Claims["nbf"] = issued.Unix()
	}
	options := &jose.SignerOptions{}
	for name, value := range s.Header {
		if name != "alg" {
			options = options.WithHeader(jose.HeaderKey(name), value)
		}
	}
	alg := jose.SignatureAlgorithm(s.Header["alg"].(string))
	key, ok := map[jose.SignatureAlgorithm]any{jose.RS256: k.rsa, jose.ES256: k.ec, jose.EdDSA: k.ed, jose.HS512: bytes.Repeat([]byte("k"), 64)}[alg]
	if !ok {
		t.Fatalf("no key for %s", alg)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: jose.JSONWebKey{Key: key, KeyID: "k1"}}, options)
	if err != nil {
		t.Fatal(err)
	}
	claims, err := json.Marshal(s.Claims)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign(claims)
	if err != nil {
		t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// published answers for the providers' hosts.
type published struct{ keys []byte }

func (p published) RoundTrip(r *http.Request) (*http.Response, error) {
	issuer, discovery := strings.CutSuffix(r.URL.String(), "/.well-known/openid-configuration")
	body := p.keys
	if discovery {
		body, _ = json.Marshal(map[string]string{"issuer": issuer, "jwks_uri": issuer + "/keys"})
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(body)), Header: http.Header{}, Request: r}, nil
}

var recipe = regexp.MustCompile("(?s)<!-- provider: ([a-z-]+) -->\n```yaml\n(.*?)```")

// TestProviderRecipes runs token shapes through the very configuration that
// docs/identity.md prints for their provider.
func TestProviderRecipes(t *testing.T) {
	page, err := os.ReadFile("docs/identity.md")
	if err != nil {
		t.Fatal(err)
	}
	keys, now := newIssuerKeys(t), time.Now()
	var names []string
	for _, m := range recipe.FindAllStringSubmatch(string(page), -1) {
		name, block := m[1], m[2]
		names = append(names, name)
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "support-app.jwks.json"), keys.set(t), 0o600); err != nil {
				t.Fatal(err)
			}
			c, err := config.Parse("placet.yaml", dir, []byte("version: 1\nenvironment: test\npublic_url: https://tools.example.com\nstore: sqlite:state.db\nregistry: [tools.yaml]\n"+block))
			if err != nil {
				t.Fatal(err)
			}
			o, err := Options{Config: c, Clock: func() time.Time { return now }, HTTP: &http.Client{Transport: published{keys.set(t)}}}.withDefaults()
			if err != nil {
				t.Fatal(err)
			}
			v, err := o.verifier()
			if err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(filepath.Join("testdata", "providers", name+".json"))
			if err != nil {
				t.Fatal(err)
			}
			var file struct {
				From   string `json:"written_from"`
				Shapes []shape
			}
			if err := json.Unmarshal(text, &file); err != nil || file.From == "" || len(file.Shapes) < 3 {
				t.Fatal(err, file)
			}
			taken := 0
			for _, s := range file.Shapes {
				taken += tryShape(t, v, s, keys.sign(t, s, now))
			}
			if taken == 0 {
				t.Error("no shape is taken")
			}
		})
	}
	if want := []string{"keycloak", "entra", "okta", "google", "own-app"}; !slices.Equal(names, want) {
		t.Errorf("the page has recipes for %q, want %q", names, want)
	}
}

func tryShape(t *testing.T, v *identity.Verifier, s shape, token string) (taken int) {
	t.Helper()
	e := v.Explain(t.Context(), identity.Credentials{Bearer: token})
	if s.Refused != "" {
		if n := len(e.Checks); e.As != "" || n == 0 || e.Checks[n-1] != (identity.Check{Name: s.Refused}) {
			t.Errorf("%s: wanted it refused by %s: as %q, %v, %s", s.Name, s.Refused, e.As, e.Checks, e.Problem)
		}
		return 0
	}
	var groups []string
	for _, g := range e.Groups {
		groups = append(groups, g.Name)
		if g.Issuer != e.Issuer {
			t.Errorf("%s: group %v", s.Name, g)
		}
	}
	if e.As != "caller" || e.Tenant != record.TenantID(s.Want.Tenant) || e.Subject.Subject != s.Want.Subject || string(e.Agent) != s.Want.Agent ||
		!slices.Equal(e.Scopes, s.Want.Scopes) && len(e.Scopes)+len(s.Want.Scopes) > 0 || !slices.Equal(groups, s.Want.Groups) && len(groups)+len(s.Want.Groups) > 0 {
		t.Errorf("%s: %s\ngot  %+v\nwant %+v", s.Name, e.Problem, e, s.Want)
	}
	return 1
}
