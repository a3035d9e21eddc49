package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"runtime/debug"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// sdkFront is the SDK's part: sessions of the older revisions, and what is left
// of the newest once calls and lists are answered without it. The SDK gets the
// message that we decoded, never the client's bytes, and a user ID made of tenant,
// issuer, subject and agent, so that a session answers nobody else.
type sdkFront struct {
	h       *Handler
	server  *sdk.Server
	modern  http.Handler
	session http.Handler
}

// extra is where the middleware finds the request. The context would not do: in a
// session it is that of the request that opened it.
const extra = "placet"

type requestKey struct{}

func newSDKFront(h *Handler) *sdkFront {
	s := &sdkFront{h: h}
	s.server = sdk.NewServer(&sdk.Implementation{Name: h.Name, Version: h.Version}, &sdk.ServerOptions{
		Logger: h.Log,
		// Nothing is inferred. Resources cannot be subscribed to: what an update says
		// would come outside of any call that was decided (rule F6).
		Capabilities: &sdk.ServerCapabilities{
			Tools:     &sdk.ToolCapabilities{ListChanged: true},
			Prompts:   &sdk.PromptCapabilities{ListChanged: true},
			Resources: &sdk.ResourceCapabilities{ListChanged: true},

			Completions: &sdk.CompletionCapabilities{},
			//lint:ignore SA1019 clients of the older revisions may set a level
			Logging: &sdk.LoggingCapabilities{},
		},
		SetCacheable: func(_ context.Context, _ sdk.Request, c *sdk.Cacheable) { c.TTLMs, c.CacheScope = 0, "private" },
	})
	s.server.AddReceivingMiddleware(s.middleware)
	options := sdk.StreamableHTTPOptions{
		Logger:                     h.Log,
		DisableLocalhostProtection: true, // guard.check knows the public name too
		MaxRequestBodyBytes:        -1,   // the body is ours by then
		SessionTimeout:             h.SessionIdle,
	}
	get := func(*http.Request) *sdk.Server { return s.server }
	s.session = s.identified(sdk.NewStreamableHTTPHandler(get, &options))
	options.Stateless, options.JSONResponse, options.PropagateRequestCancellation = true, true, true
	s.modern = s.identified(sdk.NewStreamableHTTPHandler(get, &options))
	return s
}

// identified passes our verified caller to the SDK by the only way it has.
func (s *sdkFront) identified(next http.Handler) http.Handler {
	return auth.RequireBearerToken(func(ctx context.Context, _ string, _ *http.Request) (*auth.TokenInfo, error) {
		x, ok := ctx.Value(requestKey{}).(*request)
		if !ok || x.caller.SessionID() == "" {
			return nil, auth.ErrInvalidToken
		}
		return &auth.TokenInfo{UserID: x.caller.SessionID(), Extra: map[string]any{extra: x}}, nil
	}, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true})(next)
}

// hand makes the request that the SDK sees: our message, no credentials.
func hand(r *http.Request, x *request) *http.Request {
	r = r.WithContext(context.WithValue(r.Context(), requestKey{}, x))
	r.Header = r.Header.Clone()
	r.Header.Del("Placet-Workload")
	r.Header.Del("Dpop")
	r.Header.Set("Authorization", "Bearer verified")
	if r.Method == http.MethodPost {
		body := x.encode()
		r.Body = io.NopCloser(bytes.NewReader(body))
		r.ContentLength = int64(len(body))
	}
	return r
}

func (s *sdkFront) serveModern(w http.ResponseWriter, r *http.Request, x *request) {
	if x.method == "subscriptions/listen" {
		// The stream ends with the token that opened it.
		if expires := x.caller.Expires(); !expires.IsZero() {
			ctx, cancel := context.WithTimeout(r.Context(), expires.Sub(s.h.Clock()))
			defer cancel()
			r = r.WithContext(ctx)
		}
	}
	s.modern.ServeHTTP(w, hand(r, x))
}

func (s *sdkFront) serveSession(w http.ResponseWriter, r *http.Request, x *request) {
	if x.session == "" && x.method == "initialize" && s.full() {
		plain(http.StatusServiceUnavailable, "too many sessions are open; try again later").write(w, x.id)
		return
	}
	x.instead = &instead{w: w, id: x.id, session: x.session != ""}
	s.session.ServeHTTP(x.instead, hand(r, x))
}

func (s *sdkFront) full() bool {
	n := 0
	for range s.server.Sessions() {
		if n++; n >= s.h.Sessions {
			return true
		}
	}
	return false
}

// middleware stands before all methods of the SDK. Calls and lists are ours; what
// is not named here does not exist.
func (s *sdkFront) middleware(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (result sdk.Result, err error) {
		// The SDK calls this on a goroutine of its own, where a panic would end
		// the process; net/http contains those of the other path.
		defer func() {
			if p := recover(); p != nil {
				s.h.Log.ErrorContext(ctx, "panic in a session", "method", method, "panic", p, "stack", string(debug.Stack()))
				result, err = nil, &jsonrpc.Error{Code: codeInternal, Message: "something went wrong here; the operator's log has the details"}
			}
		}()
		x := requestOf(req)
		if x == nil || x.method != method {
			return nil, &jsonrpc.Error{Code: codeInternal, Message: "the request has no verified caller"}
		}
		if list := lists[method]; list != nil {
			return s.answer(x)(list(s.h, x))
		}
		if _, call := calls[method]; call {
			return s.answer(x)(s.h.serve(x, s.progress(ctx, x, req)))
		}
		switch method {
		case "initialize", "ping", "logging/setLevel", "server/discover", "subscriptions/listen",
			"notifications/initialized", "notifications/cancelled":
			return next(ctx, method, req)
		default:
			return nil, &jsonrpc.Error{Code: codeMethodNotFound, Message: "method not found"}
		}
	}
}

func requestOf(req sdk.Request) *request {
	e := req.GetExtra()
	if e == nil || e.TokenInfo == nil {
		return nil
	}
	x, _ := e.TokenInfo.Extra[extra].(*request)
	if x == nil || x.caller.SessionID() != e.TokenInfo.UserID {
		return nil
	}
	return x
}

// answer turns our answer into the SDK's.
func (s *sdkFront) answer(x *request) func([]byte, *refusal) (sdk.Result, error) {
	return func(result []byte, f *refusal) (sdk.Result, error) {
		if f == nil {
			return &rawResult{raw: result}, nil
		}
		if x.instead != nil && needsStatus(f) {
			x.instead.set(f)
		}
		e := &jsonrpc.Error{Code: int64(f.code), Message: f.message}
		if f.data != nil {
			if data, err := json.Marshal(f.data); err == nil {
				e.Data = data
			}
		}
		return nil, e
	}
}

// progress passes notifications to the stream of the request, or is nil when the
// client asked for none.
func (s *sdkFront) progress(ctx context.Context, x *request, req sdk.Request) func(json.RawMessage) {
	session, ok := req.GetSession().(*sdk.ServerSession)
	if x.meta.progressToken == nil || !ok {
		return nil
	}
	var mu sync.Mutex
	return func(params json.RawMessage) {
		text, ok := progressParams(params, x.meta.progressToken)
		if !ok {
			return
		}
		var p sdk.ProgressNotificationParams
		if json.Unmarshal(text, &p) != nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		_ = session.NotifyProgress(ctx, &p) // a client that is gone reads it from the record
	}
}

// toolsChanged makes the SDK tell sessions and listeners. It does so when its own
// lists change, which the middleware hides.
func (s *sdkFront) toolsChanged() {
	absent := &jsonrpc.Error{Code: codeMethodNotFound, Message: "not one"}
	s.server.AddPrompt(&sdk.Prompt{Name: "placet_changed"}, func(context.Context, *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) { return nil, absent })
	s.server.AddResource(&sdk.Resource{Name: "placet_changed", URI: "placet:changed"},
		func(context.Context, *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) { return nil, absent })
	s.server.AddTool(&sdk.Tool{Name: "placet_changed", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return nil, &jsonrpc.Error{Code: codeMethodNotFound, Message: "not a tool"}
		})
}

func (s *sdkFront) close() {
	for session := range s.server.Sessions() {
		_ = session.Close()
	}
}

// rawResult is a result that writes itself.
type rawResult struct {
	sdk.ResultBase
	raw []byte
}

func (r *rawResult) MarshalJSON() ([]byte, error) { return r.raw, nil }
