package mcp_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	edge "github.com/placet-dev/placet/edge/mcp"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
)

func patient(o *edge.Options) { o.Wait = 20 * time.Second }

// later runs a call in the background.
func (w *world) later(f func() answer) <-chan answer {
	out := make(chan answer, 1)
	go func() { out <- f() }()
	return out
}

// held waits until a call is pending, and returns it.
func (w *world) held() record.Call {
	w.t.Helper()
	var c record.Call
	w.until("a held call", func() bool {
		calls := w.calls(record.ApprovalPending)
		if len(calls) > 0 {
			c = calls[0]
		}
		return len(calls) > 0
	})
	return c
}

func TestHeldCallRunsOnceApproved(t *testing.T) {
	for _, era := range []string{"modern", "session"} {
		t.Run(era, func(t *testing.T) {
			w := newWorld(t, patient)
			done := w.later(func() answer { return w.any(era, "anna", "ask_pay", `{"n":1}`) })
			c := w.held()
			w.effects()
			w.approve(c.ID, record.Yes)
			if r := (<-done).tool(t); r.IsError || r.text() != `pay {"n":1}` {
				t.Fatalf("%+v", r)
			}
			w.effects(`pay {"n":1}`)
		})
	}
}

func TestHeldCallEndsWhenRejected(t *testing.T) {
	w := newWorld(t, patient)
	done := w.later(func() answer { return w.call(w.token("anna"), "ask_pay", `{}`) })
	w.approve(w.held().ID, record.No)
	if r := (<-done).tool(t); !r.IsError || !strings.HasPrefix(r.text(), "Rejected by a person: ") || r.decision(t).Code != record.CodeRejected {
		t.Fatalf("%+v", r)
	}
	w.effects()
}

// Rule A14: the wait ends, the call does not; placet_wait takes it up again.
func TestRule_A14_WaitContinuesAHeldCall(t *testing.T) {
	for _, era := range []string{"modern", "session"} {
		t.Run(era, func(t *testing.T) {
			w := newWorld(t, nil)
			r := w.any(era, "anna", "ask_pay", `{}`).tool(t)
			if !r.IsError || !strings.HasPrefix(r.text(), "Waiting for approval: ") {
				t.Fatalf("%+v", r)
			}
			d := r.decision(t)
			if d.Verdict != record.RequiresApproval || d.State != record.ApprovalPending || !strings.Contains(r.text(), string(d.Call)) {
				t.Fatalf("%+v", d)
			}
			wait := `{"call":"` + string(d.Call) + `"}`
			if r = w.any(era, "anna", "placet_wait", wait).tool(t); !strings.HasPrefix(r.text(), "Waiting for approval: ") {
				t.Fatalf("%+v", r)
			}
			w.effects()
			w.approve(d.Call, record.Yes)
			// Nobody else continues it; for them it does not exist (rules B2, I3).
			none := w.call(w.token("anna"), "placet_wait", `{"call":"call_00000000000000000000000000"}`).tool(t)
			for name, token := range map[string]string{
				"another user": w.token("mallory"), "another agent": w.token("anna", agent("x")), "another tenant": w.token("anna", tenant("globex")),
			} {
				if got := w.call(token, "placet_wait", wait).tool(t); !got.IsError || got.text() != none.text() {
					t.Fatalf("%s: %q, want %q", name, got.text(), none.text())
				}
			}
			w.effects()
			if r = w.any(era, "anna", "placet_wait", wait).tool(t); r.IsError || r.text() != `pay {}` {
				t.Fatalf("%+v", r)
			}
			w.any(era, "anna", "placet_wait", wait)
			w.effects(`pay {}`)
		})
	}
	w := newWorld(t, nil)
	for _, bad := range []string{`{}`, `{"call":7}`, `{"call":"x"}`, `{"call":"call_00000000000000000000000000","tool":"pay"}`} {
		if r := w.call(w.token("anna"), "placet_wait", bad).tool(t); !r.IsError || !strings.HasPrefix(r.text(), "Denied: ") {
			t.Fatalf("%s: %+v", bad, r)
		}
	}
}

// Rule A14: a client's cancel of a held call cancels the call.
func TestRule_A14_CancelCancelsTheHeldCall(t *testing.T) {
	w := newWorld(t, patient)
	s := w.open(w.token("anna"))
	done := w.later(func() answer { return s.call("ask_pay", `{}`) })
	c := w.held()
	// Somebody else's cancel, and another request's, change nothing.
	for _, other := range []*session{w.open(w.token("mallory")), w.open(w.token("anna"))} {
		other.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	}
	s.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
	if got := w.held(); got.ID != c.ID {
		t.Fatalf("%+v", got)
	}
	s.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	w.until("the cancel", func() bool { return len(w.calls(record.Canceled)) == 1 })
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("the request still hangs")
	}
	w.effects()
}

// Rule A14: a mere disconnect does not.
func TestRule_A14_DisconnectLeavesTheCall(t *testing.T) {
	w := newWorld(t, patient)
	token := w.token("anna")
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		_, err := w.send(ctx, token, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":`+callParams("ask_pay", `{}`)+`}`,
			map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "ask_pay"})
		done <- err
	}()
	c := w.held()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	w.approve(c.ID, record.Yes)
	time.Sleep(50 * time.Millisecond) // nothing may happen by itself: there is no caller
	w.effects()
	if r := w.call(token, "placet_wait", `{"call":"`+string(c.ID)+`"}`).tool(t); r.text() != `pay {}` {
		t.Fatalf("%+v", r)
	}
	w.effects(`pay {}`)
}

func TestWaitingIsShownAsProgress(t *testing.T) {
	w := newWorld(t, patient)
	done := w.later(func() answer { return w.call(w.token("anna"), "ask_pay", `{}`, `"progressToken":7`) })
	c := w.held()
	time.Sleep(60 * time.Millisecond) // several times ProgressEvery
	w.approve(c.ID, record.Yes)
	a := <-done
	if len(a.events) < 3 || !strings.Contains(a.events[0], `"progressToken":7,"progress":0.000001,"message":"waiting for approval"`) {
		t.Fatalf("%q", a.events)
	}
	last := -1.0
	for _, e := range a.events[:len(a.events)-1] {
		var n struct{ Params struct{ Progress float64 } }
		if err := json.Unmarshal([]byte(e), &n); err != nil || n.Params.Progress <= last {
			t.Fatalf("%s after %v", e, last)
		}
		last = n.Params.Progress
	}
	if a.tool(t).text() != `pay {}` {
		t.Fatalf("%s", a.body)
	}
}

// revocable refuses everybody once it is told to.
type revocable struct {
	edge.Verifier
	revoked atomic.Bool
}

func (r *revocable) Caller(ctx context.Context, c identity.Credentials) (identity.Caller, error) {
	if r.revoked.Load() {
		return identity.Caller{}, record.Errorf(record.Unauthenticated, "the token does not count any more")
	}
	return r.Verifier.Caller(ctx, c)
}

// Rule C2: a request that waited verifies its token again before dispatch.
func TestRule_C2_TokenIsVerifiedAgainAfterTheWait(t *testing.T) {
	v := &revocable{}
	w := newWorld(t, func(o *edge.Options) { patient(o); v.Verifier, o.Verifier = o.Verifier, v })
	done := w.later(func() answer { return w.call(w.token("anna"), "ask_pay", `{}`) })
	c := w.held()
	v.revoked.Store(true)
	w.approve(c.ID, record.Yes)
	if a := <-done; a.status != http.StatusUnauthorized || a.header.Get("WWW-Authenticate") != `Bearer error="invalid_token"` {
		t.Fatalf("%d %s", a.status, a.body)
	}
	w.effects()
	v.revoked.Store(false)
	w.call(w.token("anna"), "placet_wait", `{"call":"`+string(c.ID)+`"}`)
	w.effects(`pay {}`)
}

const urlClient = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{"url":{}}}`

// as calls with capabilities, inputResponses and requestState.
func (w *world) as(capabilities, token, name, arguments, more string) answer {
	w.t.Helper()
	return w.modern(token, "tools/call", `{"name":"`+name+`","arguments":`+arguments+more+`,"_meta":{`+capabilities+`}}`, "Mcp-Name", name)
}

func back(state string) string {
	return `,"inputResponses":{"placet_approval":{"action":"accept"}},"requestState":"` + state + `"`
}

func TestApprovalPageIsOfferedToClientsThatCanOpenOne(t *testing.T) {
	w := newWorld(t, func(o *edge.Options) { o.PublicURL = "https://tools.example.com" })
	token := w.token("anna")
	r := w.as(urlClient, token, "ask_pay", `{"n":1}`, "").tool(t)
	c := w.held()
	q := r.Inputs["placet_approval"]
	if r.ResultType != "input_required" || r.IsError || q.Method != "elicitation/create" || q.Params["mode"] != "url" ||
		q.Params["url"] != "https://tools.example.com/console/approvals/"+string(c.Approval) || r.State == "" || strings.Contains(r.State, string(c.ID)) {
		t.Fatalf("%+v", r)
	}
	// Coming back too early gives the text, not the page again.
	if again := w.as(urlClient, token, "ask_pay", `{"n":1}`, back(r.State)).tool(t); !strings.HasPrefix(again.text(), "Waiting for approval: ") {
		t.Fatalf("%+v", again)
	}
	w.approve(c.ID, record.Yes)
	tamper := func(s string) string {
		raw, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(s, "pls1."))
		if err != nil {
			t.Fatal(err)
		}
		raw[len(raw)/2] ^= 1
		return "pls1." + base64.RawURLEncoding.EncodeToString(raw)
	}
	for name, a := range map[string]answer{
		"another user":    w.as(urlClient, w.token("mallory"), "ask_pay", `{"n":1}`, back(r.State)),
		"another agent":   w.as(urlClient, w.token("anna", agent("x")), "ask_pay", `{"n":1}`, back(r.State)),
		"another tenant":  w.as(urlClient, w.token("anna", tenant("globex")), "ask_pay", `{"n":1}`, back(r.State)),
		"other arguments": w.as(urlClient, token, "ask_pay", `{"n":2}`, back(r.State)),
		"another tool":    w.as(urlClient, token, "pay", `{"n":1}`, back(r.State)),
		"tampered":        w.as(urlClient, token, "ask_pay", `{"n":1}`, back(tamper(r.State))),
		"longer":          w.as(urlClient, token, "ask_pay", `{"n":1}`, back(r.State+"A")),
		"forged":          w.as(urlClient, token, "ask_pay", `{"n":1}`, back("pls1."+base64.RawURLEncoding.EncodeToString([]byte(`{"c":"`+string(c.ID)+`"}`)))),
		"foreign":         w.as(urlClient, token, "ask_pay", `{"n":1}`, back("whatever")),
		"of another key":  w.as(urlClient, token, "ask_pay", `{"n":1}`, back(stateOfAnotherServer(t))),
	} {
		if m := a.rpc(t); a.status != 400 || m.Error == nil || m.Error.Code != -32602 {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	w.effects()
	if got := w.as(urlClient, token, "ask_pay", `{"n":1}`, back(r.State)).tool(t); got.text() != `pay {"n":1}` {
		t.Fatalf("%+v", got)
	}
	// Once is once: the state leads to the same call, which has run.
	if got := w.as(urlClient, token, "ask_pay", `{"n":1}`, back(r.State)).tool(t); !strings.HasPrefix(got.text(), "Already done") {
		t.Fatalf("%+v", got)
	}
	w.effects(`pay {"n":1}`)
}

func stateOfAnotherServer(t *testing.T) string {
	w := newWorld(t, func(o *edge.Options) { o.PublicURL = "https://tools.example.com" })
	return w.as(urlClient, w.token("anna"), "ask_pay", `{"n":1}`, "").tool(t).State
}

func TestRequestStateExpires(t *testing.T) {
	var ahead atomic.Int64
	w := newWorld(t, func(o *edge.Options) {
		o.PublicURL = "https://tools.example.com"
		o.Clock = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	})
	r := w.as(urlClient, w.token("anna"), "ask_pay", `{}`, "").tool(t)
	w.approve(w.held().ID, record.Yes)
	ahead.Store(int64(2 * time.Hour))
	if a := w.as(urlClient, w.token("anna"), "ask_pay", `{}`, back(r.State)); a.status != 400 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	w.effects()
}

func TestNoPageForClientsThatDidNotDeclareIt(t *testing.T) {
	w := newWorld(t, func(o *edge.Options) { o.PublicURL = "https://tools.example.com" })
	for _, capabilities := range []string{`{}`, `{"elicitation":{}}`, `{"elicitation":{"form":{}}}`, `{"elicitation":{"url":null}}`, `{"Elicitation":{"url":{}}}`} {
		meta := `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` + capabilities
		if r := w.as(meta, w.token("anna"), "ask_pay", `{}`, "").tool(t); r.ResultType != "complete" || !r.IsError {
			t.Errorf("%s: %+v", capabilities, r)
		}
	}
}
