package console_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
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
	"sync/atomic"
	"testing"
	"time"

	"github.com/placet-dev/placet"
	"github.com/placet-dev/placet/config"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/issuer"
	"github.com/placet-dev/placet/registry"
	"github.com/placet-dev/placet/tool/local"
	"github.com/placet-dev/placet/yamlfile"
)

// world is a whole server with the development issuer, agents before it and a
// tool that keeps a ledger behind it: the ledger is what every test here asks.
type world struct {
	t      testing.TB
	url    string
	placet *placet.Placet
	local  *identity.Local
	offset atomic.Int64 // of the clock
	dir    string

	mu    sync.Mutex
	lines []string
}

func (w *world) now() time.Time { return time.Now().Add(time.Duration(w.offset.Load())) }

func (w *world) effects() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string{}, w.lines...)
}

// wantEffects checks the ledger.
func (w *world) wantEffects(t testing.TB, want ...string) {
	t.Helper()
	if got := w.effects(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("the ledger has %d effects %q, want %q", len(got), got, want)
	}
}

const settings = `version: 1
environment: production
store: sqlite:state.db
registry: [tools.yaml]
permissions: {operate: ["group:platform"], read: ["group:auditors"]}
runs: {calls_per_run: 10000, calls_per_turn: 10000, proposals_open: 10000, proposals_open_turn: 10000, proposals_open_principal: 10000}
alerts: {hold: [followed_by_calls]}
`

func newWorld(t testing.TB) *world { return newWorldAt(t, "") }

// newWorldAt is newWorld under another name of this machine, with more tools.
func newWorldAt(t testing.TB, host string, more ...placet.Tool) *world {
	t.Helper()
	return newWorldOf(t, host, people(), more...)
}

// newWorldOf is newWorldAt with other people.
func newWorldOf(t testing.TB, host string, users *issuer.Directory, more ...placet.Tool) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir()}
	dir := w.dir
	for name, text := range map[string]string{"placet.yaml": settings, "tools.yaml": "version: 1\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := config.Load(filepath.Join(dir, "placet.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(nil)
	c.PublicURL = "http://" + server.Listener.Addr().String()
	if host != "" {
		c.PublicURL = strings.Replace(c.PublicURL, "127.0.0.1", host, 1)
	}
	if w.local, err = identity.NewLocal(placet.LocalIssuer, rand.Reader, w.now); err != nil {
		t.Fatal(err)
	}
	w.placet, err = placet.Open(context.Background(), placet.Options{Config: c, Local: w.local, Users: users, Tools: append(w.tools(), w.ledgered(more)...), Clock: w.now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.placet.Close(); err != nil {
			t.Error(err)
		}
	})
	server.Config.Handler = w.placet.Handler()
	server.Start()
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	w.url = c.PublicURL
	return w
}

// people may sign in by a click: two leads, a reader, an operator, a lead and an operator
// of another tenant, and somebody who is asked nothing.
func people() *issuer.Directory {
	d := issuer.Cast()
	d.Users = nil
	for subject, u := range map[string]issuer.User{
		"anna": {Name: "Anna Berg", Tenant: "dev"}, "lena": {Name: "Lena", Tenant: "dev", Groups: []string{"leads"}},
		"lars": {Name: "Lars", Tenant: "dev", Groups: []string{"leads"}}, "otto": {Name: "Otto", Tenant: "dev", Groups: []string{"platform"}},
		"mallory": {Name: "Mallory", Tenant: "dev", Groups: []string{"support"}}, "gail": {Name: "Gail", Tenant: "globex", Groups: []string{"leads"}},
		"rita": {Name: "Rita", Tenant: "dev", Groups: []string{"auditors"}}, "greta": {Name: "Greta", Tenant: "globex", Groups: []string{"platform"}},
	} {
		d.Users = append(d.Users, yamlfile.Entry[issuer.User]{Key: subject, Value: u})
	}
	return d
}

func (w *world) tools() []placet.Tool {
	var max registry.Decimal
	if err := max.UnmarshalText([]byte("200")); err != nil {
		w.t.Fatal(err)
	}
	any := []registry.SourceName{"witnessed", "vouched", "direct"}
	ask := func(when registry.When, quorum int) registry.Asking {
		return registry.Asking{When: when, Approvers: []string{"group:leads"}, Quorum: quorum, Expires: time.Hour}
	}
	schema := json.RawMessage(`{"type":"object","properties":{"order_id":{"type":"string"},"amount":{"type":"string"},"currency":{"type":"string"}},"additionalProperties":true}`)
	tool := func(name string, e registry.Entry) placet.Tool {
		e.Write, e.Scope, e.Sources = true, "work", any
		return placet.Tool{Name: name, Title: "Title of " + name, InputSchema: schema, Entry: e, Handler: func(_ context.Context, c local.Call) (json.RawMessage, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.lines = append(w.lines, c.Tool+" "+string(c.Arguments))
			if c.Tool == "purge" && strings.Contains(string(c.Arguments), `"dry_run":true`) { // changes nothing
				w.lines = w.lines[:len(w.lines)-1]
				return json.RawMessage("{\"would_remove\":\"<script>alert(1)</script>\u202e 3 rows\"}"), nil
			}
			if c.Tool == "report" && strings.Contains(string(c.Arguments), "lost") { // it was done, and no answer came
				return nil, errors.New("no answer")
			}
			if c.Tool == "echo" { // what came in comes back as a tool's own words
				text, err := json.Marshal(string(c.Arguments))
				return json.RawMessage(`{"content":[{"type":"text","text":` + string(text) + `}]}`), err
			}
			return json.RawMessage(`{"content":[{"type":"text","text":"done"}]}`), nil
		}}
	}
	zero, one := 0, 1
	return []placet.Tool{
		tool("report", registry.Entry{Dispatch: registry.DispatchQueued, Approval: registry.Asking{When: registry.Asked}, Effect: "Send the report {title}", PerMinute: &zero}),
		tool("digest", registry.Entry{Dispatch: registry.DispatchQueued, Approval: registry.Asking{When: registry.Asked}, Effect: "Send the digest {title}", PerMinute: &one}),
		tool("slow", registry.Entry{Approval: ask(registry.Always, 1), Effect: "Do {title} slowly", PerMinute: &one}),
		tool("refund", registry.Entry{Financial: true, Targets: []string{"order_id"}, AutonomousLimit: &registry.LimitEntry{Argument: "amount", Max: max}, Compensate: registry.CompensateEntry{Tool: "anything"},
			Effect: "Refund {amount} {currency} on order {order_id}", Approval: ask(registry.AboveLimit, 1), PerMinute: &zero}),
		tool("anything", registry.Entry{Approval: ask(registry.Always, 1), Effect: "Store {title}", PerMinute: &zero}),
		tool("echo", registry.Entry{Approval: ask(registry.Always, 1), Effect: "Do {title} for them", PerMinute: &zero}),
		tool("purge", registry.Entry{Approval: ask(registry.Always, 1), Effect: "Purge {title}", PerMinute: &zero, DryRun: registry.DryRunEntry{Argument: "dry_run"}}),
		tool("both", registry.Entry{Approval: ask(registry.Always, 2), Effect: "Do {title} for two", PerMinute: &zero}),
	}
}

// ledgered makes tools write into the ledger.
func (w *world) ledgered(tools []placet.Tool) []placet.Tool {
	for i := range tools {
		tools[i].Handler = func(_ context.Context, c local.Call) (json.RawMessage, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.lines = append(w.lines, c.Tool+" "+string(c.Arguments))
			return json.RawMessage(`{"content":[{"type":"text","text":"done"}]}`), nil
		}
	}
	return tools
}

// answer is what an agent is told.
type answer struct {
	ID, Approval, Run, State string
	Code                     string
}

// agent proposes a call for a person, over the API.
func (w *world) agent(subject, tool, arguments string) answer {
	return w.send(subject, "/v1/calls", `{"tool":"`+tool+`","arguments":`+arguments+`,"purpose":"The customer asked for it in ticket T-88."}`)
}

// back is the agent coming back for its call.
func (w *world) back(subject string, a answer) answer {
	return w.send(subject, "/v1/calls/"+a.ID+"/dispatch", "")
}

// token is an agent's, for a person.
func (w *world) token(subject string) string {
	w.t.Helper()
	token, err := w.local.Sign(identity.TokenSpec{Audience: w.url + "/mcp", Subject: subject, Tenant: "dev", Agent: "support-bot", Scopes: []string{"work"}})
	if err != nil {
		w.t.Fatal(err)
	}
	return token
}

func (w *world) send(subject, path, body string) answer {
	w.t.Helper()
	return w.sendAs(w.token(subject), path, body)
}

func (w *world) sendAs(token, path, body string) answer {
	w.t.Helper()
	r, err := http.NewRequest(http.MethodPost, w.url+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	var got struct {
		State, Code, Call, Run string
		Approval               string
	}
	if err := json.Unmarshal(text, &got); err != nil || got.Call == "" {
		w.t.Fatalf("%s: %d %s", path, resp.StatusCode, text)
	}
	return answer{ID: got.Call, Approval: got.Approval, Run: got.Run, State: got.State, Code: got.Code}
}

// browser is a person's without scripts: cookies, links and forms.
type browser struct {
	w *world
	*http.Client
}

func (w *world) browser() *browser {
	jar, err := cookiejar.New(nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return &browser{w, &http.Client{Jar: jar, Timeout: 30 * time.Second}}
}

// shown is a page.
type shown struct {
	status int
	header http.Header
	body   string
	at     *url.URL
}

func (b *browser) do(r *http.Request) shown {
	b.w.t.Helper()
	resp, err := b.Client.Do(r)
	if err != nil {
		b.w.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.w.t.Fatal(err)
	}
	return shown{resp.StatusCode, resp.Header, string(text), resp.Request.URL}
}

func (b *browser) get(path string) shown {
	b.w.t.Helper()
	r, err := http.NewRequest(http.MethodGet, b.w.url+path, nil)
	if err != nil {
		b.w.t.Fatal(err)
	}
	return b.do(r)
}

func (b *browser) post(path string, form url.Values, header ...string) shown {
	b.w.t.Helper()
	r, err := http.NewRequest(http.MethodPost, b.w.url+path, strings.NewReader(form.Encode()))
	if err != nil {
		b.w.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", b.w.url)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return b.do(r)
}

var (
	request = regexp.MustCompile(`name="request" value="([^"]+)"`)
	formOf  = regexp.MustCompile(`name="form" value="([^"]+)"`)
	binding = regexp.MustCompile(`name="binding" value="([^"]+)"`)
)

func first(re *regexp.Regexp, text string) string {
	if m := re.FindStringSubmatch(text); m != nil {
		return html.UnescapeString(m[1])
	}
	return ""
}

// signIn goes the whole way through the issuer's page, and back to a page.
func (b *browser) signIn(user, to string) shown {
	b.w.t.Helper()
	page := b.get("/console/sign-in?to=" + url.QueryEscape(to))
	if !strings.HasSuffix(page.at.Path, "/dev/issuer/login") {
		b.w.t.Fatalf("no sign-in page at %s: %d %s", page.at, page.status, page.body)
	}
	return b.post("/dev/issuer/login", url.Values{"request": {first(request, page.body)}, "user": {user}})
}

// answers sends the form that a page showed.
func (b *browser) answers(id, word string, page shown, more ...string) shown {
	b.w.t.Helper()
	f := url.Values{"form": {first(formOf, page.body)}, "binding": {first(binding, page.body)}}
	for i := 0; i+1 < len(more); i += 2 {
		f.Set(more[i], more[i+1])
	}
	return b.post("/console/approvals/"+id+"/"+word, f)
}

func (s shown) want(t testing.TB, status int, parts ...string) shown {
	t.Helper()
	if s.status != status {
		t.Fatalf("%s: status %d, want %d\n%s", s.at, s.status, status, s.body)
	}
	for _, part := range parts {
		if !strings.Contains(s.body, part) {
			t.Errorf("%s does not say %q:\n%s", s.at, part, s.body)
		}
	}
	return s
}

const refund1200 = `{"order_id":"ord_1001","amount":"1200.00","currency":"EUR"}`
