package histories_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// answer is what an agent reads that the next step needs; the test believes no
// more of it than the IDs.
type answer struct{ Call, Approval string }

// door is one way in. extra are members that a client puts beside what the door
// knows: histories, approvals, arguments.
type door interface {
	call(ctx context.Context, who, tool, arguments string, extra map[string]any) answer
	back(ctx context.Context, who, call string, extra map[string]any)
}

// doors are made for a world, by name.
func doors(w *world) map[string]door {
	return map[string]door{
		"api": &api{w}, "api, resumed": &resuming{api{w}}, "mcp 2026-07-28": &mcp{w: w, version: "2026-07-28"}, "mcp 2025-11-25": &mcp{w: w, version: "2025-11-25"},
	}
}

// api is the HTTP API.
type api struct{ w *world }

func (d *api) call(ctx context.Context, who, tool, arguments string, extra map[string]any) answer {
	body := map[string]any{"tool": tool, "arguments": json.RawMessage(arguments)}
	maps.Copy(body, extra)
	return d.send(ctx, who, "/v1/calls", body)
}

func (d *api) back(ctx context.Context, who, call string, extra map[string]any) {
	d.send(ctx, who, "/v1/calls/"+call+"/dispatch", extra)
}

func (d *api) send(ctx context.Context, who, path string, body map[string]any) (a answer) {
	text := []byte{}
	if len(body) > 0 {
		var err error
		if text, err = json.Marshal(body); err != nil {
			d.w.t.Fatal(err)
		}
	}
	_, got, err := d.w.send(ctx, d.w.token(who, false), http.MethodPost, path, string(text))
	if err != nil && ctx.Err() == nil {
		d.w.t.Fatal(err)
	}
	_ = json.Unmarshal(got, &a) // a refusal names no call
	return a
}

// mcp is a real client of one revision.
type mcp struct {
	w       *world
	version string
}

func (d *mcp) call(ctx context.Context, who, tool, arguments string, extra map[string]any) (a answer) {
	r := d.ask(ctx, who, tool, arguments, extra)
	if r == nil {
		return a
	}
	text, err := json.Marshal(r.Meta["dev.placet/decision"])
	if err == nil {
		err = json.Unmarshal(text, &a)
	}
	if err != nil {
		d.w.t.Fatal(err)
	}
	return a
}

// ask returns the result of a call, or nil where there is none.
func (d *mcp) ask(ctx context.Context, who, tool, arguments string, extra map[string]any) *sdk.CallToolResult {
	c := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, &sdk.ClientOptions{Capabilities: &sdk.ClientCapabilities{}})
	s, err := c.Connect(ctx, &sdk.StreamableClientTransport{Endpoint: d.w.url + "/mcp", DisableStandaloneSSE: true, MaxRetries: -1,
		HTTPClient: &http.Client{Transport: bearer(d.w.token(who, false))}}, &sdk.ClientSessionOptions{ProtocolVersion: d.version})
	if err != nil {
		d.w.t.Fatal(err)
	}
	defer s.Close()
	r, err := s.CallTool(ctx, &sdk.CallToolParams{Meta: extra, Name: tool, Arguments: json.RawMessage(arguments)})
	if err != nil {
		return nil // refused, or its client went away: the ledger tells the rest
	}
	return r
}

func (d *mcp) back(ctx context.Context, who, call string, extra map[string]any) {
	arguments := map[string]any{"call": call}
	if given, ok := extra["arguments"]; ok { // a client that resumes with arguments of its own
		arguments["arguments"] = given
	}
	text, err := json.Marshal(arguments)
	if err != nil {
		d.w.t.Fatal(err)
	}
	d.call(ctx, who, "placet_wait", string(text), extra)
}

// bearer adds a token to every request.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// raw sends one modern tools/call with members that no SDK would, and returns the
// result's state, if there is one.
func (w *world) raw(who, tool, arguments, members string) (state string) {
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s%s,"_meta":{`+
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{"url":{}}}}}}`, tool, arguments, members)
	_, text, err := w.send(context.Background(), w.token(who, false), http.MethodPost, "/mcp", body,
		"Accept", "application/json, text/event-stream", "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", tool)
	if err != nil {
		w.t.Fatal(err)
	}
	var got struct {
		Result struct {
			State string `json:"requestState"`
		}
	}
	_ = json.Unmarshal(text, &got) // a refusal has none
	return got.Result.State
}
