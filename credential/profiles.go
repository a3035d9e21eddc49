package credential

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/placet-dev/placet/record"
)

// ProfileOptions are what profiles need of the world. All fields without a stated
// default are required.
type ProfileOptions struct {
	Clock  func() time.Time
	Random io.Reader    // for IDs of assertions; used concurrently
	HTTP   *http.Client // reaches issuers; redirects are never followed
	Log    *slog.Logger // nil: none
}

func (o ProfileOptions) withDefaults() (ProfileOptions, error) {
	if o.Clock == nil || o.Random == nil || o.HTTP == nil {
		return o, record.Errorf(record.Invalid, "credentials need a clock, a source of randomness and an HTTP client")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o, nil
}

// Profiles obtain what servers are called with. They are safe for concurrent use.
// Nothing printed of them shows a secret.
type Profiles struct {
	all   map[string]*profile
	cache *cache
	clock func() time.Time
	stop  context.CancelFunc
}

func (*Profiles) String() string       { return redacted }
func (*Profiles) GoString() string     { return redacted }
func (*Profiles) LogValue() slog.Value { return slog.StringValue(redacted) }

type profile struct {
	Profile
	endpoint *endpoint // nil: nobody is asked
	audience string    // of the key
}

// NewProfiles checks the profiles. Their issuers are first asked when a call needs
// them. Close must be called.
func NewProfiles(list []Profile, o ProfileOptions) (*Profiles, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	ps := &Profiles{all: map[string]*profile{}, cache: newCache(ctx, o.Clock), clock: o.Clock, stop: stop}
	for _, p := range list {
		if err := ps.add(p, o); err != nil {
			stop()
			return nil, err
		}
	}
	return ps, nil
}

func (ps *Profiles) add(p Profile, o ProfileOptions) error {
	if _, twice := ps.all[p.Name]; twice {
		return record.Errorf(record.Invalid, "credential profile %q is configured twice", p.Name)
	}
	entry := &profile{Profile: p, audience: joined(append(append([]string{}, p.Audience...), p.Resource...))}
	switch p.Type {
	case None:
	case Static:
		if strings.ContainsAny(p.Value.Reveal(), "\r\n\x00") || p.Value == "" {
			return record.Errorf(record.Invalid, "credential profile %q: its value is empty or holds a line break", p.Name)
		}
	case ClientCredentials, TokenExchange, OnBehalfOf:
		var err error
		if entry.endpoint, err = newEndpoint(p.Client, o); err != nil {
			return record.Errorf(record.Invalid, "credential profile %q: %w", p.Name, err)
		}
	default:
		return record.Errorf(record.Invalid, "credential profile %q: its type is not known", p.Name)
	}
	ps.all[p.Name] = entry
	return nil
}

// Close ends requests under way. Afterwards nothing new is obtained.
func (ps *Profiles) Close() { ps.stop() }

// Profile returns a profile as it was configured.
func (ps *Profiles) Profile(name string) (Profile, bool) {
	p, ok := ps.all[name]
	if !ok {
		return Profile{}, false
	}
	return p.Profile, true
}

// Obtain returns what one call is made with. Errors are record.Unavailable when the
// issuer does not answer, record.Forbidden when it, or the profile, says no.
func (ps *Profiles) Obtain(ctx context.Context, name string, a Ask) (Attachment, error) {
	p, ok := ps.all[name]
	switch {
	case !ok:
		return Attachment{}, record.Errorf(record.Forbidden, "there is no credential profile %q", name)
	case !p.ForCaller():
		return ps.own(ctx, p)
	case a.Subject.Token == "":
		return Attachment{}, record.Errorf(record.Forbidden, "credential profile %q exchanges a user's token, and this caller has none", name)
	case a.Owner.Principal.Issuer != p.Client.Issuer:
		// Tokens go back to who issued them, and to nobody else.
		return Attachment{}, record.Errorf(record.Forbidden, "credential profile %q exchanges tokens of another issuer", name)
	}
	scopes, ok := p.Wants(a.Scope)
	if !ok {
		return Attachment{}, record.Errorf(record.Forbidden, "credential profile %q has no scopes for %q", name, a.Scope)
	}
	k := Key{Owner: a.Owner, Session: a.Subject.Session, Held: joined(a.Subject.Scopes), Profile: name, Audience: p.audience, Scope: joined(scopes)}
	return ps.bearer(ctx, k, func(ctx context.Context) (issued, error) {
		t, err := ps.exchange(ctx, p, a.Subject, scopes)
		if end := a.Subject.Expires.Add(-spare); err == nil && end.Before(t.until) {
			t.until = end
		}
		return t, err
	})
}

// Own returns what this server itself is known by at a server, for what it sends
// without a caller: to open what is shared, and to list. It never holds anything of
// a caller's.
func (ps *Profiles) Own(ctx context.Context, name string) (Attachment, error) {
	p, ok := ps.all[name]
	switch {
	case !ok:
		return Attachment{}, record.Errorf(record.Forbidden, "there is no credential profile %q", name)
	case p.ForCaller() && p.Listing != "":
		if p, ok = ps.all[p.Listing]; !ok || p.ForCaller() {
			return Attachment{}, record.Errorf(record.Forbidden, "credential profile %q lists with a profile that cannot", name)
		}
	}
	return ps.own(ctx, p)
}

func (ps *Profiles) own(ctx context.Context, p *profile) (Attachment, error) {
	switch p.Type {
	case None:
		return Attachment{}, nil
	case Static:
		return p.static(), nil
	}
	k := Key{Profile: p.Name, Audience: p.audience, Scope: joined(p.Scope)}
	return ps.bearer(ctx, k, func(ctx context.Context) (issued, error) {
		form := p.form("client_credentials", p.Scope)
		g, err := p.endpoint.ask(ctx, form)
		if err != nil {
			return issued{}, err
		}
		return p.accept(g, p.Scope, ps.clock())
	})
}

func (p *profile) static() Attachment {
	switch {
	case p.Variable != "":
		return Attachment{Variable: p.Variable, Value: p.Value}
	case p.Header != "":
		return Attachment{Header: p.Header, Value: p.Value}
	}
	return Attachment{Header: "Authorization", Value: "Bearer " + p.Value}
}

// bearer returns a token from the cache, or from fetch.
func (ps *Profiles) bearer(ctx context.Context, k Key, fetch func(context.Context) (issued, error)) (Attachment, error) {
	t, err := ps.cache.get(ctx, k, fetch)
	if err != nil {
		return Attachment{}, err
	}
	return Attachment{Header: "Authorization", Value: t.value, Expires: t.ends, Refused: func() { ps.cache.refuse(k, t.value) }}, nil
}

// Drop forgets the tokens whose key fits, for revocations. It returns how many were kept.
func (ps *Profiles) Drop(fits func(Key) bool) int { return ps.cache.drop(fits) }

// form begins a request with what the profile asks for.
func (p *profile) form(grant string, scopes []string) url.Values {
	f := url.Values{"grant_type": {grant}}
	for _, a := range p.Audience {
		f.Add("audience", a)
	}
	for _, r := range p.Resource {
		f.Add("resource", r)
	}
	if len(scopes) > 0 {
		f.Set("scope", strings.Join(scopes, " "))
	}
	return f
}

// exchange asks the issuer for a token for a caller, in exchange for theirs.
func (ps *Profiles) exchange(ctx context.Context, p *profile, s Subject, scopes []string) (issued, error) {
	var form url.Values
	if p.Type == OnBehalfOf {
		form = p.form("urn:ietf:params:oauth:grant-type:jwt-bearer", scopes)
		form.Set("requested_token_use", "on_behalf_of")
		form.Set("assertion", s.Token.Reveal())
	} else {
		form = p.form("urn:ietf:params:oauth:grant-type:token-exchange", scopes)
		form.Set("subject_token", s.Token.Reveal())
		form.Set("subject_token_type", accessTokenType)
		form.Set("requested_token_type", accessTokenType)
	}
	if p.Actor != "" {
		actor, err := ps.actor(ctx, p.Actor)
		if err != nil {
			return issued{}, err
		}
		form.Set("actor_token", actor)
		form.Set("actor_token_type", accessTokenType)
	}
	g, err := p.endpoint.ask(ctx, form)
	if err != nil {
		return issued{}, err
	}
	if p.Type == TokenExchange {
		err = g.checkExchanged(s.Token)
	} else if g.token == s.Token {
		err = refused("it answered with the caller's own token")
	}
	if err != nil {
		return issued{}, err
	}
	return p.accept(g, scopes, ps.clock())
}

// actor is the token that says who acts: this server.
func (ps *Profiles) actor(ctx context.Context, name string) (string, error) {
	a, err := ps.Own(ctx, name)
	if err != nil {
		return "", err
	}
	return strings.TrimPrefix(a.Value.Reveal(), "Bearer "), nil
}

// accept makes every check of an answer that does not depend on the grant.
func (p *profile) accept(g granted, scopes []string, now time.Time) (issued, error) {
	if err := errors.Join(g.checkBearer(), g.checkScopes(scopes, p.AlsoScopes), g.checkAudience(p.Audience)); err != nil {
		return issued{}, err
	}
	ends, err := g.ends(now, p.MaxAge)
	if err != nil {
		return issued{}, err
	}
	return issued{value: "Bearer " + g.token, ends: ends, until: ends.Add(-min(spare, ends.Sub(now)/4))}, nil
}
