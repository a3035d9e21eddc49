package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
)

// agentName is the workload that anna's and mallory's clients are.
const agentName = "support-bot"

// everyScope is what a user of the help desk may hold. Mallory holds as much as
// anna: what she cannot do, she cannot do because it is not hers.
var everyScope = []string{"orders:read", "web:post", "refunds:write", "files:delete", "tickets:read"}

// bearer adds a token to requests. Connections are not kept: the gateway that
// holds the other end is killed in the scene.
type bearer struct {
	token string
	next  http.RoundTripper
}

func newBearer(token string) *http.Client {
	return &http.Client{Transport: bearer{token, &http.Transport{DisableKeepAlives: true}}, Timeout: 30 * time.Second}
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.next.RoundTrip(r)
}

// caller is a principal through an agent: it proposes.
func (h *house) caller(subject string) (*person, error) {
	return h.person(identity.TokenSpec{Audience: h.url() + "/mcp", Subject: subject, Tenant: tenant, Agent: agentName, Scopes: everyScope})
}

// answerer is a person who logged in to answer or to look.
func (h *house) answerer(subject, group string) (*person, error) {
	return h.person(identity.TokenSpec{Audience: h.url() + "/console", Subject: subject, Tenant: tenant, Groups: []string{group}})
}

func (h *house) person(s identity.TokenSpec) (*person, error) {
	token, err := h.issuer.Sign(s)
	if err != nil {
		return nil, err
	}
	return &person{name: s.Subject, base: h.url(), http: newBearer(token)}, nil
}

// person talks to the gateway: over MCP once connected, and over the HTTP API.
type person struct {
	name string
	base string
	http *http.Client
	mcp  *sdk.ClientSession
}

// connect opens an MCP session, in place of an earlier one.
func (p *person) connect(ctx context.Context) error {
	p.hangUp()
	c := sdk.NewClient(&sdk.Implementation{Name: agentName, Version: "1"}, &sdk.ClientOptions{Capabilities: &sdk.ClientCapabilities{}})
	s, err := c.Connect(ctx, &sdk.StreamableClientTransport{Endpoint: p.base + "/mcp", HTTPClient: p.http, DisableStandaloneSSE: true, MaxRetries: -1}, nil)
	if err != nil {
		return fmt.Errorf("connect %s's agent: %w", p.name, err)
	}
	p.mcp = s
	return nil
}

func (p *person) hangUp() {
	if p.mcp != nil {
		_ = p.mcp.Close() // a session that the gateway forgot is closed too
		p.mcp = nil
	}
}

// told is what an agent reads in a tool's answer.
type told struct {
	text     string
	isError  bool
	decision *decision     // nil: the tool's own result
	about    record.CallID // the call that it continues, where that is known
}

// decision is what the gateway says beside the text.
type decision struct {
	Verdict  record.Verdict    `json:"verdict"`
	State    record.State      `json:"state"`
	Code     record.Code       `json:"code"`
	Call     record.CallID     `json:"call"`
	Approval record.ApprovalID `json:"approval"`
	Retry    *time.Time        `json:"retry_after"`
}

// call asks for a tool, over MCP.
func (p *person) call(ctx context.Context, tool string, arguments json.RawMessage, meta map[string]any) (told, error) {
	r, err := p.mcp.CallTool(ctx, &sdk.CallToolParams{Meta: meta, Name: tool, Arguments: arguments})
	if err != nil {
		return told{}, fmt.Errorf("%s calls %s: %w", p.name, tool, err)
	}
	t := told{isError: r.IsError}
	for _, c := range r.Content {
		if text, ok := c.(*sdk.TextContent); ok {
			t.text += text.Text
		}
	}
	if m, ok := r.Meta["dev.placet/decision"]; ok {
		text, err := json.Marshal(m)
		if err == nil {
			t.decision = &decision{}
			err = json.Unmarshal(text, t.decision)
		}
		if err != nil {
			return t, fmt.Errorf("read the decision on %s: %w", tool, err)
		}
	}
	return t, nil
}

// ask sends a request to the HTTP API and returns the status. out is filled from
// an answer below 300.
func (p *person) ask(ctx context.Context, method, path string, body, out any) (int, error) {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return 0, err
		}
	}
	r, err := http.NewRequestWithContext(ctx, method, p.base+path, bytes.NewReader(text))
	if err != nil {
		return 0, err
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	answer, err := p.http.Do(r)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	if text, err = io.ReadAll(io.LimitReader(answer.Body, 8<<20)); err != nil {
		return answer.StatusCode, err
	}
	if out != nil && answer.StatusCode < 300 {
		return answer.StatusCode, json.Unmarshal(text, out)
	}
	return answer.StatusCode, nil
}

// must is ask for what has to succeed.
func (p *person) must(ctx context.Context, method, path string, body, out any) error {
	status, err := p.ask(ctx, method, path, body, out)
	if err == nil && status >= 300 {
		err = errors.New(http.StatusText(status))
	}
	if err != nil {
		return fmt.Errorf("%s: %s %s: %w", p.name, method, path, err)
	}
	return nil
}

// recorded is a call as the gateway's records tell it to a reader.
type recorded struct {
	ID        record.CallID     `json:"id"`
	Run       record.RunID      `json:"run"`
	Tool      string            `json:"tool"`
	Principal record.Principal  `json:"principal"`
	State     record.State      `json:"state"`
	Source    record.Source     `json:"source"`
	Approval  record.ApprovalID `json:"approval"`
	Operators struct {
		Key string `json:"idempotency_key"`
	} `json:"operators"`
}

// calls lists what is recorded, newest first.
func (p *person) calls(ctx context.Context) ([]recorded, error) {
	var out struct{ Calls []recorded }
	err := p.must(ctx, http.MethodGet, "/v1/calls?limit=100", nil, &out)
	return out.Calls, err
}

// question is an approval as its approver sees it.
type question struct {
	ID      record.ApprovalID    `json:"id"`
	State   record.ApprovalState `json:"state"`
	Binding string               `json:"binding"`
	Answers []struct {
		Person record.Principal `json:"person"`
		Word   record.Word      `json:"word"`
	} `json:"answers"`
	Call struct {
		ID record.CallID `json:"id"`
	} `json:"call"`
}

func (p *person) questions(ctx context.Context) ([]question, error) {
	var out struct{ Approvals []question }
	err := p.must(ctx, http.MethodGet, "/v1/approvals?limit=100", nil, &out)
	return out.Approvals, err
}

// approve says yes to what the question shows now.
func (p *person) approve(ctx context.Context, id record.ApprovalID) error {
	var q question
	if err := p.must(ctx, http.MethodGet, "/v1/approvals/"+string(id), nil, &q); err != nil {
		return err
	}
	if err := p.must(ctx, http.MethodPost, "/v1/approvals/"+string(id)+"/approve", map[string]string{"binding": q.Binding}, &q); err != nil {
		return err
	}
	if q.State != record.Approved {
		return fmt.Errorf("%s's yes left the question %s", p.name, q.State)
	}
	return nil
}
