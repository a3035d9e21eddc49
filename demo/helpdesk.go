package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/placet-dev/placet/verify"
)

// keyMeta is where a tool server finds the idempotency key of a call.
const keyMeta = "dev.placet/idempotency_key"

// helpdesk is the tool server. Of Placet it knows the key in _meta and the
// dispatch token, without which it does nothing; beyond that it does what it is
// asked: keeping the wrong calls away is not its business.
type helpdesk struct {
	tokens *verify.Verifier
	mu     sync.Mutex // guards ledger
	ledger *ledger
}

// deskSettings is the help desk's own configuration: whose tokens it takes.
type deskSettings struct {
	Issuer   string `json:"issuer"`
	Audience string `json:"audience"`
}

func (s deskSettings) write(dir string) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, deskFile), text, 0o600)
}

// deskTokens makes what checks tokens. The demo has one help desk and never
// restarts it, so that remembering used tokens in its process is enough.
func deskTokens(dir string) (*verify.Verifier, error) {
	text, err := os.ReadFile(filepath.Join(dir, deskFile))
	if err != nil {
		return nil, err
	}
	var s deskSettings
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, err
	}
	return verify.New(verify.Options{Issuer: s.Issuer, Audience: s.Audience, Seen: verify.PerProcess(nil)})
}

// newHelpdesk makes the handler and the ledger in dir, where its settings are.
func newHelpdesk(dir string) (http.Handler, func() error, error) {
	tokens, err := deskTokens(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("configure the help desk: %w", err)
	}
	l, err := newLedger(filepath.Join(dir, ledgerFile))
	if err != nil {
		return nil, nil, err
	}
	if err := l.takeIn(ticket, "cus_21", poison()); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("take in the ticket: %w", err), l.conn.Close())
	}
	h := &helpdesk{tokens: tokens, ledger: l}
	s := sdk.NewServer(&sdk.Implementation{Name: "helpdesk", Version: "1"}, &sdk.ServerOptions{
		Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}},
	})
	yes, no := true, false
	s.AddTool(&sdk.Tool{Name: "db_query", Description: "Lists the orders of a customer.",
		Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: &no},
		InputSchema: schema("table", "customer")}, h.query)
	s.AddTool(&sdk.Tool{Name: "http_post", Description: "Posts a text to a host. In this demo it only notes that it would.",
		Annotations: &sdk.ToolAnnotations{DestructiveHint: &no, OpenWorldHint: &yes},
		InputSchema: schema("host", "body")}, h.does("posted"))
	s.AddTool(&sdk.Tool{Name: "stripe_refund", Description: "Refunds an amount, such as \"60.00\", on an order.",
		Annotations: &sdk.ToolAnnotations{DestructiveHint: &yes, IdempotentHint: true, OpenWorldHint: &yes},
		InputSchema: schema("order_id", "amount", "currency")}, h.refunds(h.does("refunded")))
	s.AddTool(&sdk.Tool{Name: "read_ticket", Description: "Returns a ticket as its customer wrote it.",
		Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: &no},
		InputSchema: schema("ticket")}, h.readTicket)
	s.AddTool(&sdk.Tool{Name: "issue_refund", Description: "Refunds an amount on an order of the ticket's customer.",
		Annotations: &sdk.ToolAnnotations{DestructiveHint: &yes, IdempotentHint: true, OpenWorldHint: &yes},
		InputSchema: schema("order_id", "amount", "currency")}, h.refunds(h.does("refunded")))
	s.AddTool(&sdk.Tool{Name: "delete_file", Description: "Deletes a file for good. In this demo it only notes that it would.",
		Annotations: &sdk.ToolAnnotations{DestructiveHint: &yes, OpenWorldHint: &no},
		InputSchema: schema("path")}, h.does("deleted"))
	s.AddReceivingMiddleware(h.guard)
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, &sdk.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
	mux := http.NewServeMux()
	mux.Handle("/mcp", handler)
	return mux, func() error { h.mu.Lock(); defer h.mu.Unlock(); return l.conn.Close() }, nil
}

// guard stands before every tool, also before one that is added later: no call
// runs without a token for it.
func (h *helpdesk) guard(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
		if method != "tools/call" {
			return next(ctx, method, r)
		}
		p, ok := r.GetParams().(*sdk.CallToolParamsRaw)
		if !ok {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "not a call of a tool"}
		}
		call, err := h.tokens.Check(ctx, verify.FromMeta(p.Meta), p.Name, p.Arguments)
		if err != nil {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()}
		}
		return next(verify.Into(ctx, call), method, r)
	}
}

// schema is of an object with these texts, all of them required.
func schema(names ...string) json.RawMessage {
	properties := map[string]any{}
	for _, n := range names {
		properties[n] = map[string]any{"type": "string", "maxLength": 2000}
	}
	text, err := json.Marshal(map[string]any{"type": "object", "properties": properties, "required": names, "additionalProperties": false})
	if err != nil {
		panic(err) // strings and numbers always marshal; a tool without a schema must not be served
	}
	return text
}

func (h *helpdesk) query(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	var args struct{ Table, Customer string }
	if err := json.Unmarshal(r.Params.Arguments, &args); err != nil || args.Table != "orders" {
		return failed("there is one table: orders"), nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	rows, err := h.ledger.orders(args.Customer)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(rows)
	return said(string(text)), err
}

func (h *helpdesk) readTicket(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	var args struct{ Ticket string }
	if err := json.Unmarshal(r.Params.Arguments, &args); err != nil {
		return failed("name a ticket"), nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	text, err := h.ledger.ticket(args.Ticket)
	return said(text), err
}

// refunds asks the help desk's own access control first, about the user whom the
// dispatch token names: whoever approved what, nobody refunds for a customer whom
// they do not serve. The refusal comes before anything ran and says so (rule E1).
func (h *helpdesk) refunds(next sdk.ToolHandler) sdk.ToolHandler {
	return func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		var args struct {
			Order string `json:"order_id"`
		}
		call, ok := verify.FromContext(ctx)
		if err := json.Unmarshal(r.Params.Arguments, &args); err != nil || !ok {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "no order, or nobody to refund for"}
		}
		h.mu.Lock()
		yes, err := h.ledger.mayServe(call.Principal.Subject, args.Order)
		h.mu.Unlock()
		if err != nil || !yes {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "this order is not of a customer whom this user serves"}
		}
		return next(ctx, r)
	}
}

// does is a tool with an effect: it is in the ledger, on the disk, before the
// answer leaves.
func (h *helpdesk) does(word string) sdk.ToolHandler {
	return func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		key, _ := r.Params.GetMeta()[keyMeta].(string)
		h.mu.Lock()
		defer h.mu.Unlock()
		id, err := h.ledger.add(r.Params.Name, key, string(r.Params.Arguments), time.Now())
		if err != nil {
			return failed(err.Error()), nil
		}
		return said(fmt.Sprintf("%s, reference re_%d", word, id)), nil
	}
}

func said(text string) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}
}

func failed(text string) *sdk.CallToolResult {
	r := said(text)
	r.IsError = true
	return r
}
