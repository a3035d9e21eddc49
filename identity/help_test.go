package identity_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/placet-dev/placet/identity"
)

const (
	staff   = "https://login.example.com/realms/staff"
	support = "https://support.example.com"
	mcp     = "https://tools.example.com/mcp"
	console = "https://tools.example.com/console"
)

// clock is the time of a test.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func newClock() *clock { return &clock{at: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// keys are made once: RSA keys take long.
type keys struct {
	rsa, otherRSA *rsa.PrivateKey
	smallRSA      *rsa.PrivateKey
	ec            *ecdsa.PrivateKey
	ed, otherEd   ed25519.PrivateKey
}

var testKeys = sync.OnceValue(func() keys {
	var k keys
	k.rsa, _ = rsa.GenerateKey(rand.Reader, 2048)
	k.otherRSA, _ = rsa.GenerateKey(rand.Reader, 2048)
	k.smallRSA, _ = rsa.GenerateKey(rand.Reader, 1024)
	k.ec, _ = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	// These are the same in every process, so that fuzzing is repeatable.
	k.ed = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize))
	k.otherEd = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{2}, ed25519.SeedSize))
	return k
})

func public(name, algorithm string, key crypto.PublicKey) jose.JSONWebKey {
	return jose.JSONWebKey{Key: key, KeyID: name, Algorithm: algorithm, Use: "sig"}
}

func jwks(t testing.TB, keys ...jose.JSONWebKey) []byte {
	t.Helper()
	text, err := json.Marshal(jose.JSONWebKeySet{Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// config has an issuer with RS256 and ES256 that asserts groups, and one with
// EdDSA whose claim names the tenant.
func config(t testing.TB) identity.Config {
	k := testKeys()
	return identity.Config{
		Issuers: []identity.Issuer{{
			Issuer: staff, Audience: []string{mcp}, ConsoleAudience: console, Algorithms: []string{"RS256", "ES256"}, Tenant: "acme",
			Claims: identity.Claims{Groups: "groups"},
			JWKS:   jwks(t, public("r1", "RS256", &k.rsa.PublicKey), public("e1", "", &k.ec.PublicKey), public("ed", "EdDSA", k.ed.Public())),
		}, {
			Issuer: support, Audience: []string{mcp}, Algorithms: []string{"EdDSA"}, TenantClaim: "org.id", Tenants: []string{"acme", "globex"},
			Claims: identity.Claims{Agent: []string{"client_id"}},
			JWKS:   jwks(t, public("ed", "EdDSA", k.ed.Public())),
		}},
		Operate: []string{"group:platform"},
		Read:    []string{"group:security@" + staff},
	}
}

func verifier(t testing.TB, c identity.Config, at *clock) *identity.Verifier {
	t.Helper()
	v, err := identity.New(c, identity.Deps{Clock: at.now})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

type object map[string]any

// with returns a copy with some members changed; nil takes one away.
func (o object) with(pairs ...any) object {
	o = maps.Clone(o)
	for n := 0; n < len(pairs); n += 2 {
		if name := pairs[n].(string); pairs[n+1] == nil {
			delete(o, name)
		} else {
			o[name] = pairs[n+1]
		}
	}
	return o
}

func rs256() object { return object{"alg": "RS256", "kid": "r1", "typ": "at+jwt"} }
func eddsa() object { return object{"alg": "EdDSA", "kid": "ed", "typ": "JWT"} }

func claims(at *clock) object {
	return object{
		"iss": staff, "aud": mcp, "sub": "anna", "azp": "helper", "scope": "crm:read crm:write", "groups": []string{"support", "platform"},
		"iat": at.now().Unix(), "exp": at.now().Add(5 * time.Minute).Unix(), "department": "sales",
	}
}

func supportClaims(at *clock) object {
	return claims(at).with("iss", support, "client_id", "support-app", "org", object{"id": "globex"})
}

func text(t testing.TB, v any) string {
	t.Helper()
	if s, ok := v.(string); ok {
		return s
	}
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

var b64 = base64.RawURLEncoding

// mint signs any header with any claims, objects or raw text, also wrong ones.
func mint(t testing.TB, key any, header, claims any) string {
	t.Helper()
	input := b64.EncodeToString([]byte(text(t, header))) + "." + b64.EncodeToString([]byte(text(t, claims)))
	sum := sha256.Sum256([]byte(input))
	var signature []byte
	var err error
	switch key := key.(type) {
	case *rsa.PrivateKey:
		signature, err = rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
	case *ecdsa.PrivateKey:
		r, s, e := ecdsa.Sign(rand.Reader, key, sum[:])
		err, signature = e, make([]byte, 64)
		r.FillBytes(signature[:32])
		s.FillBytes(signature[32:])
	case ed25519.PrivateKey:
		signature = ed25519.Sign(key, []byte(input))
	case []byte:
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(input))
		signature = mac.Sum(nil)
	case nil:
	default:
		err = fmt.Errorf("no such key: %T", key)
	}
	if err != nil {
		t.Fatal(err)
	}
	return input + "." + b64.EncodeToString(signature)
}
