package console_test

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/placet-dev/placet/edge/console"
	"github.com/placet-dev/placet/identity"
)

// provider is an OpenID provider that renews sign-ins and ends them: what the
// development issuer offers its console client neither of.
type provider struct {
	t       *testing.T
	url     string
	console string
	local   *identity.Local
	now     func() time.Time

	mu      sync.Mutex
	subject string // of the tokens it gives
	nonce   string
	refresh int  // which refresh token is the present one
	refuses bool // to renew
	renewed int
	ended   url.Values // what it was sent to sign out with
}

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	send := func(status int, v any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(v)
	}
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		send(200, map[string]any{"issuer": p.url, "authorization_endpoint": p.url + "/authorize", "token_endpoint": p.url + "/token", "jwks_uri": p.url + "/keys",
			"end_session_endpoint": p.url + "/end?kept=1", "id_token_signing_alg_values_supported": []string{"EdDSA"}})
	case "/keys":
		keys, _ := p.local.JWKS()
		send(200, json.RawMessage(keys))
	case "/authorize":
		q := r.URL.Query()
		p.nonce = q.Get("nonce")
		http.Redirect(w, r, q.Get("redirect_uri")+"?code=c&state="+url.QueryEscape(q.Get("state")), http.StatusSeeOther)
	case "/token":
		if r.PostFormValue("grant_type") == "refresh_token" {
			if p.refuses || r.PostFormValue("refresh_token") != fmt.Sprintf("refresh-%d", p.refresh) {
				send(400, map[string]string{"error": "invalid_grant"})
				return
			}
			p.renewed++
		}
		p.refresh++
		access, err := p.local.Sign(identity.TokenSpec{Audience: p.console, Subject: p.subject, Tenant: "dev", Groups: []string{"leads"}, TTL: 2 * time.Minute})
		if err != nil {
			p.t.Error(err)
		}
		id, err := p.local.SignID(map[string]any{"aud": "placet-console", "sub": p.subject, "nonce": p.nonce, "iat": p.now().Unix(), "exp": p.now().Add(time.Hour).Unix()})
		if err != nil {
			p.t.Error(err)
		}
		send(200, map[string]any{"access_token": access, "token_type": "Bearer", "expires_in": 120, "id_token": id, "refresh_token": fmt.Sprintf("refresh-%d", p.refresh)})
	case "/end":
		p.ended = r.URL.Query()
		http.Redirect(w, r, p.ended.Get("post_logout_redirect_uri"), http.StatusSeeOther)
	default:
		http.NotFound(w, r)
	}
}

// at is a console of the world's records that people sign in at with this provider.
func (w *world) at(t *testing.T) (*provider, *world) {
	t.Helper()
	reader, ok := w.placet.Records().(console.Reader)
	if !ok {
		t.Fatal("the store is no reader for the console")
	}
	p := &provider{t: t, now: w.now, subject: "lena"}
	idp := httptest.NewServer(p)
	t.Cleanup(idp.Close)
	mux := http.NewServeMux()
	site := httptest.NewServer(mux)
	t.Cleanup(site.Close)
	p.url, p.console = idp.URL, site.URL+"/console"
	var err error
	if p.local, err = identity.NewLocal(p.url, rand.Reader, w.now); err != nil {
		t.Fatal(err)
	}
	issuer, err := p.local.Issuer(site.URL+"/mcp", p.console, []string{"dev"})
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := identity.New(identity.Config{Issuers: []identity.Issuer{issuer}}, identity.Deps{Clock: w.now})
	if err != nil {
		t.Fatal(err)
	}
	c, err := console.New(console.Options{Boundary: w.placet.Boundary(), Reader: reader, Verifier: verifier, PublicURL: site.URL, Clock: w.now,
		Login: &console.Login{Issuer: p.url, ClientID: "placet-console", ClientSecret: "s", Scopes: []string{"offline_access"}, Ask: "resource"}})
	if err != nil {
		t.Fatal(err)
	}
	c.Mount(mux)
	return p, &world{t: t, url: site.URL}
}

// A sign-in is renewed shortly before its token ends, with each refresh token once,
// and is over when the provider renews it no more, or for somebody else.
func TestSignInIsRenewed(t *testing.T) {
	w := newWorld(t)
	p, site := w.at(t)
	b := site.browser()
	b.get("/console/sign-in").want(t, 200, "lena", "Sign out")
	for n := range 3 {
		w.offset.Add(int64(115 * time.Second))
		b.get("/console").want(t, 200, "lena", "Sign out")
		if p.renewed != n+1 {
			t.Fatalf("renewed %d times after %d ends", p.renewed, n+1)
		}
	}
	b.get("/console").want(t, 200, "lena")
	if p.renewed != 3 {
		t.Fatalf("renewed %d times", p.renewed)
	}
	p.refuses = true
	w.offset.Add(int64(115 * time.Second))
	b.get("/console").want(t, 200, "lena") // the token itself still counts for some seconds
	w.offset.Add(int64(10 * time.Second))
	b.get("/console").want(t, 200, "Sign in at").without(t, "Sign out")

	p.refuses = false
	b = site.browser()
	b.get("/console/sign-in").want(t, 200, "lena", "Sign out")
	p.subject = "lars"
	w.offset.Add(int64(115 * time.Second))
	b.get("/console").want(t, 200, "Sign in at").without(t, "Sign out", "lars")
}

// Signing out ends the session here, and leads to the provider's own end with the ID
// token, and back (OpenID Connect RP-Initiated Logout section 2).
func TestSignOutAtTheProvider(t *testing.T) {
	w := newWorld(t)
	p, site := w.at(t)
	b := site.browser()
	page := b.get("/console/sign-in").want(t, 200, "Sign out")
	kept := b.cookie()
	out := b.post("/console/sign-out", url.Values{"form": {first(formOf, page.body)}}).want(t, 200, "You are signed out", "Sign out at the identity provider too", `http-equiv="refresh"`)
	to := html.UnescapeString(regexp.MustCompile(`href="([^"]*/end[^"]*)"`).FindStringSubmatch(out.body)[1])
	if !strings.HasPrefix(to, p.url+"/end?") {
		t.Fatalf("leads to %s", to)
	}
	r, err := http.NewRequest(http.MethodGet, to, nil)
	if err != nil {
		t.Fatal(err)
	}
	if back := b.do(r).want(t, 200, "Sign in at"); back.at.Path != "/console" {
		t.Errorf("came back to %s", back.at)
	}
	q := p.ended
	if q.Get("client_id") != "placet-console" || q.Get("post_logout_redirect_uri") != site.url+"/console" || strings.Count(q.Get("id_token_hint"), ".") != 2 || q.Get("kept") != "1" {
		t.Errorf("the provider was sent %v", q)
	}
	thief := site.browser()
	thief.setCookie(kept)
	thief.get("/console").want(t, 200, "Sign in at")
}
