package mcp_test

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// needy is a tool server that tells what it may ask, and refuses without sampling.
func needy(l *ledger) http.Handler {
	s := sdk.NewServer(&sdk.Implementation{Name: "up", Version: "1"}, nil)
	s.AddTool(&sdk.Tool{Name: "needs", InputSchema: map[string]any{"type": "object"}}, func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		c := r.ClientCapabilities()
		//lint:ignore SA1019 tool servers still ask for it
		if c == nil || c.Sampling == nil {
			return nil, &jsonrpc.Error{Code: -32021, Message: "sampling", Data: json.RawMessage(`{"requiredCapabilities":{"sampling":{},"x":{"secret":1}}}`)}
		}
		//lint:ignore SA1019 tool servers still ask for it
		l.add("form %t url %t roots %t", c.Elicitation != nil && c.Elicitation.Form != nil, c.Elicitation != nil && c.Elicitation.URL != nil, c.RootsV2 != nil)
		return &sdk.CallToolResult{Content: []sdk.Content{}}, nil
	})
	return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, &sdk.StreamableHTTPOptions{Stateless: true})
}

// A tool server learns which kinds of question this request's client can answer,
// if its entry lets it ask, and its refusal for want of one reaches the client.
func TestRule_F6_ServerKnowsWhatTheClientCanAnswer(t *testing.T) {
	for _, may := range []bool{true, false} {
		entry := "{url: %q, tools_max_age: 1h}"
		if may {
			entry = "{url: %q, tools_max_age: 1h, input_required: true}"
		}
		w := newWorldOver(t, nil, needy, "version: 1\nservers: {up: "+entry+"}\ntools:\n  needs: {server: up, scope: use, read: true}\n")
		can := func(capabilities string) answer {
			return w.as(`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":`+capabilities, w.token("anna"), "needs", `{}`, "")
		}
		a := can(`{"elicitation":{}}`)
		if may {
			if m := a.rpc(t); a.status != 400 || m.Error == nil || m.Error.Code != -32021 || string(m.Error.Data) != `{"requiredCapabilities":{"sampling":{}}}` {
				t.Fatalf("%d %s", a.status, a.body)
			}
		} else if r := a.tool(t); !r.IsError {
			t.Fatalf("%+v", r)
		}
		w.effects()
		can(`{"sampling":{"tools":{}},"elicitation":{"form":{},"url":{}},"roots":{"listChanged":true},"experimental":{"x":1}}`)
		if may {
			w.effects("form true url false roots true")
		} else {
			w.effects()
		}
	}
}
