package connect

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/placet-dev/placet/record"
	"golang.org/x/oauth2"
)

// account is the user at one server: the tokens, and how to get others.
type account struct {
	Options
	server *url.URL
	http   *http.Client    // for issuers
	life   context.Context // of the bridge; a sign-in outlives the request that began it

	mu     sync.Mutex
	looked bool                // in the folder
	grant  *grant              // nil: none
	flight *flight             // at most one refresh or sign-in at a time
	asked  map[string][]string // scopes that a person was asked for, by issuer
	no     error               // the last sign-in's end, when it was not a yes
	until  time.Time           // when the next may begin

	work sync.WaitGroup
}

// flight is a refresh or sign-in under way.
type flight struct {
	done chan struct{}
	err  error
}

// early is how long before its end a token counts as ended.
const early = 10 * time.Second

// token is what a request carries; empty while nobody is signed in.
func (a *account) token(ctx context.Context) (string, error) {
	if a.Token != nil {
		return a.Token()
	}
	a.mu.Lock()
	if !a.looked {
		a.looked = true
		g, err := a.load()
		if err != nil {
			a.looked = false
			a.mu.Unlock()
			return "", err
		}
		a.grant = g
	}
	g := a.grant
	a.mu.Unlock()
	switch {
	case g == nil:
		return "", nil
	case g.Refresh == "" || g.Expires.IsZero() || a.Clock().Before(g.Expires.Add(-early)):
		return g.Access, nil
	}
	if err := a.once(ctx, g.Access, a.extend); err != nil {
		return "", err
	}
	return a.held(), nil
}

// held is the token that there is.
func (a *account) held() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.grant == nil {
		return ""
	}
	return a.grant.Access
}

// worked notes that the server took a token: a later refusal is a new matter.
func (a *account) worked(token string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if g := a.grant; g != nil && g.Access == token && (g.fresh || g.renewed) {
		now := *g
		now.fresh, now.renewed = false, false
		a.grant = &now
	}
}

// renew gets another token than used, which the server refused.
func (a *account) renew(ctx context.Context, used string, c challenge) error {
	if a.Token != nil {
		if now, err := a.Token(); err != nil || now != used {
			return err
		}
		if c.more {
			return record.Errorf(record.Forbidden, "the token given lacks scopes that %s wants", a.server)
		}
		return record.Errorf(record.Unauthenticated, "%s refuses the token given; it may have ended, or be for another server", a.server)
	}
	return a.once(ctx, used, func(ctx context.Context) error { return a.replace(ctx, used, c) })
}

// once runs get unless somebody already replaced the token, and has all who come
// meanwhile wait for the one that runs.
func (a *account) once(ctx context.Context, used string, get func(context.Context) error) error {
	a.mu.Lock()
	if now := a.grant; now != nil && now.Access != used {
		a.mu.Unlock()
		return nil
	}
	f := a.flight
	if f == nil {
		f = &flight{done: make(chan struct{})}
		a.flight = f
		a.work.Go(func() {
			f.err = get(a.life)
			a.mu.Lock()
			a.flight = nil
			a.mu.Unlock()
			close(f.done)
		})
	}
	a.mu.Unlock()
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// extend refreshes a token that ends. Where the issuer says no, the token is
// forgotten: the server's refusal then leads to a sign-in.
func (a *account) extend(ctx context.Context) error {
	if a.taken(a.held()) {
		return nil
	}
	g := a.copy()
	err := a.refresh(ctx, &g)
	if errors.Is(err, errRefused) {
		if !a.taken(a.held()) { // another process may have been first
			g.Access, g.Refresh = "", ""
			return a.keep(&g)
		}
		return nil
	}
	if err != nil {
		return err
	}
	return a.keep(&g)
}

// replace answers a server's refusal: by what another process got meanwhile, a
// refresh, or a sign-in.
func (a *account) replace(ctx context.Context, used string, c challenge) error {
	if !c.more && a.taken(used) {
		return nil
	}
	if err := a.wait(); err != nil {
		return err
	}
	where, err := a.discover(ctx, c)
	if err != nil {
		return err
	}
	g := a.copy()
	if g.Issuer != where.issuer.Issuer { // what one issuer gave is not shown to another
		g = grant{Server: a.server.String(), Issuer: where.issuer.Issuer}
	}
	if !c.more && g.Refresh != "" && !g.renewed {
		err := a.refresh(ctx, &g)
		if err == nil {
			g.renewed = true // another refusal of it leads to a sign-in
			return a.keep(&g)
		}
		if !errors.Is(err, errRefused) {
			return err
		}
	}
	if !c.more && g.fresh {
		return record.Errorf(record.Unauthenticated, "%s refuses the token that %s just issued for it; the operator of the server should look at issuer and audience", a.server, g.Issuer)
	}
	scopes, err := a.wanted(&g, where, c)
	if err != nil {
		return err
	}
	g.Refresh = ""
	if err := a.signIn(ctx, &g, where, scopes); err != nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.no, a.until = err, a.Clock().Add(refusalLasts)
		return err
	}
	return a.keep(&g)
}

// wait holds back for a moment after a sign-in that was not a yes: programs ask
// again at once, and a browser would open each time.
func (a *account) wait() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.no != nil && a.Clock().Before(a.until) {
		return a.no
	}
	a.no = nil
	return nil
}

// wanted are the scopes to ask for (MCP authorization, scope selection): those of
// the refusal, else those the server names; with more, beside those there are. A
// set that a person was already asked for is not asked for again.
func (a *account) wanted(g *grant, where found, c challenge) ([]string, error) {
	scopes := c.scopes
	if len(scopes) == 0 {
		scopes = where.scopes
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	before := a.asked[g.Issuer]
	scopes = union(a.Scopes, before, g.Scopes, scopes)
	if slices.Contains(where.issuer.ScopesSupported, "offline_access") {
		scopes = union(scopes, []string{"offline_access"})
	}
	if c.more && len(before) > 0 && len(union(before, scopes)) == len(before) {
		return nil, record.Errorf(record.Forbidden, "%s wants scopes that %s was asked for and did not give: %v; ask its administrator", a.server, g.Issuer, c.scopes)
	}
	a.asked[g.Issuer] = scopes
	return scopes, nil
}

func union(lists ...[]string) []string {
	var all []string
	for _, s := range slices.Concat(lists...) {
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}

// taken adopts what another process has stored meanwhile.
func (a *account) taken(used string) bool {
	g, err := a.load()
	if err != nil || g == nil || g.Access == "" || g.Access == used {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.grant = g
	return true
}

func (a *account) copy() grant {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.grant == nil {
		return grant{Server: a.server.String()}
	}
	return *a.grant
}

// keep stores a grant and uses it from now on.
func (a *account) keep(g *grant) error {
	err := a.save(g)
	if err != nil {
		a.Log.Warn("the sign-in is not stored and ends with this process", "error", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.grant = g
	return nil
}

var errRefused = errors.New("the issuer refused")

// refresh gets another token for a refresh token.
func (a *account) refresh(ctx context.Context, g *grant) error {
	if g.Refresh == "" {
		return errRefused
	}
	// The library's own refresh has no place for the resource (RFC 8707). An empty
	// code counts as none (RFC 6749 section 3.2).
	err := a.redeem(ctx, g, "", "", oauth2.SetAuthURLParam("grant_type", "refresh_token"), oauth2.SetAuthURLParam("refresh_token", g.Refresh))
	var refused *oauth2.RetrieveError
	if errors.As(err, &refused) && refused.Response != nil && refused.Response.StatusCode < 500 {
		return errRefused
	}
	return clean(g.Issuer, err)
}

// redeem exchanges what the options say for tokens.
func (a *account) redeem(ctx context.Context, g *grant, redirect, code string, options ...oauth2.AuthCodeOption) error {
	cfg := g.config(redirect)
	options = append(options, g.target()...)
	t, err := cfg.Exchange(context.WithValue(ctx, oauth2.HTTPClient, a.http), code, options...)
	if err != nil {
		return err
	}
	if t.Type() != "Bearer" {
		return record.Errorf(record.Unsupported, "the issuer gives tokens of type %s; only Bearer is supported", t.Type())
	}
	g.Access, g.Expires, g.fresh, g.renewed = t.AccessToken, time.Time{}, false, false
	if t.RefreshToken != "" {
		g.Refresh = t.RefreshToken
	}
	if t.ExpiresIn > 0 {
		g.Expires = a.Clock().Add(time.Duration(t.ExpiresIn) * time.Second)
	}
	if given, ok := t.Extra("scope").(string); ok && given != "" {
		g.Scopes = union(splitScopes(given))
	}
	return nil
}

// clean says what an issuer's refusal means without its body, which is whatever it
// chose to write.
func clean(issuer string, err error) error {
	var refused *oauth2.RetrieveError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused):
		return record.Errorf(record.Unauthenticated, "%s gave no token: %s", issuer, readable(refused.ErrorCode, refused.ErrorDescription))
	}
	var known *record.Error
	if errors.As(err, &known) {
		return err
	}
	var lost *url.Error
	if errors.As(err, &lost) {
		return record.Because(record.Unavailable, err, "the issuer %s cannot be reached", issuer)
	}
	return record.Errorf(record.Unavailable, "the issuer %s answers something that is not a token", issuer)
}
