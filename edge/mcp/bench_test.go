package mcp_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	edge "github.com/placet-dev/placet/edge/mcp"
)

// counting is a tool server with one tool that counts its calls.
func counting(n *atomic.Int64) http.Handler {
	s := sdk.NewServer(&sdk.Implementation{Name: "up", Version: "1"}, nil)
	s.AddTool(&sdk.Tool{Name: "echo", InputSchema: map[string]any{"type": "object", "additionalProperties": true}}, func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		n.Add(1)
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: string(r.Params.Arguments)}}}, nil
	})
	return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, &sdk.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
}

// passthrough is the bare proxy that Placet is compared with: an SDK server whose
// one tool forwards to an SDK client.
func passthrough(b *testing.B, upstream string) http.Handler {
	c, err := sdk.NewClient(&sdk.Implementation{Name: "proxy", Version: "1"}, nil).Connect(context.Background(),
		&sdk.StreamableClientTransport{Endpoint: upstream, HTTPClient: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = c.Close() })
	s := sdk.NewServer(&sdk.Implementation{Name: "proxy", Version: "1"}, nil)
	s.AddTool(&sdk.Tool{Name: "echo", InputSchema: map[string]any{"type": "object"}}, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return c.CallTool(ctx, &sdk.CallToolParams{Name: "echo", Arguments: r.Params.Arguments})
	})
	return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, &sdk.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
}

// hammer makes b.N calls with some clients, and checks that each reached the tool.
func hammer(b *testing.B, url, token string, clients int, reached *atomic.Int64) {
	transport := &http.Transport{MaxIdleConnsPerHost: clients}
	defer transport.CloseIdleConnections()
	params := callParams("echo", `{"message":"hello","n":7}`)
	before, start := reached.Load(), time.Now()
	b.SetParallelism(max(clients/2, 1))
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			r, _ := http.NewRequest(http.MethodPost, url, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":`+params+`}`))
			r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Authorization": {"Bearer " + token},
				"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {"echo"}}
			resp, err := transport.RoundTrip(r)
			if err != nil {
				b.Error(err)
				return
			}
			text, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if !strings.Contains(string(text), "hello") {
				b.Errorf("%d %s", resp.StatusCode, text)
				return
			}
		}
	})
	b.StopTimer()
	b.ReportMetric(float64(b.N)/time.Since(start).Seconds(), "calls/s")
	if n := reached.Load() - before; n != int64(b.N) {
		b.Fatalf("%d calls, %d reached the tool", b.N, n)
	}
}

func BenchmarkGateway(b *testing.B) {
	const registry = "version: 1\nservers: {up: {url: %q, tools_max_age: 1h}}\ndefaults: {per_minute: 0, concurrent: 0}\ntools:\n  echo: {server: up, scope: use, read: true}\n"
	for _, clients := range []int{1, 16} {
		b.Run(fmt.Sprintf("placet/%d", clients), func(b *testing.B) {
			var n atomic.Int64
			w := newWorldOver(b, func(*edge.Options) {}, func(*ledger) http.Handler { return counting(&n) }, registry)
			hammer(b, w.server.URL+"/mcp", w.token("anna"), clients, &n)
		})
		b.Run(fmt.Sprintf("passthrough/%d", clients), func(b *testing.B) {
			var n atomic.Int64
			up := httptest.NewServer(counting(&n))
			defer up.Close()
			proxy := httptest.NewServer(passthrough(b, up.URL))
			defer proxy.Close()
			hammer(b, proxy.URL, "none", clients, &n)
		})
		b.Run(fmt.Sprintf("direct/%d", clients), func(b *testing.B) {
			var n atomic.Int64
			up := httptest.NewServer(counting(&n))
			defer up.Close()
			hammer(b, up.URL, "none", clients, &n)
		})
	}
}
