package api

import (
	"strings"
	"testing"

	"github.com/placet-dev/placet/record"
)

// A workload without the permission is told which one, nothing runs, and the
// event log has one event that names it. One that holds it is served.
func TestAWorkloadWithoutThePermission(t *testing.T) {
	h := newHouse(t)
	run := h.want(h.do(h.anna().with(h.key("app")), "POST", "/v1/runs", `{"label":"x"}`), 201, "").get("id")
	for _, c := range []struct {
		with, who          who
		name, permission   string
		method, path, body string
	}{
		{h.key("robot"), h.key("app"), "app", "propose", "POST", "/v1/calls", `{"tool":"foreign"}`},
		{h.key("robot"), h.key("ops"), "ops", "propose", "GET", "/v1/tools", ""},
		{h.key("ops"), h.key("robot"), "robot", "read", "GET", "/v1/overrides", ""},
		{h.key("ops"), h.key("app"), "app", "read", "GET", "/v1/overrides", ""},
		{h.key("ops"), h.key("app"), "app", "operate", "POST", "/v1/reload", ""},
		{h.anna().with(h.key("app")), h.anna().with(h.key("robot")), "", "vouch", "POST", "/v1/runs/" + run + "/turns", `{}`},
		{h.anna().with(h.key("app")), h.anna(), "", "vouch", "POST", "/v1/runs/" + run + "/turns", `{}`},
	} {
		before := h.events("")
		r := h.want(h.do(c.who, c.method, c.path, c.body), 403, "forbidden")
		if got, want := r.header.Get("WWW-Authenticate"), `Bearer error="insufficient_scope", scope="`+c.permission+`"`; !strings.HasPrefix(got, want) || !strings.Contains(r.get("detail"), c.permission) {
			t.Errorf("%s %s as %s: %s, %s", c.method, c.path, c.name, got, r.body)
		}
		after := h.events("")
		if len(after) != len(before)+1 || after[len(after)-1].Kind != record.EventRefused || c.name != "" && after[len(after)-1].Who.Workload != c.name {
			t.Errorf("%s %s as %s: %d events more, the last %+v", c.method, c.path, c.name, len(after)-len(before), after[len(after)-1])
		}
		if r := h.do(c.with, c.method, c.path, c.body); r.header.Get("WWW-Authenticate") != "" || r.status == 401 {
			t.Errorf("%s %s with the permission: %d %s", c.method, c.path, r.status, r.body)
		}
	}
	h.effects(0)
	// Rule A12: a statement without the permission says nothing and is counted.
	vouched := `{"tool":"note","arguments":{"n":%},"vouch":{"turn":3,"response":"r","position":0}}`
	for i, w := range []who{h.anna(), h.anna().with(h.key("robot")), h.anna().with(h.key("app"))} {
		want := "direct"
		if i == 2 {
			want = "vouched"
		}
		body := strings.Replace(vouched, "%", string(rune('1'+i)), 1)
		if i == 2 {
			body = strings.Replace(body, `{"tool":"note"`, `{"run":"`+run+`","tool":"look"`, 1)
		}
		call := h.do(w, "POST", "/v1/calls", body).get("call")
		if got := h.do(w, "GET", "/v1/calls/"+call, "").get("source"); got != want || h.boundary.IgnoredVouches() != int64(min(i+1, 2)) {
			t.Errorf("%d: source %q, %d ignored", i, got, h.boundary.IgnoredVouches())
		}
	}
	h.effects(2)
}
