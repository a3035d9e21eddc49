package issuertest

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// storage is what the library asks: users, clients, keys and refresh tokens. What
// it does not implement is not used by the flows that tests run.
type storage struct {
	op.Storage

	mu      sync.Mutex
	users   map[string]User
	clients map[string]Client
	refresh map[string]grant
	life    time.Duration
}

var (
	_ op.TokenExchangeStorage     = (*storage)(nil)
	_ op.ClientCredentialsStorage = (*storage)(nil)
)

func newStorage() *storage {
	return &storage{users: map[string]User{}, clients: map[string]Client{}, refresh: map[string]grant{}, life: 5 * time.Minute}
}

// grant is what a refresh token stands for.
type grant struct {
	client, user     string
	audience, scopes []string
}

func (g *grant) GetAMR() []string            { return nil }
func (g *grant) GetAudience() []string       { return g.audience }
func (g *grant) GetAuthTime() time.Time      { return time.Now() }
func (g *grant) GetClientID() string         { return g.client }
func (g *grant) GetScopes() []string         { return g.scopes }
func (g *grant) GetSubject() string          { return g.user }
func (g *grant) SetCurrentScopes(s []string) { g.scopes = s }

func (s *storage) CreateAccessToken(context.Context, op.TokenRequest) (string, time.Time, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return rand.Text(), time.Now().Add(s.life), nil
}

func (s *storage) CreateAccessAndRefreshTokens(_ context.Context, q op.TokenRequest, current string) (id, next string, ends time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := grant{user: q.GetSubject(), audience: q.GetAudience(), scopes: q.GetScopes()}
	if c, ok := q.(interface{ GetClientID() string }); ok {
		g.client = c.GetClientID()
	}
	delete(s.refresh, current) // rotation: the old one is worth nothing
	next = rand.Text()
	s.refresh[next] = g
	return rand.Text(), next, time.Now().Add(s.life), nil
}

func (s *storage) TokenRequestByRefreshToken(_ context.Context, token string) (op.RefreshTokenRequest, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, ok := s.refresh[token]
	u, known := s.users[g.user]
	if !ok || !known {
		return nil, errors.New("no such refresh token, or its user is gone")
	}
	g.scopes = both(g.scopes, u.Scopes)
	return &g, nil
}

func both(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return !slices.Contains(b, s) })
}

func (s *storage) GetRefreshTokenInfo(_ context.Context, _, token string) (string, string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, ok := s.refresh[token]
	if !ok {
		return "", "", op.ErrInvalidRefreshToken
	}
	return g.user, token, nil
}

func (s *storage) RevokeToken(_ context.Context, token, _, client string) *oidc.Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refresh[token].client == client {
		delete(s.refresh, token)
	}
	return nil
}

type key struct{ public bool }

func (key) SignatureAlgorithm() jose.SignatureAlgorithm { return jose.RS256 }
func (key) Algorithm() jose.SignatureAlgorithm          { return jose.RS256 }
func (key) ID() string                                  { return keyID }
func (key) Use() string                                 { return "sig" }
func (k key) Key() any {
	if k.public {
		return &signingKey().PublicKey
	}
	return signingKey()
}

func (*storage) SigningKey(context.Context) (op.SigningKey, error) { return key{}, nil }
func (*storage) KeySet(context.Context) ([]op.Key, error)          { return []op.Key{key{true}}, nil }
func (*storage) Health(context.Context) error                      { return nil }
func (*storage) SignatureAlgorithms(context.Context) ([]jose.SignatureAlgorithm, error) {
	return []jose.SignatureAlgorithm{jose.RS256}, nil
}

// client is a client as the library sees it.
type client struct {
	op.Client
	id    string
	known Client
}

func (c client) GetID() string { return c.id }
func (c client) AuthMethod() oidc.AuthMethod {
	if c.known.Key != nil {
		return oidc.AuthMethodPrivateKeyJWT
	}
	return oidc.AuthMethodBasic
}
func (client) GrantTypes() []oidc.GrantType {
	return []oidc.GrantType{oidc.GrantTypeClientCredentials, oidc.GrantTypeTokenExchange, oidc.GrantTypeRefreshToken}
}
func (client) AccessTokenType() op.AccessTokenType { return op.AccessTokenTypeJWT }
func (client) IDTokenLifetime() time.Duration      { return time.Minute }
func (client) ClockSkew() time.Duration            { return 0 }
func (client) IDTokenUserinfoClaimsAssertion() bool {
	return false
}
func (client) RestrictAdditionalIdTokenScopes() func([]string) []string {
	return func(s []string) []string { return s }
}
func (client) RestrictAdditionalAccessTokenScopes() func([]string) []string {
	return func(s []string) []string { return s }
}

func (s *storage) GetClientByClientID(_ context.Context, id string) (op.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.clients[id]
	if !ok {
		return nil, errors.New("no such client")
	}
	return client{id: id, known: c}, nil
}

func (s *storage) AuthorizeClientIDSecret(_ context.Context, id, secret string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c, ok := s.clients[id]; !ok || c.Secret == "" || c.Secret != secret {
		return errors.New("no such client or secret")
	}
	return nil
}

func (s *storage) GetKeyByIDAndClientID(_ context.Context, _, id string) (*jose.JSONWebKey, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c, ok := s.clients[id]; ok && c.Key != nil {
		return c.Key, nil
	}
	return nil, errors.New("no such key")
}

func (s *storage) ClientCredentials(ctx context.Context, id, secret string) (op.Client, error) {
	if err := s.AuthorizeClientIDSecret(ctx, id, secret); err != nil {
		return nil, err
	}
	return s.GetClientByClientID(ctx, id)
}

func (s *storage) ClientCredentialsTokenRequest(_ context.Context, id string, scopes []string) (op.TokenRequest, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &oidc.JWTTokenRequest{Subject: id, Audience: s.clients[id].Audience, Scopes: both(scopes, s.clients[id].Scopes)}, nil
}

// ValidateTokenExchangeRequest lets a client act for a user who is there, with what
// both the request and the user have.
func (s *storage) ValidateTokenExchangeRequest(_ context.Context, q op.TokenExchangeRequest) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	u, ok := s.users[q.GetExchangeSubject()]
	if !ok {
		return oidc.ErrInvalidGrant().WithDescription("planted-description: the user is gone")
	}
	if q.GetRequestedTokenType() == "" {
		q.SetRequestedTokenType(oidc.AccessTokenType)
	}
	q.SetCurrentScopes(both(q.GetScopes(), u.Scopes))
	return nil
}

func (*storage) CreateTokenExchangeRequest(context.Context, op.TokenExchangeRequest) error {
	return nil
}

// GetPrivateClaimsFromTokenExchangeRequest says who acts: the client, for the agent
// of the token that it exchanged (RFC 8693 section 4.1).
func (s *storage) GetPrivateClaimsFromTokenExchangeRequest(_ context.Context, q op.TokenExchangeRequest) (map[string]any, error) {
	claims := s.claims(q.GetExchangeSubject(), q.GetScopes())
	act := map[string]any{"sub": q.GetClientID()}
	if q.GetExchangeActor() != "" {
		act["sub"] = q.GetExchangeActor()
	}
	if agent, ok := q.GetExchangeSubjectTokenClaims()["azp"]; ok {
		act["act"] = map[string]any{"sub": agent}
	}
	claims["act"] = act
	return claims, nil
}

func (s *storage) GetPrivateClaimsFromScopes(_ context.Context, user, client string, scopes []string) (map[string]any, error) {
	claims := s.claims(user, scopes)
	claims["azp"] = client
	return claims, nil
}

func (s *storage) claims(user string, scopes []string) map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.users[user]
	return map[string]any{"scope": strings.Join(scopes, " "), "groups": append([]string{}, u.Groups...), "tenant": u.Tenant}
}

func (*storage) SetUserinfoFromScopes(context.Context, *oidc.UserInfo, string, string, []string) error {
	return nil
}
func (*storage) SetUserinfoFromTokenExchangeRequest(context.Context, *oidc.UserInfo, op.TokenExchangeRequest) error {
	return nil
}
