package main

import (
	"context"
	"net"
	"net/http"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// toolServer stands for the real one: it answers with the recorded results and
// writes down every call that reaches it. Its own log is the oracle.
type toolServer struct {
	mu   sync.Mutex
	next string // what the next call is answered with
	log  []ran

	listener net.Listener
	http     *http.Server
}

// ran is one line of the log.
type ran struct{ tool, arguments string }

func serveTools(tools []tool) (*toolServer, error) {
	t := &toolServer{}
	s := sdk.NewServer(&sdk.Implementation{Name: "recorded", Version: "1"}, nil)
	for _, x := range tools {
		s.AddTool(&sdk.Tool{Name: x.Name, Description: x.Description, InputSchema: x.InputSchema},
			func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
				return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: t.run(x.Name, string(r.Params.Arguments))}}}, nil
			})
	}
	var err error
	if t.listener, err = net.Listen("tcp4", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	t.http = &http.Server{Handler: sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s },
		&sdk.StreamableHTTPOptions{Stateless: true, JSONResponse: true})}
	go func() { _ = t.http.Serve(t.listener) }()
	return t, nil
}

func (t *toolServer) url() string { return "http://" + t.listener.Addr().String() + "/mcp" }

func (t *toolServer) close() error { return t.http.Close() }

func (t *toolServer) run(name, arguments string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.log = append(t.log, ran{name, arguments})
	return t.next
}

// answer says what the next call gets, and how long the log is.
func (t *toolServer) answer(result string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.next = result
	return len(t.log)
}

// since is what ran since the log had n lines.
func (t *toolServer) since(n int) []ran {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]ran(nil), t.log[n:]...)
}
