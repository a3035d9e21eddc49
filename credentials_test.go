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
		s.AddTool(&sdk.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object","properties":{"id":{"type":"string"}}}`)}, run)
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
}

const exchangeProfile = `  desk: {type: token_exchange, issuer: "ISSUER", client_id: placet, client_secret: "env:SECRET", audience: [helpdesk]}
`

// newSite opens one. Profiles are the lines below credentials; ISSUER is the provider.
func newSite(t *testing.T, legacy bool, profiles string) *site {
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
	s.write(t, "tools.yaml", strings.ReplaceAll(tools, "CREDENTIAL", ", credential: desk"))
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
	s.start(t)
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
		return map[string]string{"SECRET": "secret-of-placet", "VALUE": "static-value", "PATH": os.Getenv("PATH")}[name], name != "HOME"
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
