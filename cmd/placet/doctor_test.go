package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/placet-dev/placet/verify"
)

// TestRule_K3_DoctorNamesServersThatAnswer: servers that check tokens in front, or
// in the SDK, refuse; one that checks none is named; and no tool of any of them ran.
func TestRule_K3_DoctorNamesServersThatAnswer(t *testing.T) {
	var effects atomic.Int64
	tokens, err := verify.New(verify.Options{Issuer: "https://placet.example", Audience: "https://desk.example/mcp", Seen: verify.PerProcess(nil)})
	if err != nil {
		t.Fatal(err)
	}
	serve := func(stateless bool, wrap func(http.Handler) http.Handler, guards ...mcp.Middleware) string {
		s := mcp.NewServer(&mcp.Implementation{Name: "desk", Version: "1"}, nil)
		s.AddTool(&mcp.Tool{Name: "wipe", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			effects.Add(1)
			return &mcp.CallToolResult{}, nil
		})
		s.AddReceivingMiddleware(guards...)
		h := wrap(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: stateless}))
		server := httptest.NewServer(h)
		t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
		return server.URL
	}
	bare := func(h http.Handler) http.Handler { return h }
	inside := func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
			if p, ok := r.GetParams().(*mcp.CallToolParamsRaw); ok {
				if _, err := tokens.Check(ctx, verify.FromMeta(p.Meta), p.Name, p.Arguments); err != nil {
					return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()}
				}
			}
			return next(ctx, method, r)
		}
	}
	servers := map[string]string{
		"front":       serve(true, tokens.Middleware),
		"front_old":   serve(false, tokens.Middleware),
		"inside":      serve(true, bare, inside),
		"inside_old":  serve(false, bare, inside),
		"open":        serve(true, bare),
		"open_old":    serve(false, bare),
		"unreachable": "http://127.0.0.1:1/mcp",
	}
	dir := t.TempDir()
	var text strings.Builder
	text.WriteString("version: 1\nservers:\n")
	for name, url := range servers {
		fmt.Fprintf(&text, "  %s: {url: %q, dispatch_token: true}\n", name, url)
	}
	for name, text := range map[string]string{"placet.yaml": "version: 1\nenvironment: test\nstore: sqlite:state.db\nregistry: [tools.yaml]\n", "tools.yaml": text.String()} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	code, out, errs := inProcess(t, nil, "doctor", "--bypass", "--json", "--config", filepath.Join(dir, "placet.yaml"))
	if code != exitNo || !strings.Contains(errs, "did not come through Placet") {
		t.Errorf("exit %d: %s", code, errs)
	}
	seen := 0
	for line := range strings.Lines(out) {
		var v probeView
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"open": "answers", "open_old": "answers", "unreachable": "unreachable"}[v.Server]
		if want == "" {
			want = "refuses"
		}
		if seen++; v.Status != want || v.Why == "" || !v.Token {
			t.Errorf("%+v, want %s", v, want)
		}
	}
	if seen != len(servers) || effects.Load() != 0 {
		t.Errorf("%d servers were probed, %d effects", seen, effects.Load())
	}
}
