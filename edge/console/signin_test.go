package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// A sign-in ends in the browser that began it, once, and returns to our pages only.
func TestSignIn(t *testing.T) {
	w := newWorld(t)
	b := w.browser()
	b.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	start := b.get("/console/sign-in?to=/console/tools")
	to, err := url.Parse(start.header.Get("Location"))
	if err != nil || start.status != http.StatusSeeOther {
		t.Fatalf("%d %v", start.status, err)
	}
	q := to.Query()
	if q.Get("code_challenge_method") != "S256" || len(q.Get("state")) < 40 || len(q.Get("nonce")) < 40 || q.Get("resource") != w.url+"/console" || q.Get("client_id") != "placet-console" {
		t.Errorf("asked with %v", q)
	}
	login := b.get(strings.TrimPrefix(to.String(), w.url))
	page := b.get(strings.TrimPrefix(login.header.Get("Location"), w.url))
	back := b.post("/dev/issuer/login", url.Values{"request": {first(request, page.body)}, "user": {"otto"}}).header.Get("Location")
	back = strings.TrimPrefix(back, w.url)

	// Login fixation: the answer in another browser, or with another state.
	w.browser().get(back).want(t, 403, "did not begin this sign-in")
	other := strings.Replace(back, "state="+q.Get("state"), "state="+strings.Repeat("A", 43), 1)
	if other == back {
		t.Fatal("no state in the answer")
	}
	b.get(other).want(t, 403)
	b.get(back+"&state=x").want(t, 400)
	done := b.get(back)
	if done.status != http.StatusSeeOther || done.header.Get("Location") != "/console/tools" {
		t.Fatalf("%d %v %s", done.status, done.header, done.body)
	}
	for _, k := range (&http.Response{Header: done.header}).Cookies() {
		if k.Value != "" && (!k.HttpOnly || k.SameSite != http.SameSiteLaxMode || len(k.Value) < 43) {
			t.Errorf("cookie %+v", k)
		}
	}
	b.get("/console/tools").want(t, 200, "refund", "otto")
	b.get(back).want(t, 403) // used up

	// Another sign-in of the same browser is another session.
	before := b.cookie()
	b.CheckRedirect = nil
	page = b.signIn("lena", "/console")
	if now := b.cookie(); now == before || now == "" {
		t.Error("the session kept its name over a sign-in")
	}
	thief := w.browser()
	thief.setCookie(before)
	thief.get("/console").want(t, 200, "Sign in at")
	b.post("/console/sign-out", url.Values{"form": {first(formOf, page.body)}}).want(t, 200, "You are signed out")
	b.get("/console").want(t, 200, "Sign in at")
}

func (b *browser) cookie() string {
	u, _ := url.Parse(b.w.url)
	for _, k := range b.Jar.Cookies(u) {
		if strings.HasPrefix(k.Name, "placet-session") {
			return k.Value
		}
	}
	return ""
}

func (w *world) sessionCookie() string {
	u, _ := url.Parse(w.url)
	return "placet-session-" + u.Port()
}

func (b *browser) setCookie(value string) {
	u, _ := url.Parse(b.w.url)
	b.Jar.SetCookies(u, []*http.Cookie{{Name: b.w.sessionCookie(), Value: value, Path: "/"}})
}

func TestReturnsToOwnPagesOnly(t *testing.T) {
	w := newWorld(t)
	for _, to := range []string{"https://evil.example/console", "//evil.example/console", "/\\evil.example", "/v1/calls", "/console/../v1/calls", "/consolex", "javascript:alert(1)", "/console/sign-in", "/console/callback?x"} {
		b := w.browser()
		if page := b.signIn("lena", to); page.at.Path != "/console" || page.at.Host != strings.TrimPrefix(w.url, "http://") {
			t.Errorf("%q led to %s", to, page.at)
		}
	}
}

// Idle, old and expired sessions are nobody's, and what a page keeps asking is no use.
func TestSessionsEnd(t *testing.T) {
	w := newWorld(t)
	b := w.browser()
	b.signIn("lena", "/console").want(t, 200, "Sign out")
	w.offset.Store(int64(14 * time.Minute))
	b.get("/console").want(t, 200, "Sign out")
	w.offset.Store(int64(16 * time.Minute)) // the token was for 15
	b.get("/console").want(t, 200, "Sign in at")
	b.get("/console/live?inbox=").want(t, 403)
}
