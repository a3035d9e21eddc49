package api

import (
	"strings"
	"testing"
	"time"

	"github.com/placet-dev/placet/record"
)

// TestAlertsAreForReaders: whoever may read the tenant's records reads its alerts,
// newest first; approvers, callers and other tenants do not.
func TestAlertsAreForReaders(t *testing.T) {
	h := newHouse(t)
	raise := func(tenant record.TenantID, subject string) {
		t.Helper()
		a := record.Alert{Rule: record.AlertRefusals, Subject: subject, Text: "5 refusals", Count: 5, Events: []int64{1, 2}, Calls: []record.CallID{"call_x"}}
		if err := h.store.Apply(t.Context(), record.Raise(a, tenant, "", "", time.Now())); err != nil {
			t.Fatal(err)
		}
	}
	raise("acme", "first")
	raise("globex", "elsewhere")
	raise("acme", "second")
	for name, w := range map[string]who{"operator": h.login("root", "acme", "platform"), "reader": h.login("otto", "acme", "security"), "workload": h.key("ops")} {
		r := h.want(h.do(w, "GET", "/v1/alerts?limit=1", ""), 200, "")
		if !strings.Contains(r.body, `"second"`) || strings.Contains(r.body, `"first"`) {
			t.Errorf("%s: %s", name, r.body)
		}
		r = h.want(h.do(w, "GET", "/v1/alerts?before="+r.get("next"), ""), 200, "")
		if !strings.Contains(r.body, `"first"`) || strings.Contains(r.body, "elsewhere") || !strings.Contains(r.body, `"calls":["call_x"]`) {
			t.Errorf("%s: %s", name, r.body)
		}
	}
	for name, w := range map[string]who{"agent": h.anna(), "approver": h.lena(), "program": h.key("robot")} {
		if r := h.want(h.do(w, "GET", "/v1/alerts", ""), 403, "forbidden"); strings.Contains(r.body, "refusals") {
			t.Errorf("%s: %s", name, r.body)
		}
	}
	// Whose call it is reads of its own call, and not that it raised an alert.
	call := h.do(h.anna(), "POST", "/v1/calls", `{"tool":"look"}`).get("call")
	a := record.Alert{Rule: record.AlertRefusals, Subject: "third", Text: "5 refusals", Events: []int64{1}}
	if err := h.store.Apply(t.Context(), record.Raise(a, "acme", "", record.CallID(call), time.Now())); err != nil {
		t.Fatal(err)
	}
	if r := h.want(h.do(h.anna(), "GET", "/v1/events?call="+call, ""), 200, ""); !strings.Contains(r.body, `"proposed"`) || strings.Contains(r.body, `"alert"`) {
		t.Errorf("its own events: %s", r.body)
	}
	if r := h.do(h.login("root", "acme", "platform"), "GET", "/v1/events?call="+call, ""); !strings.Contains(r.body, `"alert"`) {
		t.Errorf("an operator's: %s", r.body)
	}
	h.want(h.do(who{}, "GET", "/v1/alerts", ""), 401, "unauthenticated")
	if r := h.want(h.do(h.key("ops_globex"), "GET", "/v1/alerts", ""), 200, ""); !strings.Contains(r.body, "elsewhere") || strings.Contains(r.body, "first") {
		t.Errorf("another tenant: %s", r.body)
	}
}
