package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// The person starts fresh on the page: a rejection blocks no more. Nobody else can, and
// an agent's token opens no page at all.
func TestStartFresh(t *testing.T) {
	w := newWorld(t)
	a := w.agent("anna", "refund", refund1200)
	other := w.agent("berta", "refund", refund1200)
	lead := w.browser()
	for _, id := range []string{a.Approval, other.Approval} {
		page := lead.get("/console/approvals/" + id)
		if strings.Contains(page.body, "Sign in at") {
			page = lead.signIn("lena", "/console/approvals/"+id)
		}
		lead.answers(id, "reject", page).want(t, 200, "Rejected at")
	}
	if got := w.agent("anna", "refund", refund1200); got.Code != "rejected" {
		t.Fatalf("%+v", got)
	}
	lead.get("/console/approvals/"+a.Approval).want(t, 200, "Tried again")

	anna := w.browser()
	page := anna.signIn("anna", "/console/agents").want(t, 200, "support-bot", "1 rejection counts", "1 run goes on")
	f := url.Values{"form": {first(formOf, page.body)}, "agent": {"support-bot"}}
	anna.post("/console/agents/fresh", f).want(t, 400, "tick the box")
	f.Set("sure", "yes")
	lena := lead.get("/console/agents").want(t, 200, "No agent has acted for you")
	lead.post("/console/agents/fresh", url.Values{"form": {first(formOf, lena.body)}, "agent": {"support-bot"}, "sure": {"yes"}}).want(t, 404)
	// An agent's own token is no session, and no form of its own counts.
	r, err := http.NewRequest(http.MethodPost, w.url+"/console/agents/fresh", strings.NewReader(f.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", w.url)
	r.Header.Set("Authorization", "Bearer "+w.token("anna"))
	w.browser().do(r).want(t, 403)
	if got := w.agent("anna", "refund", refund1200); got.Code != "rejected" {
		t.Fatalf("%+v", got)
	}

	anna.post("/console/agents/fresh", f).want(t, 200, "It has not acted since you started fresh")
	again := w.agent("anna", "refund", refund1200)
	if again.State != "approval_pending" {
		t.Fatalf("%+v", again)
	}
	if got := w.agent("berta", "refund", refund1200); got.Code != "rejected" {
		t.Fatalf("another person's rejection: %+v", got)
	}
	lead.answers(again.Approval, "approve", lead.get("/console/approvals/"+again.Approval)).want(t, 200)
	w.back("anna", again)
	w.wantEffects(t, effect1200)
}
