package mcp_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	edge "github.com/placet-dev/placet/edge/mcp"
)

// bearer adds a token to every request of a client.
type bearer struct{ token string }

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return http.DefaultTransport.RoundTrip(r)
}

// client is a real SDK client.
func (w *world) client(version string, o *sdk.ClientOptions) *sdk.ClientSession {
	w.t.Helper()
	c := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, o)
	s, err := c.Connect(context.Background(), &sdk.StreamableClientTransport{Endpoint: w.server.URL + "/mcp",
		HTTPClient: &http.Client{Transport: bearer{w.token("anna")}}}, &sdk.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestRealClientInBothEras(t *testing.T) {
	for _, version := range []string{"2026-07-28", "2025-11-25", "2025-06-18"} {
		t.Run(version, func(t *testing.T) {
			w := newWorld(t, nil)
			ctx := context.Background()
			var progress []float64
			s := w.client(version, &sdk.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
				progress = append(progress, r.Params.Progress)
			}})
			if got := s.InitializeResult(); got != nil && got.ProtocolVersion != version {
				t.Fatalf("speaks %s", got.ProtocolVersion)
			}
			list, err := s.ListTools(ctx, nil)
			if err != nil || len(list.Tools) != 11 || list.Tools[len(list.Tools)-1].Name != "placet_wait" {
				t.Fatalf("%+v, %v", list, err)
			}
			r, err := s.CallTool(ctx, &sdk.CallToolParams{Name: "mirror", Arguments: map[string]any{"region": "eu", "n": 2}})
			if err != nil || r.IsError {
				t.Fatalf("%+v, %v", r, err)
			}
			if r, err = s.CallTool(ctx, &sdk.CallToolParams{Name: "delete_file"}); err != nil || !r.IsError {
				t.Fatalf("%+v, %v", r, err)
			}
			p := &sdk.CallToolParams{Name: "steps"}
			p.SetProgressToken("tok")
			if r, err = s.CallTool(ctx, p); err != nil || r.IsError {
				t.Fatalf("%+v, %v", r, err)
			}
			w.until("progress", func() bool { return len(progress) == 3 })
			if prompts, err := s.ListPrompts(ctx, nil); err != nil || len(prompts.Prompts) != 0 {
				t.Fatalf("%+v, %v", prompts, err)
			}
			if _, err := s.ReadResource(ctx, &sdk.ReadResourceParams{URI: "file:///etc/passwd"}); err == nil {
				t.Fatal("a resource was read")
			}
			w.effects(`mirror {"n":2,"region":"eu"}`)
		})
	}
}

// A client that can open pages gets the approval's, and comes back by itself.
func TestRealClientOpensTheApprovalPage(t *testing.T) {
	w := newWorld(t, func(o *edge.Options) { o.PublicURL, o.Wait = "https://tools.example.com", 5*time.Second })
	w.door.Wait = 0
	asked := ""
	s := w.client("2026-07-28", &sdk.ClientOptions{
		Capabilities: &sdk.ClientCapabilities{Elicitation: &sdk.ElicitationCapabilities{URL: &sdk.URLElicitationCapabilities{}}},
		ElicitationHandler: func(_ context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			asked = r.Params.URL
			for _, c := range w.calls("approval_pending") {
				w.approve(c.ID, "approved")
			}
			return &sdk.ElicitResult{Action: "accept"}, nil
		}})
	r, err := s.CallTool(context.Background(), &sdk.CallToolParams{Name: "ask_pay", Arguments: map[string]any{"n": 1}})
	if err != nil || r.IsError || !strings.HasPrefix(asked, "https://tools.example.com/console/approvals/apr_") {
		t.Fatalf("%+v, %v, asked %q", r, err, asked)
	}
	w.effects(`pay {"n":1}`)
}

func TestClientsHearThatToolsChanged(t *testing.T) {
	for _, version := range []string{"2026-07-28", "2025-11-25"} {
		t.Run(version, func(t *testing.T) {
			w := newWorld(t, nil)
			heard := make(chan string, 100)
			w.client(version, &sdk.ClientOptions{
				ToolListChangedHandler:     func(context.Context, *sdk.ToolListChangedRequest) { heard <- "tools" },
				PromptListChangedHandler:   func(context.Context, *sdk.PromptListChangedRequest) { heard <- "prompts" },
				ResourceListChangedHandler: func(context.Context, *sdk.ResourceListChangedRequest) { heard <- "resources" },
			})
			stop, all := time.After(10*time.Second), map[string]bool{}
			for len(all) < 3 {
				w.door.ToolsChanged()
				select {
				case what := <-heard:
					all[what] = true
				case <-stop:
					t.Fatal("nothing was heard")
				case <-time.After(50 * time.Millisecond):
				}
			}
		})
	}
}
