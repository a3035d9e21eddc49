package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
)

// The servers of these tests are real ones of the Go SDK. Each writes what it did
// into a ledger, one line per effect, which is the only witness that counts.

// ledger is a file, so that a child process can write it too.
type ledger string

func newLedger(t testing.TB) ledger { return ledger(filepath.Join(t.TempDir(), "ledger")) }

func (l ledger) add(format string, args ...any) {
	f, err := os.OpenFile(string(l), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	fmt.Fprintf(f, format+"\n", args...)
}

func (l ledger) lines() []string {
	text, _ := os.ReadFile(string(l))
	if len(text) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

func (l ledger) count(prefix string) (n int) {
	for _, line := range l.lines() {
		if strings.HasPrefix(line, prefix) {
			n++
		}
	}
	return n
}

// until waits until the ledger holds n lines with the prefix.
func (l ledger) until(t testing.TB, prefix string, n int) {
	t.Helper()
	waitFor(t, fmt.Sprintf("%d lines %q", n, prefix), func() bool { return l.count(prefix) >= n })
}

func waitFor(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("timed out waiting for %s", what)
		}
	}
}

const anySchema = `{"type":"object"}`

// newServer is a server with tools that show what reached it.
func newServer(l ledger) *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "test", Version: "1"}, &sdk.ServerOptions{
		Capabilities:      &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{ListChanged: true}},
		CompletionHandler: completing(l),
	})
	add := func(name, schema string, h func(context.Context, *sdk.CallToolRequest, map[string]any) (*sdk.CallToolResult, error)) {
		s.AddTool(&sdk.Tool{Name: name, Description: "does " + name, InputSchema: json.RawMessage(schema)}, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			var args map[string]any
			if err := json.Unmarshal(r.Params.Arguments, &args); err != nil {
				return nil, err
			}
			return h(ctx, r, args)
		})
	}
	text := func(s string) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: s}}}, nil
	}
	add("echo", anySchema, func(_ context.Context, r *sdk.CallToolRequest, _ map[string]any) (*sdk.CallToolResult, error) {
		key, _ := r.Params.GetMeta()["dev.placet/idempotency_key"].(string)
		l.add("echo %s key=%s", r.Params.Arguments, key)
		return &sdk.CallToolResult{StructuredContent: r.Params.Arguments, Content: []sdk.Content{}}, nil
	})
	add("meta", anySchema, func(_ context.Context, r *sdk.CallToolRequest, _ map[string]any) (*sdk.CallToolResult, error) {
		token, _ := r.Params.GetMeta()["dev.placet/dispatch_token"].(string)
		return text(token)
	})
	add("big", anySchema, func(_ context.Context, _ *sdk.CallToolRequest, a map[string]any) (*sdk.CallToolResult, error) {
		l.add("big")
		return text(strings.Repeat("x", int(a["bytes"].(float64))))
	})
	add("slow", anySchema, func(ctx context.Context, _ *sdk.CallToolRequest, a map[string]any) (*sdk.CallToolResult, error) {
		l.add("started %v", a["name"])
		select {
		case <-ctx.Done():
			l.add("cancelled %v", a["name"])
		case <-time.After(time.Duration(a["ms"].(float64)) * time.Millisecond):
			l.add("finished %v", a["name"])
		}
		return text(fmt.Sprint(a["name"]))
	})
	add("steps", anySchema, func(ctx context.Context, r *sdk.CallToolRequest, a map[string]any) (*sdk.CallToolResult, error) {
		for i := range int(a["n"].(float64)) {
			r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: float64(i + 1), Message: fmt.Sprint(a["name"])})
		}
		return text("done")
	})
	add("fail", anySchema, func(_ context.Context, _ *sdk.CallToolRequest, a map[string]any) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: "no"}}}, nil
	})
	add("die", anySchema, func(context.Context, *sdk.CallToolRequest, map[string]any) (*sdk.CallToolResult, error) {
		l.add("died")
		os.Exit(3)
		return nil, nil
	})
	add("who", anySchema, func(_ context.Context, r *sdk.CallToolRequest, _ map[string]any) (*sdk.CallToolResult, error) {
		return text(fmt.Sprintf("%d %s", os.Getpid(), r.Session.ID()))
	})
	add("env", anySchema, func(context.Context, *sdk.CallToolRequest, map[string]any) (*sdk.CallToolResult, error) {
		return text(strings.Join(os.Environ(), "\n"))
	})
	add("sample", anySchema, func(ctx context.Context, r *sdk.CallToolRequest, _ map[string]any) (*sdk.CallToolResult, error) {
		//lint:ignore SA1019 older servers ask so, and must be refused
		_, err := r.Session.CreateMessage(ctx, &sdk.CreateMessageParams{MaxTokens: 1})
		l.add("sample %v", err != nil)
		return text(fmt.Sprint(err))
	})
	add("ask", anySchema, func(_ context.Context, r *sdk.CallToolRequest, _ map[string]any) (*sdk.CallToolResult, error) {
		if len(r.Params.InputResponses) > 0 {
			l.add("answered %s", r.Params.RequestState)
			return text("thanks")
		}
		return &sdk.CallToolResult{RequestState: "state-1", InputRequests: sdk.InputRequestMap{"q": &sdk.ElicitParams{Mode: "form", Message: "sure?"}}}, nil
	})
	add("region", `{"type":"object","properties":{"where":{"type":"string","x-mcp-header":"Region"},"n":{"type":"integer","x-mcp-header":"Count"}}}`,
		func(_ context.Context, _ *sdk.CallToolRequest, a map[string]any) (*sdk.CallToolResult, error) {
			l.add("region %v", a["where"])
			return text("ok")
		})
	add("grow", anySchema, func(_ context.Context, _ *sdk.CallToolRequest, a map[string]any) (*sdk.CallToolResult, error) {
		s.AddTool(&sdk.Tool{Name: a["name"].(string), InputSchema: json.RawMessage(anySchema)}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) { return text("new") })
		return text("grown")
	})
	addReadable(s, l)
	s.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
			l.add("method %s", method)
			return next(ctx, method, r)
		}
	})
	return s
}

// TestMain lets the test binary be a stdio server, in the era that the variable says.
func TestMain(m *testing.M) {
	switch child := os.Getenv("MCP_TEST_CHILD"); child {
	case "":
		os.Exit(m.Run())
	case "modern", "legacy":
		s := newServer(ledger(os.Getenv("MCP_TEST_LEDGER")))
		if child == "legacy" {
			s.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
				return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
					if method == "server/discover" {
						return nil, fmt.Errorf("unknown method")
					}
					return next(ctx, method, r)
				}
			})
		}
		s.Run(context.Background(), &sdk.StdioTransport{})
	default:
		runOddChild(child)
	}
}

// target is a kind of server that every call-level test runs against.
type target struct {
	*registry.Server
	ledger ledger
	child  bool
	modern bool
	seen   *requests // HTTP: what arrived
}

// requests are the HTTP requests that a server got.
type requests struct {
	mu  sync.Mutex
	all []*http.Request
}

func (r *requests) note(q *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, q.Clone(context.Background()))
}

func (r *requests) each(f func(*http.Request)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, q := range r.all {
		f(q)
	}
}

// onHTTP serves s in one era.
func onHTTP(t testing.TB, s *sdk.Server, stateless, asJSON bool, seen *requests) *httptest.Server {
	t.Helper()
	h := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, &sdk.StreamableHTTPOptions{Stateless: stateless, JSONResponse: asJSON, PropagateRequestCancellation: true})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if seen != nil {
			seen.note(r)
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
	})
	return srv
}

func httpTarget(t testing.TB, modern, asJSON bool) *target {
	l, seen := newLedger(t), &requests{}
	srv := onHTTP(t, newServer(l), modern, asJSON, seen)
	return &target{Server: &registry.Server{Name: "srv", URL: srv.URL}, ledger: l, modern: modern, seen: seen}
}

func childTarget(t testing.TB, child string) (*target, func(string) (string, bool)) {
	l := newLedger(t)
	env := map[string]string{
		"MCP_TEST_CHILD": child, "MCP_TEST_LEDGER": string(l), "PATH": "/usr/bin:/bin", "HOME": "/nonexistent",
		"SECRET": "do not pass on",
	}
	lookup := func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	return &target{
		Server: &registry.Server{Name: "srv", Command: []string{os.Args[0]}, Env: []string{"MCP_TEST_CHILD", "MCP_TEST_LEDGER"}},
		ledger: l, child: true, modern: child == "modern",
	}, lookup
}

// everywhere runs a test against each kind of server.
func everywhere(t *testing.T, run func(t *testing.T, v *Invoker, s *target)) {
	for name, make := range map[string]func(t *testing.T) (*target, Options){
		"modern json": func(t *testing.T) (*target, Options) { return httpTarget(t, true, true), Options{} },
		"modern sse":  func(t *testing.T) (*target, Options) { return httpTarget(t, true, false), Options{} },
		"legacy json": func(t *testing.T) (*target, Options) { return httpTarget(t, false, true), Options{} },
		"legacy sse":  func(t *testing.T) (*target, Options) { return httpTarget(t, false, false), Options{} },
		"modern stdio": func(t *testing.T) (*target, Options) {
			s, env := childTarget(t, "modern")
			return s, Options{LookupEnv: env}
		},
		"legacy stdio": func(t *testing.T) (*target, Options) {
			s, env := childTarget(t, "legacy")
			return s, Options{LookupEnv: env}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, o := make(t)
			run(t, open(t, o), s)
		})
	}
}

func open(t testing.TB, o Options) *Invoker {
	t.Helper()
	v := New(o)
	t.Cleanup(func() { v.Close() })
	return v
}

var alice = record.Owner{Tenant: "acme", Principal: record.Principal{Issuer: "https://idp", Subject: "alice"}, Agent: "agent"}

// work is a call of alice's.
func (s *target) work(tool, arguments string) dispatch.Work {
	return dispatch.Work{
		Tool: &registry.Tool{Name: tool, Upstream: tool}, Server: s.Server, Owner: alice, Lineage: "lin_1",
		Run: "run_1", Call: "call_1", Attempt: 1, Arguments: json.RawMessage(arguments), Key: "key-1",
		Deadline: time.Now().Add(time.Minute),
	}
}

// within bounds a test's call.
func within(t testing.TB) context.Context {
	ctx, stop := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(stop)
	return ctx
}

func mustReach(t testing.TB, v *Invoker, w dispatch.Work) dispatch.Reached {
	t.Helper()
	out := v.invoke(within(t), w)
	if out.Err != nil || out.Result == nil || !out.Sent {
		t.Fatalf("%s: %+v", w.Tool.Name, out)
	}
	return out
}

// textOf is the text of a result's first content.
func textOf(t testing.TB, out dispatch.Reached) string {
	t.Helper()
	var r struct{ Content []struct{ Text string } }
	if err := json.Unmarshal(out.Result, &r); err != nil || len(r.Content) == 0 {
		t.Fatalf("no text in %s: %v", out.Result, err)
	}
	return r.Content[0].Text
}
