package api

import (
	"strings"
	"testing"

	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
)

// A scope or a permission that is lacking is named, recorded once, and nothing
// runs; whoever holds it does the same with effect.
func TestLackIsNamedAndRecordedOnce(t *testing.T) {
	h := newHouse(t)
	scoped := `{"tool":"scoped"}`
	overrides, reload := "/v1/overrides", "/v1/reload?plan=true"
	rare := h.token(identity.TokenSpec{Audience: proposing, Subject: "anna", Tenant: "acme", Agent: "bot", Scopes: []string{"rare"}})
	for _, c := range []struct {
		name, lack, method, path, body string
		without, with                  who
		event                          record.EventKind
	}{
		{"scope", "rare", "POST", "/v1/calls", scoped, h.anna(), rare, record.EventDenied},
		{"propose", "propose", "POST", "/v1/calls", `{"tool":"note"}`, h.key("app"), h.anna(), record.EventRefused},
		{"read, a caller", "read", "GET", overrides, "", h.anna(), h.login("sec", "acme", "security"), record.EventRefused},
		{"read, a person", "read", "GET", overrides, "", h.lena(), h.key("ops"), record.EventRefused},
		{"read, a key", "read", "GET", "/v1/events", "", h.key("app"), h.key("ops"), record.EventRefused},
		{"operate, a caller", "operate", "POST", reload, "", h.anna(), h.key("ops"), record.EventRefused},
		{"operate, a reader", "operate", "POST", reload, "", h.login("sec", "acme", "security"), h.login("root", "acme", "platform"), record.EventRefused},
		{"operate, a key", "operate", "POST", reload, "", h.key("robot"), h.key("ops"), record.EventRefused},
	} {
		t.Run(c.name, func(t *testing.T) {
			events, effects := h.count(c.event), h.ledger.count()
			r := h.do(c.without, c.method, c.path, c.body)
			challenge := r.header.Get("WWW-Authenticate")
			if r.status != 403 || !strings.HasPrefix(challenge, `Bearer error="insufficient_scope", scope="`+c.lack+`"`) {
				t.Errorf("%d %q %s", r.status, challenge, r.body)
			}
			h.checkProblem(r)
			if got := h.count(c.event); got != events+1 {
				t.Errorf("%d events, want one", got-events)
			}
			if h.ledger.count() != effects {
				t.Error("it had an effect")
			}
			r = h.do(c.with, c.method, c.path, c.body)
			if r.status == 403 || r.status == 401 {
				t.Errorf("who holds it: %d %s", r.status, r.body)
			}
			if c.method == "POST" && c.path == "/v1/calls" && h.ledger.count() != effects+1 {
				t.Errorf("who holds it has %d effects", h.ledger.count()-effects)
			}
		})
	}
}

// A request without credentials has made no error (RFC 6750 section 3.1).
func TestChallengeWithoutCredentials(t *testing.T) {
	h := newHouse(t)
	for name, c := range map[string]struct {
		w    who
		want string
	}{
		"nothing":   {who{}, "Bearer"},
		"garbage":   {who{"Authorization": "Bearer x"}, `Bearer error="invalid_token"`},
		"wrong key": {who{"Placet-Workload": "plk_x"}, `Bearer error="invalid_token"`},
	} {
		if r := h.do(c.w, "GET", "/v1/calls", ""); r.status != 401 || r.header.Get("WWW-Authenticate") != c.want {
			t.Errorf("%s: %d %q", name, r.status, r.header.Get("WWW-Authenticate"))
		}
	}
}
