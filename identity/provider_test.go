package identity_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/identity/idptest"
	"github.com/placet-dev/placet/record"
)

// trusting has real providers as issuers, found by discovery.
func trusting(t *testing.T, at *clock, providers ...*idptest.Provider) *identity.Verifier {
	t.Helper()
	var c identity.Config
	for n, p := range providers {
		c.Issuers = append(c.Issuers, identity.Issuer{Issuer: p.Issuer, Audience: []string{idptest.Client}, Algorithms: []string{"RS256"}, Tenant: fmt.Sprint("tenant", n), MaxTokenAge: 15 * time.Minute})
	}
	return verifier(t, c, at)
}

// today is a clock for tokens that others make.
func today() *clock { return &clock{at: time.Now()} }

// A real provider's token is taken, and its scopes and agent are what it says.
func TestRealProvider(t *testing.T) {
	p, at := idptest.New(t), today()
	c, err := trusting(t, at, p).Caller(t.Context(), bearer(p.Token("tickets:read")))
	want := record.Owner{Tenant: "tenant0", Principal: record.Principal{Issuer: p.Issuer, Subject: idptest.Subject}, Agent: idptest.Client}
	if err != nil || c.Owner() != want || !c.HasScope("tickets:read") || c.HasScope("tickets:write") {
		t.Errorf("%v %v %v", c.Owner(), c.Scopes(), err)
	}
}

// A new key counts as soon as a token names it, the old one until the keys are
// read anew, and nothing of it outlives that by more than the memory's minute.
func TestRealProviderRotates(t *testing.T) {
	p, at := idptest.New(t), today()
	v := trusting(t, at, p)
	old, spare := p.Token(), p.Token()
	if _, err := v.Caller(t.Context(), bearer(old)); err != nil {
		t.Fatal(err)
	}
	p.Rotate("second")
	if _, err := v.Caller(t.Context(), bearer(spare)); err != nil {
		t.Errorf("the old key, before anything was read anew: %v", err)
	}
	at.pass(6 * time.Second) // more than the pause between two readings
	if _, err := v.Caller(t.Context(), bearer(p.Token())); err != nil {
		t.Errorf("the new key: %v", err)
	}
	at.pass(time.Minute + time.Second)
	for _, token := range []string{old, spare} {
		if _, err := v.Caller(t.Context(), bearer(token)); record.KindOf(err) != record.Unauthenticated {
			t.Errorf("the withdrawn key: %v", err)
		}
	}
}

// While a provider is down its keys are used up to the bound; then it is this
// server that cannot tell, and not the caller who is wrong.
func TestRealProviderIsDown(t *testing.T) {
	p, at := idptest.New(t), today()
	v := trusting(t, at, p)
	token := p.Token()
	if _, err := v.Caller(t.Context(), bearer(token)); err != nil {
		t.Fatal(err)
	}
	fresh := p.Token()
	p.Down()
	at.pass(2 * time.Minute)
	if _, err := v.Caller(t.Context(), bearer(fresh)); err != nil {
		t.Errorf("with keys that are held: %v", err)
	}
	at.pass(time.Hour)
	if _, err := v.Caller(t.Context(), bearer(token)); record.KindOf(err) != record.Unavailable {
		t.Errorf("beyond the bound: %v", err)
	}
	p.Fault(nil)
	at.pass(6 * time.Second)
	if _, err := v.Caller(t.Context(), bearer(token)); record.KindOf(err) != record.Unauthenticated || !strings.Contains(err.Error(), "expired") {
		t.Errorf("back, with a token of an hour ago: %v", err)
	}
}

// A provider that does not answer holds nobody up whose keys are held, and is
// asked once for all who wait.
func TestRealProviderIsSlow(t *testing.T) {
	p, at := idptest.New(t), today()
	v := trusting(t, at, p)
	first, second := p.Token(), p.Token()
	release, waits := make(chan struct{}), make(chan struct{}, 1)
	p.Fault(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/keys" {
			waits <- struct{}{}
			<-release
		}
		return false
	})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := v.Caller(t.Context(), bearer(first)); err != nil {
				t.Error(err)
			}
		})
	}
	<-waits
	close(release)
	wg.Wait()
	if n := p.KeysAsked.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
	release = make(chan struct{})
	at.pass(11 * time.Minute)                                                                                     // old enough to be read again, in the background
	if _, err := v.Caller(t.Context(), bearer(second)); err == nil || !strings.Contains(err.Error(), "expired") { // past its signature
		t.Errorf("while it is read again: %v", err)
	}
	<-waits
	close(release)
}

// A key is what its set says, whatever tokens call it; and names that are made up
// become no requests.
func TestRealProviderLiesAboutKeys(t *testing.T) {
	p, at := idptest.New(t), today()
	v := trusting(t, at, p)
	good := p.Token()
	var lies []string
	for n := range 20 {
		p.Lie(fmt.Sprint("no such key ", n))
		lies = append(lies, p.Token())
	}
	if _, err := v.Caller(t.Context(), bearer(good)); err != nil {
		t.Fatal(err)
	}
	for _, lie := range lies {
		if _, err := v.Caller(t.Context(), bearer(lie)); record.KindOf(err) != record.Unauthenticated {
			t.Errorf("a token that names another key: %v", err)
		}
	}
	if n := p.KeysAsked.Load(); n > 2 {
		t.Errorf("20 made-up names made %d requests", n)
	}
}

// What one issuer signs in another's name counts for neither.
func TestIssuerMixUp(t *testing.T) {
	a, b, at := idptest.New(t), idptest.New(t), today()
	v := trusting(t, at, a, b)
	ofA, ofB := a.Token(), b.Token()
	if c, err := v.Caller(t.Context(), bearer(ofA)); err != nil || c.Owner().Tenant != "tenant0" {
		t.Errorf("a's: %v %v", c.Owner(), err)
	}
	if c, err := v.Caller(t.Context(), bearer(ofB)); err != nil || c.Owner().Tenant != "tenant1" {
		t.Errorf("b's: %v %v", c.Owner(), err)
	}
	// The claims of one with the signature of the other; both keys have one name.
	partsA, partsB := strings.Split(ofA, "."), strings.Split(ofB, ".")
	for name, token := range map[string]string{
		"a's claims, b's signature": partsA[0] + "." + partsA[1] + "." + partsB[2],
		"b's header and signature":  partsB[0] + "." + partsA[1] + "." + partsB[2],
	} {
		if _, err := v.Caller(t.Context(), bearer(token)); record.KindOf(err) != record.Unauthenticated {
			t.Errorf("%s: %v", name, err)
		}
	}

	// A provider whose document is another's gives no keys, also not the other's.
	honest, liar := idptest.New(t), idptest.New(t)
	liar.Fault(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/.well-known/openid-configuration" {
			return false
		}
		http.Redirect(w, r, honest.Issuer+r.URL.Path, http.StatusFound)
		return true
	})
	v = trusting(t, at, honest, liar)
	if _, err := v.Caller(t.Context(), bearer(liar.Token())); record.KindOf(err) != record.Unavailable {
		t.Errorf("redirected to another's document: %v", err)
	}
	liar.Fault(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/.well-known/openid-configuration" {
			return false
		}
		fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q}`, honest.Issuer, honest.Issuer+"/keys")
		return true
	})
	at.pass(6 * time.Second)
	if _, err := v.Caller(t.Context(), bearer(liar.Token())); record.KindOf(err) != record.Unavailable {
		t.Errorf("a document that names another issuer: %v", err)
	}
	if _, err := v.Caller(t.Context(), bearer(honest.Token())); err != nil {
		t.Errorf("the honest one: %v", err)
	}
}
