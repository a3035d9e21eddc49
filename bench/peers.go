package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync/atomic"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// newUpstream is the tool server behind everything: one go-sdk server, stateless,
// answering JSON. /count says how often the tool ran.
func newUpstream() http.Handler {
	var ran atomic.Int64
	s := sdk.NewServer(&sdk.Implementation{Name: "upstream", Version: "1"}, &sdk.ServerOptions{
		Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}},
	})
	answer := func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		ran.Add(1)
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "rows for " + string(r.Params.Arguments)}}}, nil
	}
	s.AddTool(&sdk.Tool{Name: toolName, Description: "Lists orders.", InputSchema: json.RawMessage(inputSchema),
		Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true}}, answer)
	s.AddTool(&sdk.Tool{Name: "stripe.refund", Description: "Refunds an amount.", InputSchema: json.RawMessage(inputSchema)}, answer)
	mux := http.NewServeMux()
	mux.Handle("/mcp", stateless(s))
	mux.HandleFunc("/count", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, ran.Load()) })
	return mux
}

func stateless(s *sdk.Server) http.Handler {
	return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, &sdk.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
}

// newProxy is what one writes with the SDK to pass calls on: a server whose tool
// calls the same tool through a client. It decides nothing and keeps nothing. Its
// connections to the upstream are kept, so that it is not slowed by dialling.
func newProxy(ctx context.Context, upstream string) (http.Handler, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 128
	client := sdk.NewClient(&sdk.Implementation{Name: "proxy", Version: "1"}, &sdk.ClientOptions{Capabilities: &sdk.ClientCapabilities{}})
	session, err := client.Connect(ctx, &sdk.StreamableClientTransport{Endpoint: upstream, DisableStandaloneSSE: true,
		HTTPClient: &http.Client{Transport: transport}}, nil)
	if err != nil {
		return nil, err
	}
	list, err := session.ListTools(ctx, nil)
	if err != nil {
		return nil, err
	}
	s := sdk.NewServer(&sdk.Implementation{Name: "proxy", Version: "1"}, &sdk.ServerOptions{
		Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}},
	})
	for _, tool := range list.Tools {
		s.AddTool(tool, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return session.CallTool(ctx, &sdk.CallToolParams{Name: r.Params.Name, Arguments: r.Params.Arguments})
		})
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", stateless(s))
	return mux, nil
}
