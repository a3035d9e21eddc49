package issuer_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/issuer"
	"golang.org/x/oauth2"
)

const users = `version: 1
users:
  anna: {name: Anna, groups: [support], scopes: ["desk:read", "desk:write", "mail:send"]}
  lena: {name: Lena, password: made-up, tenant: other, groups: [leads]}
clients:
  agent: {redirects: [http://127.0.0.1/callback, "app.example:/back"]}
  reader: {redirects: http://127.0.0.1/callback, scopes: ["desk:read"]}
  web: {secret: made-up-web, redirects: http://127.0.0.1/callback}
  approver: {redirects: http://127.0.0.1/callback, approves: true}
  gateway: {secret: made-up-gateway, exchanges: true, introspects: true}
  nightly: {secret: made-up-nightly, acts_alone: true, scopes: ["desk:read"]}
resources:
  - {audience: "https://desk.example/mcp", scopes: ["desk:read", "desk:write"]}
  - {audience: "https://mail.example/mcp"}
`

// world is an issuer behind a real listener, with a clock to turn.
type world struct {
	t       *testing.T
	file    string
	server  *httptest.Server
	issuer  *issuer.Issuer
	local   *identity.Local
	mcp     string
	console string

	mu  sync.Mutex
	off time.Duration
}

func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Add(w.off)
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.off += d
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, file: filepath.Join(t.TempDir(), "users.yaml")}
	w.write(users)
	var mux http.ServeMux
	w.server = httptest.NewServer(&mux)
	t.Cleanup(w.server.Close)
	w.mcp, w.console = w.server.URL+"/mcp", w.server.URL+"/console"
	var err error
	if w.local, err = identity.NewLocal("urn:placet:dev", rand.Reader, w.now); err != nil {
		t.Fatal(err)
	}
	w.issuer, err = issuer.New(issuer.Options{Local: w.local, PublicURL: w.server.URL, Users: issuer.File(w.file),
		Audience: w.mcp, ConsoleAudience: w.console, Clock: w.now})
	if err != nil {
		t.Fatal(err)
	}
	w.issuer.Mount(&mux)
	return w
}

func (w *world) write(text string) {
	w.t.Helper()
	if err := os.WriteFile(w.file, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// oauth is the configuration of golang.org/x/oauth2 for a client.
func (w *world) oauth(id, secret string, scopes ...string) *oauth2.Config {
	return &oauth2.Config{ClientID: id, ClientSecret: secret, Scopes: scopes, RedirectURL: "http://127.0.0.1:4711/callback",
		Endpoint: oauth2.Endpoint{AuthURL: w.issuer.URL() + "/authorize", TokenURL: w.issuer.URL() + "/token"}}
}

// browser is a person's: it keeps cookies, and stops where a login returns to.
type browser struct {
	*http.Client
	w *world
}

func (w *world) browser() *browser {
	jar, err := cookiejar.New(nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return &browser{w: w, Client: &http.Client{Jar: jar, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if !strings.HasPrefix(r.URL.String(), w.server.URL) {
			return http.ErrUseLastResponse
		}
		return nil
	}}}
}

// page is an answer that was read.
type page struct {
	status int
	header http.Header
	body   string
}

func (b *browser) read(r *http.Response, err error) page {
	b.w.t.Helper()
	if err != nil {
		b.w.t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		b.w.t.Fatal(err)
	}
	return page{r.StatusCode, r.Header, string(body)}
}

func (b *browser) open(address string) page { b.w.t.Helper(); return b.read(b.Get(address)) }

var forms = regexp.MustCompile(`(?s)<form method="post" action="login">(.*?)</form>`)
var fields = regexp.MustCompile(`(?:name="(\w+)" value="([^"]*)")`)

// form finds the form of a page that has a field of this value, and its fields.
func (p page) form(t *testing.T, name, value string) url.Values {
	t.Helper()
	for _, f := range forms.FindAllStringSubmatch(p.body, -1) {
		out := url.Values{}
		for _, m := range fields.FindAllStringSubmatch(f[1], -1) {
			out.Set(m[1], html.UnescapeString(m[2]))
		}
		if out.Get(name) == value {
			return out
		}
	}
	t.Fatalf("%d, no form for %s:\n%s", p.status, value, p.body)
	return nil
}

// choose sends the form of a person, with whatever is typed beside it.
func (b *browser) choose(p page, user string, typed ...string) page {
	b.w.t.Helper()
	form := p.form(b.w.t, "user", user)
	for i := 0; i+1 < len(typed); i += 2 {
		form.Set(typed[i], typed[i+1])
	}
	return b.send(form)
}

func (b *browser) send(form url.Values) page {
	b.w.t.Helper()
	return b.read(b.PostForm(b.w.issuer.URL()+"/login", form))
}

// returned is what a client is told by a redirect.
func (p page) returned(t *testing.T) url.Values {
	t.Helper()
	u, err := url.Parse(p.header.Get("Location"))
	if err != nil || p.status != http.StatusSeeOther && p.status != http.StatusFound {
		t.Fatalf("%d, no redirect to a client: %s\n%s", p.status, p.header.Get("Location"), p.body)
	}
	return u.Query()
}

// code signs a person in for a client, and gives the code and its verifier.
func (w *world) code(c *oauth2.Config, user string, o ...oauth2.AuthCodeOption) (code, verifier string) {
	w.t.Helper()
	verifier = oauth2.GenerateVerifier()
	b := w.browser()
	p := b.open(c.AuthCodeURL("state-1", append(o, oauth2.S256ChallengeOption(verifier))...))
	got := b.choose(p, user, "password", "made-up").returned(w.t)
	if got.Get("code") == "" || got.Get("state") != "state-1" || got.Get("iss") != w.issuer.URL() {
		w.t.Fatalf("returned with %v", got)
	}
	return got.Get("code"), verifier
}

// login is the whole code flow.
func (w *world) login(c *oauth2.Config, user string, o ...oauth2.AuthCodeOption) *oauth2.Token {
	w.t.Helper()
	code, verifier := w.code(c, user, o...)
	token, err := c.Exchange(context.Background(), code, oauth2.VerifierOption(verifier))
	if err != nil {
		w.t.Fatal(err)
	}
	return token
}

// post asks the issuer as a client, and gives status and JSON.
func (w *world) post(path, id, secret string, form url.Values) (int, map[string]any) {
	w.t.Helper()
	r, err := http.NewRequest(http.MethodPost, w.issuer.URL()+path, strings.NewReader(form.Encode()))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if secret != "" {
		r.SetBasicAuth(url.QueryEscape(id), url.QueryEscape(secret))
	}
	p := w.browser().read(http.DefaultClient.Do(r))
	var out map[string]any
	if p.body != "" && p.body != "null\n" {
		if err := json.Unmarshal([]byte(p.body), &out); err != nil {
			w.t.Fatalf("%d %s: %v", p.status, p.body, err)
		}
	}
	return p.status, out
}

func (w *world) introspect(token string) map[string]any {
	w.t.Helper()
	status, out := w.post("/introspect", "gateway", "made-up-gateway", url.Values{"token": {token}})
	if status != http.StatusOK {
		w.t.Fatalf("introspection: %d %v", status, out)
	}
	return out
}

func (w *world) active(token string) bool { w.t.Helper(); return w.introspect(token)["active"] == true }

// verifier takes this issuer's tokens as any resource server does: by discovery.
func (w *world) verifier(audience string) *identity.Verifier {
	w.t.Helper()
	v, err := identity.New(identity.Config{Issuers: []identity.Issuer{{
		Issuer: w.issuer.URL(), Audience: []string{audience}, ConsoleAudience: w.console, Algorithms: []string{"EdDSA"}, TokenTypes: []string{"at+jwt"},
		TenantClaim: "tenant", Tenants: []string{"dev", "other"}, Claims: identity.Claims{Groups: "groups"},
	}}}, identity.Deps{Clock: w.now})
	if err != nil {
		w.t.Fatal(err)
	}
	return v
}
