package main

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/placet-dev/placet/identity"
)

// tokens are more than the verifier remembers: used in turn, each is examined anew.
const tokens = 2200

// identityVersusJose compares the whole verification of a token whose key is held
// with what go-jose needs for the same token and key: parse, verify, decode the
// claims, compare issuer, audience and times. Ours also reads header and claims
// strictly, and makes tenant, principal, agent, scopes and groups of them.
func (b *bench) identityVersusJose(ctx context.Context) error {
	rounds := 20
	if b.short {
		rounds = 2
	}
	for _, a := range []struct {
		algorithm jose.SignatureAlgorithm
		key       func() (crypto.Signer, error)
		bound     target
	}{
		{jose.RS256, func() (crypto.Signer, error) { return rsa.GenerateKey(rand.Reader, 2048) }, target{most: 1.2}},
		{jose.ES256, func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }, target{most: 1.2}},
		{jose.EdDSA, func() (crypto.Signer, error) { _, k, err := ed25519.GenerateKey(rand.Reader); return k, err }, target{most: 1.2}},
	} {
		key, err := a.key()
		if err != nil {
			return err
		}
		s, err := newVerifying(a.algorithm, key)
		if err != nil {
			return err
		}
		var failed error
		theirs, ours := pace(rounds, tokens, func(n int) {
			if err := s.jose(s.raw[n]); err != nil {
				failed = err
			}
		}, func(n int) {
			if c, err := s.verifier.Caller(ctx, identity.Credentials{Bearer: s.raw[n]}); err != nil || !c.Valid() {
				failed = fmt.Errorf("identity: %w", err)
			}
		})
		if failed != nil {
			return failed
		}
		b.ratio("identity_vs_jose_"+string(a.algorithm), ours.Seconds()/theirs.Seconds(), a.bound)
		b.say("one token %v, go-jose alone %v: the best of %d rounds of %d, keys held, no result remembered", ours, theirs, rounds, tokens)
	}
	return nil
}

// verifying is tokens of one key, with both who verify them.
type verifying struct {
	raw      []string
	verifier *identity.Verifier
	key      crypto.PublicKey
	alg      jose.SignatureAlgorithm
}

const benchIssuer = "https://login.example.com/realms/staff"

func newVerifying(alg jose.SignatureAlgorithm, key crypto.Signer) (*verifying, error) {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: jose.JSONWebKey{Key: key, KeyID: "k1"}}, (&jose.SignerOptions{}).WithType("at+jwt"))
	if err != nil {
		return nil, err
	}
	v := &verifying{key: key.Public(), alg: alg}
	now := time.Now()
	for n := range tokens {
		text, err := jwt.Signed(signer).Claims(map[string]any{
			"iss": benchIssuer, "aud": "https://tools.example.com/mcp", "sub": fmt.Sprintf("f3a9c2d4-%04d", n), "azp": "support-bot", "jti": fmt.Sprint("t", n),
			"scope": "tickets:read refunds:write orders:read", "groups": []string{"support", "support-leads", "staff"}, "name": "Anna Berg", "email": "anna@example.com",
			"iat": now.Unix(), "exp": now.Add(10 * time.Minute).Unix(),
		}).Serialize()
		if err != nil {
			return nil, err
		}
		v.raw = append(v.raw, text)
	}
	set, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k1", Algorithm: string(alg), Use: "sig"}}})
	if err != nil {
		return nil, err
	}
	v.verifier, err = identity.New(identity.Config{Issuers: []identity.Issuer{{Issuer: benchIssuer, Audience: []string{"https://tools.example.com/mcp"}, Algorithms: []string{string(alg)},
		Tenant: "acme", Claims: identity.Claims{Groups: "groups"}, JWKS: set, MaxTokenAge: 15 * time.Minute}}}, identity.Deps{Clock: time.Now})
	return v, err
}

// jose is what a program does with the library alone.
func (v *verifying) jose(raw string) error {
	t, err := jwt.ParseSigned(raw, []jose.SignatureAlgorithm{v.alg})
	if err != nil {
		return err
	}
	var registered jwt.Claims
	var own struct {
		Scope  string   `json:"scope"`
		Azp    string   `json:"azp"`
		Groups []string `json:"groups"`
	}
	if err := t.Claims(v.key, &registered, &own); err != nil {
		return err
	}
	return registered.Validate(jwt.Expected{Issuer: benchIssuer, AnyAudience: jwt.Audience{"https://tools.example.com/mcp"}, Time: time.Now()})
}
