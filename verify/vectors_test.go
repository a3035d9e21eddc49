package verify

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"flag"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-jose/go-jose/v4"
	"github.com/placet-dev/placet/credential"
	"github.com/placet-dev/placet/record"
)

var update = flag.Bool("update", false, "write the vectors anew")

const (
	issuer   = "https://placet.example"
	audience = "https://desk.example/mcp"
	refund   = `{"amount":60.5,"order":"ord_1"}`
)

var begin = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func digestOf(text []byte) string {
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// steady is randomness that repeats, for vectors only.
type steady struct{ n byte }

func (s *steady) Read(p []byte) (int, error) {
	for i := range p {
		s.n++
		p[i] = s.n
	}
	return len(p), nil
}

// vectors is testdata/vectors.json: what every verifier, in any language, must say.
type vectors struct {
	Issuer    string          `json:"issuer"`
	Audience  string          `json:"audience"`
	Now       int64           `json:"now"`
	JWKS      json.RawMessage `json:"jwks"`
	Tokens    []tokenVector   `json:"tokens"`
	Canonical []textVector    `json:"canonical"`
}

type tokenVector struct {
	Name      string `json:"name"`
	Token     string `json:"token"`
	Now       int64  `json:"now,omitempty"` // in place of the common one
	Tool      string `json:"tool"`
	Arguments string `json:"arguments"` // as received
	Twice     bool   `json:"twice,omitempty"`
	Want      Reason `json:"want"` // "" means that the call is good
}

type textVector struct {
	Text string  `json:"text"`
	Want *string `json:"want"` // null means refused
}

// maker signs with the key of the vectors.
type maker struct {
	t    *testing.T
	sign *credential.Signer
	key  ed25519.PrivateKey
	kid  string
	jwks []byte
}

func newMaker(t *testing.T, name string, seed byte) *maker {
	t.Helper()
	s, err := credential.Open(filepath.Join(t.TempDir(), "keys"), credential.Options{Issuer: name, Random: &steady{seed}, Clock: func() time.Time { return begin }})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest("GET", KeysPath, nil))
	var raw [ed25519.SeedSize]byte
	_, _ = (&steady{seed}).Read(raw[:])
	var set jose.JSONWebKeySet
	if err := json.Unmarshal(w.Body.Bytes(), &set); err != nil {
		t.Fatal(err)
	}
	return &maker{t, s, ed25519.NewKeyFromSeed(raw[:]), set.Keys[0].KeyID, w.Body.Bytes()}
}

func goodClaims() credential.Claims {
	return credential.Claims{
		Audience: audience, Tool: "refund", Arguments: []byte(refund), Run: "run_1", Call: "call_1", Attempt: 1, Key: "key-1",
		Owner:   record.Owner{Tenant: "acme", Principal: record.Principal{Issuer: "https://login.example", Subject: "anna"}, Agent: "support-bot"},
		Targets: []record.Target{{Argument: "order", Value: json.RawMessage(`"ord_1"`)}}, Lease: begin.Add(30 * time.Second),
	}
}

func (m *maker) token(edit func(*credential.Claims)) string {
	m.t.Helper()
	c := goodClaims()
	if edit != nil {
		edit(&c)
	}
	token, err := m.sign.Sign(c)
	if err != nil {
		m.t.Fatal(err)
	}
	return token
}

// forge signs any payload and header with the vectors' own key, or another one.
func (m *maker) forge(key any, alg jose.SignatureAlgorithm, typ string, edit func(map[string]any)) string {
	m.t.Helper()
	_, rest, _ := strings.Cut(m.token(nil), ".")
	body, _, _ := strings.Cut(rest, ".")
	claims := map[string]any{}
	text, err := base64.RawURLEncoding.DecodeString(body)
	if err != nil {
		m.t.Fatal(err)
	}
	if err := json.Unmarshal(text, &claims); err != nil {
		m.t.Fatal(err)
	}
	for _, n := range []string{"iat", "exp"} {
		claims[n] = int64(claims[n].(float64))
	}
	if edit != nil {
		edit(claims)
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		m.t.Fatal(err)
	}
	o := (&jose.SignerOptions{}).WithHeader("kid", m.kid)
	if typ != "" {
		o = o.WithType(jose.ContentType(typ))
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, o)
	if err != nil {
		m.t.Fatal(err)
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		m.t.Fatal(err)
	}
	out, err := signed.CompactSerialize()
	if err != nil {
		m.t.Fatal(err)
	}
	return out
}

func makeVectors(t *testing.T) vectors {
	m, other := newMaker(t, issuer, 0), newMaker(t, issuer, 100)
	elsewhere := newMaker(t, "https://other.example", 0)
	v := vectors{Issuer: issuer, Audience: audience, Now: begin.Unix() + 5, JWKS: m.jwks}
	add := func(name, token string, want Reason, edits ...func(*tokenVector)) {
		c := tokenVector{Name: name, Token: token, Tool: "refund", Arguments: refund, Want: want}
		for _, e := range edits {
			e(&c)
		}
		v.Tokens = append(v.Tokens, c)
	}
	args := func(s string) func(*tokenVector) { return func(c *tokenVector) { c.Arguments = s } }
	at := func(n int64) func(*tokenVector) { return func(c *tokenVector) { c.Now = begin.Unix() + n } }
	plain := m.token(nil)
	add("good", plain, "")
	add("good, arguments in another order and spacing", m.token(nil), "", args("{ \"order\": \"ord_\\u0031\",\n\"amount\": 60.50 }"))
	add("good, no arguments", m.token(func(c *credential.Claims) { c.Arguments = nil }), "", args(""))
	add("good, with answers to the server's questions", m.token(func(c *credential.Claims) { c.Input = []byte(`{"requestState":"s"}`) }), "")
	add("good, in its last second", m.token(nil), "", at(29))
	add("used twice", m.token(nil), Replayed, func(c *tokenVector) { c.Twice = true })
	add("none", "", NoToken)
	add("no token at all", "Bearer x", BadToken)
	add("ended", m.token(nil), Expired, at(30))
	add("begins in the future", m.token(nil), Expired, at(-11))
	add("another tool", m.token(func(c *credential.Claims) { c.Tool = "lookup" }), OtherTool)
	add("another audience", m.token(func(c *credential.Claims) { c.Audience = "https://mail.example/mcp" }), OtherAudience)
	add("another issuer, same key", elsewhere.token(nil), OtherIssuer)
	add("another amount", m.token(nil), OtherArguments, args(`{"amount":605,"order":"ord_1"}`))
	add("one member more", m.token(nil), OtherArguments, args(`{"amount":60.5,"order":"ord_1","to":"x"}`))
	add("a member twice", m.token(nil), OtherArguments, args(`{"amount":605,"order":"ord_1","amount":60.5}`))
	add("arguments that are no JSON", m.token(nil), OtherArguments, args(`{"amount":60.5,"order":"ord_1"} x`))
	add("a key that is not published", other.token(nil), BadToken)
	add("an unpublished key under a published ID", m.forge(other.key, jose.EdDSA, tokenType, nil), BadToken)
	add("the public key as a secret", m.forge([]byte(m.key.Public().(ed25519.PublicKey)), jose.HS256, tokenType, nil), BadToken)
	add("no signature", "eyJhbGciOiJub25lIiwidHlwIjoicGxhY2V0LWRpc3BhdGNoK2p3dCJ9."+strings.Split(plain, ".")[1]+".", BadToken)
	add("a token of another kind", m.forge(m.key, jose.EdDSA, "at+jwt", nil), BadToken)
	add("a token of no kind", m.forge(m.key, jose.EdDSA, "", nil), BadToken)
	add("lasts too long", m.forge(m.key, jose.EdDSA, tokenType, func(c map[string]any) { c["exp"] = c["iat"].(int64) + 61 }), BadToken)
	add("without an ID", m.forge(m.key, jose.EdDSA, tokenType, func(c map[string]any) { delete(c, "jti") }), BadToken)
	add("without a tenant", m.forge(m.key, jose.EdDSA, tokenType, func(c map[string]any) { delete(c, "tenant") }), BadToken)
	add("without an end", m.forge(m.key, jose.EdDSA, tokenType, func(c map[string]any) { delete(c, "exp") }), Expired)
	add("several audiences", m.forge(m.key, jose.EdDSA, tokenType, func(c map[string]any) { c["aud"] = []string{audience, "x"} }), BadToken)
	parts := strings.Split(plain, ".")
	add("payload of another token", parts[0]+"."+strings.Split(m.token(func(c *credential.Claims) { c.Tool = "x" }), ".")[1]+"."+parts[2], BadToken)
	for _, s := range jsonSeeds {
		if !json.Valid([]byte(s)) && (!utf8.ValidString(s) || strings.ContainsAny(s, "\ufeff\x00")) {
			continue // a JSON file cannot hold them
		}
		c := textVector{Text: s}
		if text, err := canonical([]byte(s)); err == nil {
			form := string(text)
			c.Want = &form
		}
		v.Canonical = append(v.Canonical, c)
	}
	return v
}

// TestVectors: the file is what this code makes, and this verifier says of each
// token what the file says.
func TestVectors(t *testing.T) {
	made := makeVectors(t)
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(made); err != nil {
		t.Fatal(err)
	}
	const file = "testdata/vectors.json"
	if *update {
		if err := os.WriteFile(file, text.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(kept, text.Bytes()) {
		t.Errorf("%s is not current; run: go test ./verify -update", file)
	}
	var v vectors
	if err := json.Unmarshal(kept, &v); err != nil {
		t.Fatal(err)
	}
	for _, c := range v.Tokens {
		now := time.Unix(max(v.Now, 0), 0)
		if c.Now != 0 {
			now = time.Unix(c.Now, 0)
		}
		clock := func() time.Time { return now }
		k, err := New(Options{Issuer: v.Issuer, Audience: v.Audience, Keys: v.JWKS, Seen: PerProcess(clock), Clock: clock})
		if err != nil {
			t.Fatal(err)
		}
		call, err := k.Check(context.Background(), c.Token, c.Tool, []byte(c.Arguments))
		if c.Twice {
			if err != nil {
				t.Errorf("%s: the first time: %v", c.Name, err)
			}
			call, err = k.Check(context.Background(), c.Token, c.Tool, []byte(c.Arguments))
		}
		if c.Want == "" && (err != nil || call.Tenant != "acme" || call.Agent != "support-bot" || call.Principal.Subject != "anna" || call.Key != "key-1" || len(call.Targets) != 1) {
			t.Errorf("%s: %v, %+v", c.Name, err, call)
		}
		if c.Want != "" && (err == nil || ReasonOf(err) != c.Want) {
			t.Errorf("%s: %v, want %s", c.Name, err, c.Want)
		}
		if err != nil && (strings.Contains(err.Error(), "ord_1") || c.Token != "" && strings.Contains(err.Error(), c.Token)) {
			t.Errorf("%s: the error tells too much: %v", c.Name, err)
		}
	}
}
