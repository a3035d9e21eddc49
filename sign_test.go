package placet

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/placet-dev/placet/config"
	"github.com/placet-dev/placet/credential"
	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
	toolmcp "github.com/placet-dev/placet/tool/mcp"
	"github.com/placet-dev/placet/verify"
)

// upstream is a tool server behind verify.Middleware. Its ledger is the oracle.
type upstream struct {
	url string

	mu     sync.Mutex
	ledger []verify.Call
	raw    bytes.Buffer // every header and byte that arrived
}

func newUpstream(t *testing.T, issuer string) *upstream {
	t.Helper()
	u := &upstream{}
	s := sdk.NewServer(&sdk.Implementation{Name: "desk", Version: "1"}, nil)
	s.AddTool(&sdk.Tool{Name: "refund.create", InputSchema: json.RawMessage(`{"type":"object","properties":{"order":{"type":"string"},"amount":{"type":"number"}}}`)},
		func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "done"}}}, nil
		})
	h := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, &sdk.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
	noting := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if call, ok := verify.FromContext(r.Context()); ok {
			u.mu.Lock()
			u.ledger = append(u.ledger, call)
			u.mu.Unlock()
		}
		h.ServeHTTP(w, r)
	})
	server := httptest.NewUnstartedServer(nil)
	u.url = "http://" + server.Listener.Addr().String() + "/mcp"
	v, err := verify.New(verify.Options{Issuer: issuer, Audience: u.url, Seen: verify.PerProcess(nil)})
	if err != nil {
		t.Fatal(err)
	}
	guarded := v.Middleware(noting)
	server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // its sender stopped, as one that listens does at the end
		}
		u.mu.Lock()
		fmt.Fprintf(&u.raw, "%s %v %v %s\n", r.Method, r.URL, r.Header, body)
		u.mu.Unlock()
		r.Body = io.NopCloser(bytes.NewReader(body))
		guarded.ServeHTTP(w, r)
	})
	server.Start()
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	return u
}

func (u *upstream) calls() []verify.Call {
	u.mu.Lock()
	defer u.mu.Unlock()
	return append([]verify.Call(nil), u.ledger...)
}

// planting adds headers to every request of a client.
type planting map[string]string

func (p planting) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, value := range p {
		r.Header.Set(name, value)
	}
	return http.DefaultTransport.RoundTrip(r)
}

// TestDispatchTokenEndToEnd: a call through the MCP door reaches a server that
// verifies tokens, with a token that says what Placet verified. Nothing that the
// caller sent, its own token least of all, is in what the server gets.
func TestDispatchTokenEndToEnd(t *testing.T) {
	dir := t.TempDir()
	door := httptest.NewUnstartedServer(nil)
	public := "http://" + door.Listener.Addr().String()
	u := newUpstream(t, public)
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("placet.yaml", "version: 1\nenvironment: test\npublic_url: "+public+"\nstore: sqlite:state.db\nregistry: [tools.yaml]\n")
	write("tools.yaml", `version: 1
servers: {desk: {url: "`+u.url+`", dispatch_token: true}}
tools:
  refund: {server: desk, tool: refund.create, scope: refunds, write: true, sources: [direct], targets: [order], approval: {when: asked}}
`)
	lockOffers(t, filepath.Join(dir, "tools.yaml"))
	c, err := config.Load(filepath.Join(dir, "placet.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	issuer, err := identity.NewLocal(LocalIssuer, rand.Reader, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Open(t.Context(), Options{Config: c, Local: issuer, Tenants: []string{"acme"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	door.Config.Handler = p.Handler()
	door.Start()
	t.Cleanup(func() { door.CloseClientConnections(); door.Close() })

	token, err := issuer.Sign(identity.TokenSpec{Audience: c.Audience(), Subject: "anna", Tenant: "acme", Agent: "bot", Scopes: []string{"refunds"}})
	if err != nil {
		t.Fatal(err)
	}
	planted := planting{"Authorization": "Bearer " + token, verify.Header: "planted-dispatch", "X-Planted": "planted-header", "Cookie": "planted=cookie"}
	client := sdk.NewClient(&sdk.Implementation{Name: "planted-client", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: c.Audience(), HTTPClient: &http.Client{Transport: planted}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	out, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "refund", Meta: sdk.Meta{verify.MetaKey: "planted-meta"},
		Arguments: json.RawMessage(`{"order":"o1", "amount":20.0}`)})
	if err != nil || out.IsError {
		t.Fatalf("%v %+v", err, out)
	}
	all := u.calls()
	if len(all) != 1 {
		t.Fatalf("the ledger holds %d calls", len(all))
	}
	got := all[0]
	if got.Tenant != "acme" || got.Principal != (verify.Principal{Issuer: LocalIssuer, Subject: "anna"}) || got.Agent != "bot" || got.Tool != "refund.create" ||
		got.Attempt != 1 || len(got.Targets) != 1 || string(got.Targets[0].Value) != `"o1"` || got.Key == "" || got.Call == "" || got.Run == "" {
		t.Errorf("the server read %+v", got)
	}
	u.mu.Lock()
	raw := u.raw.String()
	u.mu.Unlock()
	if !strings.Contains(raw, "refund.create") || !strings.Contains(raw, verify.MetaKey) {
		t.Fatalf("the test looks in the wrong place: %s", raw)
	}
	for _, part := range append(strings.Split(token, ".")[1:], "planted", "Bearer", "Authorization") {
		if strings.Contains(raw, part) {
			t.Errorf("the server got %q of the caller's", part)
		}
	}

	// Whoever saw the token, and goes past Placet with it, is refused.
	_, rest, _ := strings.Cut(raw, verify.Header+":[")
	seen, _, _ := strings.Cut(rest, "]")
	for what, arguments := range map[string]string{"the same call": `{"amount":20,"order":"o1"}`, "another amount": `{"amount":2000,"order":"o1"}`, "no token": `{}`} {
		text := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"refund.create","arguments":` + arguments + `}}`
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, u.url, strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if what != "no token" {
			r.Header.Set(verify.Header, seen)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized || len(u.calls()) != 1 {
			t.Errorf("%s: %d, %d calls", what, resp.StatusCode, len(u.calls()))
		}
	}
}

// A token for a prompt names the method with the prompt, so that it is no token
// for a tool of that name.
func TestDispatchTokenNamesTheMethod(t *testing.T) {
	keys, err := credential.Open(filepath.Join(t.TempDir(), "keys"), credential.Options{Issuer: "http://localhost", Clock: time.Now, Random: rand.Reader})
	if err != nil {
		t.Fatal(err)
	}
	for want, tool := range map[string]*registry.Tool{
		"refund.create":                 {Upstream: "refund.create"},
		"prompts/get refund.create":     {Upstream: "refund.create", Method: registry.MethodPrompt},
		"resources/read desk://t/{id}":  {Upstream: "desk://t/{id}", Method: registry.MethodResource},
		"prompts/get completed as well": {Method: registry.MethodCompletion, Completes: &registry.Tool{Upstream: "completed as well", Method: registry.MethodPrompt}},
	} {
		token, err := signer{keys}.Sign(dispatch.Work{Server: &registry.Server{Name: "desk", URL: "http://localhost/mcp"}, Tool: tool, Owner: record.Owner{Tenant: "acme", Principal: record.Principal{Issuer: "i", Subject: "anna"}, Agent: "bot"},
			Run: "run_1", Call: "call_1", Attempt: 1, Arguments: json.RawMessage(`{}`), Key: "k", Lease: time.Now().Add(time.Minute)})
		if err != nil {
			t.Fatal(err)
		}
		parts := strings.Split(token, ".")
		payload, err := base64.RawURLEncoding.DecodeString(parts[1])
		if err != nil || !strings.Contains(string(payload), `"`+want+`"`) {
			t.Errorf("%s: %s, %v", want, payload, err)
		}
	}
}

// lockOffers writes the lock that placet tools add would, for the tools of a file.
func lockOffers(t *testing.T, file string) {
	t.Helper()
	snapshot, err := registry.Load([]string{file}, registry.Options{Environment: "test"})
	if err != nil {
		t.Fatal(err)
	}
	servers := toolmcp.New(toolmcp.Options{})
	defer servers.Close()
	lock := registry.NewLock()
	for server := range snapshot.Servers() {
		if len(server.Command) > 0 {
			if lock.Servers[server.Name], err = measured(t.Context())(server.Command); err != nil {
				t.Fatal(err)
			}
		}
		offers, err := servers.ListOffers(t.Context(), server)
		if err != nil {
			t.Fatal(err)
		}
		for _, offer := range offers {
			pin, err := registry.PinOf(offer)
			if err != nil {
				t.Fatal(err)
			}
			if tool, ok := snapshot.ByUpstream(server.Name, offer.Name); ok {
				lock.Tools[tool.Name] = registry.LockedTool{Server: server.Name, Pin: pin}
			}
		}
	}
	text, err := lock.Write()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(registry.LockPath(file), text, 0o600); err != nil {
		t.Fatal(err)
	}
}
