package placet

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/placet-dev/placet/config"
	"github.com/placet-dev/placet/credential/issuertest"
	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
)

// desk is a tool server that takes tokens of the provider for itself, and nothing
// else. Its ledger holds the claims of the token that each run of its tool came with;
// raw is every byte that arrived.
type desk struct {
	url string

	mu     sync.Mutex
	ledger []map[string]any
	raw    bytes.Buffer
	open   bool            // takes anybody
	bad    map[string]bool // tokens it takes no longer
	last   string          // the token of the last run
}

const deskSchema = `{"type":"object","properties":{"id":{"type":"string"}}}`

func newDesk(t *testing.T, idp *issuertest.Provider, legacy bool) *desk {
	t.Helper()
	d, keys := &desk{open: true, bad: map[string]bool{}}, idp.Keys()
	s := sdk.NewServer(&sdk.Implementation{Name: "desk", Version: "1"}, nil)
	run := func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		d.mu.Lock()
		defer d.mu.Unlock()
		claims := map[string]any{}
		if r.Extra.TokenInfo != nil {
			claims = r.Extra.TokenInfo.Extra
		}
		d.ledger = append(d.ledger, claims)
		d.last = strings.TrimPrefix(r.Extra.Header.Get("Authorization"), "Bearer ")
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "done"}}}, nil
	}
	for _, name := range []string{"read", "write"} {
		s.AddTool(&sdk.Tool{Name: name, InputSchema: json.RawMessage(deskSchema)}, run)
	}
	h := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, &sdk.StreamableHTTPOptions{Stateless: !legacy, JSONResponse: !legacy})
	guarded := auth.RequireBearerToken(func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		claims, err := issuertest.Check(keys, idp.URL, token, "helpdesk")
		d.mu.Lock()
		defer d.mu.Unlock()
		if err != nil || d.bad[token] {
			return nil, fmt.Errorf("%w: %v", auth.ErrInvalidToken, err)
		}
		// The SDK binds a session to who opened it.
		return &auth.TokenInfo{UserID: fmt.Sprint(claims["sub"]), Expiration: time.Now().Add(time.Minute), Extra: claims}, nil
	}, nil)(h)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		d.mu.Lock()
		fmt.Fprintf(&d.raw, "%s %v %v %s\n", r.Method, r.URL, r.Header, body)
		open := d.open
		d.mu.Unlock()
		r.Body = io.NopCloser(bytes.NewReader(body))
		if legacy && strings.Contains(string(body), "server/discover") {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		if open {
			h.ServeHTTP(w, r)
			return
		}
		guarded.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	d.url = server.URL + "/mcp"
	return d
}

func (d *desk) runs() []map[string]any {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.ledger)
}

func (d *desk) received() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.raw.String()
}

// site is a Placet with a provider and a desk.
type site struct {
	*Placet
	idp  *issuertest.Provider
	desk *desk
	dir  string

	tools string // tools.yaml
}

const exchangeProfile = `  desk: {type: token_exchange, issuer: "ISSUER", client_id: placet, client_secret: "env:SECRET", audience: [helpdesk]}
`

// newSite opens one. Profiles are the lines below credentials; ISSUER is the provider.
func newSite(t *testing.T, legacy bool, profiles string) *site {
	t.Helper()
	s := prepare(t, legacy, profiles)
	s.start(t)
	return s
}

// prepare writes the files of a site.
func prepare(t *testing.T, legacy bool, profiles string) *site {
	t.Helper()
	s := &site{idp: issuertest.New(t), dir: t.TempDir()}
	for name, tenant := range map[string]string{"anna": "acme", "ben": "acme", "cleo": "globex"} {
		s.idp.SetUser(name, &issuertest.User{Scopes: []string{"tickets:read", "tickets:write"}, Groups: []string{"support"}, Tenant: tenant})
	}
	s.idp.SetClient("placet", issuertest.Client{Secret: "secret-of-placet", Scopes: []string{"tools:list"}, Audience: []string{"helpdesk"}})
	s.desk = newDesk(t, s.idp, legacy)
	tools := `version: 1
servers: {desk: {url: "` + s.desk.url + `"CREDENTIAL}}
tools:
  read: {server: desk, scope: "tickets:read", read: true}
  write: {server: desk, scope: "tickets:write", write: true, sources: [direct], approval: {when: always, approvers: ["group:leads"]}}
`
	s.write(t, "tools.yaml", strings.ReplaceAll(tools, "CREDENTIAL", ""))
	lockOffers(t, filepath.Join(s.dir, "tools.yaml"))
	s.tools = strings.ReplaceAll(tools, "CREDENTIAL", ", credential: desk")
	s.write(t, "tools.yaml", s.tools)
	s.write(t, "placet.yaml", strings.ReplaceAll(`version: 1
environment: test
public_url: http://127.0.0.1:9
store: sqlite:state.db
registry: [tools.yaml]
issuers:
  - issuer: "ISSUER"
    algorithms: [RS256]
    tenant: claims.tenant
    tenants: [acme, globex]
    claims: {groups: groups}
    delegation: {client_id: placet, client_secret: "env:SECRET", max: 1h}
credentials:
`+profiles, "ISSUER", s.idp.URL))
	s.desk.mu.Lock()
	s.desk.open = false
	s.desk.raw.Reset()
	s.desk.mu.Unlock()
	return s
}

func (s *site) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (s *site) options(t *testing.T) Options {
	t.Helper()
	c, err := config.Load(filepath.Join(s.dir, "placet.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return Options{Config: c, LookupEnv: func(name string) (string, bool) {
		return map[string]string{"SECRET": "secret-of-placet", "VALUE": "static-value", "HASH": identity.HashKey("plk_" + strings.Repeat("A", 43)), "PATH": os.Getenv("PATH")}[name], name != "HOME"
	}}
}

func (s *site) start(t *testing.T) {
	t.Helper()
	p, err := Open(t.Context(), s.options(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	s.Placet = p
}

func (s *site) token(t *testing.T, l issuertest.Login) string {
	t.Helper()
	if l.Audience == "" {
		l.Audience = "http://127.0.0.1:9/mcp"
	}
	if l.Agent == "" {
		l.Agent = "bot"
	}
	if l.Scopes == nil {
		l.Scopes = []string{"tickets:read", "tickets:write"}
	}
	return s.idp.Token(t, l)
}

func (s *site) caller(t *testing.T, l issuertest.Login) identity.Caller {
	t.Helper()
	c, err := s.Verifier().Caller(t.Context(), identity.Credentials{Bearer: s.token(t, l)})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (s *site) read(t *testing.T, c identity.Caller) dispatch.Answer {
	t.Helper()
	a, err := s.Do(t.Context(), dispatch.Proposal{Caller: c, Tool: "read", Arguments: json.RawMessage(`{"id":"t1"}`)})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func eras(t *testing.T, f func(t *testing.T, legacy bool)) {
	t.Run("modern", func(t *testing.T) { f(t, false) })
	t.Run("legacy", func(t *testing.T) { f(t, true) })
}

// TestCallsCarryTheCallersOwnExchangedToken: each run of the tool came with a token
// that the issuer made for this server, about this user, through Placet; those of two
// users, tenants, agents or logins are never one.
func TestCallsCarryTheCallersOwnExchangedToken(t *testing.T) {
	eras(t, func(t *testing.T, legacy bool) {
		s := newSite(t, legacy, exchangeProfile)
		seen := map[string]string{}
		for _, l := range []issuertest.Login{
			{User: "anna", Session: "1"}, {User: "ben", Session: "1"}, {User: "cleo", Session: "1"},
			{User: "anna", Session: "1", Agent: "other-bot"}, {User: "anna", Session: "2"}, {User: "anna", Session: "1", Scopes: []string{"tickets:read"}},
		} {
			for range 2 {
				if a := s.read(t, s.caller(t, l)); a.State() != record.Succeeded {
					t.Fatalf("%+v: %s %s %+v", l, a.State(), a.Code, a.Decision.Reasons)
				}
			}
			all := s.desk.runs()
			claims := all[len(all)-1]
			agent := l.Agent
			if agent == "" {
				agent = "bot"
			}
			if claims["sub"] != l.User || claims["scope"] != "tickets:read" || fmt.Sprint(claims["act"]) != "map[act:map[sub:"+agent+"] sub:placet]" {
				t.Errorf("%+v: the server read %v", l, claims)
			}
			who := fmt.Sprintf("%+v", l)
			if other, shared := seen[s.desk.last]; shared {
				t.Errorf("%s and %s share a token", who, other)
			}
			seen[s.desk.last] = who
		}
		if n := len(s.idp.Asked("token-exchange")); n != 6 || len(s.desk.runs()) != 12 {
			t.Errorf("%d exchanges, %d runs", n, len(s.desk.runs()))
		}
	})
}

// TestPromise_P6_NoCredentialNoEffect: whatever the issuer does but give a token that
// fits, nothing reaches the tool. The neighbour is the same call once it does.
func TestPromise_P6_NoCredentialNoEffect(t *testing.T) {
	s := newSite(t, false, exchangeProfile)
	c := s.caller(t, issuertest.Login{User: "anna"})
	answer := func(status int, body string) func() {
		return func() {
			s.idp.Before(func(w http.ResponseWriter, r *http.Request) bool {
				if r.Header.Get("Authorization") == "" || status == 0 {
					<-r.Context().Done()
					return true
				}
				w.WriteHeader(status)
				fmt.Fprint(w, body)
				return true
			})
		}
	}
	alter := func(f func(map[string]any)) func() { return func() { s.idp.Alter(f) } }
	s.read(t, s.caller(t, issuertest.Login{User: "ben"})) // its listing is known
	before := len(s.desk.runs())
	for name, make := range map[string]struct {
		does func()
		code record.Code
	}{
		"refused":     {answer(400, `{"error":"invalid_grant","error_description":"planted"}`), record.CodeNotAvailable},
		"broken":      {answer(503, `planted`), record.CodeCannotDecide},
		"down":        {func() { s.idp.Down(true) }, record.CodeCannotDecide},
		"wider scope": {alter(func(m map[string]any) { m["scope"] = "tickets:read admin" }), record.CodeNotAvailable},
		"other audience": {alter(func(m map[string]any) {
			m["access_token"] = s.token(t, issuertest.Login{User: "anna", Audience: "billing"})
		}), record.CodeNotAvailable},
		"ended":         {alter(func(m map[string]any) { m["expires_in"] = 0 }), record.CodeNotAvailable},
		"her own token": {alter(func(m map[string]any) { m["access_token"] = c.Presented().Reveal() }), record.CodeNotAvailable},
	} {
		make.does()
		a := s.read(t, c)
		if a.Verdict != record.Deny || a.Code != make.code || a.Ran {
			t.Errorf("%s: %s %s", name, a.Verdict, a.Code)
		}
		if strings.Contains(a.Text()+fmt.Sprintf("%+v", a.Decision), "planted") || strings.Contains(a.Text(), "invalid_grant") {
			t.Errorf("%s: the issuer's words come out: %s", name, a.Text())
		}
		s.idp.Before(nil)
		s.idp.Alter(nil)
		s.idp.Down(false)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	answer(0, "")()
	if a, err := s.Do(ctx, dispatch.Proposal{Caller: c, Tool: "read"}); err == nil && a.Ran {
		t.Errorf("silent: %+v", a)
	}
	s.idp.Before(nil)
	if n := len(s.desk.runs()); n != before {
		t.Errorf("%d runs without a credential", n-before)
	}
	if a := s.read(t, s.caller(t, issuertest.Login{User: "anna", Session: "x"})); a.State() != record.Succeeded || len(s.desk.runs()) != before+1 {
		t.Errorf("the legitimate call: %s", a.State())
	}
	s.idp.Down(true) // with a kept token the issuer's absence does not matter
	if a := s.read(t, s.caller(t, issuertest.Login{User: "anna", Session: "x"})); a.State() != record.Succeeded {
		t.Errorf("with a kept token: %s %s", a.State(), a.Code)
	}
}

// TestRefusedByTheServer: a token that the server no longer takes is a refusal before
// execution, is not sent again, and is not handed out again.
func TestRefusedByTheServer(t *testing.T) {
	eras(t, func(t *testing.T, legacy bool) {
		s := newSite(t, legacy, exchangeProfile)
		c := s.caller(t, issuertest.Login{User: "anna"})
		if a := s.read(t, c); a.State() != record.Succeeded {
			t.Fatal(a.State(), a.Code)
		}
		s.desk.mu.Lock()
		s.desk.bad[s.desk.last] = true
		s.desk.mu.Unlock()
		if a := s.read(t, c); a.State() != record.Failed || len(s.desk.runs()) != 1 {
			t.Errorf("%s, %d runs", a.State(), len(s.desk.runs()))
		}
		if a := s.read(t, c); a.State() != record.Succeeded || len(s.desk.runs()) != 2 || len(s.idp.Asked("token-exchange")) != 2 {
			t.Errorf("afterwards: %s, %d runs", a.State(), len(s.desk.runs()))
		}
	})
}

// TestAnApprovedCallWaitsForItsCredential: while the issuer is down the call and its
// yes are kept; when it is back the call runs, once.
func TestAnApprovedCallWaitsForItsCredential(t *testing.T) {
	s := newSite(t, false, exchangeProfile)
	s.idp.SetUser("lea", &issuertest.User{Groups: []string{"leads"}, Tenant: "acme"})
	c := s.caller(t, issuertest.Login{User: "anna"})
	a, err := s.Do(t.Context(), dispatch.Proposal{Caller: c, Tool: "write"})
	if err != nil || a.Approval == nil {
		t.Fatalf("%+v %v", a.Code, err)
	}
	lea, err := s.Verifier().Person(t.Context(), s.idp.Token(t, issuertest.Login{User: "lea", Agent: "console", Audience: "http://127.0.0.1:9/console"}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Boundary().Reply(t.Context(), lea, a.Approval.ID, a.Approval.Binding, record.Yes, ""); err != nil {
		t.Fatal(err)
	}
	s.idp.Down(true)
	held, err := s.Boundary().Dispatch(t.Context(), c, a.Call.ID, nil)
	if err != nil || held.Verdict != record.Deny || held.Code != record.CodeCannotDecide || held.State() != record.ApprovalPending || len(s.desk.runs()) != 0 {
		t.Fatalf("while it is down: %s %s %v, %d runs", held.State(), held.Code, err, len(s.desk.runs()))
	}
	s.idp.Down(false)
	for range 2 {
		if done, err := s.Boundary().Dispatch(t.Context(), c, a.Call.ID, nil); err != nil || done.State() != record.Succeeded {
			t.Fatalf("when it is back: %s %v", done.State(), err)
		}
	}
	if n := len(s.desk.runs()); n != 1 {
		t.Errorf("%d runs", n)
	}
}

// TestNothingOfTheCallersGoesUpstream plants marks in everything a caller can send, and
// looks for them in all that a server receives: headers, address, body, and for a
// command its whole environment; through every profile.
func TestNothingOfTheCallersGoesUpstream(t *testing.T) {
	for name, profile := range map[string]string{
		"none":               "  desk: {type: none}\n",
		"static":             "  desk: {type: static, value: \"env:VALUE\"}\n",
		"static header":      "  desk: {type: static, value: \"env:VALUE\", header: X-Api-Key}\n",
		"client credentials": "  desk: {type: client_credentials, issuer: \"ISSUER\", client_id: placet, client_secret: \"env:SECRET\", scope: [\"tools:list\"]}\n",
		"exchange":           exchangeProfile,
		"on behalf of":       "  desk: {type: on_behalf_of, issuer: \"ISSUER\", client_id: placet, client_secret: \"env:SECRET\", scope: [\"tickets:read\"], listing: own}\n  own: {type: none}\n",
		"command":            "  desk: {type: static, value: \"env:VALUE\", variable: DESK_TOKEN}\n",
	} {
		t.Run(name, func(t *testing.T) {
			s := prepare(t, false, profile)
			seen := s.desk.received
			if name == "command" {
				seen = s.onCommand(t)
			}
			s.desk.mu.Lock()
			s.desk.open = name != "exchange"
			s.desk.mu.Unlock()
			s.start(t)
			if name == "on behalf of" { // the library has no such flow; the answer is as Microsoft documents it
				s.idp.Before(func(w http.ResponseWriter, _ *http.Request) bool {
					fmt.Fprint(w, `{"access_token":"issued.on.behalf","token_type":"Bearer","expires_in":300,"scope":"tickets:read"}`)
					return true
				})
			}
			door := httptest.NewServer(s.Handler())
			defer door.Close()
			token := s.token(t, issuertest.Login{User: "anna", Claims: map[string]any{"planted_claim": "planted-claim"}})
			planted := http.Header{"Authorization": {"Bearer " + token}, "Cookie": {"planted=cookie"}, "X-Api-Key": {"planted-key"}, "X-Forwarded-Access-Token": {"planted-" + token},
				"X-Amzn-Oidc-Data": {"planted-header"}, "Proxy-Authorization": {"Basic planted"}, "Desk-Token": {"planted-env"},
				"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {"read"}}
			body := `{"jsonrpc":"2.0","id":"planted-id","method":"tools/call","params":{"name":"read","arguments":{"id":"argument-1"},"_meta":{"authorization":"planted-meta","dev.placet/dispatch_token":"planted-token",` +
				`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"planted-client","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, door.URL+"/mcp?access_token=planted-query", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header = planted
			r.Host = "127.0.0.1:9"
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			said, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(said), "done") {
				t.Fatalf("%d %s", resp.StatusCode, said)
			}
			raw := seen()
			want := map[string]string{"static": "Bearer static-value", "static header": "X-Api-Key:[static-value]", "client credentials": "Authorization:[Bearer ", "exchange": "Authorization:[Bearer ",
				"on behalf of": "Bearer issued.on.behalf", "command": "DESK_TOKEN=static-value"}[name]
			if !strings.Contains(raw, "argument-1") || !strings.Contains(raw, want) || want != "" && strings.Count(raw, "static-value") == 0 && strings.HasPrefix(name, "static") {
				t.Fatalf("the test looks in the wrong place: %s", raw)
			}
			if name == "none" && strings.Contains(raw, "Authorization") {
				t.Error("something is attached")
			}
			for _, part := range append(strings.Split(token, ".")[1:], "planted", "secret-of-placet") {
				if strings.Contains(raw, part) {
					t.Errorf("the server got %q of the caller's, or of ours", part)
				}
			}
		})
	}
}

// onCommand makes the desk a command, whose process writes its environment and every
// line it reads to a file, and returns what is in there.
func (s *site) onCommand(t *testing.T) func() string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	seen := filepath.Join(s.dir, "seen")
	s.write(t, "tools.yaml", `version: 1
servers: {desk: {command: ["`+exe+`", "-test.run=^TestDeskAsCommand$", "`+seen+`"], credential: desk}}
tools:
  read: {server: desk, scope: "tickets:read", read: true}
`)
	command := []string{exe, "-test.run=^TestDeskAsCommand$", seen}
	pin, err := measured(t.Context())(command)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(s.dir, "tools.lock"))
	if err != nil {
		t.Fatal(err)
	}
	lock, problems := registry.ReadLock("tools.lock", text)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	lock.Servers["desk"] = pin
	if text, err = lock.Write(); err != nil {
		t.Fatal(err)
	}
	s.write(t, "tools.lock", string(text))
	return func() string {
		out, err := os.ReadFile(seen)
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
}

// TestDeskAsCommand is the process of onCommand, and nothing by itself.
func TestDeskAsCommand(t *testing.T) {
	seen := os.Args[len(os.Args)-1]
	if len(os.Args) != 3 || filepath.Base(seen) != "seen" {
		t.Skip("this is a child process of another test")
	}
	f, err := os.OpenFile(seen, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(f, os.Environ())
	s := sdk.NewServer(&sdk.Implementation{Name: "desk", Version: "1"}, nil)
	s.AddTool(&sdk.Tool{Name: "read", InputSchema: json.RawMessage(deskSchema)}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "done"}}}, nil
	})
	in := struct {
		io.Reader
		io.Closer
	}{io.TeeReader(os.Stdin, f), os.Stdin}
	if err := s.Run(context.Background(), &sdk.IOTransport{Reader: in, Writer: os.Stdout}); err != nil {
		fmt.Fprintln(f, err)
	}
	os.Exit(0)
}

// TestCredentialsAreCheckedWhenFilesAreLoaded: each file is refused with its place.
func TestCredentialsAreCheckedWhenFilesAreLoaded(t *testing.T) {
	s := newSite(t, false, exchangeProfile+`  mapped: {type: token_exchange, issuer: "ISSUER", client_id: placet, client_secret: "env:SECRET", scopes: {"other:scope": [x]}}
  command: {type: static, value: "env:VALUE", variable: DESK_TOKEN}
  header: {type: static, value: "env:VALUE"}
  open: {type: none}
`)
	tools := func(server string) string {
		return "version: 1\nservers:\n  desk: {" + server + "}\ntools:\n  read: {server: desk, scope: \"tickets:read\", read: true}\n"
	}
	url, command := `url: "`+s.desk.url+`", `, `command: [/bin/true], `
	for server, want := range map[string]string{
		url + "credential: nothing":                         `tools.yaml:3: servers.desk.credential: there is no profile "nothing"`,
		url + "credential: command":                         `tools.yaml:3: servers.desk.credential: profile "command" is for commands`,
		command + "credential: header":                      `tools.yaml:3: servers.desk.credential: a command takes its credential from its environment`,
		command + "credential: desk":                        `tools.yaml:3: servers.desk.credential: a command takes its credential from its environment`,
		command + "env: [DESK_TOKEN], credential: command":  `tools.yaml:3: servers.desk.credential: the variable DESK_TOKEN is in env too`,
		url + "credential: mapped":                          `tools.yaml:5: tools.read.scope: credential profile "mapped" has no scopes for it`,
		url + "credential: open":                            "",
		url + "credential: header":                          "",
		command + "env: [OTHER_TOKEN], credential: command": "",
		command + "credential: open":                        "",
	} {
		s.write(t, "tools.yaml", tools(server))
		_, reload := s.Reload(t.Context(), record.Who{System: "test"}, "")
		_, check := Check(t.Context(), s.options(t))
		for _, err := range []error{reload, check} {
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("%s: %v", server, err)
			}
		}
	}
	o := s.options(t)
	o.LookupEnv = func(string) (string, bool) { return "", false }
	if _, err := Check(t.Context(), o); err == nil || !strings.Contains(err.Error(), "credentials.desk: client_secret: the environment variable SECRET is not set") || !strings.Contains(err.Error(), "placet.yaml:") {
		t.Errorf("a secret that is not there: %v", err)
	}
}

// TestAWorkloadHasNothingToExchange: a program that calls by its own key is denied
// where a user's token would be exchanged, and served where this server is itself.
func TestAWorkloadHasNothingToExchange(t *testing.T) {
	key := "plk_" + strings.Repeat("A", 43)
	for profile, runs := range map[string]int{exchangeProfile: 0, "  desk: {type: client_credentials, issuer: \"ISSUER\", client_id: placet, client_secret: \"env:SECRET\"}\n": 1} {
		s := newSite(t, false, profile+"workloads: {robot: {key: \"env:HASH\", tenant: acme, permissions: [propose]}}\n")
		robot, err := s.Verifier().Caller(t.Context(), identity.Credentials{WorkloadKey: key})
		if err != nil {
			t.Fatal(err)
		}
		s.write(t, "tools.yaml", strings.Replace(s.tools, `scope: "tickets:read"`, "callers: {agents: [robot]}", 1))
		if _, err := s.Reload(t.Context(), record.Who{System: "test"}, ""); err != nil {
			t.Fatal(err)
		}
		if a := s.read(t, robot); len(s.desk.runs()) != runs || (runs == 0) != (a.Code == record.CodeNotAvailable) {
			t.Errorf("%s %s, %d runs", a.State(), a.Code, len(s.desk.runs()))
		}
	}
}

// TestRule_C2_WhoIsAwayIsAskedForAtTheIssuer: the caller that a delegation gives is the
// owner with what the issuer says now, and nobody when it says no.
func TestRule_C2_WhoIsAwayIsAskedForAtTheIssuer(t *testing.T) {
	s := newSite(t, false, exchangeProfile)
	d := delegations{s.sources, s.verifier}
	anna := s.caller(t, issuertest.Login{User: "anna", Scopes: []string{"tickets:read"}})
	given, err := d.Grant(t.Context(), anna, time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	now, next, err := d.Caller(t.Context(), anna.Owner(), given)
	if err != nil {
		t.Fatal(err)
	}
	if now.Owner() != anna.Owner() || strings.Join(now.Scopes(), " ") != "tickets:read" || !now.InGroup(record.Group{Issuer: s.idp.URL, Name: "support"}) {
		t.Errorf("it is %v with %v %v", now.Owner(), now.Scopes(), now.Groups())
	}
	// The tool gets a token for her, from the one that was just issued.
	if a := s.read(t, now); a.State() != record.Succeeded {
		t.Fatalf("%s %s %+v", a.State(), a.Code, a.Decision.Reasons)
	}
	if all := s.desk.runs(); len(all) != 1 || all[0]["sub"] != "anna" {
		t.Errorf("the server read %v", all)
	}

	// What she was given later does not count, what she lost does.
	s.idp.SetUser("anna", &issuertest.User{Scopes: []string{"tickets:read", "tickets:write"}, Groups: []string{"sales"}, Tenant: "acme"})
	if now, next, err = d.Caller(t.Context(), anna.Owner(), next); err != nil || now.HasScope("tickets:write") || now.InGroup(record.Group{Issuer: s.idp.URL, Name: "support"}) {
		t.Errorf("%v %v %v", now.Scopes(), now.Groups(), err)
	}
	s.idp.Alter(func(m map[string]any) { m["access_token"] = s.token(t, issuertest.Login{User: "anna"}) })
	if now, next, err = d.Caller(t.Context(), anna.Owner(), next); err != nil || strings.Join(now.Scopes(), " ") != "tickets:read" {
		t.Errorf("an issuer that answers with more than was granted: %v %v", now.Scopes(), err)
	}
	s.idp.Alter(nil)
	s.idp.SetUser("anna", &issuertest.User{Tenant: "acme"})
	if now, next, err = d.Caller(t.Context(), anna.Owner(), next); err != nil || len(now.Scopes()) != 0 {
		t.Errorf("%v %v", now.Scopes(), err)
	}
	if a := s.read(t, now); a.Code != record.CodeMissingScope || len(s.desk.runs()) != 1 {
		t.Errorf("without the scope: %s", a.Code)
	}

	no := func(what string, want record.Kind) {
		t.Helper()
		who, after, err := d.Caller(t.Context(), anna.Owner(), next)
		if record.KindOf(err) != want || who.Valid() {
			t.Errorf("%s: %v", what, err)
		}
		next = after
	}
	s.idp.SetUser("anna", &issuertest.User{Scopes: []string{"tickets:read"}, Tenant: "globex"})
	no("she is in another tenant now", record.Forbidden)
	s.idp.SetUser("anna", &issuertest.User{Scopes: []string{"tickets:read"}, Tenant: "acme"})
	s.idp.Alter(func(m map[string]any) { m["access_token"] = s.token(t, issuertest.Login{User: "ben"}) })
	no("a token of somebody else", record.Forbidden)
	s.idp.Alter(func(m map[string]any) {
		m["access_token"] = s.token(t, issuertest.Login{User: "anna", Audience: "billing"})
	})
	no("a token for somebody else", record.Unauthenticated)
	s.idp.Alter(func(m map[string]any) { m["access_token"] = s.token(t, issuertest.Login{User: "anna"}) + "x" })
	no("a forged token", record.Unauthenticated)
	s.idp.Alter(nil)
	s.idp.Down(true)
	no("the issuer is down", record.Unavailable)
	s.idp.Down(false)
	s.idp.SetUser("anna", nil)
	no("dismissed", record.Forbidden)
	s.idp.SetUser("anna", &issuertest.User{Scopes: []string{"tickets:read"}, Tenant: "acme"})
	if _, next, err = d.Caller(t.Context(), anna.Owner(), next); err != nil {
		t.Errorf("and back: %v", err)
	}
	if err := d.Withdraw(t.Context(), next); err != nil || s.idp.RefreshTokens() != 0 {
		t.Errorf("%v, the issuer holds %d", err, s.idp.RefreshTokens())
	}
}
