package api

import (
	"strings"
	"testing"
)

// What a dry run showed is told to who answers and who reads, and never to the agent:
// it has read none of it, so that no label says that it has.
func TestPreviewIsForPeople(t *testing.T) {
	h := newHouse(t)
	a := h.do(h.anna(), "POST", "/v1/calls", `{"tool":"purge","arguments":{"order":"a"}}`)
	path := "/v1/approvals/" + a.get("approval")
	for name, w := range map[string]who{"approver": h.lena(), "reader": h.login("otto", "acme", "security"), "operator": h.key("ops")} {
		r := h.do(w, "GET", path, "")
		if r.status != 200 || !strings.Contains(r.body, `"preview":{"tool":"look","call":"call_`) || !strings.Contains(r.body, `found`) {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
	if r := h.do(h.anna(), "GET", path, ""); r.status != 200 || strings.Contains(r.body, "preview") || strings.Contains(r.body, "found") {
		t.Errorf("the agent is told: %d %s", r.status, r.body)
	}
	h.effects(0)
}
