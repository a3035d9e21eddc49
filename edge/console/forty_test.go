package console_test

import (
	"fmt"
	"net/url"
	"regexp"
	"testing"
)

// listed is a question as the form that rejects all carries it.
var listed = regexp.MustCompile(`name="question" value="([^"]+)"`)

// The page of one of forty says how many wait beside it, and its form rejects them
// all: none ran, and the neighbour of somebody else runs once when it is approved.
func TestFortyAlike(t *testing.T) {
	w := newWorld(t)
	var all []answer
	for i := range 40 {
		all = append(all, w.agent("anna", "refund", fmt.Sprintf(`{"order_id":"ord_%d","amount":"900.00","currency":"EUR"}`, 1001+i)))
	}
	other := w.agent("berta", "refund", refund1200)
	b := w.browser()
	page := b.signIn("lena", "/console/approvals/"+all[0].Approval).want(t, 200, "39 more calls of this run wait for you", "Reject all 40 and end the run")
	f := url.Values{"form": {first(formOf, page.body)}, "note": {"the ticket made them up"}}
	for _, m := range listed.FindAllStringSubmatch(page.body, -1) {
		f.Add("question", m[1])
	}
	if n := len(f["question"]); n != len(all) {
		t.Fatalf("the form names %d questions", n)
	}
	b.post("/console/runs/"+all[0].Run+"/reject", f).want(t, 200, "ended")
	for _, a := range all {
		if got := w.back("anna", a); got.State != "denied" {
			t.Errorf("%+v", got)
		}
	}
	w.wantEffects(t)
	b.answers(other.Approval, "approve", b.get("/console/approvals/"+other.Approval)).want(t, 200)
	w.back("berta", other)
	w.wantEffects(t, `refund {"amount":"1200.00","currency":"EUR","order_id":"ord_1001"}`)
}
