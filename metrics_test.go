package placet

import (
	"crypto/rand"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
)

// TestMetrics: what happened at the doors is counted, and no caller, tool, tenant or
// argument is named by it.
func TestMetrics(t *testing.T) {
	issuer, err := identity.NewLocal(LocalIssuer, rand.Reader, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	s := newService(t, "", func(o *Options) {
		o.Local, o.Tenants = issuer, []string{"acme"}
		o.Config.Telemetry.Metrics = "127.0.0.1:0"
	})
	sign := func(subject string) string {
		token, err := issuer.Sign(identity.TokenSpec{Audience: s.placet.o.Config.Audience(), Subject: subject, Tenant: "acme", Agent: "bot", Scopes: []string{"tickets:read", "refunds:write"}})
		if err != nil {
			t.Fatal(err)
		}
		return "Authorization: Bearer " + token
	}
	scrape := func() string {
		w := httptest.NewRecorder()
		s.placet.Metrics().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		text, err := io.ReadAll(w.Result().Body)
		if err != nil || w.Code != http.StatusOK {
			t.Fatal(w.Code, err)
		}
		return string(text)
	}
	anna, lars := sign("anna"), sign("lars")
	post := func(who, path, body string, want int) string {
		t.Helper()
		status, text := wire(t, s.url, "POST", path, body, who)
		if status != want {
			t.Fatalf("%s: %d %s", path, status, text)
		}
		return text
	}
	post(anna, "/v1/calls", `{"tool":"read_ticket","arguments":{"text":"secret-value"}}`, 200)
	post(anna, "/v1/calls", `{"tool":"refund","arguments":{"text":"one"}}`, 200)
	post(anna, "/v1/calls", `{"tool":"refund","arguments":{"text":"one"}}`, 200) // answered from its record
	post(anna, "/v1/calls", `{"tool":"hidden"}`, 403)
	calls, err := s.placet.Records().Calls(t.Context(), dispatch.CallQuery{Tenant: "acme"})
	if err != nil || len(calls) == 0 {
		t.Fatal(err)
	}
	if status, _ := wire(t, s.url, "GET", "/v1/calls/"+string(calls[0].ID), "", lars); status != 404 {
		t.Errorf("somebody else's call: %d", status)
	}
	opened := post(anna, "/v1/runs", `{}`, 201)
	run := regexp.MustCompile(`run_[0-9a-z]+`).FindString(opened)
	post(anna, "/v1/history/check?run="+run, `[{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"refund","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c1","content":"done"}]`, 200)

	want := []string{
		`placet_calls_total{event="executing"} 2`, `placet_calls_total{event="succeeded"} 2`, `placet_proposals_total{source="direct"} 3`,
		`placet_repeats_answered_total 1`, `placet_dispatches_blocked_total{code="not_available"} 1`, `placet_cross_principal_denials_total 1`,
		`placet_history_items_total{class="client",kind="call"} 1`, `placet_history_items_total{class="client",kind="result"} 1`,
		`placet_histories_checked_total 1`, `placet_version_active 1`, `placet_tools_quarantined 0`,
	}
	deadline := time.Now().Add(20 * time.Second)
	var text string
	for missing := want; len(missing) > 0; {
		text, missing = scrape(), nil
		for _, line := range want {
			if !strings.Contains(text, "\n"+line+"\n") {
				missing = append(missing, line)
			}
		}
		if len(missing) > 0 && time.Now().After(deadline) {
			t.Fatalf("missing\n%s\nin\n%s", strings.Join(missing, "\n"), text)
		}
	}
	for _, name := range []string{"anna", "lars", "acme", "bot", "refund", "read_ticket", "secret-value", "tickets:read"} {
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "placet_") && strings.Contains(line, name) {
				t.Errorf("a metric names %q: %s", name, line)
			}
		}
	}
	if foreign := s.placet.Records(); foreign != nil {
		events, err := foreign.Events(t.Context(), dispatch.EventQuery{Tenant: "acme", Kinds: []record.EventKind{record.EventForeign}})
		if err != nil || len(events) != 1 || events[0].Who.Principal.Subject != "lars" {
			t.Errorf("the log says of it %+v (%v)", events, err)
		}
	}
}
