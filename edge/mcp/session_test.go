package mcp_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/placet-dev/placet/identity"
)

// session is a raw client of an older revision.
type session struct {
	w     *world
	token string
	id    string
	n     int
}

// open initializes a session.
func (w *world) open(token string) *session {
	w.t.Helper()
	a := w.post(token, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`, nil)
	s := &session{w: w, token: token, id: a.header.Get("Mcp-Session-Id")}
	if a.status != 200 || s.id == "" {
		w.t.Fatalf("initialize: %d %s", a.status, a.body)
	}
	if a := s.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`); a.status != http.StatusAccepted {
		w.t.Fatalf("initialized: %d %s", a.status, a.body)
	}
	return s
}

func (s *session) header() map[string]string {
	return map[string]string{"Mcp-Session-Id": s.id, "Mcp-Protocol-Version": "2025-11-25"}
}

func (s *session) send(body string) answer {
	s.w.t.Helper()
	return s.w.post(s.token, body, s.header())
}

func (s *session) call(name, arguments string) answer {
	s.w.t.Helper()
	s.n++
	return s.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, s.n, name, arguments))
}

// any calls in one era or the other.
func (w *world) any(era, subject, name, arguments string) answer {
	w.t.Helper()
	if era == "session" {
		return w.open(w.token(subject)).call(name, arguments)
	}
	return w.call(w.token(subject), name, arguments)
}

// FACTS, trap 3: identity is that of the request, and a session answers nobody
// but the caller that opened it.
func TestRule_I1_SessionIsNoIdentity(t *testing.T) {
	w := newWorld(t, nil)
	s := w.open(w.token("anna"))
	if r := s.call("echo", `{}`).tool(t); r.IsError {
		t.Fatalf("%+v", r)
	}
	for name, token := range map[string]string{
		"another user":   w.token("mallory"),
		"another agent":  w.token("anna", agent("other")),
		"another tenant": w.token("anna", tenant("globex")),
	} {
		t.Run(name, func(t *testing.T) {
			stolen := &session{w: w, token: token, id: s.id}
			if a := stolen.call("pay", `{}`); a.status != http.StatusNotFound {
				t.Fatalf("%d %s", a.status, a.body)
			}
			if a := stolen.send(`{"jsonrpc":"2.0","id":5,"method":"tools/list"}`); a.status != http.StatusNotFound {
				t.Fatalf("%d %s", a.status, a.body)
			}
			r, _ := http.NewRequest(http.MethodDelete, w.server.URL+"/mcp", nil)
			r.Header.Set("Mcp-Session-Id", s.id)
			r.Header.Set("Authorization", "Bearer "+token)
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusNotFound {
				t.Fatalf("delete: %d", resp.StatusCode)
			}
		})
	}
	// The same caller with a newer token goes on.
	again := &session{w: w, token: w.token("anna"), id: s.id}
	if r := again.call("echo", `{"again":true}`).tool(t); r.IsError {
		t.Fatalf("%+v", r)
	}
	w.effects(`echo {}`, `echo {"again":true}`)
	for _, c := range w.calls() {
		if c.Principal.Subject != "anna" {
			t.Fatalf("recorded for %s", c.Principal)
		}
	}
}

func agent(name string) func(*identity.TokenSpec) {
	return func(s *identity.TokenSpec) { s.Agent = name }
}
func tenant(name string) func(*identity.TokenSpec) {
	return func(s *identity.TokenSpec) { s.Tenant = name }
}
