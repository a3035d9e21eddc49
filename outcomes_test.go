package placet

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

// payments is a service that pays, once for each request that reaches it, and knows
// what it paid. It speaks MCP and plain HTTP. Its ledger of keys is the oracle.
type payments struct {
	url string

	mu     sync.Mutex
	ledger []string
	loses  string // of the next payment: "answer", after the effect, or "request", before it
	broken bool   // finding gives an error
}

func newPayments(t *testing.T) *payments {
	t.Helper()
	p := &payments{}
	s := sdk.NewServer(&sdk.Implementation{Name: "payments", Version: "1"}, nil)
	input := json.RawMessage(`{"type":"object","properties":{"order":{"type":"string"},"key":{"type":"string"}}}`)
	key := func(r *sdk.CallToolRequest) string {
		var in struct {
			Key string `json:"key"`
		}
		_ = json.Unmarshal(r.Params.Arguments, &in) // without one there is no key, and the test sees it
		return in.Key
	}
	s.AddTool(&sdk.Tool{Name: "pay", InputSchema: input}, func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: p.pay(key(r))}}}, nil
	})
	s.AddTool(&sdk.Tool{Name: "find", InputSchema: input}, func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		found, err := p.find(key(r))
		if err != nil {
			return nil, err
		}
		return &sdk.CallToolResult{StructuredContent: json.RawMessage(`{"items":` + found + `}`)}, nil
	})
	mux := http.NewServeMux()
	mux.Handle("/mcp", sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, &sdk.StreamableHTTPOptions{Stateless: true, JSONResponse: true}))
	mux.HandleFunc("POST /pay", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":%q}`, p.pay(r.Header.Get("Idempotency-Key")))
	})
	mux.HandleFunc("GET /find", func(w http.ResponseWriter, r *http.Request) {
		found, err := p.find(r.URL.Query().Get("key"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, found)
	})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.loseOr(mux, w, r) }))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	p.url = server.URL
	return p
}

// loseOr closes the connection of a payment whose request or answer is to be lost.
func (p *payments) loseOr(h http.Handler, w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	pays := r.URL.Path == "/pay" || strings.Contains(string(body), `"tools/call"`) && strings.Contains(string(body), `"pay"`)
	p.mu.Lock()
	loses := p.loses
	if pays {
		p.loses = ""
	}
	p.mu.Unlock()
	if !pays || loses == "" {
		h.ServeHTTP(w, r)
		return
	}
	if loses == "answer" {
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
		_ = conn.Close()
	}
}

func (p *payments) pay(key string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ledger = append(p.ledger, key)
	return fmt.Sprintf("p-%d", len(p.ledger))
}

func (p *payments) find(key string) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.broken {
		return "", fmt.Errorf("no such thing")
	}
	found := []string{}
	for i, k := range p.ledger {
		if k == key {
			found = append(found, fmt.Sprintf(`{"id":"p-%d","key":%q}`, i+1, k))
		}
	}
	return "[" + strings.Join(found, ",") + "]", nil
}

func (p *payments) set(change func(*payments)) { p.mu.Lock(); defer p.mu.Unlock(); change(p) }

func (p *payments) paid() []string { p.mu.Lock(); defer p.mu.Unlock(); return slices.Clone(p.ledger) }

const paymentTools = `
defaults: {per_minute: 0, timeout: 1s}
tools:
  find: {server: payments, scope: files, read: true}
  pay:
    server: payments
    scope: files
    financial: true
    sources: [direct]
    approval: {when: asked}
    KEY
    retry: reconcile
    reconcile: {tool: find, by: key, records: items, echo: key, reference: id, settle_after: 1s}
`

// Rules C5, E2 and E3 at real servers: a lost answer is found at the tool and never
// sent again; a lost request is sent again once, and only when nothing can come of it
// any more; a tool that gives errors settles nothing.
func TestPromise_P5_LostCallsAreReconciledAtTheTool(t *testing.T) {
	for door, registry := range map[string]string{
		"MCP":  "version: 1\nservers:\n  payments: {url: \"URL/mcp\"}" + strings.Replace(paymentTools, "KEY", "idempotency_argument: key", 1),
		"HTTP": "version: 1\nservers:\n  payments: {operations: payments.yaml}" + strings.Replace(paymentTools, "    KEY\n", "", 1),
	} {
		t.Run(door, func(t *testing.T) {
			t.Parallel() // each waits for a real lease to end
			s := newPayments(t)
			h := openFolder(t, strings.ReplaceAll(registry, "URL", s.url), map[string]string{"payments.yaml": ordersFile(s.url, `  pay:
    description: Pays.
    method: POST
    path: /pay
    parameters: {order: {in: body}}
    idempotency_header: Idempotency-Key
    result: [id]
  find:
    description: Finds what was paid.
    method: GET
    path: /find
    parameters: {key: {in: query}}
    result: [id, key]
`)})
			returns := func(a dispatch.Answer) dispatch.Answer {
				t.Helper()
				again, err := h.p.Boundary().Dispatch(t.Context(), h.caller("acme", "anna"), a.Call.ID, nil)
				if err != nil {
					t.Fatal(err)
				}
				return again
			}
			lost := func(what, order string) dispatch.Answer {
				t.Helper()
				s.set(func(s *payments) { s.loses = what })
				a := h.do(h.caller("acme", "anna"), "pay", `{"order":"`+order+`"}`)
				h.wants(a, record.Unknown, "")
				return a
			}
			answer := lost("answer", "a")
			s.set(func(s *payments) { s.broken = true })
			h.wants(returns(answer), record.Unknown, "") // an error and a 404 are no proof
			s.set(func(s *payments) { s.broken = false })
			found := returns(answer)
			h.wants(found, record.Succeeded, "")
			if found.Call.Outcome.Effect != "p-1" || !slices.Equal(s.paid(), []string{answer.Call.Key}) {
				t.Fatalf("found as %+v; paid %v", found.Call.Outcome, s.paid())
			}

			request := lost("request", "b")
			h.wants(returns(request), record.Unknown, "") // nothing there, and too early to say so
			again := returns(request)
			for until := time.Now().Add(time.Minute); again.State() == record.Unknown && time.Now().Before(until); again = returns(request) {
				<-time.After(500 * time.Millisecond)
			}
			h.wants(again, record.Succeeded, "p-2")
			h.wants(returns(request), record.Succeeded, "p-2")
			h.wants(h.do(h.caller("acme", "anna"), "pay", `{"order":"c"}`), record.Succeeded, "p-3")
			if paid := s.paid(); len(paid) != 3 || paid[0] != answer.Call.Key || paid[1] != request.Call.Key {
				t.Fatalf("paid %v, want %s, %s and another", paid, answer.Call.Key, request.Call.Key)
			}
		})
	}
}
