package verify

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
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

	"github.com/placet-dev/placet/credential"
)

// clock is a time that tests move.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// house is an issuer with its keys on the network, and a verifier of its tokens.
type house struct {
	t       *testing.T
	clock   *clock
	signer  *credential.Signer
	url     string
	fetched atomic.Int64
	down    atomic.Bool
	*Verifier
}

func newHouse(t *testing.T, edits ...func(*Options)) *house {
	t.Helper()
	h := &house{t: t, clock: &clock{now: begin}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.fetched.Add(1)
		if h.down.Load() {
			http.Error(w, "down", http.StatusServiceUnavailable)
			return
		}
		h.signer.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	h.url = server.URL
	var err error
	h.signer, err = credential.Open(filepath.Join(t.TempDir(), "keys"), credential.Options{Issuer: server.URL, Random: rand.Reader, Clock: h.clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Issuer: server.URL, Audience: audience, Seen: PerProcess(h.clock.Now), Clock: h.clock.Now}
	for _, edit := range edits {
		edit(&o)
	}
	if h.Verifier, err = New(o); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *house) token(edits ...func(*credential.Claims)) string {
	h.t.Helper()
	c := goodClaims()
	c.Lease = h.clock.Now().Add(time.Hour)
	for _, edit := range edits {
		edit(&c)
	}
	token, err := h.signer.Sign(c)
	if err != nil {
		h.t.Fatal(err)
	}
	return token
}

func (h *house) wants(token string, want Reason) {
	h.t.Helper()
	_, err := h.Check(context.Background(), token, "refund", []byte(refund))
	if want == "" && err != nil || want != "" && (err == nil || ReasonOf(err) != want) {
		h.t.Errorf("%v, want %q", err, want)
	}
}

// Keys are fetched once, then when they are old; a key that comes is known before
// it signs; tokens with made-up keys do not make us ask more often.
func TestKeysAreFetchedWhenNeeded(t *testing.T) {
	h := newHouse(t)
	for range 3 {
		h.wants(h.token(), "")
	}
	if n := h.fetched.Load(); n != 1 {
		t.Errorf("fetched %d times", n)
	}
	stranger := newMaker(t, h.url, 7)
	for range 100 {
		h.wants(stranger.token(nil), BadToken)
	}
	if n := h.fetched.Load(); n > 2 {
		t.Errorf("a stranger made us fetch %d times", n)
	}
	for range 26 * 6 {
		h.clock.pass(10 * time.Minute) // more than a day: past a change of keys
		h.wants(h.token(), "")
	}
	h.down.Store(true)
	h.clock.pass(30 * time.Minute)
	h.wants(h.token(), "") // what is known is good for an hour
	h.clock.pass(31 * time.Minute)
	h.wants(h.token(), CannotCheck)
	h.down.Store(false)
	h.clock.pass(6 * time.Second)
	h.wants(h.token(), "")
}

func TestNoKeysNoCall(t *testing.T) {
	h := newHouse(t)
	h.down.Store(true)
	h.wants(h.token(), CannotCheck)
	h.wants(h.token(), CannotCheck) // and the second does not hammer
	if n := h.fetched.Load(); n != 1 {
		t.Errorf("fetched %d times", n)
	}
}

// Of a hundred that come at once with one token, one is let through.
func TestATokenWorksOnce(t *testing.T) {
	h := newHouse(t)
	token := h.token()
	var through atomic.Int64
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			if _, err := h.Check(context.Background(), token, "refund", []byte(refund)); err == nil {
				through.Add(1)
			} else if ReasonOf(err) != Replayed {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := through.Load(); n != 1 {
		t.Errorf("%d came through", n)
	}
}

// A token that came with the wrong arguments is not used up by that.
func TestARefusalUsesNothingUp(t *testing.T) {
	h := newHouse(t)
	token := h.token()
	for _, args := range []string{`{}`, `{"amount":1}`, `x`} {
		if _, err := h.Check(context.Background(), token, "refund", []byte(args)); ReasonOf(err) != OtherArguments {
			t.Error(err)
		}
	}
	h.wants(token, "")
}

type brokenSeen struct{}

func (brokenSeen) Use(context.Context, string, time.Time) (bool, error) {
	return true, errors.New("table is gone")
}

func TestRefusesWhenItCannotTell(t *testing.T) {
	h := newHouse(t, func(o *Options) { o.Seen = brokenSeen{} })
	_, err := h.Check(context.Background(), h.token(), "refund", []byte(refund))
	if ReasonOf(err) != CannotCheck || strings.Contains(err.Error(), "table") || !strings.Contains(fmt.Sprint(errors.Unwrap(err)), "table") {
		t.Errorf("%v, cause %v", err, errors.Unwrap(err))
	}
}

func TestOtherTenantsAreRefused(t *testing.T) {
	h := newHouse(t, func(o *Options) { o.Tenants = []string{"acme"} })
	h.wants(h.token(func(c *credential.Claims) { c.Owner.Tenant = "globex" }), OtherTenant)
	h.wants(h.token(), "")
}

func TestAnswersAreBound(t *testing.T) {
	h := newHouse(t)
	with := func(c *credential.Claims) { c.Input = []byte(`{"inputResponses":{"a":1},"requestState":"s"}`) }
	call, err := h.Check(context.Background(), h.token(with), "refund", []byte(refund))
	if err != nil {
		t.Fatal(err)
	}
	for input, fine := range map[string]bool{`{"requestState":"s","inputResponses":{"a":1}}`: true, `{"requestState":"s","inputResponses":{"a":2}}`: false, ``: false} {
		if err := call.CheckInput([]byte(input)); (err == nil) != fine {
			t.Errorf("%s: %v", input, err)
		}
	}
	if call, err = h.Check(context.Background(), h.token(), "refund", []byte(refund)); err != nil || call.CheckInput(nil) != nil || call.CheckInput([]byte(`{"requestState":"s"}`)) == nil {
		t.Errorf("a call without answers: %v", err)
	}
}

func TestUsedTokensAreForgottenWhenTheyEnd(t *testing.T) {
	c := &clock{now: begin}
	seen := PerProcess(c.Now).(*perProcess)
	for i := range 100_000 {
		c.pass(10 * time.Millisecond)
		if first, err := seen.Use(context.Background(), fmt.Sprint(i), c.Now().Add(time.Second)); !first || err != nil {
			t.Fatal(i, first, err)
		}
	}
	if n := len(seen.until); n > 2*sweepAt {
		t.Errorf("%d are kept", n)
	}
}

func TestOptions(t *testing.T) {
	seen := PerProcess(nil)
	for name, o := range map[string]Options{
		"nothing": {}, "no audience": {Issuer: "https://p", Seen: seen}, "no issuer": {Audience: "a", Seen: seen}, "no store": {Issuer: "https://p", Audience: "a"},
		"keys in the clear": {Issuer: "http://p.example", Audience: "a", Seen: seen}, "not a URL": {Issuer: "p", Audience: "a", Seen: seen},
		"both": {Issuer: "https://p", Audience: "a", Seen: seen, JWKS: "https://p/k", Keys: []byte("{}")}, "no keys": {Issuer: "https://p", Audience: "a", Seen: seen, Keys: []byte(`{"keys":[]}`)},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

// FuzzCheck: whatever is not a vector's token with its own arguments is refused.
func FuzzCheck(f *testing.F) {
	text, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		f.Fatal(err)
	}
	var v vectors
	if err := json.Unmarshal(text, &v); err != nil {
		f.Fatal(err)
	}
	good := map[string]bool{}
	for _, c := range v.Tokens {
		good[c.Token] = good[c.Token] || c.Want == "" || c.Now != 0 || c.Twice || c.Input != nil || c.Tenants != nil || c.Want == OtherArguments
		f.Add(c.Token, []byte(c.Arguments))
	}
	f.Fuzz(func(t *testing.T, token string, arguments []byte) {
		clock := func() time.Time { return time.Unix(v.Now, 0) }
		k, err := New(Options{Issuer: v.Issuer, Audience: v.Audience, Keys: v.JWKS, Seen: PerProcess(clock), Clock: clock})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := k.Check(context.Background(), token, "refund", arguments); err == nil && !good[token] {
			t.Errorf("a token that nobody made is taken: %s", token)
		}
	})
}
