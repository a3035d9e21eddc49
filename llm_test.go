package placet

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/edge/llm/llmtest"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
	"github.com/placet-dev/placet/tool/local"
)

// asking is a whole server before a provider that says what it is told, with tools
// that keep a ledger.
type asking struct {
	*service
	provider *llmtest.Provider
	local    *identity.Local
	users    map[string]string // tokens
	fail     atomic.Bool       // the store does
	log      safeBuffer
}

// safeBuffer is what a log was told.
type safeBuffer struct {
	mu sync.Mutex
	strings.Builder
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Builder.Write(p)
}

func (b *safeBuffer) text() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.String()
}

// failing is a store whose changes fail when told.
type failing struct {
	dispatch.Store
	fail *atomic.Bool
}

func (f failing) Apply(ctx context.Context, c record.Change) error {
	if f.fail.Load() {
		return errors.New("the disk is full")
	}
	return f.Store.Apply(ctx, c)
}

// orchestratorsKey is of a program that may vouch.
var orchestratorsKey = "plk_" + strings.Repeat("B", 43)

// The key that only the server has.
const providerKey = "sk-the-operators-own-key"

func newAsking(t *testing.T, more string) *asking {
	t.Helper()
	a := &asking{provider: &llmtest.Provider{Key: providerKey}, users: map[string]string{}}
	upstream := httptest.NewServer(a.provider)
	t.Cleanup(func() { upstream.CloseClientConnections(); upstream.Close() })
	var err error
	if a.local, err = identity.NewLocal(LocalIssuer, rand.Reader, time.Now); err != nil {
		t.Fatal(err)
	}
	settings := `workloads: {orchestrator: {key: "env:HASH", permissions: [propose, vouch]}, plain: {key: "env:PLAIN", permissions: [propose]}}
providers:
  openai: {api: openai, url: "UP/v1", key: "env:PROVIDER_KEY", prefix: ["mcp__placet__"]MORE}
  anthropic: {api: anthropic, url: "UP", key: "env:PROVIDER_KEY"MORE}
  gemini: {api: gemini, url: "UP", key: "env:PROVIDER_KEY"MORE}
`
	settings = strings.ReplaceAll(strings.ReplaceAll(settings, "UP", upstream.URL), "MORE", more)
	a.service = newService(t, settings, func(o *Options) {
		o.Local, o.Tenants = a.local, []string{"acme", "globex"}
		o.Config.Approvals.Wait = 10 * time.Millisecond
		values := map[string]string{"PROVIDER_KEY": providerKey, "HASH": identity.HashKey(orchestratorsKey), "PLAIN": identity.HashKey("plk_" + strings.Repeat("C", 43))}
		o.LookupEnv = func(name string) (string, bool) { v, ok := values[name]; return v, ok }
		o.testOnlyStore = func(s dispatch.Store) dispatch.Store { return failing{s, &a.fail} }
		o.Log = slog.New(slog.NewTextHandler(&a.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		wide := 1 << 20
		// Default sources: witnessed and vouched. Anything below asks.
		entry := registry.Entry{Scope: "files:write", Destructive: true, PerMinute: &wide, Approval: registry.Asking{When: registry.Asked, Approvers: []string{"group:leads"}}}
		o.Tools = append(o.Tools, a.later("erase", entry), a.later("disk.wipe", entry))
	})
	t.Cleanup(func() {
		for _, secret := range []string{providerKey, "eyJ", orchestratorsKey, "go secretly"} {
			if strings.Contains(a.log.text(), secret) {
				t.Errorf("the log holds %q", secret)
			}
		}
	})
	return a
}

// under has a test of its own until the function that is returned is called.
func (a *asking) under(t *testing.T) func() {
	before := a.t
	a.t = t
	return func() { a.t = before }
}

// later is a tool of the service that is made after it.
func (a *asking) later(name string, e registry.Entry) Tool {
	tool := (&service{}).tool(name, e)
	tool.Handler = func(ctx context.Context, c local.Call) (json.RawMessage, error) {
		return a.tool(name, e).Handler(ctx, c)
	}
	return tool
}

// token is a user's, through an agent.
func (a *asking) token(who string) string {
	if a.users[who] == "" {
		user, tenant, _ := strings.Cut(who, "@")
		agent := "bot"
		if u, of, ok := strings.Cut(user, "/"); ok {
			user, agent = u, of
		}
		if tenant == "" {
			tenant = "acme"
		}
		text, err := a.local.Sign(identity.TokenSpec{Audience: a.url + "/mcp", Subject: user, Tenant: tenant, Agent: agent, Scopes: []string{"files:write", "tickets:read"}, TTL: time.Hour})
		if err != nil {
			a.t.Fatal(err)
		}
		a.users[who] = text
	}
	return a.users[who]
}

// call proposes over MCP, and says how it was answered.
func (a *asking) call(who, tool, text string) string {
	a.t.Helper()
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(a.t.Context(), &sdk.StreamableClientTransport{Endpoint: a.url + "/mcp",
		HTTPClient: &http.Client{Transport: planting{"Authorization": "Bearer " + a.token(who)}}, DisableStandaloneSSE: true}, nil)
	if err != nil {
		a.t.Fatal(err)
	}
	defer session.Close()
	ctx, cancel := context.WithTimeout(a.t.Context(), 10*time.Second)
	defer cancel()
	r, err := session.CallTool(ctx, &sdk.CallToolParams{Name: tool, Arguments: map[string]any{"text": text}})
	if err != nil {
		return "error: " + err.Error()
	}
	decision, _ := json.Marshal(r.Meta["dev.placet/decision"])
	var d struct{ Code, State string }
	_ = json.Unmarshal(decision, &d)
	if d.Code == "" && !r.IsError {
		return ran
	}
	return strings.TrimSpace(d.Code + " " + d.State)
}

// proto is one way to ask a model.
type proto struct {
	kind   llmtest.Kind
	path   string
	stream bool
}

func (p proto) String() string { return fmt.Sprintf("%s stream=%v", p.kind, p.stream) }

func protos() []proto {
	var out []proto
	for _, stream := range []bool{false, true} {
		out = append(out, proto{llmtest.Chat, "/llm/openai/v1/chat/completions", stream}, proto{llmtest.Responses, "/llm/openai/v1/responses", stream},
			proto{llmtest.Messages, "/llm/anthropic/v1/messages", stream})
	}
	return append(out, proto{llmtest.Gemini, "/llm/gemini/v1beta/models/gemini-3:generateContent", false},
		proto{llmtest.Gemini, "/llm/gemini/v1beta/models/gemini-3:streamGenerateContent?alt=sse", true})
}

// said is one thing in a conversation.
type said struct {
	user   string
	text   string // of the model
	call   *llmtest.Call
	result string // of the call before it
}

// body is a request in a protocol, which offers erase and whatever else.
func (p proto) body(more string, history ...said) string {
	var items []string
	add := func(format string, args ...any) { items = append(items, fmt.Sprintf(format, args...)) }
	id := ""
	name := ""
	for _, s := range history {
		switch p.kind {
		case llmtest.Chat:
			switch {
			case s.call != nil:
				id = s.call.ID
				add(`{"role":"assistant","content":null,"tool_calls":[{"id":%q,"type":"function","function":{"name":%q,"arguments":%q}}]}`, s.call.ID, s.call.Name, s.call.Arguments)
			case s.result != "":
				add(`{"role":"tool","tool_call_id":%q,"content":%q}`, id, s.result)
			case s.text != "":
				add(`{"role":"assistant","content":%q}`, s.text)
			default:
				add(`{"role":"user","content":%q}`, s.user)
			}
		case llmtest.Responses:
			switch {
			case s.call != nil:
				id = s.call.ID
				add(`{"type":"function_call","call_id":%q,"name":%q,"arguments":%q}`, s.call.ID, s.call.Name, s.call.Arguments)
			case s.result != "":
				add(`{"type":"function_call_output","call_id":%q,"output":%q}`, id, s.result)
			case s.text != "":
				add(`{"role":"assistant","content":%q}`, s.text)
			default:
				add(`{"role":"user","content":%q}`, s.user)
			}
		case llmtest.Messages:
			switch {
			case s.call != nil:
				id = s.call.ID
				add(`{"role":"assistant","content":[{"type":"tool_use","id":%q,"name":%q,"input":%s}]}`, s.call.ID, s.call.Name, s.call.Arguments)
			case s.result != "":
				add(`{"role":"user","content":[{"type":"tool_result","tool_use_id":%q,"content":%q}]}`, id, s.result)
			case s.text != "":
				add(`{"role":"assistant","content":%q}`, s.text)
			default:
				add(`{"role":"user","content":%q}`, s.user)
			}
		default:
			switch {
			case s.call != nil:
				name = s.call.Name
				add(`{"role":"model","parts":[{"functionCall":{"name":%q,"args":%s}}]}`, s.call.Name, s.call.Arguments)
			case s.result != "":
				add(`{"role":"user","parts":[{"functionResponse":{"name":%q,"response":{"output":%q}}}]}`, name, s.result)
			case s.text != "":
				add(`{"role":"model","parts":[{"text":%q}]}`, s.text)
			default:
				add(`{"role":"user","parts":[{"text":%q}]}`, s.user)
			}
		}
	}
	list := strings.Join(items, ",")
	if more != "" {
		more = "," + more
	}
	schema := `{"type":"object","properties":{"text":{"type":"string"}}}`
	switch p.kind {
	case llmtest.Chat:
		return fmt.Sprintf(`{"model":"m","stream":%v,"messages":[%s],"tools":[{"type":"function","function":{"name":"erase","parameters":%s}},{"type":"function","function":{"name":"look"}}]%s}`, p.stream, list, schema, more)
	case llmtest.Responses:
		return fmt.Sprintf(`{"model":"m","stream":%v,"input":[%s],"tools":[{"type":"function","name":"erase","parameters":%s},{"type":"function","name":"look"}]%s}`, p.stream, list, schema, more)
	case llmtest.Messages:
		return fmt.Sprintf(`{"model":"m","max_tokens":99,"stream":%v,"messages":[%s],"tools":[{"name":"erase","input_schema":%s},{"name":"look","input_schema":{}}]%s}`, p.stream, list, schema, more)
	}
	return fmt.Sprintf(`{"contents":[%s],"tools":[{"functionDeclarations":[{"name":"erase","parameters":%s},{"name":"look"}]}]%s}`, list, schema, more)
}

// got is an answer as its client reads it.
type got struct {
	status int
	header http.Header
	body   string
	err    error // of reading it
}

// ask asks a model.
func (a *asking) ask(who string, p proto, body string, header ...string) got {
	a.t.Helper()
	r, err := http.NewRequestWithContext(a.t.Context(), http.MethodPost, a.url+p.path, strings.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	switch p.kind {
	case llmtest.Messages:
		r.Header.Set("X-Api-Key", a.token(who))
	case llmtest.Gemini:
		r.Header.Set("X-Goog-Api-Key", a.token(who))
	default:
		r.Header.Set("Authorization", "Bearer "+a.token(who))
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		a.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return got{resp.StatusCode, resp.Header, string(text), err}
}

// wire is what the provider sent for a reply.
func (p proto) wire(r llmtest.Reply) string {
	if p.stream {
		return strings.Join(r.Events(p.kind), "")
	}
	return r.Body(p.kind)
}

func erase(id, text string) llmtest.Call {
	return llmtest.Call{ID: id, Name: "erase", Arguments: fmt.Sprintf(`{"text": %q}`, text)}
}

const (
	ran      = "ran"
	notShown = "source_not_shown approval_pending"
)

// TestRule_G2_AWitnessedCallRunsOnce: what a model was seen to emit runs, once, and
// nothing else does; in every protocol, streaming and not.
func TestRule_G2_AWitnessedCallRunsOnce(t *testing.T) {
	a := newAsking(t, "")
	for n, p := range protos() {
		t.Run(p.String(), func(t *testing.T) {
			defer a.under(t)()
			who := fmt.Sprintf("anna%d", n)
			if got := a.call(who, "erase", "x"); got != notShown {
				t.Errorf("without an emission: %s", got)
			}
			a.effects("without an emission")
			reply := llmtest.Reply{ID: "resp_w" + fmt.Sprint(n), Text: "I erase it.", Calls: []llmtest.Call{erase("c1", "y")}}
			a.provider.Say(reply)
			got := a.ask(who, p, p.body("", said{user: "erase y"}))
			if got.status != http.StatusOK || got.body != p.wire(reply) || got.err != nil {
				t.Fatalf("the answer is not the provider's, byte for byte: %d, %v\n%s", got.status, got.err, got.body)
			}
			if !strings.HasPrefix(got.header.Get("Placet-Run"), "run_") || got.header.Get("Set-Cookie") != "" || got.header.Get("X-Request-Id") != reply.ID {
				t.Errorf("headers: %v", got.header)
			}
			if got := a.call(who, "erase", "z"); got != notShown {
				t.Errorf("with other arguments: %s", got)
			}
			a.effects("with other arguments")
			if got := a.call(who, "erase", "y"); got != ran {
				t.Errorf("as emitted: %s", got)
			}
			a.effects("as emitted", "erase acme/"+who+"/bot")
			a.call(who, "erase", "y")
			a.effects("once more, with the emission used up")
		})
	}
	for _, r := range a.provider.Requests() {
		if key := r.Header.Get("Authorization") + r.Header.Get("X-Api-Key") + r.Header.Get("X-Goog-Api-Key"); strings.TrimPrefix(key, "Bearer ") != providerKey {
			t.Errorf("the provider got the credential %q", key)
		}
		for name, values := range r.Header {
			if strings.HasPrefix(name, "Placet-") || strings.Contains(strings.Join(values, " "), "eyJ") {
				t.Errorf("the provider got %s: %v", name, values)
			}
		}
	}
}
