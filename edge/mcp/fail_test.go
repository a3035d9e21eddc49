package mcp_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/placet-dev/placet/dispatch"
	edge "github.com/placet-dev/placet/edge/mcp"
	"github.com/placet-dev/placet/identity"
)

// P6: when nothing can be recorded, nothing runs, and the answer says so.
func TestPromise_P6_NoStoreNoEffect(t *testing.T) {
	w := newWorld(t, nil)
	sessions := w.open(w.token("anna"))
	if err := w.store.Close(); err != nil {
		t.Fatal(err)
	}
	for era, a := range map[string]answer{"modern": w.call(w.token("anna"), "pay", `{}`), "session": sessions.call("pay", `{}`)} {
		m := a.rpc(t)
		if m.Error == nil && !a.tool(t).IsError {
			t.Errorf("%s: %d %s", era, a.status, a.body)
		}
	}
	w.effects()
}

// broken is a boundary with a defect.
type broken struct{ edge.Boundary }

func (broken) Do(context.Context, dispatch.Proposal) (dispatch.Answer, error) { panic("a defect") }

// A defect behind the door costs one request, not the process.
func TestPanicCostsOneRequest(t *testing.T) {
	w := newWorld(t, func(o *edge.Options) { o.Boundary = broken{o.Boundary} })
	s := w.open(w.token("anna"))
	if m := s.call("echo", `{}`).rpc(t); m.Error == nil || m.Error.Code != -32603 || strings.Contains(m.Error.Message, "defect") {
		t.Fatalf("%+v", m.Error)
	}
	if a := s.send(`{"jsonrpc":"2.0","id":7,"method":"ping"}`); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if a := w.modern(w.token("anna"), "tools/list", `{"_meta":{`+modernMeta+`}}`); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
}

// A stream that was opened with a token does not outlive it.
func TestStreamsEndWithTheToken(t *testing.T) {
	w := newWorld(t, nil)
	short := func() string {
		return w.token("anna", func(s *identity.TokenSpec) { s.TTL = 2 * time.Second })
	}
	s := w.open(w.token("anna"))
	listen := `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":{` + modernMeta + `}}}`
	for name, f := range map[string]func() *http.Request{
		"session": func() *http.Request {
			r, _ := http.NewRequest(http.MethodGet, w.server.URL+"/mcp", nil)
			r.Header = http.Header{"Accept": {"text/event-stream"}, "Mcp-Session-Id": {s.id}, "Authorization": {"Bearer " + short()}}
			return r
		},
		"listen": func() *http.Request {
			r, _ := http.NewRequest(http.MethodPost, w.server.URL+"/mcp", strings.NewReader(listen))
			r.Header = http.Header{"Accept": {"application/json, text/event-stream"}, "Content-Type": {"application/json"}, "Authorization": {"Bearer " + short()},
				"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"subscriptions/listen"}}
			return r
		},
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			resp, err := http.DefaultClient.Do(f())
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			ended := make(chan struct{})
			go func() { _, _ = io.Copy(io.Discard, resp.Body); close(ended) }()
			select {
			case <-ended:
			case <-time.After(10 * time.Second):
				t.Fatal("the stream is still open")
			}
			if d := time.Since(start); resp.StatusCode != 200 || d < 500*time.Millisecond {
				t.Fatalf("status %d, ended after %s", resp.StatusCode, d)
			}
		})
	}
}

// A call outside any session is not a call of the older revisions.
func TestCallWithoutASession(t *testing.T) {
	w := newWorld(t, nil)
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{}}}`
	for name, header := range map[string]map[string]string{
		"no session": nil, "unknown session": {"Mcp-Session-Id": "NOSUCHSESSION"}, "older version": {"Mcp-Protocol-Version": "2025-06-18"},
		"unknown version": {"Mcp-Protocol-Version": "1999-01-01"},
	} {
		if a := w.post(w.token("anna"), body, header); a.status == 200 && a.rpc(t).Error == nil {
			t.Errorf("%s: %s", name, a.body)
		}
	}
	w.effects()
}

func TestSessionsAreBounded(t *testing.T) {
	w := newWorld(t, func(o *edge.Options) { o.Sessions = 2 })
	w.open(w.token("anna"))
	w.open(w.token("bob"))
	a := w.post(w.token("anna"), `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`, nil)
	if a.status != http.StatusServiceUnavailable {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if r := w.call(w.token("anna"), "echo", `{}`).tool(t); r.IsError {
		t.Fatalf("%+v", r)
	}
}
