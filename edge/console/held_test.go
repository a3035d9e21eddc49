package console_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"
)

// An alert that holds shows on the page of alerts; who operates lifts it there, with a
// reason, and nobody else. What was held back runs once, after the lift.
func TestAHoldOnTheConsole(t *testing.T) {
	w := newWorld(t)
	lead, reader, operator := w.browser(), w.browser(), w.browser()
	a := w.agent("anna", "refund", refund1200)
	page := lead.signIn("lena", "/console/approvals/"+a.Approval)
	lead.answers(a.Approval, "approve", page).want(t, 200)
	w.back("anna", a)
	for i := range 11 {
		w.agent("anna", "refund", fmt.Sprintf(`{"order_id":"ord_%d","amount":"1","currency":"EUR"}`, i))
	}
	done := len(w.effects())
	shown := operator.signIn("otto", "/console/alerts")
	for tick := time.NewTicker(50 * time.Millisecond); !strings.Contains(shown.body, "Lift the hold"); shown = operator.get("/console/alerts") {
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatal("nothing is held")
		}
	}
	const next = `{"order_id":"ord_next","amount":"1","currency":"EUR"}`
	if held := w.agent("anna", "refund", next); held.Code != "lineage_held" || held.State != "proposed" {
		t.Fatalf("%+v", held)
	}
	form := url.Values{"form": {first(formOf, shown.body)}, "reason": {"looked at"}}
	path := "/console/runs/" + a.Run + "/lift"
	foreign := url.Values{"form": {first(formOf, reader.signIn("lars", "/console").body)}, "reason": {"please"}}
	reader.post(path, foreign).want(t, 404)
	if held := w.agent("anna", "refund", next); held.Code != "lineage_held" {
		t.Fatalf("somebody else lifted it: %+v", held)
	}
	operator.post(path, form).want(t, 200).without(t, "Lift the hold")
	w.agent("anna", "refund", next)
	if n := len(w.effects()); n != done+1 {
		t.Errorf("%d effects after the lift, want one", n-done)
	}
}
