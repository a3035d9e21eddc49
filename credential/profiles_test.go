package credential

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/placet-dev/placet/credential/issuertest"
	"github.com/placet-dev/placet/record"
)

// stand is a provider with two users and the client that exchanges for them, and the
// profiles under test.
type stand struct {
	*issuertest.Provider
	profiles *Profiles
	clock    *shifted
}

// shifted is the real clock, which the provider has too, moved on.
type shifted struct {
	mu sync.Mutex
	by time.Duration
}

func (s *shifted) Now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Add(s.by)
}

func (s *shifted) pass(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.by += d
}

func newStand(t *testing.T, edit ...func(*Profile)) *stand {
	t.Helper()
	s := &stand{Provider: issuertest.New(t), clock: &shifted{}}
	for _, name := range []string{"anna", "ben"} {
		s.SetUser(name, &issuertest.User{Scopes: []string{"tickets:read", "refunds:write"}, Groups: []string{"support"}, Tenant: "acme"})
	}
	s.SetClient("placet", issuertest.Client{Secret: "s/e+c:r t", Scopes: []string{"tools:list"}, Audience: []string{"helpdesk"}})
	p := Profile{Name: "desk", Type: TokenExchange, Audience: []string{"helpdesk"},
		Client: Client{Issuer: s.URL, ID: "placet", Secret: "s/e+c:r t"}}
	list := []Profile{p}
	if len(edit) > 0 {
		edit[0](&list[0])
	}
	list = append(list, Profile{Name: "itself", Type: ClientCredentials, Client: p.Client, Scope: []string{"tools:list"}})
	s.profiles = openProfiles(t, s.clock, list...)
	return s
}

func openProfiles(t *testing.T, c *shifted, list ...Profile) *Profiles {
	t.Helper()
	ps, err := NewProfiles(list, ProfileOptions{Clock: c.Now, Random: rand.Reader, HTTP: &http.Client{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ps.Close)
	return ps
}

// ask is a caller's, with a token that the provider signed.
func (s *stand) ask(t *testing.T, user string) Ask {
	t.Helper()
	scopes := []string{"tickets:read", "refunds:write"}
	token := s.Token(t, issuertest.Login{User: user, Agent: "bot", Audience: "placet-mcp", Scopes: scopes, Session: "s1"})
	return Ask{
		Owner:   record.Owner{Tenant: "acme", Principal: record.Principal{Issuer: s.URL, Subject: user}, Agent: "bot"},
		Subject: Subject{Token: Secret(token), Session: "sid:s1", Scopes: scopes, Expires: s.clock.Now().Add(5 * time.Minute)},
		Scope:   "tickets:read",
	}
}

func (s *stand) obtain(t *testing.T, a Ask) Attachment {
	t.Helper()
	got, err := s.profiles.Obtain(t.Context(), "desk", a)
	if err != nil {
		t.Fatalf("%v (%v)", err, errors.Unwrap(err))
	}
	return got
}

func (s *stand) bearer(t *testing.T, a Ask) string {
	t.Helper()
	got := s.obtain(t, a)
	token, ok := strings.CutPrefix(got.Value.Reveal(), "Bearer ")
	if !ok || got.Header != "Authorization" || got.Variable != "" {
		t.Fatalf("attachment %+v", got)
	}
	return token
}

// TestExchange: what a server gets is signed by the issuer for this server alone,
// about the user, through us, with the tool's scope and nothing more.
func TestExchange(t *testing.T) {
	s := newStand(t)
	a := s.ask(t, "anna")
	token := s.bearer(t, a)
	claims, err := s.Verify(token, "helpdesk")
	if err != nil {
		t.Fatal(err)
	}
	if claims["sub"] != "anna" || claims["scope"] != "tickets:read" || fmt.Sprint(claims["act"]) != "map[act:map[sub:bot] sub:placet]" || fmt.Sprint(claims["aud"]) != "[helpdesk]" {
		t.Errorf("claims %v", claims)
	}
	if token == a.Subject.Token.Reveal() {
		t.Error("it is the caller's own token")
	}
	a.Scope = "refunds:write"
	if claims, err = s.Verify(s.bearer(t, a), "helpdesk"); err != nil || claims["scope"] != "refunds:write" {
		t.Errorf("%v %v", claims, err)
	}
}

// TestRule_I2_WhatTokensAreKeptUnder: the same question gets the kept token; one that
// differs in any way is asked anew.
func TestRule_I2_WhatTokensAreKeptUnder(t *testing.T) {
	s := newStand(t)
	first := s.ask(t, "anna")
	token := s.bearer(t, first)
	again := s.ask(t, "anna") // another token of the same login
	if s.bearer(t, again) != token || len(s.Asked("token-exchange")) != 1 {
		t.Error("an equal question was asked again")
	}
	seen := map[string]string{token: "first"}
	for name, edit := range map[string]func(*Ask){
		"tenant":  func(a *Ask) { a.Owner.Tenant = "globex" },
		"subject": func(a *Ask) { *a = s.ask(t, "ben") },
		"agent":   func(a *Ask) { a.Owner.Agent = "other-bot" },
		"session": func(a *Ask) { a.Subject.Session = "sid:s2" },
		"scopes":  func(a *Ask) { a.Subject.Scopes = []string{"tickets:read"} },
		"scope":   func(a *Ask) { a.Scope = "refunds:write" },
	} {
		a := s.ask(t, "anna")
		edit(&a)
		got := s.bearer(t, a)
		if with, twice := seen[got]; twice {
			t.Errorf("another %s shares the token of %s", name, with)
		}
		seen[got] = name
	}
	if n := len(s.Asked("token-exchange")); n != 7 {
		t.Errorf("%d exchanges for seven different questions", n)
	}
}

// TestRule_I2_LifeIsTheShorterOfTheTwo: a kept token is not handed out at the end of
// its own life, nor at that of the token it came from.
func TestRule_I2_LifeIsTheShorterOfTheTwo(t *testing.T) {
	for _, c := range []struct {
		name               string
		issued, subject    time.Duration
		most, still, ended time.Duration
	}{
		{"the issued token", 2 * time.Minute, 10 * time.Minute, 0, 100 * time.Second, 115 * time.Second},
		{"the caller's token", 10 * time.Minute, 2 * time.Minute, 0, 100 * time.Second, 115 * time.Second},
		{"the profile", 10 * time.Minute, 10 * time.Minute, time.Minute, 40 * time.Second, 55 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStand(t, func(p *Profile) { p.MaxAge = c.most })
			s.SetLife(c.issued)
			a := s.ask(t, "anna")
			a.Subject.Expires = s.clock.Now().Add(c.subject)
			token := s.bearer(t, a)
			s.clock.pass(c.still)
			if s.bearer(t, a) != token {
				t.Error("it was dropped too early")
			}
			s.clock.pass(c.ended - c.still)
			if s.bearer(t, a) == token {
				t.Error("it is handed out at its end")
			}
		})
	}
}

// TestAnswersThatAreRefused: each is a denial, never a token. The neighbour is the
// same answer unaltered.
func TestAnswersThatAreRefused(t *testing.T) {
	s := newStand(t, func(p *Profile) { p.AlsoScopes = []string{"profile"} })
	a := s.ask(t, "anna")
	other := s.Sign(t, map[string]any{"iss": s.URL, "aud": []string{"billing"}, "exp": time.Now().Add(time.Minute).Unix()})
	ended := s.Sign(t, map[string]any{"iss": s.URL, "aud": []string{"helpdesk"}, "exp": time.Now().Add(-time.Minute).Unix()})
	for name, alter := range map[string]func(map[string]any){
		"another audience":         func(m map[string]any) { m["access_token"] = other },
		"it has ended":             func(m map[string]any) { m["access_token"] = ended },
		"it ends at once":          func(m map[string]any) { m["expires_in"] = 0 },
		"no end":                   func(m map[string]any) { m["access_token"] = "opaque"; delete(m, "expires_in") },
		"an end in words":          func(m map[string]any) { m["expires_in"] = "soon" },
		"a negative end":           func(m map[string]any) { m["expires_in"] = -1 },
		"wider scope":              func(m map[string]any) { m["scope"] = "tickets:read refunds:write" },
		"scope is a list":          func(m map[string]any) { m["scope"] = []string{"tickets:read"} },
		"type N_A":                 func(m map[string]any) { m["token_type"] = "N_A" },
		"type DPoP":                func(m map[string]any) { m["token_type"] = "DPoP" },
		"no type":                  func(m map[string]any) { delete(m, "token_type") },
		"an ID token":              func(m map[string]any) { m["issued_token_type"] = "urn:ietf:params:oauth:token-type:id_token" },
		"no issued type":           func(m map[string]any) { delete(m, "issued_token_type") },
		"the caller's own":         func(m map[string]any) { m["access_token"] = a.Subject.Token.Reveal() },
		"no token":                 func(m map[string]any) { delete(m, "access_token") },
		"a token of two lines":     func(m map[string]any) { m["access_token"] = "a\r\nX-Evil: 1" },
		"a token that is no text":  func(m map[string]any) { m["access_token"] = 12 },
		"a token of several words": func(m map[string]any) { m["access_token"] = "a b" },
	} {
		s.Alter(alter)
		got, err := s.profiles.Obtain(t.Context(), "desk", a)
		if record.KindOf(err) != record.Forbidden || got.Value != "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, alter := range map[string]func(map[string]any){
		"nothing":              func(map[string]any) {},
		"a scope it may add":   func(m map[string]any) { m["scope"] = "tickets:read profile" },
		"a narrower scope":     func(m map[string]any) { m["scope"] = "" },
		"a quoted end":         func(m map[string]any) { m["expires_in"] = "300" },
		"no end but in itself": func(m map[string]any) { delete(m, "expires_in") },
		"a type in lower case": func(m map[string]any) { m["token_type"] = "bearer" },
		"an opaque token":      func(m map[string]any) { m["access_token"] = "opaque" },
	} {
		s.Alter(alter)
		a.Subject.Session = name
		if _, err := s.profiles.Obtain(t.Context(), "desk", a); err != nil {
			t.Errorf("altered %s: %v", name, errors.Unwrap(err))
		}
	}
}

// TestTheCallersOwnTokenDoesNotComeBack: an issuer that answers an exchange with the
// token it was given would have it forwarded.
func TestTheCallersOwnTokenDoesNotComeBack(t *testing.T) {
	s := newStand(t, func(p *Profile) { p.Audience = nil })
	a := s.ask(t, "anna")
	s.Alter(func(m map[string]any) { m["access_token"] = a.Subject.Token.Reveal() })
	if _, err := s.profiles.Obtain(t.Context(), "desk", a); record.KindOf(err) != record.Forbidden {
		t.Error(err)
	}
	s.Alter(nil)
	s.bearer(t, a)
}

// TestIssuerSaysNoOrNothing: a no denies, silence is Unavailable, and of the issuer's
// words nobody sees more than the code.
func TestIssuerSaysNoOrNothing(t *testing.T) {
	s := newStand(t)
	a := s.ask(t, "anna")
	answer := func(status int, body string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Location", s.URL+"/elsewhere")
			w.WriteHeader(status)
			fmt.Fprint(w, body)
			return true
		}
	}
	for _, c := range []struct {
		name   string
		status int
		body   string
		want   record.Kind
		says   string
	}{
		{"a no", 400, `{"error":"invalid_grant","error_description":"planted anna"}`, record.Forbidden, "invalid_grant"},
		{"forbidden", 403, `{"error":"access_denied","error_description":"planted"}`, record.Forbidden, "access_denied"},
		{"no code", 400, `planted`, record.Forbidden, "no error code"},
		{"a code that is none", 400, `{"error":"planted secret!"}`, record.Forbidden, "no error code"},
		{"two codes", 400, `{"error":"a","error":"planted"}`, record.Forbidden, "no error code"},
		{"it does not know us", 401, `{"error":"invalid_client"}`, record.Unavailable, "client_id"},
		{"broken", 500, `{"error":"planted"}`, record.Unavailable, "status 500"},
		{"busy", 429, ``, record.Unavailable, "status 429"},
		{"later", 400, `{"error":"temporarily_unavailable"}`, record.Unavailable, "temporarily_unavailable"},
		{"elsewhere", 307, ``, record.Unavailable, "status 307"},
		{"no JSON", 200, `planted`, record.Forbidden, "JSON"},
		{"twice", 200, `{"access_token":"a","access_token":"b","token_type":"Bearer","expires_in":60}`, record.Forbidden, "JSON"},
		{"long", 200, strings.Repeat(" ", answerBytes+1), record.Forbidden, "longer"},
	} {
		s.Before(answer(c.status, c.body))
		_, err := s.profiles.Obtain(t.Context(), "desk", a)
		if record.KindOf(err) != c.want || !strings.Contains(fmt.Sprint(err), c.says) {
			t.Errorf("%s: %v", c.name, err)
		}
		if said := fmt.Sprintf("%v %s", err, record.PublicMessage(err)); strings.Contains(said, "planted") && c.name != "broken" || strings.Contains(record.PublicMessage(err), c.says) && c.says != "" {
			t.Errorf("%s: too much is said: %s", c.name, said)
		}
	}
	s.Before(nil)
	s.Down(true)
	if _, err := s.profiles.Obtain(t.Context(), "desk", a); record.KindOf(err) != record.Unavailable || strings.Contains(err.Error(), s.URL) {
		t.Errorf("down: %v", err)
	}
	s.Down(false)
	s.SetUser("anna", nil)
	if _, err := s.profiles.Obtain(t.Context(), "desk", a); record.KindOf(err) != record.Forbidden || strings.Contains(err.Error(), "planted") {
		t.Errorf("a dismissed user: %v", err)
	}
	s.bearer(t, s.ask(t, "ben"))
}

func TestDownWithAndWithoutWhatIsKept(t *testing.T) {
	s := newStand(t)
	a, b := s.ask(t, "anna"), s.ask(t, "ben")
	token := s.bearer(t, a)
	s.Down(true)
	if s.bearer(t, a) != token {
		t.Error("the kept token is not handed out")
	}
	if _, err := s.profiles.Obtain(t.Context(), "desk", b); record.KindOf(err) != record.Unavailable {
		t.Errorf("nothing kept: %v", err)
	}
	s.Down(false)
	s.bearer(t, b)
}

// arrives waits until a request is at the issuer.
func arrives(t *testing.T, at <-chan struct{}) {
	t.Helper()
	select {
	case <-at:
	case <-time.After(20 * time.Second):
		t.Fatal("the issuer is not asked")
	}
}

// stops holds a request at the issuer until it is released, or nobody waits.
func stops(arrived, release chan struct{}) func(http.ResponseWriter, *http.Request) bool {
	return func(_ http.ResponseWriter, r *http.Request) bool {
		close(arrived)
		select {
		case <-release:
		case <-r.Context().Done():
		}
		return false
	}
}

// TestOneFlight: who waits for one answer asks once, and one who gives up fails
// nobody else.
func TestOneFlight(t *testing.T) {
	s := newStand(t)
	a := s.ask(t, "anna")
	arrived, release := make(chan struct{}), make(chan struct{})
	s.Before(stops(arrived, release))
	ctx, giveUp := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		_, err := s.profiles.Obtain(ctx, "desk", a)
		gone <- err
	}()
	arrives(t, arrived)
	var wg sync.WaitGroup
	tokens := make([]Secret, 20)
	for i := range tokens {
		wg.Go(func() {
			got, err := s.profiles.Obtain(t.Context(), "desk", a)
			if err != nil {
				t.Error(err)
			}
			tokens[i] = got.Value
		})
	}
	giveUp()
	if err := <-gone; record.KindOf(err) != record.Unavailable {
		t.Errorf("who gave up: %v", err)
	}
	close(release)
	wg.Wait()
	for _, token := range tokens {
		if token != tokens[0] || token == "" {
			t.Error("several tokens for one question")
		}
	}
	if n := len(s.Asked("token-exchange")); n != 1 {
		t.Errorf("%d exchanges", n)
	}
}

func TestWhatIsDropped(t *testing.T) {
	s := newStand(t)
	a, b := s.ask(t, "anna"), s.ask(t, "ben")
	first, other := s.obtain(t, a), s.obtain(t, b)
	if n := s.profiles.Drop(func(k Key) bool { return k.Owner.Principal.Subject == "anna" }); n != 1 {
		t.Errorf("%d dropped", n)
	}
	second := s.obtain(t, a)
	if second.Value == first.Value || s.obtain(t, b).Value != other.Value {
		t.Error("the wrong one was dropped")
	}
	first.Refused() // late news about a token that was replaced
	if s.obtain(t, a).Value != second.Value {
		t.Error("a refusal of an older token dropped a newer one")
	}
	second.Refused()
	if s.obtain(t, a).Value == second.Value {
		t.Error("a refused token is handed out again")
	}

	// One that is on its way when its like is dropped is not kept.
	a.Subject.Session = "sid:s9"
	arrived, release := make(chan struct{}), make(chan struct{})
	s.Before(stops(arrived, release))
	late := make(chan Attachment, 1)
	go func() {
		got, err := s.profiles.Obtain(t.Context(), "desk", a)
		if err != nil {
			t.Error(err)
		}
		late <- got
	}()
	arrives(t, arrived)
	s.profiles.Drop(func(k Key) bool { return k.Session == "sid:s9" })
	close(release)
	got := <-late
	s.Before(nil)
	if s.obtain(t, a).Value == got.Value {
		t.Error("what was dropped on its way was kept")
	}
}

func TestTheCacheIsBounded(t *testing.T) {
	c := newCache(t.Context(), time.Now)
	for i := range maxCached + 10 {
		_, err := c.get(t.Context(), Key{Session: fmt.Sprint(i)}, func(context.Context) (issued, error) {
			return issued{value: "x", until: time.Now().Add(time.Hour)}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if c.order.Len() != maxCached || len(c.places) != maxCached || len(c.flights) != 0 {
		t.Errorf("%d kept, %d places, %d flights", c.order.Len(), len(c.places), len(c.flights))
	}
}

// TestWhoIsNotExchangedFor: nothing is asked of an issuer for a caller without a token
// of that issuer's.
func TestWhoIsNotExchangedFor(t *testing.T) {
	s := newStand(t, func(p *Profile) { p.Scopes = map[string][]string{"tickets:read": {"desk.read"}} })
	for name, edit := range map[string]func(*Ask){
		"no token":         func(a *Ask) { a.Subject = Subject{} },
		"another issuer":   func(a *Ask) { a.Owner.Principal.Issuer = "https://other.example" },
		"no scopes for it": func(a *Ask) { a.Scope = "refunds:write" },
	} {
		a := s.ask(t, "anna")
		edit(&a)
		if _, err := s.profiles.Obtain(t.Context(), "desk", a); record.KindOf(err) != record.Forbidden {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := s.profiles.Obtain(t.Context(), "nothing", s.ask(t, "anna")); record.KindOf(err) != record.Forbidden {
		t.Errorf("no profile: %v", err)
	}
	if n := len(s.Asked("token-exchange")); n != 0 {
		t.Errorf("%d exchanges", n)
	}
	s.SetUser("anna", &issuertest.User{Scopes: []string{"desk.read"}})
	if claims, err := s.Verify(s.bearer(t, s.ask(t, "anna")), "helpdesk"); err != nil || claims["scope"] != "desk.read" {
		t.Errorf("the mapped scope: %v %v", claims, err)
	}
}

// TestOwnNeverHoldsACallers: what is sent without a caller is this server's own.
func TestOwnNeverHoldsACallers(t *testing.T) {
	s := newStand(t)
	s.bearer(t, s.ask(t, "anna"))
	for _, name := range []string{"desk", "itself"} {
		own, err := s.profiles.Own(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		claims, err := s.Verify(strings.TrimPrefix(own.Value.Reveal(), "Bearer "), "helpdesk")
		if err != nil || claims["sub"] != "placet" {
			t.Errorf("%s: %v %v", name, claims, err)
		}
	}
	with := newStand(t, func(p *Profile) { p.Listing = "itself" })
	own, err := with.profiles.Own(t.Context(), "desk")
	if err != nil {
		t.Fatal(err)
	}
	if claims, err := with.Verify(strings.TrimPrefix(own.Value.Reveal(), "Bearer "), "helpdesk"); err != nil || claims["scope"] != "tools:list" {
		t.Errorf("listing: %v %v", claims, err)
	}
	// A client credentials profile is the same for every caller, also for those without a token.
	for _, a := range []Ask{with.ask(t, "anna"), {Owner: record.Owner{Tenant: "acme"}}} {
		if got, err := with.profiles.Obtain(t.Context(), "itself", a); err != nil || got.Value != own.Value {
			t.Errorf("%v", err)
		}
	}
}

func TestActorToken(t *testing.T) {
	s := newStand(t, func(p *Profile) { p.Actor = "itself" })
	s.bearer(t, s.ask(t, "anna"))
	all := s.Asked("token-exchange")
	if len(all) != 1 || all[0].Get("actor_token_type") != accessTokenType {
		t.Fatalf("asked %v", all)
	}
	if claims, err := s.Verify(all[0].Get("actor_token"), "helpdesk"); err != nil || claims["sub"] != "placet" {
		t.Errorf("%v %v", claims, err)
	}
}

func TestStaticAndNone(t *testing.T) {
	ps := openProfiles(t, &shifted{},
		Profile{Name: "bearer", Type: Static, Value: "v1"}, Profile{Name: "key", Type: Static, Value: "v2", Header: "X-Api-Key"},
		Profile{Name: "variable", Type: Static, Value: "v3", Variable: "TOKEN"}, Profile{Name: "none", Type: None})
	for name, want := range map[string]Attachment{
		"bearer": {Header: "Authorization", Value: "Bearer v1"}, "key": {Header: "X-Api-Key", Value: "v2"}, "variable": {Variable: "TOKEN", Value: "v3"}, "none": {},
	} {
		for _, get := range []func() (Attachment, error){
			func() (Attachment, error) { return ps.Obtain(t.Context(), name, Ask{}) },
			func() (Attachment, error) { return ps.Own(t.Context(), name) },
		} {
			if got, err := get(); err != nil || got.Header != want.Header || got.Value != want.Value || got.Variable != want.Variable {
				t.Errorf("%s: %q %q %v", name, got.Header, got.Value.Reveal(), err)
			}
		}
	}
	for _, p := range []Profile{{Name: "a", Type: Static}, {Name: "a", Type: Static, Value: "x\ny"}, {Name: "a", Type: "magic"}, {Name: "a", Type: TokenExchange, Client: Client{Key: "no key"}}} {
		if _, err := NewProfiles([]Profile{p}, ProfileOptions{Clock: time.Now, Random: rand.Reader, HTTP: http.DefaultClient}); record.KindOf(err) != record.Invalid {
			t.Errorf("%s: %v", p.Type, err)
		}
	}
}

// TestOnBehalfOf: the request is as Microsoft's documentation of the on-behalf-of
// flow has it. Nobody ran it against Entra.
func TestOnBehalfOf(t *testing.T) {
	var form url.Values
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			t.Error(err)
		}
		form = r.PostForm
		scope := "api://desk/Tickets.Read"
		if form.Get("assertion") == "wide" {
			scope += " api://other/All"
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"token_type": "Bearer", "scope": scope, "expires_in": 3269, "ext_expires_in": 0, "access_token": "eyJ0.issued", "refresh_token": "OAQ"})
	}))
	defer server.Close()
	ps := openProfiles(t, &shifted{}, Profile{Name: "desk", Type: OnBehalfOf, Scope: []string{"api://desk/.default"},
		Client: Client{Issuer: "https://login.example/v2.0", TokenURL: server.URL, ID: "placet", Secret: "x", Post: true}})
	a := Ask{Owner: record.Owner{Principal: record.Principal{Issuer: "https://login.example/v2.0", Subject: "anna"}}, Subject: Subject{Token: "eyJ0.inbound", Session: "s", Expires: time.Now().Add(time.Hour)}, Scope: "tickets:read"}
	ps.all["desk"].endpoint.found, ps.all["desk"].endpoint.at = metadata{token: server.URL}, time.Now()
	got, err := ps.Obtain(t.Context(), "desk", a)
	if err != nil || got.Value != "Bearer eyJ0.issued" {
		t.Fatal(err, errors.Unwrap(err))
	}
	want := url.Values{"grant_type": {"urn:ietf:params:oauth:grant-type:jwt-bearer"}, "client_id": {"placet"}, "client_secret": {"x"}, "assertion": {"eyJ0.inbound"},
		"scope": {"api://desk/.default"}, "requested_token_use": {"on_behalf_of"}}
	if form.Encode() != want.Encode() {
		t.Errorf("asked %v", form)
	}
	a.Subject = Subject{Token: "wide", Session: "w", Expires: time.Now().Add(time.Hour)}
	if _, err := ps.Obtain(t.Context(), "desk", a); record.KindOf(err) != record.Forbidden {
		t.Errorf("a scope of another resource: %v", err)
	}
}

func TestNothingPrintsASecret(t *testing.T) {
	s := newStand(t)
	got := s.obtain(t, s.ask(t, "anna"))
	p, _ := s.profiles.Profile("desk")
	a := s.ask(t, "anna")
	text, err := json.Marshal(map[string]any{"profile": p, "ask": a})
	if err != nil {
		t.Fatal(err)
	}
	said := string(text)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		for _, x := range []any{s.profiles, got, p, &p, a, got.Value} {
			said += fmt.Sprintf(verb, x)
		}
	}
	for _, secret := range []string{got.Value.Reveal(), a.Subject.Token.Reveal(), "s/e+c:r t", fmt.Sprintf("%x", "s/e+c:r t")} {
		if strings.Contains(said, secret) {
			t.Errorf("a secret shows in %.300s", said)
		}
	}
}

func FuzzReadGranted(f *testing.F) {
	f.Add([]byte(`{"access_token":"a.b.c","token_type":"Bearer","expires_in":60,"scope":"x","issued_token_type":"urn:ietf:params:oauth:token-type:access_token"}`))
	f.Add([]byte(`{"access_token":"e30.eyJleHAiOjF9.e30","token_type":"bearer","expires_in":"9"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		g, err := readGranted(text)
		if err != nil {
			return
		}
		p := &profile{Profile: Profile{Audience: []string{"helpdesk"}}}
		now := time.Unix(1_800_000_000, 0)
		got, err := p.accept(g, []string{"x"}, now)
		if err != nil {
			return
		}
		if strings.ContainsAny(got.value.Reveal(), "\r\n\x00") || !got.ends.After(now) || got.until.After(got.ends) {
			t.Errorf("accepted %q: %+v", text, got)
		}
	})
}
