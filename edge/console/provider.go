package console

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/placet-dev/placet/record"
	"golang.org/x/oauth2"
)

// provider is the OpenID provider. It is discovered when it is first needed, so
// that one that is down does not keep the server from starting.
type provider struct {
	login    Login
	audience string // of the console
	callback string
	http     *http.Client
	clock    func() time.Time

	mu    sync.Mutex
	known *known
}

// known is what discovery told.
type known struct {
	oauth    oauth2.Config
	verifier *oidc.IDTokenVerifier
	signOut  string // RP-initiated logout; empty: not offered
}

func (p *provider) discover(ctx context.Context) (*known, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known != nil {
		return p.known, nil
	}
	// The key set fetches under this context for as long as it lives.
	found, err := oidc.NewProvider(context.WithoutCancel(oidc.ClientContext(ctx, p.http)), p.login.Issuer)
	if err != nil {
		return nil, record.Because(record.Unavailable, err, "the identity provider cannot be reached; try again in a minute")
	}
	var more struct {
		SignOut string `json:"end_session_endpoint"`
	}
	if err := found.Claims(&more); err != nil {
		return nil, record.Because(record.Unavailable, err, "the identity provider's metadata cannot be read")
	}
	scopes := p.login.Scopes
	if !slices.Contains(scopes, oidc.ScopeOpenID) {
		scopes = append([]string{oidc.ScopeOpenID}, scopes...)
	}
	p.known = &known{
		oauth: oauth2.Config{ClientID: p.login.ClientID, ClientSecret: p.login.ClientSecret, Endpoint: found.Endpoint(),
			RedirectURL: p.callback, Scopes: scopes},
		verifier: found.Verifier(&oidc.Config{ClientID: p.login.ClientID, Now: p.clock}),
		signOut:  more.SignOut,
	}
	return p.known, nil
}

// attempt is one sign-in under way. The browser keeps it, in a cookie of its own:
// only the browser that began it can end it, and nothing here fills up with those
// that nobody ends.
type attempt struct {
	state, nonce, verifier, to string
	fresh                      bool // the person is to prove anew who they are
}

// begin is where the browser goes to sign in: code flow with PKCE (RFC 7636).
func (p *provider) begin(ctx context.Context, a attempt) (string, error) {
	k, err := p.discover(ctx)
	if err != nil {
		return "", err
	}
	options := []oauth2.AuthCodeOption{oidc.Nonce(a.nonce), oauth2.S256ChallengeOption(a.verifier)}
	if a.fresh { // OpenID Connect Core section 3.1.2.1; max_age makes auth_time required
		options = append(options, oauth2.SetAuthURLParam("prompt", "login"), oauth2.SetAuthURLParam("max_age", "0"))
	}
	return k.oauth.AuthCodeURL(a.state, append(options, p.ask()...)...), nil
}

// ask names the console's audience: as a resource (RFC 8707), or as other
// providers want it.
func (p *provider) ask() []oauth2.AuthCodeOption {
	if p.login.Ask == "" {
		return nil
	}
	return []oauth2.AuthCodeOption{oauth2.SetAuthURLParam(p.login.Ask, p.audience)}
}

// finish redeems a code. The ID token proves that the code is this attempt's
// (nonce) and that the access token came with it, where it says so (at_hash); who
// signed in, the access token says. It returns the ID token too, and when the
// person last proved who they are, which the ID token may say.
func (p *provider) finish(ctx context.Context, a attempt, code string) (_ *oauth2.Token, idToken string, asked time.Time, _ error) {
	k, err := p.discover(ctx)
	if err != nil {
		return nil, "", asked, err
	}
	ctx = oidc.ClientContext(ctx, p.http)
	token, err := k.oauth.Exchange(ctx, code, append(p.ask(), oauth2.VerifierOption(a.verifier))...)
	if err != nil {
		return nil, "", asked, record.Because(record.Unauthenticated, err, "the identity provider did not redeem this sign-in; start it again")
	}
	raw, _ := token.Extra("id_token").(string)
	id, err := k.verifier.Verify(ctx, raw)
	if err == nil && id.AccessTokenHash != "" {
		err = id.VerifyAccessToken(token.AccessToken)
	}
	if err != nil {
		return nil, "", asked, record.Because(record.Unauthenticated, err, "the identity provider's answer is not for this sign-in; start it again")
	}
	if id.Nonce != a.nonce {
		return nil, "", asked, record.Errorf(record.Unauthenticated, "the identity provider's answer is not for this sign-in; start it again")
	}
	var more struct {
		AuthTime int64 `json:"auth_time"`
	}
	if id.Claims(&more) == nil && more.AuthTime > 0 {
		asked = time.Unix(more.AuthTime, 0)
	}
	return token, raw, asked, nil
}

// renew asks for a new access token (RFC 6749 section 6).
func (p *provider) renew(ctx context.Context, refresh string) (*oauth2.Token, error) {
	k, err := p.discover(ctx)
	if err != nil {
		return nil, err
	}
	return k.oauth.TokenSource(oidc.ClientContext(ctx, p.http), &oauth2.Token{RefreshToken: refresh}).Token()
}

// leave is where the browser goes to sign out at the provider too (OpenID Connect
// RP-Initiated Logout section 2); "" where that is not offered.
func (p *provider) leave(ctx context.Context, idToken, back string) string {
	k, err := p.discover(ctx)
	if err != nil || k.signOut == "" {
		return ""
	}
	u, err := url.Parse(k.signOut)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" {
		return ""
	}
	q := u.Query()
	q.Set("client_id", p.login.ClientID)
	q.Set("id_token_hint", idToken)
	q.Set("post_logout_redirect_uri", back)
	u.RawQuery = q.Encode()
	return u.String()
}
