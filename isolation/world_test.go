package isolation_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
)

// binary is the program, built once for all tests.
var binary string

func TestMain(m *testing.M) { os.Exit(built(m)) }

func built(m *testing.M) int {
	dir, err := os.MkdirTemp("", "placet-isolation-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "placet")
	if out, err := exec.Command("go", "build", "-o", binary, "../cmd/placet").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
		return 1
	}
	code := m.Run()
	if total.cells.Load() > 0 {
		fmt.Printf("isolation: %d/%d\n", total.passed.Load(), total.cells.Load())
	}
	return code
}

// ledger is the tool server's own account of its effects.
type ledger struct {
	mu    sync.Mutex
	lines []string
}

// effect writes a line and returns a receipt that nobody can guess.
func (l *ledger) effect(tool string, arguments json.RawMessage) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, tool+" "+string(arguments))
	return "receipt-" + rand.Text()
}

func (l *ledger) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.lines)
}

// world is one running server with a desk behind it and callers before it.
type world struct {
	t       testing.TB
	dir     string
	url     string
	ledger  *ledger
	made    int // objects so far, for names
	client  *http.Client
	callers map[string]credentials
	issuers map[bool]*identity.Local // by whether their tokens have expired
}

const files = `version: 1
environment: test
listen: 127.0.0.1:0
store: sqlite:state.db
registry: [tools.yaml]
workloads:
  orchestrator: {key: "file:orchestrator.hash", permissions: [propose, vouch]}
permissions: {operate: ["group:ops"], read: ["group:readers"]}
runs: {calls_per_run: 100000, calls_per_turn: 100000, proposals_open: 10000, proposals_open_turn: 10000, proposals_open_principal: 10000}
approvals: {wait: 1500ms}
telemetry: {log: error}
checkpoint: {every: 100ms}
`

const tools = `version: 1
servers:
  desk: {url: %q, stateless: true}
  app: {lease: true}
defaults: {per_minute: 0, concurrent: 0, timeout: 5s}
tools:
  act: {server: desk, scope: "notes:use", write: true, sources: [direct, vouched], approval: {when: asked}}
  break: {server: desk, scope: "notes:use", write: true, sources: [direct, vouched], approval: {when: asked}}
  file: {server: desk, scope: "notes:use", write: true, sources: [direct, vouched], approval: {when: always, approvers: ["group:leads"]}}
  here: {server: app, scope: "notes:use", write: true, sources: [direct, vouched], approval: {when: asked}, timeout: 10m, schema: here.json}
  later: {server: desk, scope: "notes:use", write: true, sources: [direct, vouched], approval: {when: asked}, dispatch: queued}
  later_break: {server: desk, scope: "notes:use", write: true, sources: [direct, vouched], approval: {when: asked}, dispatch: queued}
  note: {server: desk, resource: "desk://notes/{id}", scope: "notes:use", read: true}
  filed: {server: desk, resource: "desk://files/{id}", scope: "notes:use", read: true, approval: {when: always, approvers: ["group:leads"]}}
  brief: {server: desk, prompt: brief, scope: "notes:use", read: true}
  ids: {server: desk, completes: brief, scope: "notes:use", read: true}
`

// newWorld starts everything. The server is the program itself, as its own process.
func newWorld(t testing.TB) *world {
	t.Helper()
	sources(t)
	w := &world{t: t, dir: t.TempDir(), ledger: &ledger{}, client: &http.Client{Timeout: time.Minute}, callers: map[string]credentials{}}
	desk := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return newDesk(w.ledger) },
		&mcp.StreamableHTTPOptions{Stateless: true}))
	t.Cleanup(desk.Close)
	w.write("placet.yaml", files+w.models())
	w.write("tools.yaml", fmt.Sprintf(tools, desk.URL))
	key := w.mustRun("keys", "new", "orchestrator.hash")
	w.write("here.json", `{"type":"object","properties":{"id":{"type":"string"}},"required":["id"]}`)
	w.mustRun("tools", "lock", "desk")
	w.mustRun("tools", "lock", "app")
	w.start()
	w.introduce(key)
	return w
}

// sources looks at every file that the program is made of. The go command
// remembers what a passing test has looked at, and else would not run this one
// again when they change: they are not in its own binary.
func sources(t testing.TB) {
	t.Helper()
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != ".." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return fs.SkipDir
		case strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go"):
			_, err = os.Stat(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func newDesk(l *ledger) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "desk", Version: "1"}, &mcp.ServerOptions{
		CompletionHandler: func(_ context.Context, r *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
			return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: []string{l.effect("ids", json.RawMessage(r.Params.Argument.Value))}}}, nil
		}})
	for _, template := range []string{"desk://notes/{id}", "desk://files/{id}"} {
		s.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: template, Name: "Notes"}, func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI, Text: l.effect("read", json.RawMessage(r.Params.URI))}}}, nil
		})
	}
	s.AddPrompt(&mcp.Prompt{Name: "brief", Arguments: []*mcp.PromptArgument{{Name: "id"}}}, func(_ context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: l.effect("brief", json.RawMessage(r.Params.Arguments["id"]))}}}}, nil
	})
	schema := json.RawMessage(`{"type":"object","properties":{"id":{"type":"string"}},"required":["id"]}`)
	for _, name := range []string{"act", "break", "file", "later", "later_break"} {
		s.AddTool(&mcp.Tool{Name: name, Description: "Writes a note.", InputSchema: schema},
			func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				receipt := l.effect(name, r.Params.Arguments)
				return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: receipt}}, IsError: strings.HasSuffix(name, "break")}, nil
			})
	}
	return s
}

func (w *world) write(name, text string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// command is the program with an environment that holds credentials and no others.
func (w *world) command(c credentials, args ...string) *exec.Cmd {
	cmd := exec.Command(binary, args...)
	cmd.Dir = w.dir
	cmd.Env = []string{"HOME=" + w.dir, "PLACET_TOKEN=" + c.bearer, "PLACET_WORKLOAD_KEY=" + c.key}
	return cmd
}

func (w *world) mustRun(args ...string) string {
	w.t.Helper()
	out, err := w.command(credentials{}, args...).CombinedOutput()
	if err != nil {
		w.t.Fatalf("placet %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// start runs placet dev and reads where it listens.
func (w *world) start() {
	w.t.Helper()
	cmd := w.command(credentials{}, "dev", "--json", "--tenants", "acme,globex")
	out, err := cmd.StdoutPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	t := w.t // each row has its own later on
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil || errs.Len() > 0 {
			t.Errorf("the server ended with %v, and said:\n%s", err, errs.String())
		}
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var at struct{ URL string }
		if json.Unmarshal(lines.Bytes(), &at) == nil && at.URL != "" {
			w.url = at.URL
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return
		}
	}
	w.t.Fatalf("the server ended before it listened:\n%s", errs.String())
}

// sign makes a token with the server's own issuer, from the file of its key.
func (w *world) sign(expired bool, s identity.TokenSpec) credentials {
	w.t.Helper()
	if w.issuers == nil {
		w.issuers = map[bool]*identity.Local{}
		for expired, clock := range map[bool]func() time.Time{false: time.Now, true: func() time.Time { return time.Now().Add(-2 * time.Hour) }} {
			l, err := identity.LoadLocal(filepath.Join(w.dir, ".placet", "dev-issuer.json"), rand.Reader, clock)
			if err != nil {
				w.t.Fatal(err)
			}
			w.issuers[expired] = l
		}
	}
	text, err := w.issuers[expired].Sign(s)
	if err != nil {
		w.t.Fatal(err)
	}
	return credentials{bearer: text}
}

// request is one HTTP request.
type request struct {
	method, path string
	body         string
	header       map[string]string
	stream       bool // do not wait for the end of an answer that has begun well
}

// reply is all that its caller learns.
type reply struct {
	status int
	header http.Header
	body   string
}

func (w *world) send(c credentials, q request) reply {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, q.method, w.url+q.path, strings.NewReader(q.body))
	if err != nil {
		w.t.Fatal(err)
	}
	if q.body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.bearer != "" {
		r.Header.Set("Authorization", "Bearer "+c.bearer)
	}
	if c.key != "" {
		r.Header.Set("Placet-Workload", c.key)
	}
	for name, value := range q.header {
		r.Header.Set(name, value)
	}
	res, err := w.client.Do(r)
	if err != nil {
		w.t.Fatalf("%s %s: %v", q.method, q.path, err)
	}
	defer res.Body.Close()
	out := reply{status: res.StatusCode, header: res.Header}
	if q.stream && res.StatusCode == http.StatusOK {
		out.body = firstOf(res.Body)
		return out
	}
	text, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatalf("%s %s: %v", q.method, q.path, err)
	}
	out.body = string(text)
	return out
}

// firstOf reads a stream up to its first pause: a comment, or the end of the event
// that acknowledges a subscription.
func firstOf(r io.Reader) string {
	var text strings.Builder
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), ":") {
			break
		}
		text.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), "notifications/subscriptions") {
			break
		}
	}
	return text.String()
}

// ok sends what must succeed and decodes the answer.
func (w *world) ok(c credentials, q request, out any) {
	w.t.Helper()
	r := w.send(c, q)
	if r.status >= 300 {
		w.t.Fatalf("%s %s: %d %s", q.method, q.path, r.status, r.body)
	}
	if err := json.Unmarshal([]byte(r.body), out); err != nil {
		w.t.Fatalf("%s %s: %v", q.method, q.path, err)
	}
}

// newID makes an ID of the right form that nobody has.
func newID(t testing.TB, prefix string) string {
	t.Helper()
	id, err := record.NewID(prefix, time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return id
}
