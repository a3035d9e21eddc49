package connect_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/placet-dev/placet/connect"
	"github.com/placet-dev/placet/connect/connecttest"
)

// runs wants the call to be the one effect.
func (w *world) runs(d *desk, id string) {
	w.t.Helper()
	before := w.notes()
	if got := d.ask(note(id, `{"text":"a"}`)); !strings.Contains(got, `"noted"`) || !strings.Contains(got, `"id":`+id) || w.notes() != before+1 {
		w.t.Fatalf("%s\nnotes: %d before, %d now\n%s", got, before, w.notes(), w.log.String())
	}
}

// refused wants an answer with these words and no effect.
func (w *world) refused(d *desk, id, words string) {
	w.t.Helper()
	before := w.notes()
	got := d.ask(note(id, `{"text":"a"}`))
	if !strings.Contains(got, words) || !strings.Contains(got, `"error"`) || !strings.Contains(got, `"id":`+id+`,`) || w.notes() != before {
		w.t.Fatalf("want %q, got %s\nnotes: %d before, %d now", words, got, before, w.notes())
	}
}

// stored is the one file of the folder.
func (w *world) stored() (path string, content map[string]any) {
	w.t.Helper()
	files, err := filepath.Glob(filepath.Join(w.folder, "*"))
	if err != nil || len(files) != 1 {
		w.t.Fatalf("%v %v", files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil || json.Unmarshal(text, &content) != nil {
		w.t.Fatalf("%s %v", text, err)
	}
	return files[0], content
}

func TestSignsInOnceForAllWhoWait(t *testing.T) {
	w := newWorld(t)
	d := w.start(nil)
	for i := range 4 {
		d.send(note(fmt.Sprint(i), `{"text":"a"}`))
	}
	for range 4 {
		if got := d.line(); !strings.Contains(got, `"noted"`) {
			t.Fatalf("%s\n%s", got, w.log.String())
		}
	}
	if w.notes() != 4 || w.browsers() != 1 {
		t.Fatalf("%d notes, %d browsers", w.notes(), w.browsers())
	}
	asked := w.issuer.Got("/authorize")
	if len(asked) != 1 || asked[0].Get("code_challenge_method") != "S256" || asked[0].Get("code_challenge") == "" || asked[0].Get("resource") != w.url ||
		!strings.HasPrefix(asked[0].Get("redirect_uri"), "http://127.0.0.1:") || len(asked[0].Get("state")) < 32 {
		t.Errorf("asked %v", asked)
	}
	redeemed := w.issuer.Got("/oauth/token")
	if len(redeemed) != 1 || redeemed[0].Get("resource") != w.url || redeemed[0].Get("code_verifier") == "" {
		t.Errorf("redeemed %v", redeemed)
	}
}

// What is stored serves the next start, is private, and never shown.
func TestStoredSignIn(t *testing.T) {
	w := newWorld(t)
	d := w.start(nil)
	w.runs(d, "1")
	d.close()
	path, content := w.stored()
	info, err := os.Stat(path)
	folder, err2 := os.Stat(w.folder)
	if err != nil || err2 != nil || info.Mode().Perm() != 0o600 || folder.Mode().Perm() != 0o700 {
		t.Errorf("%v %v %v %v", info.Mode(), folder.Mode(), err, err2)
	}
	w.runs(w.start(nil), "2")
	if w.browsers() != 1 {
		t.Errorf("the browser opened %d times", w.browsers())
	}
	for _, secret := range []string{content["access_token"].(string), content["refresh_token"].(string)} {
		if secret == "" || strings.Contains(w.log.String(), secret) {
			t.Errorf("a secret is missing or in the log")
		}
	}

	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	exposed := w.start(nil)
	w.refused(exposed, "3", "can be read by others")
	if w.browsers() != 1 {
		t.Error("the browser opened over a file that others read")
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	w.runs(exposed, "4")
}

func TestRefreshes(t *testing.T) {
	w := newWorld(t)
	now := time.Now()
	var mu sync.Mutex
	clock := func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	pass := func(d time.Duration) { mu.Lock(); defer mu.Unlock(); now = now.Add(d) }
	d := w.start(func(o *connect.Options) { o.Clock = clock })
	w.runs(d, "1")
	_, first := w.stored()

	pass(time.Hour) // the token's end
	w.runs(d, "2")
	_, second := w.stored()
	refreshed := w.issuer.Got("/oauth/token")
	if len(refreshed) != 2 || refreshed[1].Get("grant_type") != "refresh_token" || refreshed[1].Get("resource") != w.url || w.browsers() != 1 ||
		first["access_token"] == second["access_token"] || first["refresh_token"] == second["refresh_token"] {
		t.Fatalf("%d browsers, %v", w.browsers(), refreshed)
	}

	// A server's refusal before that: one refresh, no browser.
	once := true
	w.set(func() {
		w.door = func(rw http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != "/mcp" {
				return false
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			if once {
				once = false
				rw.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
				rw.WriteHeader(http.StatusUnauthorized)
				return true
			}
			return false
		}
	})
	w.runs(d, "3")
	if n := len(w.issuer.Got("/oauth/token")); n != 3 || w.browsers() != 1 {
		t.Fatalf("%d token requests, %d browsers", n, w.browsers())
	}

	// A refresh token that was revoked: the user signs in again.
	_, third := w.stored()
	if err := w.issuer.Revoke(t.Context(), third["refresh_token"].(string)); err != nil {
		t.Fatal(err)
	}
	pass(time.Hour)
	w.runs(d, "4")
	if w.browsers() != 2 {
		t.Fatalf("%d browsers", w.browsers())
	}
}

// Another process may have refreshed meanwhile: its token is used, and the old
// refresh token not again.
func TestTakesWhatAnotherProcessStored(t *testing.T) {
	w := newWorld(t)
	first := w.start(nil)
	w.runs(first, "1")
	late := func(o *connect.Options) {
		o.Clock = func() time.Time { return time.Now().Add(4*time.Minute + 55*time.Second) }
	}
	w.runs(w.start(late), "1") // refreshes
	w.runs(w.start(late), "1")
	if n := len(w.issuer.Got("/oauth/token")); n != 2 || w.browsers() != 1 {
		t.Fatalf("%d token requests, %d browsers", n, w.browsers())
	}
}

func TestStepsUp(t *testing.T) {
	w := newWorld(t)
	d := w.start(func(o *connect.Options) { o.Scopes = []string{"openid"} })
	w.runs(d, "1")
	asked := w.issuer.Got("/authorize")
	if len(asked) != 2 || w.browsers() != 2 || strings.Contains(asked[0].Get("scope"), "notes") || asked[1].Get("scope") != "openid offline_access notes" {
		t.Fatalf("%d browsers, asked %v", w.browsers(), asked)
	}
	w.runs(d, "2")

	refused := newWorld(t)
	refused.issuer.Withheld = "notes"
	d = refused.start(func(o *connect.Options) { o.Scopes = []string{"openid"} })
	refused.refused(d, "1", "was asked for and did not give: [notes]")
	refused.refused(d, "2", "was asked for and did not give: [notes]")
	if refused.browsers() != 2 {
		t.Fatalf("%d browsers", refused.browsers())
	}
}

// Nobody is signed in where anything does not match, and no token is asked for.
func TestMixUps(t *testing.T) {
	change := func(name string, value any) func(*world) {
		return func(w *world) { w.issuer.Metadata(func(m map[string]any) { m[name] = value }) }
	}
	callback := func(edit func(url.Values)) func(*world) {
		return func(w *world) {
			w.browser = func(ctx context.Context, address string) error {
				u, err := url.Parse(address)
				if err != nil {
					return err
				}
				back, err := url.Parse(u.Query().Get("redirect_uri"))
				if err != nil {
					return err
				}
				q := url.Values{"code": {"stolen"}, "state": {u.Query().Get("state")}}
				edit(q)
				back.RawQuery = q.Encode()
				_, err = connecttest.Browser(ctx, back.String(), false)
				return err
			}
		}
	}
	resource := func(w *world, text string) {
		w.door = func(rw http.ResponseWriter, r *http.Request) bool {
			if !strings.HasPrefix(r.URL.Path, "/.well-known/") {
				return false
			}
			rw.Header().Set("Content-Type", "application/json")
			fmt.Fprint(rw, text)
			return true
		}
	}
	for name, c := range map[string]struct {
		make  func(*world)
		words string
		opens int
	}{
		"resource": {func(w *world) {
			resource(w, `{"resource":"https://other.example.com/mcp","authorization_servers":["`+w.issuer.URL+`"]}`)
		}, "RFC 9728", 0},
		"resource of a longer path": {func(w *world) {
			resource(w, `{"resource":"`+w.url+`/x","authorization_servers":["`+w.issuer.URL+`"]}`)
		}, "RFC 9728", 0},
		"no issuer named":       {func(w *world) { resource(w, `{"resource":"`+w.url+`"}`) }, "names no issuer", 0},
		"names in another case": {func(w *world) { resource(w, `{"Resource":"`+w.url+`","Authorization_servers":["`+w.issuer.URL+`"]}`) }, "RFC 9728", 0},
		"issuer in the clear": {func(w *world) {
			resource(w, `{"resource":"`+w.url+`","authorization_servers":["http://login.example.com"]}`)
		}, "not an https URL", 0},
		"issuer":               {change("issuer", "https://login.example.com"), "RFC 8414", 0},
		"issuer with a slash":  {func(w *world) { change("issuer", w.issuer.URL+"/")(w) }, "RFC 8414", 0},
		"no PKCE":              {change("code_challenge_methods_supported", nil), "PKCE", 0},
		"plain PKCE":           {change("code_challenge_methods_supported", []string{"plain"}), "PKCE", 0},
		"token endpoint":       {change("token_endpoint", "http://login.example.com/token"), "not an https URL", 0},
		"a page that is code":  {change("authorization_endpoint", "javascript:alert(1)"), "not an https URL", 0},
		"state":                {callback(func(q url.Values) { q.Set("state", "mine") }), "(state)", 1},
		"no state":             {callback(func(q url.Values) { q.Del("state") }), "(state)", 1},
		"two states":           {callback(func(q url.Values) { q.Add("state", "mine") }), "(state)", 1},
		"iss":                  {callback(func(q url.Values) { q.Set("iss", "https://login.example.com") }), "RFC 9207", 1},
		"iss before its error": {callback(func(q url.Values) { q.Set("iss", "https://login.example.com"); q.Set("error", "x") }), "RFC 9207", 1},
		"no iss though promised": {func(w *world) {
			change("authorization_response_iss_parameter_supported", true)(w)
			callback(func(url.Values) {})(w)
		}, "RFC 9207", 1},
		"error": {callback(func(q url.Values) {
			q.Del("code")
			q.Set("error", "server_error")
			q.Set("error_description", "b\x1bad")
		}), "server_error: bad", 1},
		"no code": {callback(func(q url.Values) { q.Del("code") }), "no code", 1},
		"denied":  {func(w *world) { w.deny = true }, "was denied: access_denied: the user said no", 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c.make(w)
			d := w.start(nil)
			w.refused(d, "1", c.words)
			if w.browsers() != c.opens || len(w.issuer.Got("/oauth/token")) != 0 {
				t.Errorf("%d browsers, %d token requests", w.browsers(), len(w.issuer.Got("/oauth/token")))
			}
			if left, _ := filepath.Glob(filepath.Join(w.folder, "*")); len(left) != 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// After a no, the browser does not open again at once.
func TestNoHoldsForAMoment(t *testing.T) {
	w := newWorld(t)
	now := time.Now()
	w.deny = true
	d := w.start(func(o *connect.Options) {
		o.Clock = func() time.Time { w.mu.Lock(); defer w.mu.Unlock(); return now }
	})
	w.refused(d, "1", "was denied")
	w.refused(d, "2", "was denied")
	if w.browsers() != 1 {
		t.Fatalf("%d browsers", w.browsers())
	}
	w.set(func() { w.deny, now = false, now.Add(time.Minute) })
	w.runs(d, "3")
	if w.browsers() != 2 {
		t.Fatalf("%d browsers", w.browsers())
	}
}

// A code that the issuer does not take, and a token endpoint that is down.
func TestTokenEndpoint(t *testing.T) {
	w := newWorld(t)
	down := true
	w.issuer.Before(func(rw http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/oauth/token" {
			return false
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if down {
			rw.WriteHeader(http.StatusBadGateway)
			fmt.Fprint(rw, "a secret of the proxy")
		}
		return down
	})
	now := time.Now()
	d := w.start(func(o *connect.Options) {
		o.Clock = func() time.Time { w.mu.Lock(); defer w.mu.Unlock(); return now }
	})
	w.refused(d, "1", "gave no token")
	if strings.Contains(w.log.String(), "secret") {
		t.Error("an issuer's body is in the log")
	}
	w.set(func() { down, now = false, now.Add(time.Minute) })
	w.runs(d, "2")
}

// Tokens go to the address that was given and nowhere else.
func TestTokenStaysAtItsAddress(t *testing.T) {
	w := newWorld(t)
	var reached []string
	other := newWorld(t)
	other.door = func(rw http.ResponseWriter, r *http.Request) bool {
		other.mu.Lock()
		defer other.mu.Unlock()
		reached = append(reached, r.URL.Path)
		return false
	}
	w.runs(w.start(nil), "1")
	w.set(func() {
		w.door = func(rw http.ResponseWriter, r *http.Request) bool {
			http.Redirect(rw, r, other.url, http.StatusTemporaryRedirect)
			return true
		}
	})
	w.refused(w.start(nil), "2", "redirect")
	other.mu.Lock()
	defer other.mu.Unlock()
	if len(reached) != 0 {
		t.Errorf("the redirect was followed: %v", reached)
	}
	for _, bad := range []string{"http://tools.example.com/mcp", "https://user:pass@tools.example.com/mcp", "ftp://x/mcp", "tools", "https://tools.example.com/mcp#x"} {
		if _, err := connect.New(connect.Options{Server: bad}); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}

func TestLogout(t *testing.T) {
	w := newWorld(t)
	d := w.start(nil)
	w.runs(d, "1")
	d.close()
	_, content := w.stored()
	refresh := content["refresh_token"].(string)
	if !w.issuer.Live(t.Context(), refresh) {
		t.Fatal("the refresh token is not good")
	}
	b, err := connect.New(w.options())
	if err != nil {
		t.Fatal(err)
	}
	n, err := b.Logout(t.Context())
	left, _ := filepath.Glob(filepath.Join(w.folder, "*"))
	if n != 1 || err != nil || len(left) != 0 || w.issuer.Live(t.Context(), refresh) {
		t.Fatalf("%d %v %v, live %v", n, err, left, w.issuer.Live(t.Context(), refresh))
	}
	w.runs(w.start(nil), "2")
	if w.browsers() != 2 {
		t.Errorf("%d browsers", w.browsers())
	}
}

// An issuer without registration: the server's own answers with the operator's
// client, whose redirect address is then used as it is registered.
func TestRegistersWithTheServer(t *testing.T) {
	w := newWorld(t)
	w.door = func(rw http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/register" {
			return false
		}
		rw.Header().Set("Content-Type", "application/json")
		rw.WriteHeader(http.StatusCreated)
		fmt.Fprint(rw, `{"client_id":"desktop","token_endpoint_auth_method":"none","redirect_uris":["https://app.example.com/back","http://127.0.0.1/callback"]}`)
		return true
	}
	none := func(o *connect.Options) { o.ClientID = "" }
	d := w.start(none)
	w.runs(d, "1")
	d.close()
	w.runs(w.start(none), "2")
	if w.browsers() != 1 {
		t.Errorf("%d browsers", w.browsers())
	}

	nobody := newWorld(t)
	nobody.refused(nobody.start(none), "1", "--client-id")
}

// A token that something else obtained is sent as it is, and nobody is signed in.
func TestTokenOfSomethingElse(t *testing.T) {
	w := newWorld(t)
	w.runs(w.start(nil), "1")
	_, content := w.stored()
	given := content["access_token"].(string)
	w.runs(w.start(func(o *connect.Options) { o.Token = func() (string, error) { return given, nil } }), "2")
	w.refused(w.start(func(o *connect.Options) { o.Token = func() (string, error) { return given + "x", nil } }), "3", "refuses the token given")
	n := 0
	w.refused(w.start(func(o *connect.Options) {
		o.Token = func() (string, error) { n++; return fmt.Sprint("another", n), nil }
	}), "4", "keeps refusing its tokens")
	if w.browsers() != 1 {
		t.Errorf("%d browsers", w.browsers())
	}
}
