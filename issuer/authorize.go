package issuer

import (
	"context"
	"crypto/sha256"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// request is a login that was asked for and waits for the person.
type request struct {
	client, redirect, state, nonce, challenge, audience string

	scopes  []string // asked for; empty: all
	openid  bool     // an ID token is wanted
	browser [sha256.Size]byte
	tries   int // wrong passwords
}

// VerifyAuthRequest implements op.Server. What fails here is shown and never
// redirected: until the redirect URI is known to be the client's, it may lead to
// anybody (RFC 6749 section 4.1.2.1).
func (i *Issuer) VerifyAuthRequest(ctx context.Context, r *op.Request[oidc.AuthRequest]) (*op.ClientRequest[oidc.AuthRequest], error) {
	d, err := i.directory(ctx)
	if err != nil {
		return nil, unreadable()
	}
	c, ok := i.client(d, r.Data.ClientID)
	if !ok {
		return nil, oidc.ErrInvalidRequestRedirectURI().WithDescription("there is no client of this client_id")
	}
	if !c.mayReturn(r.Data.RedirectURI) {
		return nil, oidc.ErrInvalidRequestRedirectURI().WithDescription("the redirect_uri is not registered for this client")
	}
	if len(r.Data.Scopes) == 0 {
		r.Data.Scopes = oidc.SpaceDelimitedArray{""} // the library wants one; ours is all
	}
	return &op.ClientRequest[oidc.AuthRequest]{Request: r, Client: party{Client: c, id: r.Data.ClientID, d: d}}, nil
}

// challenges are those of PKCE's S256 (RFC 7636 section 4.2).
var challenges = regexp.MustCompile(`^[A-Za-z0-9_-]{43}$`)

// Authorize implements op.Server: it remembers the request, and leads to the
// sign-in page. Its errors go to the client.
func (i *Issuer) Authorize(ctx context.Context, r *op.ClientRequest[oidc.AuthRequest]) (*op.Redirect, error) {
	p, q := r.Client.(party), r.Data
	switch {
	case q.RequestParam != "" || r.Form.Has("request_uri"):
		return nil, oidc.ErrRequestNotSupported()
	case q.CodeChallenge == "":
		return nil, oidc.ErrInvalidRequest().WithDescription("PKCE is required: send a code_challenge (RFC 7636)")
	case q.CodeChallengeMethod != oidc.CodeChallengeMethodS256 || !challenges.MatchString(q.CodeChallenge):
		return nil, oidc.ErrInvalidRequest().WithDescription("the code_challenge_method is S256, and nothing else")
	case q.ResponseMode != "" && q.ResponseMode != oidc.ResponseModeQuery:
		return nil, oidc.ErrInvalidRequest().WithDescription("the response_mode is query")
	case slices.Contains(q.Prompt, oidc.PromptNone):
		return nil, oidc.ErrLoginRequired().WithDescription("nobody stays signed in here")
	}
	audience, err := i.target(p, r.Form["resource"])
	if err != nil {
		return nil, err
	}
	asked, openid := split(q.Scopes)
	if len(asked) > 0 && !slices.ContainsFunc(asked, func(s string) bool { return slices.Contains(p.d.scopes(), s) }) && !p.Approves {
		return nil, oidc.ErrInvalidScope().WithDescription("nobody here has one of these scopes")
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	id, err := i.nonceLocked()
	if err != nil {
		return nil, err
	}
	browser, err := i.nonceLocked()
	if err != nil {
		return nil, err
	}
	now := i.o.Clock()
	i.requests.put(id, request{client: p.id, redirect: q.RedirectURI, state: q.State, nonce: q.Nonce, challenge: q.CodeChallenge,
		audience: audience, scopes: asked, openid: openid, browser: sha256.Sum256([]byte(browser))}, now, now.Add(loginLasts))
	to := op.NewRedirect(i.url + "/" + p.LoginURL(id))
	to.Header.Add("Set-Cookie", i.cookie(id, browser).String())
	return to, nil
}

// target is the audience a client's login is for (RFC 8707 section 2). Whoever
// answers cannot propose, and the other way round (rule D4): an approving client
// gets the console's audience alone, and no other client gets it.
func (i *Issuer) target(p party, resources []string) (string, error) {
	asked := ""
	if len(resources) > 1 {
		return "", oidc.ErrInvalidTarget().WithDescription("a token is for one resource")
	} else if len(resources) == 1 {
		asked = resources[0]
	}
	if p.Approves {
		if asked != "" && asked != i.o.ConsoleAudience {
			return "", oidc.ErrInvalidTarget().WithDescription("this client's logins are for answering approvals alone")
		}
		return i.o.ConsoleAudience, nil
	}
	if asked == "" {
		return i.o.Audience, nil
	}
	if _, ok := i.resource(p.d, asked); !ok {
		return "", oidc.ErrInvalidTarget().WithDescription("there is no such resource for this client")
	}
	return asked, nil
}

// split takes the protocol's own scopes out of what is asked for.
func split(all []string) (asked []string, openid bool) {
	for _, s := range all {
		if s != "" && !slices.Contains(protocol, s) {
			asked = append(asked, s)
		}
	}
	return asked, slices.Contains(all, oidc.ScopeOpenID)
}

// cookie binds a login to the browser that asked for it. A page elsewhere can
// neither read nor set it, and it does not travel with a form that such a page sends.
func (i *Issuer) cookie(id, value string) *http.Cookie {
	return &http.Cookie{Name: "placet-dev-login-" + id[:16], Value: value, Path: i.path(), MaxAge: int(loginLasts.Seconds()),
		HttpOnly: true, Secure: strings.HasPrefix(i.url, "https://"), SameSite: http.SameSiteStrictMode}
}

// path is that of the issuer's URL, as browsers see it.
func (i *Issuer) path() string {
	if u, err := url.Parse(i.url); err == nil {
		return u.Path
	}
	return Path
}

// sentBy reports whether a form came from the browser that asked for the login.
func (q request) sentBy(r *http.Request, id string) bool {
	c, err := r.Cookie("placet-dev-login-" + id[:16])
	return err == nil && sha256.Sum256([]byte(c.Value)) == q.browser
}

// named adds the issuer to what the library tells a client by redirect: a refusal
// too says whose it is (RFC 9207 section 2).
func (i *Issuer) named(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(&namedAnswer{ResponseWriter: w, issuer: i.url}, r)
	})
}

type namedAnswer struct {
	http.ResponseWriter
	issuer string
}

// WriteHeader implements http.ResponseWriter.
func (a *namedAnswer) WriteHeader(status int) {
	h := a.Header()
	if to, err := url.Parse(h.Get("Location")); err == nil && status == http.StatusFound && to.Query().Has("error") {
		q := to.Query()
		q.Set("iss", a.issuer)
		to.RawQuery = q.Encode()
		h.Set("Location", to.String())
	}
	a.ResponseWriter.WriteHeader(status)
}
