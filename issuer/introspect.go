package issuer

import (
	"context"
	"net/http"
	"strings"

	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// Introspect implements op.Server (RFC 7662): what a token is worth now. Beside
// the standard's members an active one has tenant, groups and act.
func (i *Issuer) Introspect(ctx context.Context, r *op.Request[op.IntrospectionRequest]) (*op.Response, error) {
	p, err := i.authenticated(ctx, r.Data.ClientCredentials)
	if err != nil {
		return nil, err
	}
	if !p.Introspects {
		return nil, op.NewStatusError(oidc.ErrUnauthorizedClient().WithDescription("this client may not introspect"), http.StatusForbidden)
	}
	s, err := i.Session(ctx, r.Data.Token)
	if err != nil {
		return nil, unreadable()
	}
	if !s.Active {
		return op.NewResponse(map[string]any{"active": false}), nil
	}
	out := map[string]any{
		"active": true, "iss": s.Issuer, "sub": s.Subject, "tenant": s.Tenant, "client_id": s.Client, "aud": s.Audience,
		"scope": strings.Join(s.Scopes, " "), "groups": append([]string{}, s.Groups...), "iat": s.Issued.Unix(), "exp": s.Expires.Unix(),
	}
	if s.Refresh {
		return op.NewResponse(out), nil
	}
	out["token_type"], out["jti"] = oidc.BearerToken, s.ID
	if len(s.Actors) > 0 {
		out["act"] = chain(s.Actors)
	}
	return op.NewResponse(out), nil
}

// chain nests actors (RFC 8693 section 4.1).
func chain(actors []string) map[string]any {
	out := map[string]any{"sub": actors[0]}
	if len(actors) > 1 {
		out["act"] = chain(actors[1:])
	}
	return out
}

// Revocation implements op.Server (RFC 7009): a refresh token's session ends, an
// access token is worth nothing here from now on. A verifier that looks at the
// signature alone takes that one until it expires.
func (i *Issuer) Revocation(_ context.Context, r *op.ClientRequest[oidc.RevocationRequest]) (*op.Response, error) {
	p := r.Client.(party)
	i.mu.Lock()
	defer i.mu.Unlock()
	now := i.o.Clock()
	if id, _, ok := i.unseal(r.Data.Token); ok {
		if s, live := i.sessions.get(id, now); live && s.client == p.id {
			i.end(id, "its client revoked it")
		}
	} else if c, ok := i.verify(r.Data.Token); ok && c.Client == p.id && c.Expires > now.Unix() {
		i.revoked.put(c.ID, struct{}{}, now, now.Add(accessLasts+exchangeLasts))
	}
	return op.NewResponse(nil), nil // whether there was such a token is not told
}
