package issuertest

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// User is somebody whom the provider knows.
type User struct {
	Scopes []string // what they may do
	Groups []string
	Tenant string
}

// Client is a program that the provider knows.
type Client struct {
	Secret string
	Key    *jose.JSONWebKey // of private_key_jwt, in place of Secret
	// Scopes are what it may do by itself, and Audience what its own tokens are for.
	Scopes, Audience []string
}

// Provider is an identity provider that runs. Its fields may be set before use only;
// its methods at any time.
type Provider struct {
	URL string

	server  *httptest.Server
	storage *storage

	mu     sync.Mutex
	asked  []url.Values
	before func(http.ResponseWriter, *http.Request) bool
	alter  func(answer map[string]any)
	down   bool
}

// New starts a provider that ends with the test.
func New(t testing.TB) *Provider {
	t.Helper()
	p := &Provider{storage: newStorage()}
	p.server = httptest.NewUnstartedServer(nil)
	p.URL = "http://" + p.server.Listener.Addr().String()
	handler, err := op.NewProvider(&op.Config{CryptoKey: [32]byte{1}, CryptoKeyId: "1", GrantTypeRefreshToken: true, AuthMethodPost: true, AuthMethodPrivateKeyJWT: true},
		p.storage, op.StaticIssuer(p.URL), op.WithAllowInsecure())
	if err != nil {
		t.Fatal(err)
	}
	p.server.Config.Handler = p.wrap(handler)
	p.server.Start()
	t.Cleanup(func() { p.server.CloseClientConnections(); p.server.Close() })
	return p
}

// wrap notes what is asked of the token endpoint, and lets a test step in.
func (p *Provider) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		before, alter, down := p.before, p.alter, p.down
		p.mu.Unlock()
		if down {
			panic(http.ErrAbortHandler)
		}
		if r.URL.Path != op.DefaultEndpoints.Token.Relative() {
			next.ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		form, _ := url.ParseQuery(string(body))
		p.mu.Lock()
		p.asked = append(p.asked, form)
		p.mu.Unlock()
		if before != nil && before(w, r) {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if alter == nil {
			next.ServeHTTP(w, r)
			return
		}
		got := httptest.NewRecorder()
		next.ServeHTTP(got, r)
		answer := map[string]any{}
		if json.Unmarshal(got.Body.Bytes(), &answer) == nil && got.Code == http.StatusOK {
			alter(answer)
		}
		text, _ := json.Marshal(answer)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(got.Code)
		_, _ = w.Write(text)
	})
}

// Before lets a test answer requests for tokens itself; it returns whether it did.
func (p *Provider) Before(f func(http.ResponseWriter, *http.Request) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.before = f
}

// Alter changes answers that grant a token, after the library made them.
func (p *Provider) Alter(f func(answer map[string]any)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.alter = f
}

// Down cuts every connection, or no longer.
func (p *Provider) Down(down bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = down
}

// Asked lists the forms of requests for tokens of one grant, by its last word.
func (p *Provider) Asked(grant string) []url.Values {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []url.Values
	for _, f := range p.asked {
		if g := f.Get("grant_type"); g[strings.LastIndex(g, ":")+1:] == grant {
			out = append(out, f)
		}
	}
	return out
}

// SetUser makes or changes a user; nil dismisses one.
func (p *Provider) SetUser(name string, u *User) {
	p.storage.mu.Lock()
	defer p.storage.mu.Unlock()
	if u == nil {
		delete(p.storage.users, name)
		return
	}
	p.storage.users[name] = *u
}

// SetClient makes or changes a client.
func (p *Provider) SetClient(id string, c Client) {
	p.storage.mu.Lock()
	defer p.storage.mu.Unlock()
	p.storage.clients[id] = c
}

// SetLife says how long tokens last that are issued from now on.
func (p *Provider) SetLife(d time.Duration) {
	p.storage.mu.Lock()
	defer p.storage.mu.Unlock()
	p.storage.life = d
}

// RefreshTokens counts those that would be taken.
func (p *Provider) RefreshTokens() int {
	p.storage.mu.Lock()
	defer p.storage.mu.Unlock()
	return len(p.storage.refresh)
}

// Login is what a user signed in with: the token that the provider would give to an
// agent after the code flow.
type Login struct {
	User, Agent, Audience string
	Scopes                []string
	Session               string        // sid; "": none
	Life                  time.Duration // default 5 min
	Claims                map[string]any
}

// Token signs an access token with the provider's key.
func (p *Provider) Token(t testing.TB, l Login) string {
	t.Helper()
	now := time.Now()
	if l.Life == 0 {
		l.Life = 5 * time.Minute
	}
	p.storage.mu.Lock()
	u := p.storage.users[l.User]
	p.storage.mu.Unlock()
	claims := map[string]any{"iss": p.URL, "sub": l.User, "aud": []string{l.Audience}, "azp": l.Agent, "client_id": l.Agent, "iat": now.Unix(),
		"exp": now.Add(l.Life).Unix(), "jti": rand.Text(), "scope": strings.Join(l.Scopes, " "), "groups": append([]string{}, u.Groups...), "tenant": u.Tenant}
	if l.Session != "" {
		claims["sid"] = l.Session
	}
	for name, value := range l.Claims {
		claims[name] = value
	}
	return p.Sign(t, claims)
}

// Sign signs any claims with the provider's key.
func (p *Provider) Sign(t testing.TB, claims map[string]any) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: signingKey(), KeyID: keyID}}, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign(text)
	if err != nil {
		t.Fatal(err)
	}
	out, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Keys are what the provider publishes.
func (p *Provider) Keys() jose.JSONWebKeySet {
	resp, err := http.Get(p.URL + "/keys")
	if err != nil {
		return jose.JSONWebKeySet{}
	}
	defer resp.Body.Close()
	var keys jose.JSONWebKeySet
	if json.NewDecoder(resp.Body).Decode(&keys) != nil {
		return jose.JSONWebKeySet{}
	}
	return keys
}

// Verify reads a token as a tool server would: by the provider's published keys,
// for one audience, now.
func (p *Provider) Verify(token, audience string) (map[string]any, error) {
	return Check(p.Keys(), p.URL, token, audience)
}

// Check is Verify with keys that were fetched before.
func Check(keys jose.JSONWebKeySet, issuer, token, audience string) (map[string]any, error) {
	signed, err := jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{jose.RS256})
	if err != nil {
		return nil, err
	}
	var text []byte
	for _, k := range keys.Key(signed.Signatures[0].Header.KeyID) {
		text, err = signed.Verify(k.Key)
	}
	if err != nil || text == nil {
		return nil, fmt.Errorf("not signed by the issuer")
	}
	claims := map[string]any{}
	if err := json.Unmarshal(text, &claims); err != nil {
		return nil, err
	}
	aud, _ := claims["aud"].([]any)
	exp, _ := claims["exp"].(float64)
	if !slices.Contains(aud, any(audience)) || claims["iss"] != issuer || float64(time.Now().Unix()) >= exp {
		return nil, fmt.Errorf("iss %v, aud %v, exp %v", claims["iss"], aud, exp)
	}
	return claims, nil
}

const keyID = "provider-1"

var signingKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})
