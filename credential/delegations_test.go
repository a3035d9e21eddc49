package credential

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/placet-dev/placet/credential/issuertest"
	"github.com/placet-dev/placet/record"
)

// away is a provider that is a live source, and the delegations on it.
type away struct {
	*stand
	path    string
	sources []Source
	ds      *Delegations
}

func newAway(t *testing.T) *away {
	t.Helper()
	a := &away{stand: newStand(t), path: filepath.Join(t.TempDir(), "key")}
	a.sources = []Source{{Client: Client{Issuer: a.URL, ID: "placet", Secret: "s/e+c:r t"}, Audience: []string{"placet-mcp"}, Max: time.Hour}}
	a.open(t)
	return a
}

func (a *away) open(t *testing.T) {
	t.Helper()
	ds, err := OpenDelegations(a.path, a.sources, ProfileOptions{Clock: a.clock.Now, Random: rand.Reader, HTTP: &http.Client{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ds.Close)
	a.ds = ds
}

func (a *away) grant(t *testing.T, user string) (record.Owner, record.Delegation) {
	t.Helper()
	q := a.ask(t, user)
	d, err := a.ds.Grant(t.Context(), q.Owner, q.Subject, a.clock.Now().Add(30*time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	return q.Owner, d
}

func (a *away) refresh(t *testing.T, owner record.Owner, d record.Delegation) (map[string]any, record.Delegation) {
	t.Helper()
	got, err := a.ds.Refresh(t.Context(), owner, d)
	if err != nil {
		t.Fatal(err)
	}
	claims, err := a.Verify(got.Token.Reveal(), "placet-mcp")
	if err != nil {
		t.Fatal(err)
	}
	return claims, got.Delegation
}

// TestRule_C2_TheSourceIsAskedEachTime: each time there is a fresh token about who the
// user is now, and the refresh tokens that follow one another are kept sealed.
func TestRule_C2_TheSourceIsAskedEachTime(t *testing.T) {
	a := newAway(t)
	owner, d := a.grant(t, "anna")
	if d.Issuer != a.URL || strings.Join(d.Scopes, " ") != "refunds:write tickets:read" || !d.Live(a.clock.Now()) {
		t.Errorf("granted %+v", d)
	}
	claims, next := a.refresh(t, owner, d)
	if claims["sub"] != "anna" || fmt.Sprint(claims["groups"]) != "[support]" {
		t.Errorf("claims %v", claims)
	}
	if string(next.Sealed) == string(d.Sealed) || a.RefreshTokens() != 1 {
		t.Errorf("the provider rotates, and what is kept is the same; it holds %d", a.RefreshTokens())
	}
	a.SetUser("anna", &issuertest.User{Scopes: []string{"tickets:read"}, Groups: []string{"sales"}, Tenant: "acme"})
	if claims, next = a.refresh(t, owner, next); claims["scope"] != "tickets:read" || fmt.Sprint(claims["groups"]) != "[sales]" {
		t.Errorf("what was lost does not show: %v", claims)
	}
	a.open(t) // a restart
	a.refresh(t, owner, next)
	if n := len(a.Asked("refresh_token")); n != 3 {
		t.Errorf("the source was asked %d times", n)
	}
	if strings.Contains(fmt.Sprintf("%s %v", next.Sealed, a.ds), "refresh") {
		t.Error("the refresh token shows")
	}
}

func TestRule_C2_NoSourceNoAuthority(t *testing.T) {
	a := newAway(t)
	owner, d := a.grant(t, "anna")
	no := func(what string, owner record.Owner, d record.Delegation, want record.Kind) {
		t.Helper()
		if got, err := a.ds.Refresh(t.Context(), owner, d); record.KindOf(err) != want || got.Token != "" {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, edit := range map[string]func(*record.Owner){
		"another tenant": func(o *record.Owner) { o.Tenant = "globex" },
		"another person": func(o *record.Owner) { o.Principal.Subject = "ben" },
		"another agent":  func(o *record.Owner) { o.Agent = "other-bot" },
		"another issuer": func(o *record.Owner) { o.Principal.Issuer = "https://other.example" },
		"nobody at all":  func(o *record.Owner) { *o = record.Owner{} },
	} {
		other := owner
		edit(&other)
		no(what, other, d, record.Forbidden)
	}
	for what, edit := range map[string]func(*record.Delegation){
		"nothing sealed": func(d *record.Delegation) { d.Sealed = nil },
		"a changed byte": func(d *record.Delegation) { d.Sealed = append([]byte{}, d.Sealed...); d.Sealed[20] ^= 1 },
		"cut short":      func(d *record.Delegation) { d.Sealed = d.Sealed[:11] },
		"its issuer":     func(d *record.Delegation) { d.Issuer = "https://other.example" },
	} {
		other := d
		edit(&other)
		no(what, owner, other, record.Forbidden)
	}
	longer := d
	longer.Until = longer.Until.Add(time.Hour)
	a.clock.pass(31 * time.Minute)
	no("it has ended", owner, d, record.Forbidden)
	no("its end was moved", owner, longer, record.Forbidden)
	a.clock.pass(-31 * time.Minute)
	if n := len(a.Asked("refresh_token")); n != 0 {
		t.Errorf("the issuer was asked %d times for nothing", n)
	}
	a.Down(true)
	no("down", owner, d, record.Unavailable)
	a.Down(false)
	a.Before(func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(http.StatusBadGateway); return true })
	no("broken", owner, d, record.Unavailable)
	a.Before(nil)
	wider := d
	wider.Scopes = append([]string{"admin"}, d.Scopes...)
	if got, err := a.ds.Refresh(t.Context(), owner, wider); err != nil || strings.Join(got.Scopes, " ") != "refunds:write tickets:read" {
		t.Errorf("scopes that were added count: %v %v", got.Scopes, err)
	}
	_, d = a.grant(t, "anna")
	a.SetUser("anna", nil)
	no("dismissed", owner, d, record.Forbidden)
	ben, his := a.grant(t, "ben")
	a.refresh(t, ben, his)
}

// TestRotationIsSeenOnce: two who dispatch at once with one delegation, and one who
// read the record before it was replaced, all get an answer; the issuer never sees a
// refresh token twice.
func TestRotationIsSeenOnce(t *testing.T) {
	a := newAway(t)
	owner, d := a.grant(t, "anna")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := a.ds.Refresh(t.Context(), owner, d); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	_, next := a.refresh(t, owner, d)
	a.refresh(t, owner, next)
	seen := map[string]bool{}
	for _, f := range a.Asked("refresh_token") {
		if seen[f.Get("refresh_token")] {
			t.Error("a refresh token was used twice")
		}
		seen[f.Get("refresh_token")] = true
	}
	// One whose caller is gone is kept for the next, not lost.
	arrived, release := make(chan struct{}), make(chan struct{})
	a.Before(stops(arrived, release))
	ctx, giveUp := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		_, err := a.ds.Refresh(ctx, owner, next)
		gone <- err
	}()
	arrives(t, arrived)
	giveUp()
	if err := <-gone; record.KindOf(err) != record.Unavailable {
		t.Error(err)
	}
	a.Before(nil)
	close(release)
	a.refresh(t, owner, next)
}

func TestGrantNeedsALiveSource(t *testing.T) {
	a := newAway(t)
	q := a.ask(t, "anna")
	until := a.clock.Now().Add(time.Minute)
	other := q.Owner
	other.Principal.Issuer = "https://other.example"
	if _, err := a.ds.Grant(t.Context(), other, q.Subject, until); record.KindOf(err) != record.Invalid {
		t.Errorf("no source: %v", err)
	}
	if _, err := a.ds.Grant(t.Context(), q.Owner, Subject{}, until); record.KindOf(err) != record.Invalid {
		t.Errorf("no token: %v", err)
	}
	if _, err := a.ds.Grant(t.Context(), q.Owner, q.Subject, a.clock.Now().Add(-time.Second)); record.KindOf(err) != record.Invalid {
		t.Errorf("ended before it began: %v", err)
	}
	if d, err := a.ds.Grant(t.Context(), q.Owner, q.Subject, a.clock.Now().Add(48*time.Hour)); err != nil || d.Until.After(a.clock.Now().Add(time.Hour)) {
		t.Errorf("longer than the issuer's max: %v %v", d.Until, err)
	}
	// An issuer that knows no requested refresh tokens may add one to an access token.
	refuse := true
	a.Before(func(w http.ResponseWriter, r *http.Request) bool {
		if !refuse {
			return false
		}
		refuse = false
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"error":"invalid_request"}`)
		return true
	})
	a.Alter(func(m map[string]any) { m["refresh_token"] = "added" })
	if _, err := a.ds.Grant(t.Context(), q.Owner, q.Subject, until); err != nil {
		t.Error(err)
	}
	all := a.Asked("token-exchange")
	if last := all[len(all)-1]; !strings.Contains(last.Get("scope"), "offline_access") || last.Get("requested_token_type") != accessTokenType {
		t.Errorf("asked %v", last)
	}
	// One that answers in the words of RFC 8693 puts it into access_token.
	a.Alter(func(m map[string]any) { m["token_type"] = "N_A"; delete(m, "refresh_token") })
	if _, err := a.ds.Grant(t.Context(), q.Owner, q.Subject, until); err != nil {
		t.Error(err)
	}
	a.Alter(func(m map[string]any) { m["issued_token_type"] = accessTokenType; delete(m, "refresh_token") })
	if _, err := a.ds.Grant(t.Context(), q.Owner, q.Subject, until); record.KindOf(err) != record.Invalid {
		t.Errorf("no refresh token: %v", err)
	}
}

func TestWithdraw(t *testing.T) {
	a := newAway(t)
	owner, d := a.grant(t, "anna")
	a.refresh(t, owner, d)
	if err := a.ds.Withdraw(t.Context(), d); err != nil || a.RefreshTokens() != 0 {
		t.Errorf("%v, the provider holds %d", err, a.RefreshTokens())
	}
	if _, err := a.ds.Refresh(t.Context(), owner, d); record.KindOf(err) != record.Forbidden {
		t.Errorf("a withdrawn one: %v", err)
	}
	if err := a.ds.Withdraw(t.Context(), record.Delegation{Issuer: a.URL, Sealed: []byte("forged forged forged")}); record.KindOf(err) != record.Forbidden {
		t.Errorf("a forged one: %v", err)
	}
}

// TestPrivateKeyJWT: the provider's library verifies our assertion.
func TestPrivateKeyJWT(t *testing.T) {
	a := newAway(t)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text := Secret(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	owner, d := a.grant(t, "anna") // this library takes assertions for refreshing, not for exchanging
	a.SetClient("placet", issuertest.Client{Key: &jose.JSONWebKey{Key: key.Public(), KeyID: "k1", Algorithm: "ES256", Use: "sig"}})
	if _, err := a.ds.Refresh(t.Context(), owner, d); err == nil {
		t.Fatal("the secret still works")
	}
	a.sources[0].Client = Client{Issuer: a.URL, ID: "placet", Key: text, KeyID: "k1", Audience: a.URL}
	a.open(t)
	a.refresh(t, owner, d)
	a.sources[0].Client.Audience = "" // the token endpoint: this provider wants its name
	a.open(t)
	_, err = a.ds.Refresh(t.Context(), owner, d)
	if err == nil {
		t.Error("an assertion for another audience is taken")
	}
	for _, bad := range []Secret{"x", Secret(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("x")}))} {
		if _, _, err := readKey(bad); record.KindOf(err) != record.Invalid {
			t.Errorf("%v", err)
		}
	}
}

func TestTheSealKeyIsItsOwnersAlone(t *testing.T) {
	a := newAway(t)
	owner, d := a.grant(t, "anna")
	info, err := os.Stat(a.path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v %v", info.Mode(), err)
	}
	if err := os.Remove(a.path); err != nil {
		t.Fatal(err)
	}
	a.open(t)
	if _, err := a.ds.Refresh(t.Context(), owner, d); record.KindOf(err) != record.Forbidden {
		t.Errorf("sealed with another key: %v", err)
	}
	for text, mode := range map[string]os.FileMode{`{"version":1,"key":"AAAA"}`: 0o600, `{}`: 0o600, `{"version":1,"key":"` + strings.Repeat("A", 43) + `="}`: 0o644} {
		path := filepath.Join(t.TempDir(), "key")
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenDelegations(path, a.sources, ProfileOptions{Clock: time.Now, Random: rand.Reader, HTTP: http.DefaultClient}); record.KindOf(err) != record.Invalid {
			t.Errorf("%s %v: %v", text, mode, err)
		}
	}
}
