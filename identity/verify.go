package identity

import (
	"bytes"
	"cmp"
	"context"
	"crypto"
	"crypto/rsa"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/record"
)

// verified is what a token says once everything but its audience was checked.
// It is shared and never changed.
type verified struct {
	issuer       *issuer
	tenant       record.TenantID
	principal    record.Principal
	agent        record.AgentID
	agentProblem string // why there is no agent; "" if there is one
	scopes       []string
	groups       []record.Group
	audience     []string
	public       json.RawMessage
	actors       []string // who acts for the subject, the current one first
	program      bool     // the subject is a program, as far as the token shows
	expires      time.Time
	binding      binding
	unbound      error // why the binding cannot be checked; nil if it can
	session      string
	login        string // the issuer's name for the login; "" if it names none
}

// examine makes every check that does not depend on what the token is used for.
// The order is that of the check names.
func (v *Verifier) examine(ctx context.Context, raw string, now time.Time) (*verified, error) {
	t, err := parseToken(raw)
	if err != nil {
		return nil, err
	}
	i, err := v.issuerOf(t)
	if err != nil {
		return nil, err
	}
	if err := i.checkHeader(t); err != nil {
		return nil, err
	}
	if err := i.checkSignature(ctx, t); err != nil {
		return nil, err
	}
	r := &verified{issuer: i}
	if r.expires, err = i.checkLifetime(t.claims, now); err != nil {
		return nil, err
	}
	return r, r.read(t.claims)
}

func (v *Verifier) issuerOf(t token) (*issuer, error) {
	if t.issuer == "" {
		return nil, refuse(checkIssuer, record.Unauthenticated, "the token names no issuer (iss)")
	}
	i, ok := v.issuers[t.issuer]
	if !ok {
		i, ok = v.addresses[t.issuer]
	}
	if !ok {
		return nil, refuse(checkIssuer, record.Unauthenticated, "the token's issuer is not one that is trusted here; get a token from a configured issuer")
	}
	return i, nil
}

// idTokenClaims occur in ID tokens and other JWTs that are no access tokens
// (OpenID Connect Core section 2, RFC 8417).
var idTokenClaims = []string{"nonce", "at_hash", "c_hash", "s_hash", "events"}

func (i *issuer) checkHeader(t token) error {
	if !slices.Contains(i.Algorithms, t.algorithm) {
		return refuse(checkAlgorithm, record.Unauthenticated, "the token is not signed with an algorithm configured for its issuer (%s)", strings.Join(i.Algorithms, ", "))
	}
	stated := cmp.Or(t.kind, "none") // some providers state none, and an operator must say that this is one
	if !slices.ContainsFunc(i.TokenTypes, func(kind string) bool { return strings.EqualFold(kind, stated) }) {
		return refuse(checkType, record.Unauthenticated, "the token's type (typ) is not one configured for its issuer (%s)", strings.Join(i.TokenTypes, ", "))
	}
	isID := t.kind != "at+jwt" && slices.ContainsFunc(idTokenClaims, func(name string) bool { _, ok := canon.Lookup(t.claims, name); return ok })
	// Keycloak and Cognito say what a token is in a claim.
	kind, _ := canon.Lookup(t.claims, "typ")
	use, _ := canon.Lookup(t.claims, "token_use")
	if isID || slices.Contains([]string{`"ID"`, `"Refresh"`, `"Offline"`, `"Logout"`}, string(kind)) || string(use) == `"id"` {
		return refuse(checkType, record.Unauthenticated, "this is an ID token or another token that is not for access; send an access token")
	}
	return nil
}

func (i *issuer) checkSignature(ctx context.Context, t token) error {
	keys, err := i.keys.find(ctx, t.key, t.algorithm)
	if err != nil {
		return err
	}
	payload, err := signedBy(keys, t.raw, i.algorithms)
	if err != nil {
		return err
	}
	if !bytes.Equal(payload, t.payload) { // what was signed is what was read: two decoders, one text
		return refuse(checkSignature, record.Unauthenticated, "the token's signature is not its issuer's")
	}
	return nil
}

// signedBy returns what one of the keys signed.
func signedBy(keys []jose.JSONWebKey, raw string, algorithms []jose.SignatureAlgorithm) ([]byte, error) {
	signed, err := jose.ParseSignedCompact(raw, algorithms)
	if err != nil {
		return nil, refuseBecause(checkSignature, record.Unauthenticated, err, "the token is not a signed JWT")
	}
	for _, key := range keys {
		if payload, err := signed.Verify(key.Key); err == nil && saltFits(key.Key, raw, signed.Signatures[0]) {
			return payload, nil
		}
	}
	return nil, refuse(checkSignature, record.Unauthenticated, "the token's signature is not its issuer's")
}

// saltFits checks what the library leaves open: the salt of RSASSA-PSS is as long as
// the hash (RFC 7518 section 3.5).
func saltFits(key any, raw string, s jose.Signature) bool {
	var hash crypto.Hash
	switch s.Header.Algorithm {
	case "PS256":
		hash = crypto.SHA256
	case "PS384":
		hash = crypto.SHA384
	case "PS512":
		hash = crypto.SHA512
	default:
		return true
	}
	public, ok := key.(*rsa.PublicKey)
	if !ok {
		return false
	}
	h := hash.New()
	h.Write([]byte(raw[:strings.LastIndexByte(raw, '.')]))
	return rsa.VerifyPSS(public, hash, h.Sum(nil), s.Signature, &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash}) == nil
}

func (i *issuer) checkLifetime(claims []byte, now time.Time) (time.Time, error) {
	exp, present, ok := timeClaim(claims, "exp")
	if !present || !ok {
		return exp, refuse(checkLifetime, record.Unauthenticated, "the token has no expiry (exp) that can be read")
	}
	nbf, _, ok1 := timeClaim(claims, "nbf")
	iat, issued, ok2 := timeClaim(claims, "iat")
	switch {
	case !ok1 || !ok2:
		return exp, refuse(checkLifetime, record.Unauthenticated, "the token's nbf or iat cannot be read")
	case now.Add(i.Skew).Before(nbf) || now.Add(i.Skew).Before(iat):
		return exp, refuse(checkLifetime, record.Unauthenticated, "the token is not valid yet; compare the clocks here and at the issuer")
	case i.MaxTokenAge > 0 && !issued:
		return exp, refuse(checkLifetime, record.Unauthenticated, "the token does not say when it was issued (iat), and its issuer's max_token_age needs that")
	}
	if oldest := iat.Add(i.MaxTokenAge); i.MaxTokenAge > 0 && oldest.Before(exp) {
		if !now.Before(oldest) && now.Before(exp) {
			return oldest, refuse(checkLifetime, record.Unauthenticated, "the token was issued at %s, longer ago than max_token_age of its issuer (%s) permits, although it has not expired; get a new one", iat.UTC().Format(time.RFC3339), i.MaxTokenAge)
		}
		exp = oldest
	}
	return exp, alive(exp, now)
}

// alive has no tolerance: a token that has just expired is fetched anew.
func alive(expires, now time.Time) error {
	if now.Before(expires) {
		return nil
	}
	return refuse(checkLifetime, record.Unauthenticated, "the token expired at %s; get a new one", expires.UTC().Format(time.RFC3339))
}

// read maps the claims as the issuer's configuration says.
func (r *verified) read(claims []byte) error {
	i := r.issuer
	subject, problem := nameClaim(claims, i.Claims.Subject)
	if problem != "" {
		return refuse(checkSubject, record.Unauthenticated, "%s", problem)
	}
	r.principal = record.Principal{Issuer: i.Issuer.Issuer, Subject: subject}
	var err error
	if r.tenant, err = i.tenantOf(claims); err != nil {
		return err
	}
	if r.scopes, err = i.scopesOf(claims); err != nil {
		return err
	}
	if r.groups, err = i.groupsOf(claims); err != nil {
		return err
	}
	if r.actors, err = actorsOf(claims); err != nil {
		return err
	}
	aud, _ := canon.Lookup(claims, "aud")
	var ok bool
	if r.audience, ok = listClaim(aud, ""); !ok {
		return refuse(checkAudience, record.Unauthenticated, "the token has no audience (aud) that can be read")
	}
	r.binding, r.unbound = bindingOf(claims)
	r.agent, r.agentProblem = i.agentOf(claims, r.actors)
	r.program = isProgram(claims)
	r.public = publicClaims(claims)
	r.login = loginOf(claims)
	r.session = sessionOf(record.Owner{Tenant: r.tenant, Principal: r.principal, Agent: r.agent})
	return nil
}

// isProgram reports whether a token shows that no person logged in: its subject
// is its client (RFC 9068 section 2.2), or the provider says so.
func isProgram(claims []byte) bool {
	subject, _ := canon.Lookup(claims, "sub")
	for _, name := range []string{"client_id", "azp"} {
		if client, ok := canon.Lookup(claims, name); ok && bytes.Equal(client, subject) {
			return true
		}
	}
	idtyp, _ := canon.Lookup(claims, "idtyp")
	gty, _ := canon.Lookup(claims, "gty")
	return string(idtyp) == `"app"` || string(gty) == `"client-credentials"`
}

// madeFor reports whether the token is for proposing, for answering, or both.
func (r *verified) madeFor() (proposing, answering bool) {
	i := r.issuer
	proposing = slices.ContainsFunc(r.audience, func(a string) bool { return slices.Contains(i.Audience, a) })
	answering = i.ConsoleAudience != "" && slices.Contains(r.audience, i.ConsoleAudience)
	return proposing, answering
}

// mayPropose and mayAnswer exclude one another (rule D4): a token for both
// audiences is good for neither.
func (r *verified) mayPropose() error {
	switch proposing, answering := r.madeFor(); {
	case !proposing:
		return refuse(checkAudience, record.Unauthenticated, "the token is not made for this server; ask the issuer for audience %s", strings.Join(r.issuer.Audience, " or "))
	case answering:
		return refuse(checkAudience, record.Unauthenticated, "the token is made for answering approvals too; a token that proposes must not be able to answer")
	case r.agentProblem != "":
		return refuse(checkAgent, record.Unauthenticated, "%s", r.agentProblem)
	}
	return nil
}

func (r *verified) mayAnswer() error {
	switch proposing, answering := r.madeFor(); {
	case r.issuer.ConsoleAudience == "":
		return refuse(checkAudience, record.Unauthenticated, "logins of this issuer cannot answer or operate")
	case !answering || proposing:
		return refuse(checkAudience, record.Unauthenticated, "a token that may propose cannot answer or operate; log in for audience %s alone", r.issuer.ConsoleAudience)
	case len(r.actors) > 0:
		return refuse(checkPerson, record.Unauthenticated, "somebody acts for this token's subject (act); answering and operating need the person's own login")
	case r.program:
		return refuse(checkPerson, record.Unauthenticated, "this token is a program's; answering and operating need a person's login")
	}
	return nil
}
