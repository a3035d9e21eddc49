package placet

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/placet-dev/placet/config"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/verify"
)

// buildTypeScript builds sdk/typescript and returns the node to run it with, and where
// its example servers are.
func buildTypeScript(t *testing.T) (node, examples string) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: the TypeScript package is not built")
	}
	for _, needed := range []string{"bash", "npm", "node"} {
		if _, err := exec.LookPath(needed); err != nil {
			t.Skip(needed + " is not installed, so the TypeScript package is not tested")
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	build := exec.CommandContext(ctx, "bash", "sdk/typescript/run.sh", "build")
	var said bytes.Buffer
	build.Stderr = &said
	out, err := build.Output()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.ExitCode() == 75:
		t.Skipf("what the TypeScript package needs cannot be fetched:\n%s", &said)
	case err != nil:
		t.Fatalf("%v\n%s\n%s", err, out, &said)
	}
	examples, err = filepath.Abs(".cache/typescript/verify/dist/example")
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out)), examples
}

// tap stands between Placet and a tool server, and keeps the last call that went through.
type tap struct {
	url string

	mu   sync.Mutex
	call http.Header
	body []byte
	goal *url.URL
}

func newTap(t *testing.T) *tap {
	t.Helper()
	p := &tap{}
	proxy := &httputil.ReverseProxy{ErrorLog: log.New(io.Discard, "", 0), Rewrite: func(r *httputil.ProxyRequest) {
		body, err := io.ReadAll(r.In.Body)
		if err != nil {
			body = nil // its sender is gone, and gets no answer
		}
		r.Out.Body = io.NopCloser(bytes.NewReader(body))
		p.mu.Lock()
		defer p.mu.Unlock()
		r.Out.URL.Scheme, r.Out.URL.Host = p.goal.Scheme, p.goal.Host
		if err == nil && r.In.Header.Get(verify.Header) != "" {
			p.call, p.body = r.In.Header.Clone(), body
		}
	}}
	server := httptest.NewServer(proxy)
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	p.url = server.URL + "/mcp"
	return p
}

// start runs an example server behind the tap. It prints its URL when it listens.
func (p *tap) start(t *testing.T, node string, args ...string) {
	t.Helper()
	c := exec.Command(node, args...)
	var said bytes.Buffer
	c.Stderr = &said
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
		if t.Failed() {
			t.Logf("the server said: %s", &said)
		}
	})
	line := bufio.NewScanner(out)
	if !line.Scan() {
		t.Fatalf("the server did not start: %v", line.Err())
	}
	goal, err := url.Parse(line.Text())
	if err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	p.goal = goal
	p.mu.Unlock()
}

// again sends the call that went through straight to the server, past Placet.
func (p *tap) again(t *testing.T, edit func(h http.Header, body string) string) (status int, answer string) {
	t.Helper()
	p.mu.Lock()
	h, body, goal := p.call.Clone(), string(p.body), p.goal.String()
	p.mu.Unlock()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, goal, strings.NewReader(edit(h, body)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = h
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// effect is a line in the ledger of an example server.
type effect struct {
	Order     string
	Amount    float64
	Tenant    string
	Principal verify.Principal
	Agent     string
	Run, Call string
	Attempt   int
	Targets   []verify.Target
	Key       string
}

func effects(t *testing.T, ledger string) (all []effect) {
	t.Helper()
	text, err := os.ReadFile(ledger)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var e effect
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

// deskBehind opens a Placet in front of one server, which start starts for its issuer and
// whose entry it returns, and a session of anna's agent with it.
func deskBehind(t *testing.T, start func(issuer string) (entry string)) *sdk.ClientSession {
	t.Helper()
	door := httptest.NewUnstartedServer(nil)
	public := "http://" + door.Listener.Addr().String()
	dir := t.TempDir()
	entry := start(public)
	for name, text := range map[string]string{
		"placet.yaml": "version: 1\nenvironment: test\npublic_url: " + public + "\nstore: sqlite:state.db\nregistry: [tools.yaml]\n",
		"tools.yaml": "version: 1\nservers: {desk: {" + entry + ", dispatch_token: true}}\n" +
			"tools:\n  refund: {server: desk, tool: refund.create, scope: refunds, write: true, sources: [direct], targets: [order], approval: {when: asked}}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
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
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: c.Audience(), HTTPClient: &http.Client{Transport: planting{"Authorization": "Bearer " + token}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return session
}

// refundOnce calls the tool through Placet and sees one effect more, for anna.
func refundOnce(t *testing.T, session *sdk.ClientSession, ledger, order string) {
	t.Helper()
	before := len(effects(t, ledger))
	out, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "refund", Arguments: json.RawMessage(`{"order":"` + order + `", "amount":20.50}`)})
	if err != nil || out.IsError {
		t.Fatalf("%v %+v", err, out)
	}
	all := effects(t, ledger)
	if len(all) != before+1 {
		t.Fatalf("the ledger holds %d lines more", len(all)-before)
	}
	got := all[before]
	if got.Order != order || got.Amount != 20.5 || got.Tenant != "acme" || got.Principal != (verify.Principal{Issuer: LocalIssuer, Subject: "anna"}) || got.Agent != "bot" ||
		got.Attempt != 1 || len(got.Targets) != 1 || string(got.Targets[0].Value) != `"`+order+`"` || got.Key == "" || got.Call == "" || got.Run == "" {
		t.Errorf("the handler was told %+v", got)
	}
}

// TestTypeScriptToolServers: tool servers in TypeScript act on what Placet dispatches,
// once, and on nothing that comes to them on another way, by their own ledger.
func TestTypeScriptToolServers(t *testing.T) {
	node, examples := buildTypeScript(t)
	for _, kind := range []string{"node", "fetch", "plain"} {
		t.Run(kind, func(t *testing.T) {
			ledger := filepath.Join(t.TempDir(), "ledger")
			wire := newTap(t)
			session := deskBehind(t, func(issuer string) string {
				wire.start(t, node, filepath.Join(examples, kind+".js"), issuer, wire.url, ledger)
				return `url: "` + wire.url + `"`
			})
			refundOnce(t, session, ledger, "o1")
			same := func(_ http.Header, body string) string { return body }
			for name, edit := range map[string]func(http.Header, string) string{
				"the same again": same,
				"another amount": func(_ http.Header, body string) string { return strings.Replace(body, "20.5", "2050", 1) },
				"an amount twice": func(_ http.Header, body string) string {
					return strings.Replace(body, `"amount"`, `"amount":2050,"amount"`, 1)
				},
				"no token":          func(h http.Header, body string) string { h.Del(verify.Header); return body },
				"half a token":      func(h http.Header, body string) string { h.Set(verify.Header, h.Get(verify.Header)[:40]); return body },
				"a batch":           func(_ http.Header, body string) string { return "[" + body + "]" },
				"said to be packed": func(h http.Header, body string) string { h.Set("Content-Encoding", "gzip"); return body },
			} {
				status, answer := wire.again(t, edit)
				if status != http.StatusUnauthorized && status != http.StatusBadRequest || len(effects(t, ledger)) != 1 {
					t.Errorf("%s: status %d, %d effects: %s", name, status, len(effects(t, ledger)), answer)
				}
			}
			if _, answer := wire.again(t, same); !strings.Contains(answer, string(verify.Replayed)) {
				t.Errorf("the same again: %s", answer)
			}
			refundOnce(t, session, ledger, "o2")
		})
	}
	t.Run("stdio", func(t *testing.T) {
		ledger := filepath.Join(t.TempDir(), "ledger")
		var command []string
		session := deskBehind(t, func(issuer string) string {
			command = []string{node, filepath.Join(examples, "stdio.js"), issuer, "desk", ledger}
			text, err := json.Marshal(command)
			if err != nil {
				t.Fatal(err)
			}
			return "command: " + string(text)
		})
		refundOnce(t, session, ledger, "o1")
		past, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), &sdk.CommandTransport{Command: exec.Command(command[0], command[1:]...)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer past.Close()
		out, err := past.CallTool(t.Context(), &sdk.CallToolParams{Name: "refund.create", Arguments: map[string]any{"order": "o1", "amount": 20.5}})
		if err == nil || !strings.Contains(err.Error(), "dispatch token") || len(effects(t, ledger)) != 1 {
			t.Errorf("past Placet: %+v, %v, %d effects", out, err, len(effects(t, ledger)))
		}
		refundOnce(t, session, ledger, "o2")
	})
}
