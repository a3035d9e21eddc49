// Package idptest runs a real OpenID provider, zitadel/oidc, inside a test: with
// discovery, a key set that rotates, and the authorization code flow of a public
// client. A test may make it slow, silent or dishonest about its keys.
//
// It imports no package of Placet, so that what Placet accepts is another's work.
package idptest

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// The client that is registered, and the person who can log in.
const (
	Client   = "mcp-tools"
	Redirect = "http://127.0.0.1:7777/callback"
	Subject  = "id1"

	user, password = "test-user@127.0.0.1", "verysecure"
)

// Provider is a running one.
type Provider struct {
	Issuer string // also its address
	t      testing.TB
	server *httptest.Server
	store  *store
	fault  atomic.Pointer[func(http.ResponseWriter, *http.Request) bool]

	KeysAsked atomic.Int32 // requests for the key set
}

// New starts one. It stops with the test.
func New(t testing.TB) *Provider {
	t.Helper()
	p := &Provider{t: t}
	var handler http.Handler
	p.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/keys" {
			p.KeysAsked.Add(1)
		}
		if f := p.fault.Load(); f != nil && (*f)(w, r) {
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { p.server.CloseClientConnections(); p.server.Close() })
	p.Issuer = p.server.URL
	p.store = &store{Storage: storage.NewStorageWithClients(storage.NewUserStore(p.Issuer),
		map[string]*storage.Client{Client: storage.NativeClient(Client, Redirect)})}
	p.Rotate("first")
	// The example logs to the process's own logger, and only if told so to another.
	handler = exampleop.SetupServer(p.Issuer, p.store, slog.New(slog.DiscardHandler), false)
	return p
}

// Fault is asked before every request; it answers itself and returns true, or
// leaves the request alone. nil: no fault.
func (p *Provider) Fault(f func(http.ResponseWriter, *http.Request) bool) {
	if f == nil {
		p.fault.Store(nil)
		return
	}
	p.fault.Store(&f)
}

// Down makes every request fail, as a proxy before a dead provider does.
func (p *Provider) Down() {
	p.Fault(func(w http.ResponseWriter, _ *http.Request) bool {
		http.Error(w, "bad gateway", http.StatusBadGateway)
		return true
	})
}

// Rotate signs with a new key from now on, and publishes no other.
func (p *Provider) Rotate(id string) {
	p.t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		p.t.Fatal(err)
	}
	p.store.set(&signingKey{id: id, key: key})
}

// Lie names another key in tokens than the one that signs.
func (p *Provider) Lie(id string) { p.store.lie(id) }

// Token is an access token of the person, by the authorization code flow.
func (p *Provider) Token(scopes ...string) string {
	p.t.Helper()
	verifier := rand.Text()
	sum := sha256.Sum256([]byte(verifier))
	at := p.Issuer + "/auth?" + url.Values{"client_id": {Client}, "redirect_uri": {Redirect}, "response_type": {"code"}, "state": {"s"},
		"scope": {strings.Join(append([]string{"openid"}, scopes...), " ")}, "code_challenge_method": {"S256"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}}.Encode()
	back, err := LogIn(context.Background(), at)
	if err != nil {
		p.t.Fatal(err)
	}
	resp, err := http.PostForm(p.Issuer+"/oauth/token", url.Values{"grant_type": {"authorization_code"}, "client_id": {Client},
		"redirect_uri": {Redirect}, "code": {back.Get("code")}, "code_verifier": {verifier}})
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	var out struct {
		Token string `json:"access_token"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil || out.Token == "" {
		p.t.Fatalf("no token: status %d, %v", resp.StatusCode, err)
	}
	return out.Token
}

// LogIn does what a person's browser does from an authorization URL on, and
// returns the query that comes back to the client.
func LogIn(ctx context.Context, address string) (url.Values, error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	var back url.Values
	browser := &http.Client{Jar: jar, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if strings.HasPrefix(r.URL.String(), Redirect+"?") {
			back = r.URL.Query()
			return http.ErrUseLastResponse
		}
		return nil
	}}
	page, err := get(ctx, browser, address)
	if err != nil {
		return nil, err
	}
	form := url.Values{"username": {user}, "password": {password}, "id": {page.Query().Get("authRequestID")}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, page.String(), strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := browser.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if back == nil {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 500))
		return nil, fmt.Errorf("the login led nowhere: status %d, %s", resp.StatusCode, text)
	}
	return back, nil
}

func get(ctx context.Context, browser *http.Client, address string) (*url.URL, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	resp, err := browser.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || resp.Request.URL.Query().Get("authRequestID") == "" {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 500))
		return nil, fmt.Errorf("no login page: status %d, %s", resp.StatusCode, text)
	}
	return resp.Request.URL, nil
}

// store is the library's own example, with keys of ours and JWTs as access tokens.
type store struct {
	*storage.Storage
	mu     sync.Mutex
	key    *signingKey
	called string // what tokens say their key is called; "": its name
}

func (s *store) set(k *signingKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.key, s.called = k, ""
}

func (s *store) lie(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.called = id
}

func (s *store) SigningKey(context.Context) (op.SigningKey, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.called != "" {
		return &signingKey{id: s.called, key: s.key.key}, nil
	}
	return s.key, nil
}

func (s *store) KeySet(context.Context) ([]op.Key, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return []op.Key{publicKey{s.key}}, nil
}

func (s *store) GetClientByClientID(ctx context.Context, id string) (op.Client, error) {
	c, err := s.Storage.GetClientByClientID(ctx, id)
	if err != nil {
		return nil, err
	}
	return client{c}, nil
}

// GetPrivateClaimsFromScopes says in the token which scopes were granted.
func (s *store) GetPrivateClaimsFromScopes(_ context.Context, _, _ string, scopes []string) (map[string]any, error) {
	return map[string]any{"scope": strings.Join(scopes, " ")}, nil
}

type client struct{ op.Client }

func (client) AccessTokenType() op.AccessTokenType { return op.AccessTokenTypeJWT }
func (client) IsScopeAllowed(string) bool          { return true }

type signingKey struct {
	id  string
	key *rsa.PrivateKey
}

func (k *signingKey) SignatureAlgorithm() jose.SignatureAlgorithm { return jose.RS256 }
func (k *signingKey) Key() any                                    { return k.key }
func (k *signingKey) ID() string                                  { return k.id }

type publicKey struct{ *signingKey }

func (k publicKey) Algorithm() jose.SignatureAlgorithm { return jose.RS256 }
func (k publicKey) Use() string                        { return "sig" }
func (k publicKey) Key() any                           { return &k.key.PublicKey }
