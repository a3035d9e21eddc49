package issuer_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/oauth2"
)

// asked opens the sign-in page of a client in a browser.
func (w *world) asked(b *browser, client string) page {
	w.t.Helper()
	p := b.open(w.oauth(client, "").AuthCodeURL("s", oauth2.S256ChallengeOption(oauth2.GenerateVerifier())))
	if p.status != http.StatusOK {
		w.t.Fatalf("%d %s", p.status, p.body)
	}
	return p
}

// A form counts only from the browser that asked for the login, sent by the page
// that it got.
func TestLoginFormOfAnotherPage(t *testing.T) {
	w := newWorld(t)
	b := w.browser()
	p := w.asked(b, "agent")
	form := p.form(t, "user", "anna")
	if got := w.browser().send(form); got.status != http.StatusForbidden || got.header.Get("Location") != "" {
		t.Errorf("another browser: %d to %q", got.status, got.header.Get("Location"))
	}
	for name, header := range map[string]http.Header{
		"another site":   {"Sec-Fetch-Site": {"cross-site"}},
		"another port":   {"Sec-Fetch-Site": {"same-site"}},
		"another origin": {"Origin": {"http://evil.example"}},
	} {
		r, err := http.NewRequest(http.MethodPost, w.issuer.URL()+"/login", strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = header
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if got := b.read(b.Do(r)); got.status != http.StatusForbidden || got.header.Get("Location") != "" {
			t.Errorf("%s: %d to %q", name, got.status, got.header.Get("Location"))
		}
	}
	other := w.asked(w.browser(), "agent").form(t, "user", "anna")
	if got := b.send(other); got.status != http.StatusForbidden {
		t.Errorf("another login's form: %d", got.status)
	}
	if got := b.open(w.issuer.URL() + "/login?" + form.Encode()); got.header.Get("Location") != "" {
		t.Errorf("a link signs in: %d to %q", got.status, got.header.Get("Location"))
	}
	if got := b.send(form).returned(t); got.Get("code") == "" {
		t.Errorf("the form itself: %v", got)
	}
	if got := b.send(form); got.status != http.StatusBadRequest || got.header.Get("Location") != "" {
		t.Errorf("the form again: %d to %q", got.status, got.header.Get("Location"))
	}
}

func TestPasswords(t *testing.T) {
	w := newWorld(t)
	b := w.browser()
	p := w.asked(b, "agent")
	if form := p.form(t, "user", "anna"); form.Has("password") {
		t.Error("anna has no password")
	}
	for _, wrong := range [][]string{nil, {"password", ""}, {"password", "Made-up"}, {"user", "nobody"}} {
		if p = b.choose(p, "lena", wrong...); p.status != http.StatusForbidden || !strings.Contains(p.body, "role=\"alert\"") {
			t.Fatalf("%v: %d %s", wrong, p.status, p.body)
		}
	}
	if got := b.choose(p, "lena", "password", "made-up").returned(t); got.Get("code") == "" {
		t.Errorf("the right password: %v", got)
	}
	p = w.asked(b, "agent")
	form := p.form(t, "user", "lena")
	for range 5 {
		p = b.send(form)
	}
	if p.status != http.StatusBadRequest {
		t.Errorf("the fifth wrong password: %d", p.status)
	}
	form.Set("password", "made-up")
	if p = b.send(form); p.status != http.StatusBadRequest || p.header.Get("Location") != "" {
		t.Errorf("the right one after too many: %d", p.status)
	}
}

func TestRefusing(t *testing.T) {
	w := newWorld(t)
	b := w.browser()
	form := w.asked(b, "agent").form(t, "user", "")
	form.Set("refuse", "yes")
	if got := b.send(form).returned(t); got.Get("error") != "access_denied" || got.Get("state") != "s" || got.Get("iss") != w.issuer.URL() || got.Has("code") {
		t.Errorf("%v", got)
	}
	if got := b.send(form); got.status != http.StatusBadRequest {
		t.Errorf("again: %d", got.status)
	}
	form = w.asked(b, "agent").form(t, "user", "anna")
	w.pass(11 * time.Minute)
	if got := b.send(form); got.status != http.StatusBadRequest {
		t.Errorf("too late: %d", got.status)
	}
}

var markup = regexp.MustCompile(`(?i)<script|\son\w+=|javascript:|<iframe|<img|\sstyle=`)

// The pages run nothing, load nothing, and let nobody frame them or send their
// forms elsewhere than to the client.
func TestPageHeaders(t *testing.T) {
	w := newWorld(t)
	b := w.browser()
	for name, p := range map[string]page{
		"login": w.asked(b, "agent"), "welcome": b.open(w.issuer.URL() + "/"), "over": b.open(w.issuer.URL() + "/login?request=x"),
		"refused": b.open(w.issuer.URL() + "/authorize?client_id=nobody"),
	} {
		csp := p.header.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'"} {
			if !strings.Contains(csp, want) {
				t.Errorf("%s: policy %q lacks %s", name, csp, want)
			}
		}
		if strings.Contains(csp, "unsafe") || p.header.Get("X-Frame-Options") != "DENY" || p.header.Get("Cache-Control") != "no-store" ||
			p.header.Get("X-Content-Type-Options") != "nosniff" || p.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: headers %v", name, p.header)
		}
		if bad := markup.FindString(p.body); bad != "" {
			t.Errorf("%s: the page has %q", name, bad)
		}
	}
	p := w.asked(b, "agent")
	if csp := p.header.Get("Content-Security-Policy"); !strings.Contains(csp, "form-action 'self' http://127.0.0.1:4711;") {
		t.Errorf("the answer to the form leads to the client, and the policy is %q", csp)
	}
	css := regexp.MustCompile(`(?s)<style>(.*?)</style>`).FindStringSubmatch(p.body)
	if sum := sha256.Sum256([]byte(css[1])); !strings.Contains(p.header.Get("Content-Security-Policy"), base64.StdEncoding.EncodeToString(sum[:])) {
		t.Error("the page's style is not the one that its policy lets apply")
	}
	if !strings.Contains(p.body, `<html lang="en">`) || !strings.Contains(p.body, `<label for="password-1">`) || !strings.Contains(p.body, "<h1>") {
		t.Errorf("a reader of the page aloud misses its way:\n%s", p.body)
	}
}

// The issuer answers this machine, under its own name.
func TestItAnswersThisMachineOnly(t *testing.T) {
	w := newWorld(t)
	var mux http.ServeMux
	w.issuer.Mount(&mux)
	own, _ := url.Parse(w.issuer.URL())
	for _, path := range []string{"/", "/login", "/keys", "/token", "/register", "/authorize", "/.well-known/openid-configuration"} {
		ask := func(from, host string) int {
			r := httptest.NewRequest(http.MethodGet, w.issuer.URL()+path, nil)
			r.RemoteAddr, r.Host = from, host
			a := httptest.NewRecorder()
			mux.ServeHTTP(a, r)
			return a.Code
		}
		if got := ask("192.0.2.7:1234", own.Host); got != http.StatusForbidden {
			t.Errorf("%s from elsewhere: %d", path, got)
		}
		if got := ask("127.0.0.1:1234", "evil.example:"+own.Port()); got != http.StatusMisdirectedRequest {
			t.Errorf("%s under another name: %d", path, got)
		}
		if got := ask("[::1]:1234", own.Host); got == http.StatusForbidden || got == http.StatusMisdirectedRequest {
			t.Errorf("%s from here: %d", path, got)
		}
	}
}

func TestMetadata(t *testing.T) {
	w := newWorld(t)
	b := w.browser()
	var first string
	for _, at := range []string{w.server.URL + "/.well-known/oauth-authorization-server/dev/issuer", w.server.URL + "/.well-known/openid-configuration/dev/issuer",
		w.issuer.URL() + "/.well-known/openid-configuration"} {
		p := b.open(at)
		if first == "" {
			first = p.body
		}
		if p.status != http.StatusOK || p.body != first {
			t.Errorf("%s: %d %s", at, p.status, p.body)
		}
	}
	var m map[string]any
	if err := json.Unmarshal([]byte(first), &m); err != nil || m["issuer"] != w.issuer.URL() || m["authorization_response_iss_parameter_supported"] != true {
		t.Errorf("%v, %v", m, err)
	}
	for _, at := range []string{"/.well-known/oauth-authorization-server", "/.well-known/oauth-authorization-server/other", "/dev/issuer/nothing", "/dev/issuer/healthz"} {
		if p := b.open(w.server.URL + at); p.status != http.StatusNotFound {
			t.Errorf("%s: %d", at, p.status)
		}
	}
	if p := b.open(w.issuer.URL() + "/token?grant_type=client_credentials"); p.status != http.StatusMethodNotAllowed {
		t.Errorf("a token by GET: %d", p.status)
	}
	if status, _ := w.post("/token?grant_type=client_credentials", "nightly", "made-up-nightly", nil); status != http.StatusBadRequest {
		t.Errorf("a token by a query: %d", status)
	}
}

func TestRegistration(t *testing.T) {
	w := newWorld(t)
	register := func(text string) (int, map[string]any) {
		p := w.browser().read(http.Post(w.issuer.URL()+"/register", "application/json", strings.NewReader(text)))
		var out map[string]any
		if err := json.Unmarshal([]byte(p.body), &out); err != nil {
			t.Fatal(err)
		}
		return p.status, out
	}
	status, got := register(`{"client_name":"<b>Tool</b>","redirect_uris":["http://127.0.0.1:4711/callback","https://elsewhere.example/cb"],"scope":"desk:read","grant_types":["client_credentials"],"token_endpoint_auth_method":"client_secret_basic"}`)
	id, _ := got["client_id"].(string)
	if status != http.StatusCreated || id == "" || got["client_secret"] != nil || got["token_endpoint_auth_method"] != "none" || len(got["redirect_uris"].([]any)) != 1 {
		t.Fatalf("%d %v", status, got)
	}
	p := w.asked(w.browser(), id)
	if strings.Contains(p.body, "<b>Tool") || !strings.Contains(p.body, "registered itself") {
		t.Errorf("the page shows %s", p.body)
	}
	if got := w.login(w.oauth(id, ""), "anna").Extra("scope"); got != "desk:read" {
		t.Errorf("scope %v", got)
	}
	if status, got := w.post("/token", "", "", url.Values{"client_id": {id}, "grant_type": {"client_credentials"}}); status == http.StatusOK {
		t.Errorf("a client that registered itself acts alone: %v", got)
	}
	for text, code := range map[string]string{
		`{"redirect_uris":["https://elsewhere.example/cb"]}`: "invalid_redirect_uri",
		`{"redirect_uris":[]}`:                               "invalid_redirect_uri",
		`{`:                                                  "invalid_client_metadata",
		`{"client_name":"a\u202e","redirect_uris":["http://127.0.0.1/cb"]}`: "invalid_client_metadata",
	} {
		if status, got := register(text); status != http.StatusBadRequest || got["error"] != code {
			t.Errorf("%s: %d %v", text, status, got)
		}
	}
}
