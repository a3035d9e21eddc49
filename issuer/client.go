package issuer

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"slices"
	"time"

	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// party is a client as the library sees it.
type party struct {
	Client
	id string
	d  *Directory // as of this request
}

var _ op.Client = party{}

func (p party) GetID() string                        { return p.id }
func (p party) RedirectURIs() []string               { return p.Redirects }
func (p party) PostLogoutRedirectURIs() []string     { return nil }
func (p party) ApplicationType() op.ApplicationType  { return op.ApplicationTypeNative }
func (p party) ResponseTypes() []oidc.ResponseType   { return []oidc.ResponseType{oidc.ResponseTypeCode} }
func (p party) LoginURL(id string) string            { return "login?request=" + id }
func (p party) AccessTokenType() op.AccessTokenType  { return op.AccessTokenTypeJWT }
func (p party) IDTokenLifetime() time.Duration       { return accessLasts }
func (p party) DevMode() bool                        { return false }
func (p party) IsScopeAllowed(string) bool           { return true } // narrowed by granted, which knows the user
func (p party) IDTokenUserinfoClaimsAssertion() bool { return false }
func (p party) ClockSkew() time.Duration             { return 0 }
func (p party) RestrictAdditionalIdTokenScopes() func([]string) []string {
	return func(s []string) []string { return s }
}
func (p party) RestrictAdditionalAccessTokenScopes() func([]string) []string {
	return func(s []string) []string { return s }
}

func (p party) AuthMethod() oidc.AuthMethod {
	if p.Secret == "" {
		return oidc.AuthMethodNone
	}
	return oidc.AuthMethodBasic
}

func (p party) GrantTypes() []oidc.GrantType {
	var out []oidc.GrantType
	if len(p.Redirects) > 0 {
		out = append(out, oidc.GrantTypeCode, oidc.GrantTypeRefreshToken)
	}
	if p.ActsAlone {
		out = append(out, oidc.GrantTypeClientCredentials)
	}
	if p.Exchanges {
		out = append(out, oidc.GrantTypeTokenExchange)
	}
	if p.id == self {
		out = append(out, oidc.GrantTypeRefreshToken) // what backs delegations
	}
	return out
}

// VerifyClient implements op.Server: a client with a secret shows it, one without
// shows none.
func (i *Issuer) VerifyClient(ctx context.Context, r *op.Request[op.ClientCredentials]) (op.Client, error) {
	p, err := i.authenticated(ctx, r.Data)
	if err != nil {
		return nil, err
	}
	return p, nil
}

func (i *Issuer) authenticated(ctx context.Context, c *op.ClientCredentials) (party, error) {
	d, err := i.directory(ctx)
	if err != nil {
		return party{}, unreadable()
	}
	client, ok := i.client(d, c.ClientID)
	if !ok || c.ClientAssertion != "" || !sameSecret(client.Secret, c.ClientSecret) {
		// RFC 6749 section 5.2. Which of these it was is not told.
		return party{}, op.NewStatusError(oidc.ErrInvalidClient().WithDescription("unknown client, or another secret than its own"), http.StatusUnauthorized)
	}
	return party{Client: client, id: c.ClientID, d: d}, nil
}

func sameSecret(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

// unreadable is the answer while nobody knows who there is.
func unreadable() error {
	return op.NewStatusError(oidc.ErrServerError().WithDescription("the users file is wrong or cannot be read; the server's log says why"), http.StatusServiceUnavailable)
}

// granted narrows what is asked for to what a client may have for a user, now, of
// a resource. Without a wish it is all of that.
func granted(u User, c Client, r Resource, asked []string) []string {
	out := []string{}
	for _, s := range u.Scopes {
		if within(c.Scopes, s) && within(r.Scopes, s) && within(asked, s) {
			out = append(out, s)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// within reports whether a list that may be left out has an element.
func within(list []string, s string) bool { return len(list) == 0 || slices.Contains(list, s) }
