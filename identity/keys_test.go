package identity_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
)

// provider is a real server that publishes keys, and counts who asks.
type provider struct {
	*httptest.Server
	mu     sync.Mutex
	keys   []byte
	status int
	issuer string
	asked  atomic.Int32
	hold   chan struct{} // if set, answers wait until it is closed
}

func newProvider(t *testing.T, keys []byte) *provider {
	p := &provider{keys: keys, status: http.StatusOK}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /realm/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q}`, p.issuer, p.URL+"/keys")
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		p.asked.Add(1)
		p.mu.Lock()
		hold := p.hold
		p.mu.Unlock()
		if hold != nil {
			<-hold
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.status == http.StatusFound {
			w.Header().Set("Location", p.URL+"/elsewhere")
		}
		w.WriteHeader(p.status)
		w.Write(p.keys)
	})
	mux.HandleFunc("GET /elsewhere", func(w http.ResponseWriter, _ *http.Request) { w.Write(keys) })
	p.Server = httptest.NewServer(mux)
	p.issuer = p.URL + "/realm"
	t.Cleanup(p.Close)
	return p
}

func (p *provider) publish(status int, keys []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status, p.keys = status, keys
}

func (p *provider) config(keys string) identity.Config {
	return identity.Config{Issuers: []identity.Issuer{{Issuer: p.URL + "/realm", Audience: []string{mcp}, Algorithms: []string{"EdDSA"}, Tenant: "acme", Keys: keys}}}
}

func TestKeyRotation(t *testing.T) {
	k, at := testKeys(), newClock()
	first, second := jwks(t, public("1", "EdDSA", k.ed.Public())), jwks(t, public("2", "EdDSA", k.otherEd.Public()))
	p := newProvider(t, first)
	v := verifier(t, p.config(p.URL+"/keys"), at)
	serial := 0
	call := func(key any, kid string) error {
		serial++
		_, err := v.Caller(t.Context(), bearer(mint(t, key, eddsa().with("kid", kid), claims(at).with("iss", p.URL+"/realm", "jti", fmt.Sprint(serial)))))
		return err
	}
	want := func(step string, err error, kind record.Kind, asked int32) {
		t.Helper()
		if kind == "" && err != nil || kind != "" && record.KindOf(err) != kind {
			t.Errorf("%s: %v", step, err)
		}
		if n := p.asked.Load(); n != asked {
			t.Errorf("%s: keys were asked for %d times, wanted %d", step, n, asked)
		}
	}
	want("first key", call(k.ed, "1"), "", 1)
	want("again", call(k.ed, "1"), "", 1)
	p.publish(http.StatusOK, second)
	want("new key, just after", call(k.otherEd, "2"), record.Unauthenticated, 1)
	at.pass(6 * time.Second)
	want("new key", call(k.otherEd, "2"), "", 2)
	want("withdrawn key, just after", call(k.ed, "1"), record.Unauthenticated, 2)
	at.pass(6 * time.Second)
	for range 50 {
		want("made-up names", call(k.ed, fmt.Sprint("made-up ", serial)), record.Unauthenticated, 3)
	}
	want("the new key all the while", call(k.otherEd, "2"), "", 3)

	p.publish(http.StatusServiceUnavailable, nil)
	at.pass(6 * time.Second)
	want("unknown key while the issuer is down", call(k.ed, "1"), record.Unavailable, 4)
	want("known key while the issuer is down", call(k.otherEd, "2"), "", 4)
	at.pass(time.Hour)
	want("stale keys", call(k.otherEd, "2"), record.Unavailable, 5)
	want("and no storm", call(k.otherEd, "2"), record.Unavailable, 5)
	p.publish(http.StatusOK, second)
	at.pass(6 * time.Second)
	want("back", call(k.otherEd, "2"), "", 6)
}

// A memory of verified tokens does not outlive a withdrawn key by more than a minute.
func TestWithdrawnKeyEndsTokens(t *testing.T) {
	k, at := testKeys(), newClock()
	p := newProvider(t, jwks(t, public("1", "EdDSA", k.ed.Public())))
	v := verifier(t, p.config(p.URL+"/keys"), at)
	token := mint(t, k.ed, eddsa().with("kid", "1"), claims(at).with("iss", p.URL+"/realm", "exp", at.now().Add(3*time.Hour).Unix()))
	if _, err := v.Caller(t.Context(), bearer(token)); err != nil {
		t.Fatal(err)
	}
	p.publish(http.StatusOK, jwks(t, public("2", "EdDSA", k.otherEd.Public())))
	at.pass(2 * time.Hour) // beyond what stale keys are used for
	if _, err := v.Caller(t.Context(), bearer(token)); record.KindOf(err) != record.Unauthenticated {
		t.Errorf("a withdrawn key still counts: %v", err)
	}
}

func TestOneAttemptServesAllWhoWait(t *testing.T) {
	k, at := testKeys(), newClock()
	p := newProvider(t, jwks(t, public("1", "EdDSA", k.ed.Public())))
	p.hold = make(chan struct{})
	v := verifier(t, p.config(""), at)
	gone, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	token := func(n int) string {
		return mint(t, k.ed, eddsa().with("kid", "1"), claims(at).with("iss", p.URL+"/realm", "jti", fmt.Sprint(n)))
	}
	go func() {
		_, err := v.Caller(gone, bearer(token(-1)))
		left <- err
	}()
	var wg sync.WaitGroup
	for n := range 10 {
		wg.Go(func() {
			if _, err := v.Caller(context.Background(), bearer(token(n))); err != nil {
				t.Error(err)
			}
		})
	}
	leave() // the one who leaves takes nobody's keys away
	if err := <-left; record.KindOf(err) != record.Unavailable {
		t.Errorf("who left: %v", err)
	}
	close(p.hold)
	wg.Wait()
	if n := p.asked.Load(); n != 1 {
		t.Errorf("keys were asked for %d times", n)
	}
}

func TestWrongProviders(t *testing.T) {
	k := testKeys()
	good := jwks(t, public("1", "EdDSA", k.ed.Public()))
	for name, spoil := range map[string]func(*provider){
		"another's document": func(p *provider) { p.issuer = "https://evil.example" },
		"redirect":           func(p *provider) { p.publish(http.StatusFound, nil) },
		"too long":           func(p *provider) { p.publish(http.StatusOK, bytes.Repeat([]byte(" "), 2<<20)) },
		"not JSON":           func(p *provider) { p.publish(http.StatusOK, []byte("<html>")) },
		"keys twice":         func(p *provider) { p.publish(http.StatusOK, []byte(`{"keys":[],`+string(good[1:]))) },
		"no keys":            func(p *provider) { p.publish(http.StatusOK, []byte(`{}`)) },
		"error":              func(p *provider) { p.publish(http.StatusInternalServerError, good) },
	} {
		at := newClock()
		p := newProvider(t, good)
		spoil(p)
		v := verifier(t, p.config(""), at)
		_, err := v.Caller(t.Context(), bearer(mint(t, k.ed, eddsa().with("kid", "1"), claims(at).with("iss", p.URL+"/realm"))))
		if record.KindOf(err) != record.Unavailable || strings.Contains(record.PublicMessage(err), "evil") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestKeyFiles(t *testing.T) {
	k, at := testKeys(), newClock()
	path := filepath.Join(t.TempDir(), "keys.json")
	write := func(text []byte) {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := &provider{Server: &httptest.Server{URL: "https://x.example"}}
	if _, err := identity.New(p.config(path), identity.Deps{}); record.KindOf(err) != record.Invalid {
		t.Errorf("a missing file: %v", err)
	}
	private, _ := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: k.ed, KeyID: "1"}}})
	symmetric, _ := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: []byte("0123456789abcdef"), KeyID: "1"}}})
	for name, text := range map[string][]byte{
		"a private key":   private,
		"a symmetric key": symmetric,
		"no EdDSA key":    jwks(t, public("r", "", &k.rsa.PublicKey)),
		"for encryption":  jwks(t, jose.JSONWebKey{Key: k.ed.Public(), KeyID: "1", Use: "enc"}),
		"nothing":         nil,
	} {
		write(text)
		if _, err := identity.New(p.config(path), identity.Deps{}); record.KindOf(err) != record.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	small := config(t)
	small.Issuers[0].JWKS = jwks(t, public("r", "", &k.smallRSA.PublicKey))
	if _, err := identity.New(small, identity.Deps{}); record.KindOf(err) != record.Invalid {
		t.Errorf("a small RSA key: %v", err)
	}

	write(jwks(t, public("1", "EdDSA", k.ed.Public())))
	v := verifier(t, p.config(path), at)
	write(jwks(t, public("1", "EdDSA", k.ed.Public()), public("2", "", k.otherEd.Public())))
	at.pass(6 * time.Second)
	for kid, key := range map[string]any{"1": k.ed, "2": k.otherEd} {
		if _, err := v.Caller(t.Context(), bearer(mint(t, key, eddsa().with("kid", kid), claims(at).with("iss", "https://x.example/realm")))); err != nil {
			t.Errorf("key %s of the file: %v", kid, err)
		}
	}
	_, err := v.Caller(t.Context(), bearer(mint(t, k.ed, eddsa().with("kid", nil), claims(at).with("iss", "https://x.example/realm"))))
	if record.KindOf(err) != record.Unauthenticated {
		t.Errorf("a token that names none of two keys: %v", err)
	}
}
