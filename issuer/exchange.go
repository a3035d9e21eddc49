package issuer

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/placet-dev/placet/identity"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// maxActors bounds a chain of actors.
const maxActors = 8

// TokenExchange implements op.Server (RFC 8693): a token of this issuer becomes
// one for another audience, with no scope that it or its user lacks, no longer
// life, and the exchanging client as actor in front of those before.
func (i *Issuer) TokenExchange(ctx context.Context, r *op.ClientRequest[oidc.TokenExchangeRequest]) (*op.Response, error) {
	p, q := r.Client.(party), r.Data
	access := q.SubjectTokenType == oidc.AccessTokenType || q.SubjectTokenType == oidc.JWTTokenType
	lasting := q.RequestedTokenType == oidc.RefreshTokenType && p.id == self
	switch {
	case !access, !lasting && q.RequestedTokenType != "" && q.RequestedTokenType != oidc.AccessTokenType:
		return nil, oidc.ErrInvalidRequest().WithDescription("access tokens are exchanged here, for access tokens")
	case q.ActorToken != "" || q.ActorTokenType != "":
		return nil, oidc.ErrInvalidRequest().WithDescription("the client itself is the actor; send no actor_token")
	}
	s, err := i.Session(ctx, q.SubjectToken)
	if err != nil {
		return nil, unreadable()
	}
	if !s.Active || s.Refresh {
		return nil, oidc.ErrInvalidRequest().WithDescription("the subject_token is not valid here, or its session is over")
	}
	res, err := i.exchangeTarget(p.d, s, slices.Concat(q.Resource, q.Audience))
	if err != nil {
		return nil, err
	}
	scopes, err := narrowed(s, p.Client, res, q.Scopes)
	if err != nil {
		return nil, err
	}
	if lasting {
		return i.lasting(p, s, res.Audience, scopes)
	}
	actors := append([]string{p.id}, s.Actors...)
	if len(s.Actors) == 0 && s.Client != "" && s.Client != p.id {
		actors = append(actors, s.Client) // the agent, which acted first
	}
	if len(actors) > maxActors {
		return nil, oidc.ErrInvalidRequest().WithDescription("the chain of actors is too long")
	}
	life := min(exchangeLasts, s.Expires.Sub(i.o.Clock())).Truncate(time.Second)
	if life < time.Second {
		return nil, oidc.ErrInvalidRequest().WithDescription("the subject_token ends too soon")
	}
	token, err := i.local.Sign(identity.TokenSpec{Audience: res.Audience, Subject: s.Subject, Tenant: s.Tenant, Agent: p.id,
		Scopes: scopes, Groups: s.Groups, TTL: life, Session: s.Login, Actors: actors})
	if err != nil {
		return nil, err
	}
	return op.NewResponse(answer{AccessToken: token, Type: oidc.BearerToken, ExpiresIn: int64(life.Seconds()),
		Scope: strings.Join(scopes, " "), IssuedType: string(oidc.AccessTokenType)}), nil
}

// lasting begins a session of the server itself for a person who goes away: what
// backs a delegation. It is for the server alone, and asks the directory at each use.
func (i *Issuer) lasting(p party, s Session, audience string, scopes []string) (*op.Response, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	begun, err := i.begin(session{subject: s.Subject, tenant: s.Tenant, client: p.id, audience: audience, scopes: scopes, turn: 1}, i.o.Clock())
	if err != nil {
		return nil, err
	}
	return op.NewResponse(answer{AccessToken: i.seal(begun.id, begun.turn), Type: "N_A", ExpiresIn: int64(sessionLasts.Seconds()),
		Scope: strings.Join(scopes, " "), IssuedType: string(oidc.RefreshTokenType)}), nil
}

// exchangeTarget is what the new token is for: from this server's audience to any
// resource, from a resource only to itself, and never to the console or from it.
func (i *Issuer) exchangeTarget(d *Directory, s Session, asked []string) (Resource, error) {
	if len(asked) == 0 || slices.ContainsFunc(asked, func(a string) bool { return a != asked[0] }) {
		return Resource{}, oidc.ErrInvalidTarget().WithDescription("name one resource or audience")
	}
	res, ok := i.resource(d, asked[0])
	if !ok || s.Audience != i.o.Audience && s.Audience != res.Audience {
		return Resource{}, oidc.ErrInvalidTarget().WithDescription("the subject_token cannot become one for this target")
	}
	return res, nil
}

// narrowed are the scopes of an exchanged token. One that would be new is refused,
// not left out: the client counts on it.
func narrowed(s Session, c Client, r Resource, asked []string) ([]string, error) {
	may := granted(User{Scopes: s.Scopes}, c, r, nil)
	if len(asked) == 0 {
		return may, nil
	}
	if slices.ContainsFunc(asked, func(name string) bool { return !slices.Contains(may, name) }) {
		return nil, oidc.ErrInvalidScope().WithDescription("an exchange only narrows: the subject_token lacks one of these scopes, or the target has none such")
	}
	asked = slices.Clone(asked)
	slices.Sort(asked)
	return slices.Compact(asked), nil
}
