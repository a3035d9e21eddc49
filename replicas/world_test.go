// Package replicas tests several processes of the program on one database, behind a
// load balancer that sends each request to whichever comes next.
package replicas

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/store/postgres"
	"github.com/placet-dev/placet/store/postgres/pgtest"
	"github.com/placet-dev/placet/verify"
)

// binary is the program, built once for all tests.
var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "placet-replicas-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	binary = filepath.Join(dir, "placet")
	if out, err := exec.Command("go", "build", "-o", binary, "../cmd/placet").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
		os.Exit(1)
	}
	code := pgtest.Main(m)
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// desk is a tool server that keeps its own account. What is called slow waits until
// the test lets it go on, or its caller gives it up.
type desk struct {
	mu    sync.Mutex
	deeds []deed
	began chan string   // a slow call has come
	ended chan error    // and has ended
	gate  chan struct{} // lets slow calls go on
	ahead atomic.Int64  // by how much the clock of its verifier is
}

// deed is one line of its account.
type deed struct {
	at   time.Time
	line string
	key  string // by which Placet names the call's effect
}

func (d *desk) note(line, key string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.deeds = append(d.deeds, deed{time.Now(), line, key})
}

func (d *desk) account() []deed {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.deeds)
}

func (d *desk) did() (lines []string) {
	for _, deed := range d.account() {
		lines = append(lines, deed.line)
	}
	return lines
}

func (d *desk) server() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "desk", Version: "1"}, nil)
	schema := json.RawMessage(`{"type":"object","properties":{"id":{"type":"string"}},"required":["id"]}`)
	for _, name := range []string{"act", "file", "slow"} {
		s.AddTool(&mcp.Tool{Name: name, Description: "Writes a note.", InputSchema: schema}, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			if name == "slow" {
				d.began <- string(r.Params.Arguments)
				select {
				case <-d.gate:
				case <-ctx.Done():
					d.ended <- ctx.Err()
					return nil, ctx.Err()
				}
				d.ended <- nil
			}
			key, _ := r.Params.Meta["dev.placet/idempotency_key"].(string)
			d.note(name+" "+string(r.Params.Arguments), key)
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done " + name}}}, nil
		})
	}
	return s
}

// world is replicas of the program with a desk behind them and callers before them.
type world struct {
	t        testing.TB
	dir      string
	database string
	env      []string
	desk     *desk
	issuer   *identity.Local
	balancer *httptest.Server
	mu       sync.Mutex
	behind   []*replica
	next     atomic.Int64
}

// replica is one process.
type replica struct {
	cmd  *exec.Cmd
	url  string
	errs *bytes.Buffer
	done chan error
}

const settings = `version: 1
environment: test
listen: 127.0.0.1:0
public_url: %s
store: env:PLACET_STORE
secret: env:PLACET_SECRET
registry: [tools.yaml]
issuers:
  - {issuer: "https://idp.test", keys: idp.jwks.json, algorithms: [EdDSA], token_types: [at+jwt], tenant: acme, claims: {subject: sub, agent: client_id, scopes: scope, groups: groups}}
permissions: {operate: ["group:ops"], read: ["group:ops"]}
approvals: {wait: 55s}
stop: {announce: 500ms, finish: 30s}
telemetry: {log: error}
`

const tools = `version: 1
servers:
  desk: {url: %q, dispatch_token: true}
  app: {lease: true}
defaults: {per_minute: 0, concurrent: 0, timeout: 1s}
tools:
  act: {server: desk, scope: "notes:use", write: true, sources: [direct], approval: {when: asked}}
  slow: {server: desk, scope: "notes:use", write: true, sources: [direct], approval: {when: asked}, timeout: 50s}
  file: {server: desk, scope: "notes:use", write: true, sources: [direct], approval: {when: always, approvers: ["group:leads"]}}
  here: {server: app, scope: "notes:use", write: true, sources: [direct], approval: {when: asked}, schema: here.json, timeout: 1m}
`

// newWorld makes the database, the desk and the balancer; start adds replicas.
func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), desk: &desk{began: make(chan string, 8), ended: make(chan error, 8), gate: make(chan struct{}, 8)}}
	server := pgtest.Shared(t)
	w.database = server.Database(t)
	role := "runs_" + w.database
	server.Do(t, w.database, "CREATE ROLE "+role+" LOGIN PASSWORD 's3cret-"+role+"'")
	if err := postgres.Migrate(t.Context(), server.DSN("owner", w.database), role); err != nil {
		t.Fatal(err)
	}
	w.env = []string{"HOME=" + w.dir, "PLACET_STORE=" + server.DSN(role, w.database), "PLACET_SECRET=" + strings.Repeat("0123456789abcdef", 3)}
	w.balancer = httptest.NewServer(&httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		w.mu.Lock()
		defer w.mu.Unlock()
		to, err := url.Parse(w.behind[int(w.next.Add(1))%len(w.behind)].url)
		if err != nil {
			panic(err)
		}
		r.SetURL(to)
		r.Out.Host = r.In.Host
	}})
	t.Cleanup(w.balancer.Close)
	var at http.Handler
	d := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { at.ServeHTTP(rw, r) }))
	t.Cleanup(func() { d.CloseClientConnections(); d.Close() })
	// The desk takes the keys of tokens from the balancer: whichever replica that is.
	tokens, err := verify.New(verify.Options{Issuer: w.balancer.URL, Audience: d.URL, JWKS: w.balancer.URL + verify.KeysPath, Seen: verify.PerProcess(nil),
		Clock: func() time.Time { return time.Now().Add(time.Duration(w.desk.ahead.Load())) }})
	if err != nil {
		t.Fatal(err)
	}
	at = tokens.Middleware(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return w.desk.server() },
		&mcp.StreamableHTTPOptions{Stateless: true, PropagateRequestCancellation: true}))
	if w.issuer, err = identity.NewLocal("https://idp.test", rand.Reader, time.Now); err != nil {
		t.Fatal(err)
	}
	keys, err := w.issuer.JWKS()
	if err != nil {
		t.Fatal(err)
	}
	w.write("idp.jwks.json", string(keys))
	w.write("here.json", `{"type":"object","properties":{"id":{"type":"string"}},"required":["id"]}`)
	w.write("placet.yaml", fmt.Sprintf(settings, w.balancer.URL))
	w.write("tools.yaml", fmt.Sprintf(tools, d.URL))
	w.run("tools", "lock", "desk")
	w.run("tools", "lock", "app")
	return w
}

func (w *world) write(name, text string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) read(name string) string {
	w.t.Helper()
	text, err := os.ReadFile(filepath.Join(w.dir, name))
	if err != nil {
		w.t.Fatal(err)
	}
	return string(text)
}

func (w *world) command(args ...string) *exec.Cmd {
	cmd := exec.Command(binary, args...)
	cmd.Dir, cmd.Env = w.dir, w.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

func (w *world) run(args ...string) string {
	w.t.Helper()
	out, err := w.command(args...).CombinedOutput()
	if err != nil {
		w.t.Fatalf("placet %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// start adds a replica.
func (w *world) start() *replica {
	w.t.Helper()
	r := &replica{cmd: w.command("serve", "--json"), errs: &bytes.Buffer{}, done: make(chan error, 1)}
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	r.cmd.Stderr = r.errs
	if err := r.cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var at struct{ Listening string }
		if json.Unmarshal(lines.Bytes(), &at) == nil && at.Listening != "" {
			r.url = "http://" + at.Listening
			break
		}
	}
	if r.url == "" {
		w.t.Fatalf("the server ended before it listened: %v\n%s", r.cmd.Wait(), r.errs)
	}
	go func() { _, _ = io.Copy(io.Discard, out); r.done <- r.cmd.Wait() }()
	w.t.Cleanup(func() {
		if r.cmd.ProcessState == nil {
			_ = r.cmd.Process.Kill()
		}
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.behind = append(w.behind, r)
	return r
}

// token is a caller's, or an approver's where groups are given.
func (w *world) token(who string, groups ...string) string {
	w.t.Helper()
	s := identity.TokenSpec{Audience: w.balancer.URL + "/mcp", Subject: who, Tenant: "acme", Agent: "bot", Scopes: []string{"notes:use"}}
	if len(groups) > 0 {
		s = identity.TokenSpec{Audience: w.balancer.URL + "/console", Subject: who, Tenant: "acme", Groups: groups}
	}
	text, err := w.issuer.Sign(s)
	if err != nil {
		w.t.Fatal(err)
	}
	return text
}

// reply is all that a caller learns.
type reply struct {
	status int
	header http.Header
	body   string
}

func (r reply) into(t testing.TB, out any) {
	t.Helper()
	if err := json.Unmarshal([]byte(r.body), out); err != nil {
		t.Fatalf("%d %s: %v", r.status, r.body, err)
	}
}

// send sends a request to a replica, or to the balancer.
func (w *world) send(to, token, method, path, body string, header ...string) (reply, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, to+path, strings.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set("Authorization", "Bearer "+token)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	r.GetBody, r.Close = nil, true
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return reply{}, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return reply{res.StatusCode, res.Header, string(text)}, err
}

func (w *world) must(to, token, method, path, body string, header ...string) reply {
	w.t.Helper()
	r, err := w.send(to, token, method, path, body, header...)
	if err != nil || r.status >= 300 {
		w.t.Fatalf("%s %s: %d %s %v", method, path, r.status, r.body, err)
	}
	return r
}

// call is a tools/call in the newest revision.
func (w *world) call(to, token, tool, arguments, more string) (reply, error) {
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `","arguments":` + arguments + more +
		`,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	return w.send(to, token, "POST", "/mcp", body, "Accept", "application/json, text/event-stream", "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", tool)
}

// answer is what the API says of a call.
type answer struct {
	Call, State string
	Lease       struct {
		Attempt int
		Secret  string
	}
}

// question is what a person is asked.
type question struct{ call, approval, binding string }

// question waits until somebody is asked, and returns what.
func (w *world) question(at string) question {
	w.t.Helper()
	var q struct {
		Approvals []struct {
			ID, Binding string
			Call        struct{ ID string }
		}
	}
	until(w.t, "a question is asked", func() bool {
		w.must(at, w.token("lena", "leads"), "GET", "/v1/approvals?state=pending", "").into(w.t, &q)
		return len(q.Approvals) > 0
	})
	a := q.Approvals[0]
	return question{a.Call.ID, a.ID, a.Binding}
}

func (w *world) approve(at string, q question) {
	w.t.Helper()
	w.must(at, w.token("lena", "leads"), "POST", "/v1/approvals/"+q.approval+"/approve", `{"binding":"`+q.binding+`"}`)
}

// until looks patiently until something is so.
func until(t testing.TB, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !so(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it did not happen that %s", what)
		}
	}
}
