package histories_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/placet-dev/placet"
	"github.com/placet-dev/placet/config"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/registry"
	"github.com/placet-dev/placet/tool/local"
)

// world is a whole server before tools that keep a ledger.
type world struct {
	t       testing.TB
	dir     string
	url     string
	placet  *placet.Placet
	local   *identity.Local
	handler struct {
		sync.RWMutex
		http.Handler
	}

	change  func(*placet.Options) // what the test adds; nil: nothing
	outside map[string]bool       // users whose membership was withdrawn
	ahead   atomic.Int64          // by how much the server's clock, and its issuer's, is ahead

	mu      sync.Mutex
	lines   []string      // the tools' ledger
	entered chan struct{} // the slow tool has had its effect
	release chan struct{} // and may answer
}

const settings = `version: 1
environment: production
store: sqlite:state.db
registry: [tools.yaml]
permissions: {read: ["group:readers"]}
policy: {layers: [{name: said, files: policy, for: {tools: [said]}}]}
approvals: {wait: %s, default: {approvers: ["group:leads"]}}
runs: {calls_per_run: 10000, calls_per_turn: 10000, proposals_open: 10000, proposals_open_turn: 10000, proposals_open_principal: 10000}
`

// rule says what its call tells it to say, so that a row can have any verdict.
const rule = `package agent.call

import rego.v1

decision := {"decision": input.args.what} if input.args.what in {"allow", "requires-approval"}

decision := true if input.args.what == "true"

decision := {"decision": 1} if input.args.what == "one"

decision := {"decision": {"later": "allow"}} if input.args.what == "a promise"

decision := {"decision": "allow", "n": 1 / (count(input.args.what) - 5)} if input.args.what == "throw"
`

func newWorld(t testing.TB, wait time.Duration) *world {
	t.Helper()
	return worldOn(t, wait, nil)
}

// worldOn is a world whose folder somebody has prepared.
func worldOn(t testing.TB, wait time.Duration, prepare func(dir string)) *world {
	t.Helper()
	return worldWith(t, wait, prepare, nil)
}

func worldWith(t testing.TB, wait time.Duration, prepare func(dir string), change func(*placet.Options)) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), change: change, outside: map[string]bool{}, entered: make(chan struct{}, 1), release: make(chan struct{}, 1)}
	for name, text := range map[string]string{
		"placet.yaml": fmt.Sprintf(settings, wait), "tools.yaml": "version: 1\n", "policy/said.rego": rule,
	} {
		path := filepath.Join(w.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if prepare != nil {
		prepare(w.dir)
	}
	var err error
	if w.local, err = identity.NewLocal(placet.LocalIssuer, rand.Reader, w.now); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.handler.RLock()
		h := w.handler.Handler
		w.handler.RUnlock()
		h.ServeHTTP(rw, r)
	}))
	w.url = "http://" + server.Listener.Addr().String()
	w.open()
	server.Start()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		if err := w.placet.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

func (w *world) open() {
	w.t.Helper()
	c, err := config.Load(filepath.Join(w.dir, "placet.yaml"))
	if err != nil {
		w.t.Fatal(err)
	}
	c.PublicURL = w.url
	o := placet.Options{Config: c, Local: w.local, Tenants: []string{"acme"}, Tools: w.tools(), Clock: w.now}
	if w.change != nil {
		w.change(&o)
	}
	w.placet, err = placet.Open(context.Background(), o)
	if err != nil {
		w.t.Fatal(err)
	}
	w.handler.Lock()
	defer w.handler.Unlock()
	w.handler.Handler = w.placet.Handler()
}

// now is the server's time.
func (w *world) now() time.Time { return time.Now().Add(time.Duration(w.ahead.Load())) }

// restart opens the server anew on what it recorded.
func (w *world) restart() {
	w.t.Helper()
	if err := w.placet.Close(); err != nil {
		w.t.Fatal(err)
	}
	w.open()
}

// tools are those of the rows. Each writes what it did, and for which row, into
// the ledger, before it does anything else.
func (w *world) tools() []placet.Tool {
	schema := json.RawMessage(`{"type":"object","properties":{"row":{"type":"string"},"what":{"type":"string"}},"required":["row","what"],"additionalProperties":false}`)
	typed := json.RawMessage(`{"type":"object","properties":{"row":{"type":"string"},"n":{"type":"integer"},"unit":{"type":"string","default":"EUR"}},"required":["row","n"],"additionalProperties":false}`)
	zero := 0
	tool := func(name string, when registry.When) placet.Tool {
		e := registry.Entry{Write: true, Scope: "work", Sources: []registry.SourceName{"witnessed", "vouched", "direct"}, PerMinute: &zero, Concurrent: &zero,
			Approval: registry.Asking{When: when, Approvers: []string{"group:leads"}, Quorum: 1, Expires: time.Hour}}
		return placet.Tool{Name: name, InputSchema: schema, Entry: e, Handler: func(_ context.Context, c local.Call) (json.RawMessage, error) {
			w.mu.Lock()
			w.lines = append(w.lines, c.Tool+" "+string(c.Arguments))
			w.mu.Unlock()
			switch name {
			case "slow":
				w.entered <- struct{}{}
				<-w.release
			case "breaks":
				return nil, errors.New("the connection was lost")
			}
			return json.RawMessage(`{"content":[{"type":"text","text":"done"}]}`), nil
		}}
	}
	out := []placet.Tool{tool("note", registry.Asked), tool("said", registry.Asked)}
	for _, name := range []string{"send", "edit", "east_delete", "west_delete", "constructor", "slow", "breaks", "typed"} {
		out = append(out, tool(name, registry.Always))
	}
	out[len(out)-1].InputSchema = typed
	return out
}

// ledger is what the tools did for a row, in the words of the table.
func (w *world) ledger(row string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for _, line := range w.lines {
		tool, text, _ := strings.Cut(line, " ")
		var args struct{ Row, What string }
		if err := json.Unmarshal([]byte(text), &args); err != nil || args.Row != row {
			continue
		}
		if args.What == "" {
			args.What = text
		}
		out = append(out, tool+" "+args.What)
	}
	return out
}

// token is for proposing as somebody (user, user/agent or user/agent@tenant) through an
// agent, or for answering.
func (w *world) token(subject string, answers bool) string {
	w.t.Helper()
	subject, tenant, _ := strings.Cut(subject, "@")
	subject, agent, _ := strings.Cut(subject, "/")
	s := identity.TokenSpec{Audience: w.url + "/mcp", Subject: subject, Tenant: cmp.Or(tenant, "acme"), Agent: cmp.Or(agent, "bot"), Scopes: []string{"work"}}
	if w.outside[subject] {
		s.Scopes = nil
	}
	if answers {
		s = identity.TokenSpec{Audience: w.url + "/console", Subject: subject, Tenant: "acme", Groups: []string{"leads", "readers"}}
	}
	text, err := w.local.Sign(s)
	if err != nil {
		w.t.Fatal(err)
	}
	return text
}

// send asks the HTTP API, or raw MCP, and returns all of the answer.
func (w *world) send(ctx context.Context, token, method, path, body string, header ...string) (int, []byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, w.url+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, text, err
}
