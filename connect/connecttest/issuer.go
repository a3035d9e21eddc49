// Package connecttest is an issuer with a sign-in form, and a browser, for tests
// of what signs people in.
//
// The issuer is github.com/zitadel/oidc's provider with the storage of its
// examples; the browser is net/http with a cookie jar. Both are what they are: the
// code flow that a test sees is that of the library. It may import the library and
// the standard library.
package connecttest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// ClientID is the one client that an operator registered, for 127.0.0.1 at any port.
const ClientID = "desktop"

// User and Password sign in; Subject is who that is in tokens.
const (
	User     = "test-user@127.0.0.1"
	Password = "verysecure"
	Subject  = "id1"
)

// Issuer is a running provider.
type Issuer struct {
	URL      string
	Audience string // of its tokens, beside the client
	Withheld string // a scope that nobody gets

	storage *storage.Storage

	mu       sync.Mutex
	requests []Request
	lasts    time.Duration // how long a token is said to last; 0: as it is
	metadata func(map[string]any)
	before   func(http.ResponseWriter, *http.Request) bool
}

// Request is one that arrived at the issuer.
type Request struct {
	Path string
	Form url.Values
}

// New starts an issuer. Close it with the test.
func New(t testing.TB, audience string) *Issuer {
	t.Helper()
	i := &Issuer{Audience: audience}
	server := httptest.NewUnstartedServer(nil)
	i.URL = "http://" + server.Listener.Addr().String()
	i.storage = storage.NewStorageWithClients(storage.NewUserStore(i.URL), map[string]*storage.Client{
		ClientID: storage.NativeClient(ClientID, "http://127.0.0.1/callback")})
	var key [32]byte
	_, _ = rand.Read(key[:])
	provider, err := op.NewProvider(&op.Config{CryptoKey: key, CodeMethodS256: true, GrantTypeRefreshToken: true, AuthMethodPost: true},
		wrapped{i.storage, i}, op.StaticIssuer(i.URL), op.WithAllowInsecure(), op.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/", provider)
	mux.Handle("/login", op.NewIssuerInterceptor(provider.IssuerFromRequest).Handler(i.form(op.AuthCallbackURL(provider))))
	server.Config.Handler = i.watch(mux)
	server.Start()
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	return i
}

// form is the page on which people sign in.
func (i *Issuer) form(back func(context.Context, string) string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.FormValue("id")
		if r.Method == http.MethodGet {
			http.SetCookie(w, &http.Cookie{Name: "session", Value: id, Path: "/", HttpOnly: true})
			fmt.Fprintf(w, `<form method=post><input name=id value="%s"><input name=user><input name=password><button>Sign in</button></form>`, id)
			return
		}
		cookie, err := r.Cookie("session")
		if err != nil || cookie.Value != id {
			http.Error(w, "no session", http.StatusForbidden)
			return
		}
		if r.FormValue("deny") != "" {
			a, err := i.storage.AuthRequestByID(r.Context(), id)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			q := url.Values{"error": {"access_denied"}, "error_description": {"the user said no"}, "state": {a.GetState()}}
			http.Redirect(w, r, a.GetRedirectURI()+"?"+q.Encode(), http.StatusFound)
			return
		}
		if err := i.storage.CheckUsernamePassword(r.FormValue("user"), r.FormValue("password"), id); err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		http.Redirect(w, r, back(r.Context(), id), http.StatusFound)
	})
}

// watch notes what arrives, and lets a test change what leaves.
func (i *Issuer) watch(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		_ = r.ParseForm()
		i.mu.Lock()
		i.requests = append(i.requests, Request{r.URL.Path, r.Form})
		metadata, before, lasts := i.metadata, i.before, i.lasts
		i.mu.Unlock()
		if before != nil && before(w, r) {
			return
		}
		discovery, token := r.URL.Path == "/.well-known/openid-configuration", r.URL.Path == "/oauth/token"
		if !(discovery && metadata != nil) && !(token && lasts > 0) {
			next.ServeHTTP(w, r)
			return
		}
		answer := httptest.NewRecorder()
		next.ServeHTTP(answer, r)
		var m map[string]any
		if json.Unmarshal(answer.Body.Bytes(), &m) == nil {
			if discovery {
				metadata(m)
			} else if m["expires_in"] != nil {
				m["expires_in"] = int(lasts.Seconds())
			}
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(answer.Code)
		_ = json.NewEncoder(w).Encode(m)
	})
}

// Metadata has a test change what the issuer says of itself.
func (i *Issuer) Metadata(change func(map[string]any)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.metadata = change
}

// Before has a test answer requests itself; it reports whether it did.
func (i *Issuer) Before(answer func(http.ResponseWriter, *http.Request) bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.before = answer
}

// Last has tokens be said to last so long from now on.
func (i *Issuer) Last(d time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.lasts = d
}

// Got are the requests that arrived for a path.
func (i *Issuer) Got(path string) []url.Values {
	i.mu.Lock()
	defer i.mu.Unlock()
	var out []url.Values
	for _, r := range i.requests {
		if r.Path == path {
			out = append(out, r.Form)
		}
	}
	return out
}

// Revoke ends a refresh token.
func (i *Issuer) Revoke(ctx context.Context, refresh string) error {
	if err := i.storage.RevokeToken(ctx, refresh, "", ClientID); err != nil {
		return err
	}
	return nil
}

// Live reports whether a refresh token is good.
func (i *Issuer) Live(ctx context.Context, refresh string) bool {
	_, err := i.storage.TokenRequestByRefreshToken(ctx, refresh)
	return err == nil
}

// Browser follows a sign-in page's address and signs in there; with deny, says no.
// It returns the last page.
func Browser(ctx context.Context, address string, deny bool) (string, error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return "", err
	}
	c := &http.Client{Jar: jar}
	get := func(method, at string, form url.Values) (*http.Response, string, error) {
		r, err := http.NewRequestWithContext(ctx, method, at, bytes.NewReader([]byte(form.Encode())))
		if err != nil {
			return nil, "", err
		}
		if form != nil {
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		resp, err := c.Do(r)
		if err != nil {
			return nil, "", err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		return resp, string(text), err
	}
	resp, text, err := get(http.MethodGet, address, nil)
	if err != nil || !bytes.Contains([]byte(text), []byte("<form")) {
		return text, err
	}
	form := url.Values{"id": {resp.Request.URL.Query().Get("id")}, "user": {User}, "password": {Password}}
	if deny {
		form.Set("deny", "yes")
	}
	_, text, err = get(http.MethodPost, resp.Request.URL.String(), form)
	return text, err
}

// wrapped has the example's storage issue tokens for a server behind Placet.
type wrapped struct {
	*storage.Storage
	i *Issuer
}

type authRequest struct {
	*storage.AuthRequest
	audience string
}

func (r authRequest) GetAudience() []string { return []string{r.audience} }

type refreshRequest struct {
	op.RefreshTokenRequest
	audience string
}

func (r refreshRequest) GetAudience() []string { return []string{r.audience} }

func (w wrapped) request(r op.AuthRequest, err error) (op.AuthRequest, error) {
	if err != nil {
		return nil, err
	}
	return authRequest{r.(*storage.AuthRequest), w.i.Audience}, nil
}

func (w wrapped) CreateAuthRequest(ctx context.Context, r *oidc.AuthRequest, user string) (op.AuthRequest, error) {
	return w.request(w.Storage.CreateAuthRequest(ctx, r, user))
}

func (w wrapped) AuthRequestByID(ctx context.Context, id string) (op.AuthRequest, error) {
	return w.request(w.Storage.AuthRequestByID(ctx, id))
}

func (w wrapped) AuthRequestByCode(ctx context.Context, code string) (op.AuthRequest, error) {
	return w.request(w.Storage.AuthRequestByCode(ctx, code))
}

func (w wrapped) TokenRequestByRefreshToken(ctx context.Context, token string) (op.RefreshTokenRequest, error) {
	r, err := w.Storage.TokenRequestByRefreshToken(ctx, token)
	if err != nil {
		return nil, oidc.ErrInvalidGrant()
	}
	return refreshRequest{r, w.i.Audience}, nil
}

func inner(r op.TokenRequest) op.TokenRequest {
	switch r := r.(type) {
	case authRequest:
		return r.AuthRequest
	case refreshRequest:
		return r.RefreshTokenRequest
	}
	return r
}

func (w wrapped) CreateAccessToken(ctx context.Context, r op.TokenRequest) (string, time.Time, error) {
	return w.Storage.CreateAccessToken(ctx, inner(r))
}

func (w wrapped) CreateAccessAndRefreshTokens(ctx context.Context, r op.TokenRequest, current string) (string, string, time.Time, error) {
	return w.Storage.CreateAccessAndRefreshTokens(ctx, inner(r), current)
}

func (w wrapped) GetPrivateClaimsFromScopes(_ context.Context, _, _ string, scopes []string) (map[string]any, error) {
	given := slices.DeleteFunc(slices.Clone(scopes), func(s string) bool { return s == w.i.Withheld })
	return map[string]any{"tenant": "acme", "scope": strings.Join(given, " ")}, nil
}

func (w wrapped) GetClientByClientID(ctx context.Context, id string) (op.Client, error) {
	c, err := w.Storage.GetClientByClientID(ctx, id)
	if err != nil {
		return nil, err
	}
	return desktop{c}, nil
}

// desktop is the client whose access tokens are JWTs.
type desktop struct{ op.Client }

func (desktop) AccessTokenType() op.AccessTokenType { return op.AccessTokenTypeJWT }
func (desktop) LoginURL(id string) string           { return "/login?id=" + id }
func (desktop) IsScopeAllowed(string) bool          { return true }
func (desktop) RestrictAdditionalAccessTokenScopes() func([]string) []string {
	return func(scopes []string) []string { return scopes }
}
