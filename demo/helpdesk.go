package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// keyMeta is where a tool server finds the idempotency key of a call.
const keyMeta = "dev.placet/idempotency_key"

// helpdesk is the tool server. It knows nothing of Placet but the key in _meta,
// and does what it is asked: keeping the wrong calls away is not its business.
type helpdesk struct {
	mu     sync.Mutex // guards ledger
	ledger *ledger
}

// newHelpdesk makes the handler and the ledger in dir.
func newHelpdesk(dir string) (http.Handler, func() error, error) {
	l, err := newLedger(filepath.Join(dir, ledgerFile))
	if err != nil {
		return nil, nil, err
	}
	h := &helpdesk{ledger: l}
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
		InputSchema: schema("order_id", "amount", "currency")}, h.does("refunded"))
	s.AddTool(&sdk.Tool{Name: "delete_file", Description: "Deletes a file for good. In this demo it only notes that it would.",
		Annotations: &sdk.ToolAnnotations{DestructiveHint: &yes, OpenWorldHint: &no},
		InputSchema: schema("path")}, h.does("deleted"))
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, &sdk.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
	mux := http.NewServeMux()
	mux.Handle("/mcp", handler)
	return mux, func() error { h.mu.Lock(); defer h.mu.Unlock(); return l.conn.Close() }, nil
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
