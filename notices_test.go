package placet

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/placet-dev/placet/config"
	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
	"github.com/placet-dev/placet/tool/local"
)

// TestConfiguredNoticesAndAlerts: a configured server tells the approvers' receiver of
// a question, and the operators' one of a call that was rejected and tried again.
// The tool's ledger says that nothing ran meanwhile, and that the approved call ran once.
func TestConfiguredNoticesAndAlerts(t *testing.T) {
	got := make(chan string, 100)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- r.URL.Path + " " + string(body)
	}))
	defer hook.Close()
	issuer, err := identity.NewLocal(LocalIssuer, rand.Reader, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	var s *service
	settings := `approvals:
  notify: [{for: "group:leads", slack: env:ROOM}]
alerts: {webhook: ` + hook.URL + `/alerts, secret: env:SIGNS}
`
	s = newService(t, settings, func(o *Options) {
		o.Local, o.Tenants = issuer, []string{"acme"}
		o.LookupEnv = func(name string) (string, bool) {
			v, ok := map[string]string{"ROOM": hook.URL + "/room", "SIGNS": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}[name]
			return v, ok
		}
		o.Tools = []Tool{{Name: "pay", InputSchema: json.RawMessage(`{"type":"object","properties":{"to":{"type":"string"},"n":{"type":"integer"}}}`),
			Entry: registry.Entry{Scope: "pay", Financial: true, Sources: []registry.SourceName{"direct"}, Targets: []string{"to"}, Effect: "Pay {to}",
				Approval: registry.Asking{When: registry.Always, Approvers: []string{"group:leads"}, Quorum: 1, Expires: time.Hour}},
			Handler: func(_ context.Context, c local.Call) (json.RawMessage, error) {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.ledger = append(s.ledger, string(c.Arguments))
				return json.RawMessage(`{}`), nil
			}}}
	})
	sign := func(spec identity.TokenSpec) string {
		spec.Tenant = "acme"
		token, err := issuer.Sign(spec)
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	ask := func(arguments string) dispatch.Answer {
		t.Helper()
		caller, err := s.placet.Verifier().Caller(t.Context(), identity.Credentials{Bearer: sign(identity.TokenSpec{Audience: s.placet.o.Config.Audience(), Subject: "anna", Agent: "bot", Scopes: []string{"pay"}})})
		if err != nil {
			t.Fatal(err)
		}
		answer, err := s.placet.Do(t.Context(), dispatch.Proposal{Caller: caller, Tool: "pay", Arguments: json.RawMessage(arguments)})
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	reply := func(a *record.Approval, word record.Word) {
		t.Helper()
		p, err := s.placet.Verifier().Person(t.Context(), sign(identity.TokenSpec{Audience: s.placet.o.Config.ConsoleAudience(), Subject: "lena", Groups: []string{"leads"}}))
		if err == nil {
			_, err = s.placet.Boundary().Reply(t.Context(), p, a.ID, a.Binding, word, "")
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var seen []string // in any order: receivers do not wait for one another
	next := func(path, holds string) string {
		t.Helper()
		for end := time.After(30 * time.Second); ; {
			for _, m := range seen {
				if strings.HasPrefix(m, path) && strings.Contains(m, holds) {
					return m
				}
			}
			select {
			case m := <-got:
				seen = append(seen, m)
			case <-end:
				t.Fatalf("%s was never told of %s", path, holds)
			}
		}
	}
	first := ask(`{"to":"acc_1","n":1}`)
	if m := next("/room ", string(first.Approval.ID)); strings.Contains(m, "acc_1") {
		t.Errorf("the room reads an argument: %s", m)
	}
	reply(first.Approval, record.No)
	second := ask(`{"to":"acc_1","n":2}`)
	next("/room ", string(second.Approval.ID))
	if m := next("/alerts ", "tried_again"); strings.Contains(m, "acc_1") || !strings.Contains(m, string(second.Call.ID)) {
		t.Errorf("the alert: %s", m)
	}
	s.effects("nothing was approved")
	reply(second.Approval, record.Yes)
	ask(`{"to":"acc_1","n":2}`)
	s.effects("after a yes", `{"n":2,"to":"acc_1"}`)
	if n := s.placet.Alerts()[record.AlertTriedAgain]; n != 1 {
		t.Errorf("%d alerts", n)
	}
}

// TestConfiguredRulesAreTheRules: the configuration names every rule there is.
func TestConfiguredRulesAreTheRules(t *testing.T) {
	names := config.AlertRule("").Choices()
	if len(names) != len(record.AlertRules()) {
		t.Fatalf("%v", names)
	}
	for i, r := range record.AlertRules() {
		if names[i] != string(r) {
			t.Errorf("%s is called %s", r, names[i])
		}
	}
}

// TestReceiversAreCheckedAtTheStart: a secret that is none, or an address that is
// no URL, is found before the first question.
func TestReceiversAreCheckedAtTheStart(t *testing.T) {
	issuer, err := identity.NewLocal(LocalIssuer, rand.Reader, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	for env, want := range map[string]string{"whsec_short": "is not a webhook's secret", "": "is not set"} {
		c, err := config.Parse("placet.yaml", t.TempDir(), []byte("version: 1\nenvironment: test\nstore: sqlite:state.db\nregistry: [tools.yaml]\nalerts: {webhook: https://a.example, secret: env:SIGNS}\n"))
		if err != nil {
			t.Fatal(err)
		}
		o := Options{Config: c, Local: issuer, ReadFile: func(string) ([]byte, error) { return []byte("version: 1\n"), nil },
			LookupEnv: func(string) (string, bool) { return env, env != "" }}
		if _, err := Check(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("check: %q: %v", env, err)
		}
		_, err = Open(t.Context(), o)
		if err == nil || !strings.Contains(err.Error(), want) || env != "" && strings.Contains(err.Error(), env) {
			t.Errorf("%q: %v", env, err)
		}
	}
}
