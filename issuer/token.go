package issuer

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/placet-dev/placet/identity"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// grant is a code's: what a person agreed to. It is used once.
type grant struct {
	request
	subject string
	at      time.Time
	used    bool
	login   string // the session that its first use began
}

// answer is what the token endpoint answers (RFC 6749 section 5.1).
type answer struct {
	AccessToken  string `json:"access_token"`
	Type         string `json:"token_type"`
	ExpiresIn    int64  `json:"expires_in"`
	Scope        string `json:"scope"`
	RefreshToken string `json:"refresh_token,omitempty"`
	IDToken      string `json:"id_token,omitempty"`
	IssuedType   string `json:"issued_token_type,omitempty"` // RFC 8693 section 2.2.1
}

// grant makes the code of a login that a person completed. It ends the request.
func (i *Issuer) grant(id, subject string) (string, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := i.o.Clock()
	q, ok := i.requests.get(id, now)
	if !ok {
		return "", oidc.ErrInvalidRequest()
	}
	code, err := i.nonceLocked()
	if err != nil {
		return "", err
	}
	i.requests.drop(id)
	i.codes.put(code, &grant{request: q, subject: subject, at: now}, now, now.Add(codeLasts))
	return code, nil
}

// CodeExchange implements op.Server. A code works once, also when its use fails;
// a second use ends the session of the first (RFC 6749 section 4.1.2).
func (i *Issuer) CodeExchange(_ context.Context, r *op.ClientRequest[oidc.AccessTokenRequest]) (*op.Response, error) {
	p := r.Client.(party)
	i.mu.Lock()
	defer i.mu.Unlock()
	now := i.o.Clock()
	g, ok := i.codes.get(r.Data.Code, now)
	if !ok || g.client != p.id {
		return nil, oidc.ErrInvalidGrant().WithDescription("the code is not known, or another client's")
	}
	if g.used {
		i.end(g.login, "its code was used twice")
		return nil, oidc.ErrInvalidGrant().WithDescription("the code was used before; the tokens of its first use are revoked")
	}
	g.used = true
	challenge := &oidc.CodeChallenge{Challenge: g.challenge, Method: oidc.CodeChallengeMethodS256}
	switch {
	case r.Data.RedirectURI != g.redirect:
		return nil, oidc.ErrInvalidGrant().WithDescription("the redirect_uri is not that of the login")
	case !oidc.VerifyCodeChallenge(challenge, r.Data.CodeVerifier):
		return nil, oidc.ErrInvalidGrant().WithDescription("the code_verifier is missing, or not that of the login (RFC 7636)")
	}
	if err := sameTarget(r.Form["resource"], g.audience); err != nil {
		return nil, err
	}
	u, ok := p.d.user(g.subject)
	if !ok {
		return nil, oidc.ErrInvalidGrant().WithDescription("this person is not in the directory any more")
	}
	s := session{subject: g.subject, tenant: u.Tenant, client: p.id, audience: g.audience, scopes: i.scopesFor(p, u, g.audience, g.scopes)}
	if !p.Approves {
		s.turn = 1 // answering takes a login each time (rule D4)
	}
	begun, err := i.begin(s, now)
	if err != nil {
		return nil, err
	}
	g.login = begun.id
	a, err := i.issue(begun, u, begun.scopes, now)
	if err != nil {
		return nil, err
	}
	if g.openid {
		if a.IDToken, err = i.idToken(g, u, now); err != nil {
			return nil, err
		}
	}
	return op.NewResponse(a), nil
}

// scopesFor are those that a login gets; one for answering has none (rule D4).
func (i *Issuer) scopesFor(p party, u User, audience string, asked []string) []string {
	r, ok := i.resource(p.d, audience)
	if !ok || p.Approves {
		return []string{}
	}
	return granted(u, p.Client, r, asked)
}

// sameTarget refuses a resource other than the login's (RFC 8707 section 2.2).
func sameTarget(asked []string, audience string) error {
	if slices.ContainsFunc(asked, func(a string) bool { return a != audience }) {
		return oidc.ErrInvalidTarget().WithDescription("the login was for another resource")
	}
	return nil
}

// RefreshToken implements op.Server. Each refresh token works once: whoever comes
// with a used one may be a thief, or the victim of one, so the session ends
// (RFC 9700 section 4.14.2).
func (i *Issuer) RefreshToken(_ context.Context, r *op.ClientRequest[oidc.RefreshTokenRequest]) (*op.Response, error) {
	p := r.Client.(party)
	i.mu.Lock()
	defer i.mu.Unlock()
	now := i.o.Clock()
	id, turn, ok := i.unseal(r.Data.RefreshToken)
	s, live := i.sessions.get(id, now)
	if !ok || !live || s.client != p.id || s.endedBy != "" {
		return nil, oidc.ErrInvalidGrant().WithDescription("the refresh token is not valid here, or its session is over; sign in again")
	}
	if turn != s.turn {
		i.end(id, "a refresh token was used twice")
		return nil, oidc.ErrInvalidGrant().WithDescription("the refresh token was used before, so its session ended; sign in again")
	}
	if err := sameTarget(r.Form["resource"], s.audience); err != nil {
		return nil, err
	}
	u, ok := p.d.user(s.subject)
	if !ok || u.Tenant != s.tenant {
		i.end(id, "its person is not in the directory any more")
		return nil, oidc.ErrInvalidGrant().WithDescription("this person is not in the directory any more")
	}
	asked, _ := split(r.Data.Scopes)
	if slices.ContainsFunc(asked, func(name string) bool { return !slices.Contains(s.scopes, name) }) {
		return nil, oidc.ErrInvalidScope().WithDescription("a refresh takes scopes away, and adds none")
	}
	res, _ := i.resource(p.d, s.audience)
	scopes := slices.DeleteFunc(granted(u, p.Client, res, asked), func(name string) bool { return !slices.Contains(s.scopes, name) })
	s.turn++
	a, err := i.issue(s, u, scopes, now)
	if err != nil {
		return nil, err
	}
	return op.NewResponse(a), nil
}

// issue makes the tokens of a session.
func (i *Issuer) issue(s *session, u User, scopes []string, now time.Time) (answer, error) {
	token, err := i.local.Sign(identity.TokenSpec{Audience: s.audience, Subject: s.subject, Tenant: s.tenant, Agent: s.client,
		Scopes: scopes, Groups: u.Groups, TTL: accessLasts, Session: s.id})
	a := answer{AccessToken: token, Type: oidc.BearerToken, ExpiresIn: int64(accessLasts.Seconds()), Scope: strings.Join(scopes, " ")}
	if s.turn > 0 {
		a.RefreshToken = i.seal(s.id, s.turn)
	}
	return a, err
}

// idToken tells the client who signed in (OpenID Connect Core section 2).
func (i *Issuer) idToken(g *grant, u User, now time.Time) (string, error) {
	claims := map[string]any{"sub": g.subject, "aud": g.client, "iat": now.Unix(), "exp": now.Add(accessLasts).Unix(),
		"auth_time": g.at.Unix(), "name": cmp.Or(u.Name, g.subject), "sid": g.login}
	if g.nonce != "" {
		claims["nonce"] = g.nonce
	}
	return i.local.SignID(claims)
}

// ClientCredentialsExchange implements op.Server: a program's own token, whose
// subject is the program (RFC 9068 section 2.2).
func (i *Issuer) ClientCredentialsExchange(_ context.Context, r *op.ClientRequest[oidc.ClientCredentialsRequest]) (*op.Response, error) {
	p := r.Client.(party)
	audience, err := i.target(p, r.Form["resource"])
	if err != nil {
		return nil, err
	}
	res, _ := i.resource(p.d, audience)
	asked, _ := split(r.Data.Scope)
	if slices.ContainsFunc(asked, func(s string) bool { return !slices.Contains(p.Scopes, s) }) {
		return nil, oidc.ErrInvalidScope().WithDescription("this client has no such scope of its own")
	}
	scopes := granted(User{Scopes: p.Scopes}, p.Client, res, asked)
	token, err := i.local.Sign(identity.TokenSpec{Audience: audience, Subject: p.id, Tenant: p.Tenant, Agent: p.id, Scopes: scopes, TTL: accessLasts})
	if err != nil {
		return nil, err
	}
	return op.NewResponse(answer{AccessToken: token, Type: oidc.BearerToken, ExpiresIn: int64(accessLasts.Seconds()), Scope: strings.Join(scopes, " ")}), nil
}
