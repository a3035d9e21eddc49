package mcp

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
)

// addReadable adds what is no tool, which shows what reached it.
func addReadable(s *sdk.Server, l ledger) {
	read := func(_ context.Context, r *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		key, _ := r.Params.GetMeta()["dev.placet/idempotency_key"].(string)
		l.add("read %s key=%s", r.Params.URI, key)
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: r.Params.URI, Text: "t"}}}, nil
	}
	s.AddResource(&sdk.Resource{Name: "Book", URI: "lib://book"}, read)
	s.AddResourceTemplate(&sdk.ResourceTemplate{Name: "Page", URITemplate: "lib://pages/{page}"}, read)
	s.AddResourceTemplate(&sdk.ResourceTemplate{Name: "All", URITemplate: "lib://all/{+path}"}, read)
	s.AddPrompt(&sdk.Prompt{Name: "ask", Arguments: []*sdk.PromptArgument{{Name: "city", Required: true}}}, func(_ context.Context, r *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
		l.add("prompt %s %v", r.Params.Name, r.Params.Arguments)
		return &sdk.GetPromptResult{Messages: []*sdk.PromptMessage{}}, nil
	})
}

func completing(l ledger) func(context.Context, *sdk.CompleteRequest) (*sdk.CompleteResult, error) {
	return func(_ context.Context, r *sdk.CompleteRequest) (*sdk.CompleteResult, error) {
		var chosen map[string]string
		if r.Params.Context != nil {
			chosen = r.Params.Context.Arguments
		}
		l.add("complete %s %s%s %s=%s %v", r.Params.Ref.Type, r.Params.Ref.Name, r.Params.Ref.URI, r.Params.Argument.Name, r.Params.Argument.Value, chosen)
		return &sdk.CompleteResult{Completion: sdk.CompletionResultDetails{Values: []string{"x"}}}, nil
	}
}

// Rule F6: what goes upstream is written out of the arguments that were decided, in
// both eras and over both transports; what is offered is listed and not read.
func TestRule_F6_WhatIsSentUpstream(t *testing.T) {
	everywhere(t, func(t *testing.T, v *Invoker, s *target) {
		offers, err := v.ListReadable(within(t), s.Server)
		var keys []string
		for _, o := range offers {
			keys = append(keys, o.Key())
		}
		if want := []string{"resources/read lib://book", "resources/read lib://pages/{page}", "prompts/get ask"}; err != nil || !slices.Equal(keys, want) {
			t.Fatalf("%q, %v", keys, err)
		}
		for _, key := range keys {
			if o, err := v.Offer(within(t), s.Server, key, time.Minute); err != nil || o.Key() != key {
				t.Errorf("%s: %+v, %v", key, o, err)
			}
		}
		for _, key := range []string{"lib://book", "prompts/get lib://book", "resources/read ask", "prompts/get echo"} {
			if _, err := v.Offer(within(t), s.Server, key, time.Minute); record.KindOf(err) != record.NotFound {
				t.Errorf("%s: %v", key, err)
			}
		}
		if s.ledger.count("read ")+s.ledger.count("prompt ")+s.ledger.count("complete ") > 0 {
			t.Fatalf("discovery read: %v", s.ledger.lines())
		}
		template, err := registry.ParseTemplate("lib://pages/{page}")
		if err != nil {
			t.Fatal(err)
		}
		page := &registry.Tool{Name: "page", Upstream: "lib://pages/{page}", Method: registry.MethodResource, Template: template}
		ask := &registry.Tool{Name: "ask_it", Upstream: "ask", Method: registry.MethodPrompt}
		for _, c := range []struct {
			tool            *registry.Tool
			arguments, want string
		}{
			{page, `{"page":"a/b c"}`, "read lib://pages/a%2Fb%20c key=key-1"},
			{ask, `{"city":"Oslo"}`, "prompt ask map[city:Oslo]"},
			{&registry.Tool{Name: "c", Upstream: "ask", Method: registry.MethodCompletion, Completes: ask}, `{"argument":"city","context":{"a":"b"},"value":"O"}`, "complete ref/prompt ask city=O map[a:b]"},
			{&registry.Tool{Name: "d", Upstream: page.Upstream, Method: registry.MethodCompletion, Completes: page}, `{"argument":"page","value":"1"}`, "complete ref/resource lib://pages/{page} page=1 map[]"},
		} {
			w := s.work(c.tool.Name, c.arguments)
			w.Tool = c.tool
			mustReach(t, v, w)
			if s.ledger.count(c.want) != 1 {
				t.Errorf("%s of %s: %v", c.arguments, c.tool.Name, s.ledger.lines())
			}
		}
		// What no URI can be written of is not sent.
		w := s.work("page", `{"page":".."}`)
		w.Tool = page
		if out := v.invoke(within(t), w); out.Sent || out.Err == nil || s.ledger.count("read ") != 1 {
			t.Errorf("%+v", out)
		}
	})
}

// A server that refuses to list what is no tool offers none; one that does not
// answer is not known.
func TestServersWithoutResources(t *testing.T) {
	for status, none := range map[int]bool{http.StatusUnauthorized: true, http.StatusNotFound: true, http.StatusTooManyRequests: false, http.StatusBadGateway: false} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			ledger := newLedger(t) // not in the handler: a request may come when the test is over
			up := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return newServer(ledger) }, &sdk.StreamableHTTPOptions{Stateless: true})
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				text, err := io.ReadAll(r.Body)
				if err != nil {
					return
				}
				if strings.Contains(string(text), `"resources/`) || strings.Contains(string(text), `"prompts/`) {
					http.Error(w, "no", status)
					return
				}
				r.Body = io.NopCloser(strings.NewReader(string(text)))
				up.ServeHTTP(w, r)
			}))
			t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
			v, s := open(t, Options{}), &registry.Server{Name: "srv", URL: srv.URL}
			if all, err := v.ListReadable(within(t), s); (err == nil) != none || len(all) != 0 {
				t.Errorf("%v, %v", all, err)
			}
			if all, err := v.ListOffers(within(t), s); err != nil || len(all) != 13 {
				t.Errorf("%d tools, %v", len(all), err)
			}
		})
	}
}
