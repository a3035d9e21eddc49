package console_test

import (
	"context"
	"testing"

	"github.com/placet-dev/placet/record"
)

// TestAlertsPage: readers see what the rules found, with links to the evidence; what
// others wrote is text. For whoever is only asked there is no such page.
func TestAlertsPage(t *testing.T) {
	w := newWorld(t)
	a := w.agent("anna", "refund", refund1200)
	reader, lead := w.browser(), w.browser()
	reader.signIn("otto", "/console/alerts").want(t, 200, "There are none.")
	lead.signIn("lena", "/console")
	lead.get("/console/alerts").want(t, 404)
	alert := record.Alert{Rule: record.AlertRefusals, Subject: "principal <script>x</script>\u202e", Text: "5 refusals", Count: 5, Events: []int64{3, 4}, Calls: []record.CallID{record.CallID(a.ID)}}
	if err := w.raise(alert, record.RunID(a.Run)); err != nil {
		t.Fatal(err)
	}
	reader.get("/console/alerts").want(t, 200, "refusals", "principal &lt;script&gt;", "U+202E", `href="/console/calls/`+a.ID+`"`, `href="/console/runs/`+a.Run+`"`, "3, 4").
		without(t, "<script>x", "ord_1001")
	lead.get("/console/alerts").want(t, 404).without(t, "5 refusals")
	w.wantEffects(t)
}

// raise writes an alert as the watch does.
func (w *world) raise(a record.Alert, run record.RunID) error {
	store := w.placet.Records().(interface {
		Apply(context.Context, record.Change) error
	})
	return store.Apply(w.t.Context(), record.Raise(a, "dev", run, "", w.now()))
}
