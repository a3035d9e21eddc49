package console_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/placet-dev/placet/record"
)

// decide makes two persons of leads or board decide, where one of leads did.
func (w *world) decide(quorum int) {
	w.t.Helper()
	next := *w.placet.Boundary().Current()
	was := next.Approver
	next.Approver = func(ref string, part *record.ApprovalPart) error {
		err := was(ref, part)
		part.Quorum = quorum
		part.Groups = append(part.Groups, record.Group{Issuer: part.Groups[0].Issuer, Name: "board"})
		return err
	}
	next.Digest = fmt.Sprintf("sha256:test-%d", quorum)
	if _, err := w.placet.Boundary().Activate(context.Background(), next, record.Who{System: "test"}); err != nil {
		w.t.Fatal(err)
	}
}

// A version is activated between a page and its answer. The answer is not recorded, the
// page shows what changed, and the new question can be answered on it (rules D1, D3).
func TestBrowserWhatYouSawIsNotWhatWouldRun(t *testing.T) {
	w := newWorld(t)
	a := w.agent("anna", "refund", refund1200)
	b := w.tab(t, 1000, 900)
	b.known("lena")
	b.open("/console/approvals/" + a.Approval)
	js[bool](b, `document.querySelector("main").dataset.live = "" || true`)
	w.decide(2)
	second := w.back("anna", a)
	if second.Approval == a.Approval || second.State != "approval_pending" {
		t.Fatalf("%+v", second)
	}
	b.press("#approve")
	b.says("What you saw is not what would run", "was not recorded", "What has changed since the earlier question", "who decides, by registry",
		"1 of: group leads", "2 of: group leads, group board", "version of registry and policy", "Nobody had answered it")
	b.shot("mismatch-rule")
	w.back("anna", a)
	w.wantEffects(t)
	b.press("#approve") // of the new question
	b.says("1 of 2 said yes", "approved by you")
	w.back("anna", a)
	w.wantEffects(t)

	// The same after a yes: it is void with its question, and shown to be.
	lars := w.browser()
	page := lars.signIn("lars", "/console/approvals/"+second.Approval)
	lars.answers(second.Approval, "approve", page).want(t, 200, "2 of 2 said yes")
	w.decide(1)
	third := w.back("anna", a)
	if third.Approval == second.Approval || third.State != "approval_pending" {
		t.Fatalf("%+v", third)
	}
	b.open("/console/approvals/" + second.Approval)
	b.says("no longer valid", "The question in its place")
	b.press(`.outcome a`)
	b.says("What has changed since the earlier question", "You said approved to that one", "cannot run anything", "lars said approved")
	b.shot("new-question-after-yes")
	w.wantEffects(t)
	b.press("#approve")
	w.back("anna", a)
	w.wantEffects(t, effect1200)
}

// Other values are another question; the earlier yes is shown, with what is different,
// and can still run its own call, once.
func TestBrowserOtherValuesAreAnotherQuestion(t *testing.T) {
	w := newWorld(t)
	a := w.agent("anna", "refund", refund1200)
	lead := w.browser()
	lead.answers(a.Approval, "approve", lead.signIn("lena", "/console/approvals/"+a.Approval)).want(t, 200)
	other := w.agent("anna", "refund", strings.Replace(refund1200, "1200", "4800", 1))
	b := w.tab(t, 1000, 900)
	b.known("lena")
	b.open("/console/approvals/" + other.Approval)
	b.says("Last approved", `Refund "1200.00" "EUR" on order "ord_1001"`, "1200.00", "4800.00", "It has not run", "is still unused", "It does not cover this one", "2 arguments are the same")
	b.shot("other-values")
	w.back("anna", other)
	w.wantEffects(t)
	w.back("anna", a)
	w.wantEffects(t, effect1200)
	b.open("/console/approvals/" + other.Approval)
	if strings.Contains(b.text(), "still unused") {
		t.Error("a yes that was used is shown as unused")
	}
	w.wantEffects(t, effect1200)
}

// An approved call that a limit holds back says so by itself, and when; a no that the
// agent tries to get around says that too.
func TestBrowserStory(t *testing.T) {
	w := newWorld(t)
	a := w.agent("anna", "slow", `{"title":"one"}`)
	second := w.agent("anna", "slow", `{"title":"two"}`)
	lead := w.browser()
	lead.signIn("lena", "/console")
	for _, q := range []answer{a, second} {
		lead.answers(q.Approval, "approve", lead.get("/console/approvals/"+q.Approval)).want(t, 200)
	}
	b := w.tab(t, 1000, 900)
	b.known("lena")
	b.open("/console/approvals/" + second.Approval)
	b.says("approved", "when the agent asks again")
	w.back("anna", a)
	if got := w.back("anna", second); got.Code != "rate_limited" {
		t.Fatalf("%+v", got)
	}
	b.until("Approved, not run yet: rate limit, next slot") // without a click
	b.shot("held-back")
	w.wantEffects(t, `slow {"title":"one"}`)
	w.offset.Store(int64(2 * time.Minute))
	w.back("anna", second)
	b.until("Approved, and done at")
	w.wantEffects(t, `slow {"title":"one"}`, `slow {"title":"two"}`)

	no := w.agent("anna", "refund", refund1200)
	b.open("/console/approvals/" + no.Approval)
	b.says("Before this, the run called slow (2 times)", "Nothing that it read is marked")
	b.press("#reject")
	b.says("Rejected at")
	if got := w.agent("anna", "refund", refund1200); got.Code != "rejected" {
		t.Fatalf("%+v", got)
	}
	b.until("Tried again after this no, and stopped")
	js[bool](b, `document.querySelectorAll("details").forEach(d => d.open = true) ?? true`)
	b.says("Evidence", "binding", "sha256:", "as one of group leads", "approval requested")
	b.shot("tried-again-evidence")
	w.wantEffects(t, `slow {"title":"one"}`, `slow {"title":"two"}`)
}
