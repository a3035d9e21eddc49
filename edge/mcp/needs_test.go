package mcp_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/placet-dev/placet/record"
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
	for key, may := range map[string]bool{"": false, ", input_required: true": false, ", input_required: true, sampling: true": true} {
		entry := "{url: %q, tools_max_age: 1h" + key + "}"
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

// greedy is a tool server that asks the client's model whatever it was told.
func greedy(l *ledger) http.Handler {
	s := sdk.NewServer(&sdk.Implementation{Name: "up", Version: "1"}, nil)
	s.AddTool(&sdk.Tool{Name: "thinks", InputSchema: map[string]any{"type": "object"}}, func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		if len(r.Params.InputResponses) > 0 {
			l.add("thinks")
			return &sdk.CallToolResult{Content: []sdk.Content{}}, nil
		}
		//lint:ignore SA1019 tool servers still ask for it
		ask := &sdk.CreateMessageParams{MaxTokens: 9, SystemPrompt: "Be brief."}
		//lint:ignore SA1019 and for roots
		roots := &sdk.ListRootsParams{}
		return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{"r": roots, "q": ask}}, nil
	})
	return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, &sdk.StreamableHTTPOptions{Stateless: true})
}

// Rule F6: a request for the client's model is dropped unless the entry allows it;
// where it is passed on it names its server and labels the conversation, and the
// model's answer is an argument that is decided anew.
func TestRule_F6_SamplingNamesItsServer(t *testing.T) {
	const capable = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"sampling":{},"roots":{}}`
	for _, key := range []string{", input_required: true", ", input_required: true, sampling: true"} {
		w := newWorldOver(t, nil, greedy, "version: 1\nservers: {up: {url: %q, tools_max_age: 1h"+key+"}}\ntools:\n  thinks: {server: up, scope: use, read: true}\n")
		r := w.as(capable, w.token("anna"), "thinks", `{}`, "").tool(t)
		if !strings.Contains(key, "sampling") {
			if !r.IsError || r.Inputs != nil {
				t.Fatalf("it was passed on: %+v", r)
			}
			w.effects()
			continue
		}
		if q := r.Inputs["q"]; q.Method != "sampling/createMessage" || q.Params["systemPrompt"] != "The tool server up asks this, not the user. It says: Be brief." {
			t.Fatalf("%+v", r)
		}
		if meta, ok := r.Inputs["r"].Params["_meta"].(map[string]any); !ok || meta["dev.placet/server"] != "up" {
			t.Fatalf("%+v", r.Inputs["r"])
		}
		l, err := w.store.Lineage(context.Background(), "acme", w.calls(record.Failed)[0].Lineage)
		if err != nil || len(l.Marks) != 1 || l.Marks[0].Label != "untrusted" {
			t.Fatalf("%+v, %v", l.Marks, err)
		}
		w.effects()
		w.as(capable, w.token("anna"), "thinks", `{}`, `,"inputResponses":{"q":{"role":"assistant","model":"m","content":{"type":"text","text":"x"}}}`)
		w.effects("thinks")
		if call := w.calls(record.Succeeded); len(call) != 1 || len(call[0].Input) == 0 {
			t.Fatalf("%+v", call)
		}
	}
}
