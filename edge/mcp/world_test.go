package mcp_test

import (
	"bytes"
	"context"
	"crypto/rand"
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

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/placet-dev/placet/dispatch"
	edge "github.com/placet-dev/placet/edge/mcp"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/policy"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
	"github.com/placet-dev/placet/store/sqlite"
	"github.com/placet-dev/placet/tool/mcp"
)

const (
	audience = "https://tools.example.com/mcp"
	console  = "https://tools.example.com/console"
)

// ledger is the upstream's own record of effects: the oracle of these tests.
type ledger struct {
	mu      sync.Mutex
	entries []string
}

func (l *ledger) add(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = append(l.entries, fmt.Sprintf(format, args...))
}

func (l *ledger) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string{}, l.entries...)
}

// world is the whole path: a client of the test's choice, the door, the real
// boundary on a real store, and a real MCP server behind it.
type world struct {
	t        testing.TB
	ledger   *ledger
	server   *httptest.Server
	boundary *dispatch.Boundary
	door     *edge.Handler
	store    *sqlite.Store
	issuer   *identity.Local
	verifier *identity.Verifier
	ignored  map[string]int
	mu       sync.Mutex
	slow     chan struct{} // closed to let the slow tool go on
	started  chan struct{} // the slow tool says that it runs
}

const tools = `version: 1
servers: {up: {url: %q, input_required: true, tools_max_age: 1h}}
defaults: {per_minute: 100000, concurrent: 1000, timeout: 10s}
tools:
  echo: {server: up, scope: use, read: true}
  pay: {server: up, scope: use, write: true, sources: [direct, vouched], approval: {when: asked}, repeat: {answer: return}}
  ask_pay: {server: up, tool: pay, scope: use, write: true, sources: [direct], approval: {when: always, approvers: ["group:leads"], self: true}}
  secret_pay: {server: up, tool: pay, scope: "admin:use", write: true, sources: [direct], approval: {when: asked}}
  raw: {server: up, scope: use, read: true}
  steps: {server: up, scope: use, read: true}
  slow: {server: up, scope: use, write: true, sources: [direct], approval: {when: asked}}
  breaks: {server: up, scope: use, write: true, sources: [direct], approval: {when: asked}}
  asks: {server: up, scope: use, read: true}
  mirror: {server: up, scope: use, read: true}
  bobs: {server: up, tool: echo, read: true, callers: {principals: ["bob@local"]}}
`

// newWorld builds it. change may alter the door's options.
func newWorld(t testing.TB, change func(*edge.Options)) *world {
	t.Helper()
	return newWorldOver(t, change, nil, tools)
}

// newWorldOver builds it over another tool server.
func newWorldOver(t testing.TB, change func(*edge.Options), upstream func(*ledger) http.Handler, tools string) *world {
	t.Helper()
	w := &world{t: t, ledger: &ledger{}, ignored: map[string]int{}, slow: make(chan struct{}), started: make(chan struct{}, 100)}
	handler := w.upstream()
	if upstream != nil {
		handler = upstream(w.ledger)
	}
	up := httptest.NewServer(handler)
	t.Cleanup(func() { up.CloseClientConnections(); up.Close() })
	ctx := context.Background()

	var err error
	if w.issuer, err = identity.NewLocal("local", rand.Reader, time.Now); err != nil {
		t.Fatal(err)
	}
	issuer, err := w.issuer.Issuer(audience, console, []string{"acme", "globex"})
	if err != nil {
		t.Fatal(err)
	}
	w.verifier, err = identity.New(identity.Config{Issuers: []identity.Issuer{issuer}, Workloads: []identity.WorkloadKey{
		{Name: "app", KeyHash: identity.HashKey(vouchKey), Tenant: "acme", Permissions: []identity.Permission{identity.Propose, identity.Vouch}},
		{Name: "eyes", KeyHash: identity.HashKey(readKey), Tenant: "acme", Permissions: []identity.Permission{identity.Read}},
	}}, identity.Deps{Clock: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	if w.store, err = sqlite.Open(ctx, filepath.Join(t.TempDir(), "state.db"), sqlite.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.store.Close() })

	invoker := mcp.New(mcp.Options{})
	t.Cleanup(func() { _ = invoker.Close() })
	if strings.Contains(tools, "%q") {
		tools = fmt.Sprintf(tools, up.URL)
	}
	snapshot := load(t, tools, invoker)
	if w.boundary, err = dispatch.New(dispatch.Options{Store: w.store, Invoker: invoker, Clock: time.Now, Random: rand.Reader,
		Limits: dispatch.Limits{CallsPerRun: 1 << 40, ProposalsOpen: 1 << 20, OpenInTurn: 1 << 20, OpenOfOne: 1 << 20}}); err != nil {
		t.Fatal(err)
	}
	set, err := policy.NewSet(nil, time.Second, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.boundary.Activate(ctx, dispatch.Active{Registry: snapshot, Policy: set, Digest: "test", Environment: "test",
		Approver: func(ref string, part *record.ApprovalPart) error {
			part.Groups = append(part.Groups, record.Group{Issuer: "local", Name: strings.TrimPrefix(ref, "group:")})
			return nil
		}}, record.Who{System: "test"}); err != nil {
		t.Fatal(err)
	}

	o := edge.Options{Boundary: w.boundary, Verifier: w.verifier, Clock: time.Now, Random: rand.Reader, Tool: snapshot.Tool,
		Wait: 50 * time.Millisecond, ProgressEvery: 10 * time.Millisecond,
		Ignored: func(what string) { w.mu.Lock(); defer w.mu.Unlock(); w.ignored[what]++ }}
	if change != nil {
		change(&o)
	}
	if w.door, err = edge.New(o); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	w.door.Mount(mux)
	w.server = httptest.NewServer(mux)
	t.Cleanup(func() { w.door.Close(); w.server.CloseClientConnections(); w.server.Close() })
	return w
}

// load parses a registry and pins what its servers offer, as an operator would.
func load(t testing.TB, text string, invoker *mcp.Invoker) *registry.Snapshot {
	t.Helper()
	o := registry.Options{Environment: "test",
		Principal: func(ref string) (record.Principal, error) {
			subject, issuer, _ := strings.Cut(ref, "@")
			return record.Principal{Issuer: issuer, Subject: subject}, nil
		}}
	first, err := registry.Parse([]registry.Source{{Name: "tools.yaml", Text: []byte(text)}}, o)
	if err != nil {
		t.Fatal(err)
	}
	lock := registry.NewLock()
	for server := range first.Servers() {
		offers, err := invoker.ListOffers(context.Background(), server)
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(first.Quarantined(), func(q registry.Quarantine) bool { return q.Tool.Method != registry.MethodTool }) {
			readable, err := invoker.ListReadable(context.Background(), server)
			if err != nil {
				t.Fatal(err)
			}
			offers = append(offers, readable...)
		}
		if len(server.Command) > 0 {
			program, err := os.Open(server.Command[0])
			if err != nil {
				t.Fatal(err)
			}
			digest, err := registry.ExecutableDigest(program)
			_ = program.Close()
			if err != nil {
				t.Fatal(err)
			}
			lock.Servers[server.Name] = registry.ServerPin{Executable: digest}
		}
		for _, q := range first.Quarantined() {
			for _, offer := range offers {
				if q.Tool.Server == server.Name && q.Tool.Offered() == offer.Key() {
					pin, err := registry.PinOf(offer)
					if err != nil {
						t.Fatal(err)
					}
					lock.Tools[q.Tool.Name] = registry.LockedTool{Server: server.Name, Pin: pin}
				}
			}
		}
	}
	pins, err := lock.Write()
	if err != nil {
		t.Fatal(err)
	}
	snapshot, err := registry.Parse([]registry.Source{{Name: "tools.yaml", Text: []byte(text), Lock: pins}}, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range snapshot.Quarantined() {
		t.Fatalf("%s is quarantined: %s", q.Tool.Name, q.Reason)
	}
	return snapshot
}

const readKey = "plk_0123456789abcdefghijklmnopqrstuvwxyzABCDEFH"

const vouchKey = "plk_0123456789abcdefghijklmnopqrstuvwxyzABCDEFG"

// rawResult holds what an SDK would change: a number beyond doubles, members
// nobody knows.
const rawResult = `{"content":[{"type":"text","text":"x","unknown":[1.50,2e3]}],"structuredContent":{"n":9007199254740993},"other":{"b":1,"a":2}}`

type rawAnswer struct {
	sdk.ResultBase
	text string
}

func (r *rawAnswer) MarshalJSON() ([]byte, error) { return []byte(r.text), nil }

// upstream is the MCP server whose tools count their effects.
func (w *world) upstream() http.Handler {
	s := sdk.NewServer(&sdk.Implementation{Name: "up", Version: "1"}, nil)
	add := func(name, schema string, h sdk.ToolHandler) {
		s.AddTool(&sdk.Tool{Name: name, Description: "Does " + name + ".", InputSchema: json.RawMessage(schema)}, h)
	}
	text := func(s string) *sdk.CallToolResult {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: s}}}
	}
	effect := func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		w.ledger.add("%s %s", r.Params.Name, r.Params.Arguments)
		return text(r.Params.Name + " " + string(r.Params.Arguments)), nil
	}
	const any = `{"type":"object","additionalProperties":true}`
	add("echo", any, effect)
	add("pay", any, effect)
	add("delete_file", any, effect) // never admitted
	add("raw", any, effect)
	add("mirror", `{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"n":{"type":"integer","x-mcp-header":"N"}}}`, effect)
	add("steps", any, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		if token := r.Params.GetProgressToken(); token != nil {
			for i := range 3 {
				_ = r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: token, Progress: float64(i + 1), Total: 3})
			}
		}
		return text("done"), nil
	})
	add("slow", any, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		w.started <- struct{}{}
		select {
		case <-w.slow:
		case <-ctx.Done():
		}
		return effect(ctx, r)
	})
	add("breaks", any, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		res, err := effect(ctx, r)
		res.IsError = true
		return res, err
	})
	add("asks", any, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		if len(r.Params.InputResponses) > 0 {
			w.ledger.add("asks state=%q", r.Params.RequestState)
			return text("thanks"), nil
		}
		var args struct{ Kind string }
		_ = json.Unmarshal(r.Params.Arguments, &args)
		q := map[string]sdk.InputRequest{
			"url":  &sdk.ElicitParams{Mode: "url", Message: "open", URL: "https://evil.example.com", ElicitationID: "e"},
			"form": &sdk.ElicitParams{Mode: "form", Message: "your name?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{}}`)},
		}
		if q[args.Kind] == nil {
			return text("nothing to ask"), nil
		}
		return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{"q": q[args.Kind]}, RequestState: "upstream's own"}, nil
	})
	s.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
			if p, ok := r.GetParams().(*sdk.CallToolParamsRaw); ok && method == "tools/call" && p.Name == "raw" {
				w.ledger.add("raw %s", p.Arguments)
				return &rawAnswer{text: rawResult}, nil
			}
			return next(ctx, method, r)
		}
	})
	return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, &sdk.StreamableHTTPOptions{Stateless: true})
}

// token signs one for a user of the acme tenant, unless told otherwise.
func (w *world) token(subject string, change ...func(*identity.TokenSpec)) string {
	w.t.Helper()
	spec := identity.TokenSpec{Audience: audience, Subject: subject, Tenant: "acme", Agent: "bot", Scopes: []string{"use"}}
	for _, f := range change {
		f(&spec)
	}
	text, err := w.issuer.Sign(spec)
	if err != nil {
		w.t.Fatal(err)
	}
	return text
}

// approve answers the open question of a call as a person of the group.
func (w *world) approve(call record.CallID, word record.Word) {
	w.t.Helper()
	ctx := context.Background()
	text, err := w.issuer.Sign(identity.TokenSpec{Audience: console, Subject: "lena", Tenant: "acme", Groups: []string{"leads"}})
	if err != nil {
		w.t.Fatal(err)
	}
	person, err := w.verifier.Person(ctx, text)
	if err != nil {
		w.t.Fatal(err)
	}
	l, err := w.store.Call(ctx, "acme", call)
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.boundary.Reply(ctx, person, l.Approval.ID, l.Approval.Binding, word, ""); err != nil {
		w.t.Fatal(err)
	}
}

// until waits for a condition.
func (w *world) until(what string, ok func() bool) {
	w.t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatalf("waited in vain for %s", what)
		}
	}
}

// pending returns the calls that wait for approval.
func (w *world) calls(states ...record.State) []record.Call {
	w.t.Helper()
	calls, err := w.store.Calls(context.Background(), dispatch.CallQuery{Tenant: "acme", States: states})
	if err != nil {
		w.t.Fatal(err)
	}
	return calls
}

// events returns the kinds of all events.
func (w *world) events() []record.Event {
	w.t.Helper()
	events, err := w.store.Events(context.Background(), dispatch.EventQuery{Tenant: "acme", Limit: 500})
	if err != nil {
		w.t.Fatal(err)
	}
	return events
}

func (w *world) refusals() int {
	n := 0
	for _, e := range w.events() {
		if e.Kind == record.EventRefused {
			n++
		}
	}
	return n
}

// effects compares the ledger.
func (w *world) effects(want ...string) {
	w.t.Helper()
	if diff := cmp.Diff(append([]string{}, want...), w.ledger.all()); diff != "" {
		w.t.Fatalf("effects (-want +got):\n%s", diff)
	}
}

// answer is what came back over HTTP.
type answer struct {
	status int
	header http.Header
	body   string
	events []string // data of server-sent events
}

type rpc struct {
	ID     json.RawMessage `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int             `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	} `json:"error"`
}

func (a answer) rpc(t testing.TB) rpc {
	t.Helper()
	text := a.body
	if len(a.events) > 0 {
		text = a.events[len(a.events)-1]
	}
	var m rpc
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		t.Fatalf("status %d, body %q: %v", a.status, a.body, err)
	}
	return m
}

type toolResult struct {
	ResultType string `json:"resultType"`
	Content    []struct{ Type, Text string }
	IsError    bool `json:"isError"`
	Structured any  `json:"structuredContent"`
	Inputs     map[string]struct {
		Method string
		Params map[string]any
	} `json:"inputRequests"`
	State string                     `json:"requestState"`
	Meta  map[string]json.RawMessage `json:"_meta"`
}

func (a answer) tool(t testing.TB) toolResult {
	t.Helper()
	m := a.rpc(t)
	if m.Error != nil {
		t.Fatalf("JSON-RPC error %d: %s", m.Error.Code, m.Error.Message)
	}
	var r toolResult
	if err := json.Unmarshal(m.Result, &r); err != nil {
		t.Fatalf("%s: %v", m.Result, err)
	}
	return r
}

func (r toolResult) text() string {
	var out []string
	for _, c := range r.Content {
		out = append(out, c.Text)
	}
	return strings.Join(out, "\n")
}

func (r toolResult) decision(t testing.TB) dispatch.Meta {
	t.Helper()
	var m dispatch.Meta
	if err := json.Unmarshal(r.Meta["dev.placet/decision"], &m); err != nil {
		t.Fatalf("no decision: %v", err)
	}
	return m
}

// post sends bytes as they are.
func (w *world) post(token, body string, header map[string]string) answer {
	w.t.Helper()
	a, err := w.send(context.Background(), token, body, header)
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

func (w *world) send(ctx context.Context, token, body string, header map[string]string) (answer, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.server.URL+"/mcp", strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for k, v := range header {
		r.Header.Del(k)
		if v != "" {
			r.Header.Set(k, v)
		}
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	a := answer{status: resp.StatusCode, header: resp.Header, body: string(text)}
	for line := range bytes.SplitSeq(text, []byte("\n")) {
		if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
			a.events = append(a.events, string(data))
		}
	}
	return a, err
}

const modernMeta = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}`

// modern sends a well-formed message of the newest revision.
func (w *world) modern(token, method, params string, header ...string) answer {
	w.t.Helper()
	h := map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method}
	for i := 0; i < len(header); i += 2 {
		h[header[i]] = header[i+1]
	}
	return w.post(token, `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`, h)
}

// call calls a tool as a modern client.
func (w *world) call(token, name, arguments string, extra ...string) answer {
	w.t.Helper()
	return w.modern(token, "tools/call", callParams(name, arguments, extra...), "Mcp-Name", name)
}

// callParams takes extra as: members of _meta, members of params.
func callParams(name, arguments string, extra ...string) string {
	meta, params := modernMeta, ""
	if len(extra) > 0 && extra[0] != "" {
		meta += "," + extra[0]
	}
	if len(extra) > 1 && extra[1] != "" {
		params = "," + extra[1]
	}
	return fmt.Sprintf(`{"name":%q,"arguments":%s,"_meta":{%s}%s}`, name, arguments, meta, params)
}
