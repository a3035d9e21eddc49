package issuer_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
	"golang.org/x/oauth2"
)

// A person signs in at the page, and the token that the client gets is one that a
// verifier takes which knows the issuer by discovery alone.
func TestCodeFlow(t *testing.T) {
	w := newWorld(t)
	p, err := oidc.NewProvider(t.Context(), w.issuer.URL())
	if err != nil {
		t.Fatal(err)
	}
	c := w.oauth("agent", "", oidc.ScopeOpenID, "desk:read", "mail:send", "nobody:has")
	c.Endpoint = p.Endpoint()
	token := w.login(c, "anna", oidc.Nonce("nonce-1"), oauth2.SetAuthURLParam("resource", w.mcp))
	caller, err := w.verifier(w.mcp).Caller(t.Context(), identity.Credentials{Bearer: token.AccessToken})
	if err != nil {
		t.Fatal(err)
	}
	o := caller.Owner()
	if o.Principal != (record.Principal{Issuer: w.issuer.URL(), Subject: "anna"}) || o.Tenant != "dev" || o.Agent != "agent" ||
		!caller.HasScope("desk:read") || !caller.HasScope("mail:send") || caller.HasScope("desk:write") || caller.HasScope("nobody:has") ||
		!caller.InGroup(record.Group{Issuer: w.issuer.URL(), Name: "support"}) {
		t.Errorf("the caller is %v", o)
	}
	if got := token.Extra("scope"); got != "desk:read mail:send" {
		t.Errorf("scope %v", got)
	}
	raw, _ := token.Extra("id_token").(string)
	id, err := p.Verifier(&oidc.Config{ClientID: "agent", Now: w.now}).Verify(t.Context(), raw)
	if err != nil || id.Subject != "anna" || id.Nonce != "nonce-1" {
		t.Fatalf("ID token %+v, %v", id, err)
	}
	if _, err := w.verifier(w.mcp).Caller(t.Context(), identity.Credentials{Bearer: raw}); err == nil {
		t.Error("an ID token proposes")
	}
	// A client that is content with less, one that has a secret, and one that asks for nothing in particular.
	if got := w.login(w.oauth("reader", ""), "anna").Extra("scope"); got != "desk:read" {
		t.Errorf("a narrow client got %v", got)
	}
	if got := w.login(w.oauth("web", "made-up-web"), "anna").Extra("scope"); got != "desk:read desk:write mail:send" {
		t.Errorf("a client that asks for nothing got %v", got)
	}
}

func wants(t *testing.T, err error, code string) {
	t.Helper()
	var e *oauth2.RetrieveError
	if !errors.As(err, &e) || e.ErrorCode != code {
		t.Errorf("wanted %s, got %v", code, err)
	}
}

func TestPKCEIsRequired(t *testing.T) {
	w := newWorld(t)
	c := w.oauth("agent", "")
	for name, o := range map[string][]oauth2.AuthCodeOption{
		"none":   nil,
		"plain":  {oauth2.SetAuthURLParam("code_challenge", strings.Repeat("a", 43)), oauth2.SetAuthURLParam("code_challenge_method", "plain")},
		"no how": {oauth2.SetAuthURLParam("code_challenge", strings.Repeat("a", 43))},
		"short":  {oauth2.SetAuthURLParam("code_challenge", "a"), oauth2.SetAuthURLParam("code_challenge_method", "S256")},
	} {
		if got := w.browser().open(c.AuthCodeURL("s", o...)).returned(t); got.Get("error") != "invalid_request" || got.Get("state") != "s" || got.Has("code") || got.Get("iss") != w.issuer.URL() {
			t.Errorf("%s: %v", name, got)
		}
	}
	for name, o := range map[string][]oauth2.AuthCodeOption{"no verifier": nil, "another": {oauth2.VerifierOption(oauth2.GenerateVerifier())}} {
		code, verifier := w.code(c, "anna")
		_, err := c.Exchange(t.Context(), code, o...)
		if wants(t, err, "invalid_grant"); err == nil {
			t.Errorf("%s: a token", name)
		}
		_, err = c.Exchange(t.Context(), code, oauth2.VerifierOption(verifier))
		wants(t, err, "invalid_grant") // a code that was tried is used
	}
	code, verifier := w.code(c, "anna")
	if _, err := c.Exchange(t.Context(), code, oauth2.VerifierOption(verifier)); err != nil {
		t.Errorf("the right verifier: %v", err)
	}
}

func TestRedirectsAreRegistered(t *testing.T) {
	w := newWorld(t)
	ask := func(to string) page {
		c := w.oauth("agent", "")
		c.RedirectURL = to
		return w.browser().open(c.AuthCodeURL("s", oauth2.S256ChallengeOption(oauth2.GenerateVerifier())))
	}
	for _, to := range []string{
		"", "http://127.0.0.1/other", "http://127.0.0.1:1/callback/", "http://127.0.0.1:1/callback?x=1", "http://localhost:1/callback",
		"http://[::1]:1/callback", "https://127.0.0.1:1/callback", "http://evil.example/callback", "http://127.0.0.1:1@evil.example/callback",
		"http://127.0.0.1.evil.example/callback", "http://evil@127.0.0.1:1/callback", "http://127.0.0.1:1/callback#", "http://127.0.0.1:1/%63allback",
		"app.example:/back/", "app.example:/other", "javascript:alert(1)", "//127.0.0.1/callback",
	} {
		if p := ask(to); p.status != http.StatusBadRequest || p.header.Get("Location") != "" {
			t.Errorf("%q: %d to %q", to, p.status, p.header.Get("Location"))
		}
	}
	for _, to := range []string{"http://127.0.0.1/callback", "http://127.0.0.1:65535/callback", "app.example:/back"} {
		if p := ask(to); p.status != http.StatusOK {
			t.Errorf("%q: %d %s", to, p.status, p.body)
		}
	}
	c := w.oauth("agent", "")
	code, verifier := w.code(c, "anna")
	c.RedirectURL = "http://127.0.0.1:4712/callback"
	_, err := c.Exchange(t.Context(), code, oauth2.VerifierOption(verifier))
	wants(t, err, "invalid_grant")
}

// A code that comes twice was seen by somebody else; what it gave is taken back.
func TestCodeWorksOnce(t *testing.T) {
	w := newWorld(t)
	c := w.oauth("agent", "")
	code, verifier := w.code(c, "anna")
	_, err := w.oauth("reader", "").Exchange(t.Context(), code, oauth2.VerifierOption(verifier))
	wants(t, err, "invalid_grant") // another client's
	first, err := c.Exchange(t.Context(), code, oauth2.VerifierOption(verifier))
	if err != nil || !w.active(first.AccessToken) || !w.active(first.RefreshToken) {
		t.Fatalf("the first use: %v", err)
	}
	_, err = c.Exchange(t.Context(), code, oauth2.VerifierOption(verifier))
	wants(t, err, "invalid_grant")
	if w.active(first.AccessToken) || w.active(first.RefreshToken) {
		t.Error("tokens of the first use are active after the second")
	}
	if _, err = c.TokenSource(t.Context(), &oauth2.Token{RefreshToken: first.RefreshToken}).Token(); err == nil {
		t.Error("the session goes on after its code was used twice")
	}
	late, verifier := w.code(c, "anna")
	w.pass(2 * time.Minute)
	_, err = c.Exchange(t.Context(), late, oauth2.VerifierOption(verifier))
	wants(t, err, "invalid_grant")
}

func TestRefreshRotates(t *testing.T) {
	w := newWorld(t)
	c := w.oauth("agent", "")
	first := w.login(c, "anna")
	refresh := func(token string) (*oauth2.Token, error) {
		return c.TokenSource(context.Background(), &oauth2.Token{RefreshToken: token}).Token()
	}
	second, err := refresh(first.RefreshToken)
	if err != nil || second.RefreshToken == first.RefreshToken || !w.active(second.AccessToken) || w.active(first.RefreshToken) {
		t.Fatalf("refreshed: %v", err)
	}
	_, err = w.oauth("reader", "").TokenSource(t.Context(), &oauth2.Token{RefreshToken: second.RefreshToken}).Token()
	wants(t, err, "invalid_grant") // another client's: not its session to end
	third, err := refresh(second.RefreshToken)
	if err != nil {
		t.Fatal(err)
	}
	if status, got := w.post("/token", "agent", "", url.Values{"client_id": {"agent"}, "grant_type": {"refresh_token"}, "refresh_token": {third.RefreshToken}, "scope": {"desk:read admin"}}); status != http.StatusBadRequest || got["error"] != "invalid_scope" {
		t.Errorf("a refresh that widens: %d %v", status, got)
	}
	_, err = refresh(first.RefreshToken) // used before
	wants(t, err, "invalid_grant")
	_, err = refresh(third.RefreshToken) // the present one, of a session that ended
	wants(t, err, "invalid_grant")
	if w.active(third.AccessToken) || w.active(third.RefreshToken) {
		t.Error("the session is alive after a used refresh token came")
	}
	_, err = refresh(third.RefreshToken + "x")
	wants(t, err, "invalid_grant")
}

// Answering is for a client of its own, after a login, for its audience alone (rule D4).
func TestRule_D4_OnlyAnApprovingClientGetsTheConsole(t *testing.T) {
	w := newWorld(t)
	token := w.login(w.oauth("approver", ""), "lena", oauth2.SetAuthURLParam("resource", w.console))
	v := w.verifier(w.mcp)
	person, err := v.Person(t.Context(), token.AccessToken)
	if err != nil || person.Principal().Subject != "lena" || person.Tenant() != "other" || !person.InGroup(record.Group{Issuer: w.issuer.URL(), Name: "leads"}) {
		t.Fatalf("the approver is %v, %v", person.Principal(), err)
	}
	if _, err := v.Caller(t.Context(), identity.Credentials{Bearer: token.AccessToken}); err == nil {
		t.Error("an answering token proposes")
	}
	if token.RefreshToken != "" {
		t.Error("an approver's login can be renewed without the person")
	}
	ask := func(client string, resources ...string) url.Values {
		c := w.oauth(client, "")
		address := c.AuthCodeURL("s", oauth2.S256ChallengeOption(oauth2.GenerateVerifier()))
		for _, r := range resources {
			address += "&resource=" + url.QueryEscape(r)
		}
		return w.browser().open(address).returned(t)
	}
	for _, q := range [][]string{{"agent", w.console}, {"approver", w.mcp}, {"agent", w.mcp, w.console}, {"approver", w.mcp, w.console},
		{"agent", "https://elsewhere.example/mcp"}, {"agent", w.mcp + "#"}} {
		if got := ask(q[0], q[1:]...); got.Get("error") != "invalid_target" {
			t.Errorf("%v: %v", q, got)
		}
	}
	if person, err := v.Person(t.Context(), w.login(w.oauth("agent", ""), "anna").AccessToken); err == nil {
		t.Errorf("a proposing token answers as %v", person.Principal())
	}
	w.write(users + "  - {audience: \"" + w.console + "\"}\n") // a file cannot make it a resource like others
	if got := ask("agent", w.console); got.Get("error") != "invalid_target" {
		t.Errorf("listed as a resource: %v", got)
	}
	status, got := w.post("/token", "nightly", "made-up-nightly", url.Values{"grant_type": {"client_credentials"}, "resource": {w.console}})
	if status != http.StatusBadRequest || got["error"] != "invalid_target" {
		t.Errorf("a program got the console's audience: %d %v", status, got)
	}
	if status, got = w.exchange(token.AccessToken, w.mcp, ""); status == http.StatusOK {
		t.Errorf("an answering token was exchanged: %v", got)
	}
}

func (w *world) exchange(token, audience, scope string, more ...string) (int, map[string]any) {
	w.t.Helper()
	form := url.Values{"grant_type": {"urn:ietf:params:oauth:grant-type:token-exchange"}, "subject_token": {token},
		"subject_token_type": {"urn:ietf:params:oauth:token-type:access_token"}, "audience": {audience}}
	if scope != "" {
		form.Set("scope", scope)
	}
	for i := 0; i+1 < len(more); i += 2 {
		form.Set(more[i], more[i+1])
	}
	return w.post("/token", "gateway", "made-up-gateway", form)
}

const desk, mail = "https://desk.example/mcp", "https://mail.example/mcp"

func TestExchangeNarrows(t *testing.T) {
	w := newWorld(t)
	user := w.login(w.oauth("agent", "", "desk:read", "mail:send"), "anna").AccessToken
	status, got := w.exchange(user, desk, "")
	token, _ := got["access_token"].(string)
	if status != http.StatusOK || got["scope"] != "desk:read" || got["issued_token_type"] != "urn:ietf:params:oauth:token-type:access_token" || got["refresh_token"] != nil {
		t.Fatalf("%d %v", status, got)
	}
	caller, err := w.verifier(desk).Caller(t.Context(), identity.Credentials{Bearer: token})
	if err != nil || caller.Owner().Principal.Subject != "anna" || caller.Owner().Agent != "gateway" || !caller.HasScope("desk:read") || caller.HasScope("mail:send") {
		t.Fatalf("the tool's server sees %v, %v", caller.Owner(), err)
	}
	if _, err := w.verifier(w.mcp).Caller(t.Context(), identity.Credentials{Bearer: token}); err == nil {
		t.Error("an exchanged token is good at the door it came from")
	}
	seen := w.introspect(token)
	act, _ := seen["act"].(map[string]any)
	before, _ := act["act"].(map[string]any)
	if act["sub"] != "gateway" || before["sub"] != "agent" || seen["aud"] != desk {
		t.Errorf("the chain is %v", seen)
	}
	refused := func(name, code, token, audience, scope string, more ...string) {
		t.Helper()
		if status, got := w.exchange(token, audience, scope, more...); status != http.StatusBadRequest || got["error"] != code {
			t.Errorf("%s: %d %v, wanted %s", name, status, got, code)
		}
	}
	refused("a scope of the user's that the token lacks", "invalid_scope", user, desk, "desk:write")
	refused("a scope that the target has not", "invalid_scope", user, desk, "mail:send")
	refused("a scope of nobody's", "invalid_scope", user, desk, "desk:read admin")
	refused("another audience from a narrow one", "invalid_target", token, mail, "")
	refused("back to the door", "invalid_target", token, w.mcp, "")
	refused("the console", "invalid_target", user, w.console, "")
	refused("a target of nobody's", "invalid_target", user, "https://elsewhere.example", "")
	refused("two targets", "invalid_target", user, desk, "", "resource", mail)
	refused("an actor of another", "invalid_request", user, desk, "", "actor_token", user, "actor_token_type", "urn:ietf:params:oauth:token-type:access_token")
	refused("another kind of token", "invalid_request", user, desk, "", "requested_token_type", "urn:ietf:params:oauth:token-type:refresh_token")
	refused("no token", "invalid_request", "nonsense", desk, "")
	refused("a token with another signature", "invalid_request", user[:len(user)-8]+"AAAAAAAA", desk, "")
	if status, got := w.post("/token", "web", "made-up-web", url.Values{"grant_type": {"urn:ietf:params:oauth:grant-type:token-exchange"}, "subject_token": {user},
		"subject_token_type": {"urn:ietf:params:oauth:token-type:access_token"}, "audience": {desk}}); status != http.StatusBadRequest || got["error"] != "unauthorized_client" {
		t.Errorf("a client that may not exchange: %d %v", status, got)
	}
	if status, got = w.exchange(user, desk, "desk:read"); status != http.StatusOK {
		t.Errorf("what the token has: %d %v", status, got)
	}
	if life, _ := got["expires_in"].(float64); life <= 0 || life > 300 {
		t.Errorf("it lasts %v", got["expires_in"])
	}
	w.pass(14 * time.Minute)
	if _, got = w.exchange(user, desk, ""); got["expires_in"].(float64) > 60 {
		t.Errorf("it outlives its subject token: %v", got["expires_in"])
	}
	w.pass(2 * time.Minute)
	refused("an expired token", "invalid_request", user, desk, "")
}

// Whoever is edited out of the file is out at once, and scopes can only go.
func TestTheDirectoryIsRead(t *testing.T) {
	w := newWorld(t)
	c := w.oauth("agent", "")
	token := w.login(c, "anna")
	offline, err := w.local.Sign(identity.TokenSpec{Audience: w.mcp, Subject: "anna", Tenant: "dev", Agent: "any", Scopes: []string{"desk:read", "root"}})
	if err != nil {
		t.Fatal(err)
	}
	_, exchanged := w.exchange(token.AccessToken, desk, "")
	all := map[string]string{"access": token.AccessToken, "refresh": token.RefreshToken, "offline": offline, "exchanged": exchanged["access_token"].(string)}
	for name, one := range all {
		got := w.introspect(one)
		if got["active"] != true || got["sub"] != "anna" || got["tenant"] != "dev" || !slices.Equal(got["groups"].([]any), []any{"support"}) {
			t.Errorf("%s: %v", name, got)
		}
	}
	if got := w.introspect(offline)["scope"]; got != "desk:read" {
		t.Errorf("a token may state what its user lacks: %v", got)
	}
	w.write(strings.Replace(users, `groups: [support], scopes: ["desk:read", "desk:write", "mail:send"]`, `groups: [night], scopes: ["desk:read", new]`, 1))
	for name, one := range all {
		if got := w.introspect(one); got["scope"] != "desk:read" || !slices.Equal(got["groups"].([]any), []any{"night"}) {
			t.Errorf("%s after the edit: %v", name, got)
		}
	}
	token, err = c.TokenSource(t.Context(), &oauth2.Token{RefreshToken: token.RefreshToken}).Token()
	if err != nil || token.Extra("scope") != "desk:read" {
		t.Errorf("a refresh after the edit: %v %v", token, err)
	}
	all["refresh"] = token.RefreshToken
	without := strings.Replace(users, "  anna:", "  somebody:", 1)
	w.write(without)
	for name, one := range all {
		if got := w.introspect(one); len(got) != 1 || got["active"] != false {
			t.Errorf("%s after the dismissal: %v", name, got)
		}
	}
	_, err = c.TokenSource(t.Context(), &oauth2.Token{RefreshToken: token.RefreshToken}).Token()
	wants(t, err, "invalid_grant")
	if status, got := w.exchange(token.AccessToken, desk, ""); status != http.StatusBadRequest {
		t.Errorf("an exchange after the dismissal: %d %v", status, got)
	}
	w.write(strings.Replace(users, "  anna: {", "  anna: {tenant: other, ", 1))
	for name, one := range all {
		if w.active(one) {
			t.Errorf("%s is active in a tenant that anna left", name)
		}
	}
	w.write("version: 1\nusers: {anna: {nope: 1}}\n")
	if status, got := w.post("/introspect", "gateway", "made-up-gateway", url.Values{"token": {offline}}); status != http.StatusServiceUnavailable || strings.Contains(got["error_description"].(string), "nope") {
		t.Errorf("a wrong file: %d %v", status, got)
	}
	if _, err := w.issuer.Session(t.Context(), offline); record.KindOf(err) != record.Unavailable {
		t.Errorf("a wrong file: %v", err)
	}
	w.write(users)
	if !w.active(offline) {
		t.Error("anna came back, and has no session")
	}
	w.pass(2 * time.Hour)
	if w.active(offline) || w.active(token.AccessToken) {
		t.Error("an expired token is active")
	}
}

func TestProgramsOfTheirOwn(t *testing.T) {
	w := newWorld(t)
	grant := url.Values{"grant_type": {"client_credentials"}}
	status, got := w.post("/token", "nightly", "made-up-nightly", grant)
	if status != http.StatusOK || got["scope"] != "desk:read" || got["refresh_token"] != nil {
		t.Fatalf("%d %v", status, got)
	}
	token := got["access_token"].(string)
	if caller, err := w.verifier(w.mcp).Caller(t.Context(), identity.Credentials{Bearer: token}); err != nil || caller.Owner().Principal.Subject != "nightly" {
		t.Errorf("%v, %v", caller.Owner(), err)
	}
	if seen := w.introspect(token); seen["active"] != true || seen["scope"] != "desk:read" {
		t.Errorf("%v", seen)
	}
	for name, q := range map[string]struct {
		id, secret string
		form       url.Values
		status     int
		code       string
	}{
		"a wrong secret":             {"nightly", "guess", grant, http.StatusUnauthorized, "invalid_client"},
		"nobody's":                   {"nobody", "guess", grant, http.StatusUnauthorized, "invalid_client"},
		"no secret":                  {"", "", url.Values{"grant_type": {"client_credentials"}, "client_id": {"nightly"}}, http.StatusUnauthorized, "invalid_client"},
		"a client that may not":      {"web", "made-up-web", grant, http.StatusBadRequest, "unauthorized_client"},
		"a scope it lacks":           {"nightly", "made-up-nightly", url.Values{"grant_type": {"client_credentials"}, "scope": {"desk:write"}}, http.StatusBadRequest, "invalid_scope"},
		"a grant of nobody's":        {"nightly", "made-up-nightly", url.Values{"grant_type": {"password"}}, http.StatusBadRequest, "unsupported_grant_type"},
		"a parameter twice":          {"nightly", "made-up-nightly", url.Values{"grant_type": {"client_credentials", "client_credentials"}}, http.StatusBadRequest, "invalid_request"},
		"two ways to show a secret":  {"nightly", "made-up-nightly", url.Values{"grant_type": {"client_credentials"}, "client_id": {"nightly"}, "client_secret": {"made-up-nightly"}}, http.StatusBadRequest, "invalid_request"},
		"the server's own, by guess": {"placet", "placet", grant, http.StatusUnauthorized, "invalid_client"},
	} {
		if status, got := w.post("/token", q.id, q.secret, q.form); status != q.status || got["error"] != q.code {
			t.Errorf("%s: %d %v", name, status, got)
		}
	}
	if status, got := w.post("/introspect", "web", "made-up-web", url.Values{"token": {token}}); status != http.StatusForbidden {
		t.Errorf("a client that may not introspect: %d %v", status, got)
	}
	id, secret := w.issuer.Self()
	if status, got := w.post("/introspect", id, secret, url.Values{"token": {token}}); status != http.StatusOK || got["active"] != true {
		t.Errorf("the server itself: %d %v", status, got)
	}
}

func TestRevocation(t *testing.T) {
	w := newWorld(t)
	token, other := w.login(w.oauth("agent", ""), "anna"), w.login(w.oauth("web", "made-up-web"), "anna")
	revoke := func(one string) {
		t.Helper()
		if status, got := w.post("/revoke", "", "", url.Values{"client_id": {"agent"}, "token": {one}}); status != http.StatusOK {
			t.Fatalf("%d %v", status, got)
		}
	}
	revoke("nonsense")
	revoke(other.AccessToken) // not this client's: stays
	revoke(other.RefreshToken)
	revoke(token.AccessToken)
	if w.active(token.AccessToken) || !w.active(token.RefreshToken) || !w.active(other.AccessToken) || !w.active(other.RefreshToken) {
		t.Error("a revoked access token is active, or more than it is gone")
	}
	fresh, err := w.oauth("agent", "").TokenSource(t.Context(), &oauth2.Token{RefreshToken: token.RefreshToken}).Token()
	if err != nil || !w.active(fresh.AccessToken) {
		t.Fatal(err)
	}
	revoke(fresh.RefreshToken)
	if w.active(fresh.AccessToken) || w.active(fresh.RefreshToken) {
		t.Error("a revoked session goes on")
	}
}
