package verify_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/placet-dev/placet/verify"
)

// The snippets of docs/dispatch-token.md stand between these examples' braces, and
// TestDocumentedSnippets compares them. The examples have no output: they are compiled.

func newServerHandler() http.Handler { return http.NotFoundHandler() }

func Example() {
	tokens, err := verify.New(verify.Options{
		Issuer:   "https://placet.example.com",       // public_url of placet.yaml
		Audience: "https://helpdesk.example.com/mcp", // url of this server in tools.yaml
		Seen:     verify.PerProcess(nil),
	})
	if err != nil {
		log.Fatal(err)
	}
	http.Handle("/mcp", tokens.Middleware(newServerHandler()))
}

func ExampleShared() {
	var db *sql.DB

	tokens, err := verify.New(verify.Options{
		Issuer:   "https://placet.example.com",
		Audience: "https://helpdesk.example.com/mcp",
		Seen:     verify.Shared(db, nil), // db is a *sql.DB
	})
	_, _ = tokens, err
}

func ExampleVerifier_Check() {
	var tokens *verify.Verifier
	var server *mcp.Server

	server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
			p, ok := r.GetParams().(*mcp.CallToolParamsRaw)
			if !ok {
				return next(ctx, method, r)
			}
			call, err := tokens.Check(ctx, verify.FromMeta(p.Meta), p.Name, p.Arguments)
			if err != nil {
				return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()}
			}
			return next(verify.Into(ctx, call), method, r)
		}
	})
}

func ExampleFromContext() {
	refund := func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		call, ok := verify.FromContext(ctx)
		if !ok {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "not dispatched"}
		}
		log.Printf("refund for %s of %s, by %s, key %s", call.Principal.Subject, call.Tenant, call.Agent, call.Key)
		return &mcp.CallToolResult{}, nil
	}
	_ = refund
}

func ExampleVerifier_Check_decoded() {
	var tokens *verify.Verifier
	var ctx context.Context
	var token string
	var decoded map[string]any

	arguments, err := json.Marshal(decoded)
	if err != nil {
		log.Fatal(err)
	}
	call, err := tokens.Check(ctx, token, "refund.create", arguments)
	_, _ = call, err
}

// TestDocumentedSnippets: every Go snippet of the page is in this file, which
// compiles, and every one in TypeScript in an example that is built and run.
func TestDocumentedSnippets(t *testing.T) {
	page, err := os.ReadFile("../docs/dispatch-token.md")
	if err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(page), "```go\n")[1:]
	if len(blocks) < 4 {
		t.Fatalf("%d snippets", len(blocks))
	}
	examples, err := filepath.Glob("../sdk/typescript/verify/example/*.ts")
	if err != nil || len(examples) == 0 {
		t.Fatalf("no TypeScript examples: %v", err)
	}
	var typed []byte
	for _, file := range examples {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		typed = append(typed, text...)
	}
	flat := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	for _, b := range blocks {
		snippet, _, _ := strings.Cut(b, "```")
		if !strings.Contains(flat(string(code)), flat(snippet)) {
			t.Errorf("the page shows what no example compiles:\n%s", snippet)
		}
	}
	blocks = strings.Split(string(page), "```ts\n")[1:]
	if len(blocks) < 5 {
		t.Fatalf("%d snippets in TypeScript", len(blocks))
	}
	for _, b := range blocks {
		snippet, _, _ := strings.Cut(b, "```")
		if !strings.Contains(flat(string(typed)), flat(snippet)) {
			t.Errorf("the page shows what is in no TypeScript example:\n%s", snippet)
		}
	}
	for _, claim := range []string{"iss", "aud", "iat", "exp", "jti", "sub", "principal", "tenant", "act", "run", "call", "attempt", "tool", "arguments_digest", "input_digest", "targets", "key"} {
		if !bytes.Contains(page, []byte("| `"+claim)) {
			t.Errorf("the page does not describe the claim %s", claim)
		}
	}
	for _, why := range []verify.Reason{verify.NoToken, verify.BadToken, verify.OtherIssuer, verify.OtherAudience, verify.OtherTenant, verify.Expired, verify.OtherTool, verify.OtherArguments, verify.Replayed, verify.CannotCheck} {
		if !bytes.Contains(page, []byte("`"+why+"`")) {
			t.Errorf("the page does not explain the reason %s", why)
		}
	}
}
