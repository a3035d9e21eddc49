package api

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/placet-dev/placet/identity"
)

func TestPromise_P3_OneApprovalOneCallOverTheAPI(t *testing.T) {
	h := newHouse(t)
	o := h.things()
	anna, approve, reject := h.anna(), "/v1/approvals/"+o.approval+"/approve", "/v1/approvals/"+o.approval+"/reject"
	other := "sha256:" + strings.Repeat("1", 64)
	h.want(h.do(h.lena(), "POST", approve, `{"binding":"`+other+`"}`), 409, "conflict")
	h.want(h.do(h.lena(), "POST", approve, `{}`), 400, "invalid")
	h.want(h.do(h.lena(), "POST", approve, `{"binding":""}`), 400, "invalid")
	h.want(h.do(h.lena(), "POST", approve, `{"binding":"`+strings.ToUpper(o.binding)+`"}`), 400, "invalid")
	h.want(h.do(anna, "POST", "/v1/calls/"+o.call+"/dispatch", ""), 202, "above_limit")
	h.effects(0)

	yes := h.do(h.lena(), "POST", approve, `{"binding":"`+o.binding+`"}`)
	if yes.status != 200 || yes.get("state") != "approved" || yes.get("runs_when") == "" {
		t.Fatalf("%d %s", yes.status, yes.body)
	}
	h.effects(0) // a yes runs nothing
	if again := h.do(h.lena(), "POST", approve, `{"binding":"`+o.binding+`"}`); again.status != 200 || again.get("answers") != yes.get("answers") {
		t.Errorf("the same answer twice: %d %s", again.status, again.body)
	}
	h.want(h.do(h.lena(), "POST", reject, `{"binding":"`+o.binding+`"}`), 409, "conflict")

	// Other values are a new question; the yes stays for its own call.
	h.want(h.do(anna, "POST", "/v1/calls", strings.Replace(askingBody, "1200.00", "4800.00", 1)), 202, "new_question")
	h.effects(0)
	h.want(h.do(anna, "POST", "/v1/calls", askingBody), 200, "")
	h.effects(1)
	h.want(h.do(anna, "POST", "/v1/calls/"+o.call+"/dispatch", ""), 200, "already_done")
	h.effects(1)
	if a := h.do(h.lena(), "GET", "/v1/approvals/"+o.approval, ""); a.get("state") != "consumed" {
		t.Errorf("approval: %s", a.body)
	}
}

func TestRejectionStays(t *testing.T) {
	h := newHouse(t)
	o := h.things()
	no := h.do(h.lena(), "POST", "/v1/approvals/"+o.approval+"/reject", `{"binding":"`+o.binding+`","note":"wrong customer"}`)
	if no.status != 200 || no.get("state") != "rejected" {
		t.Fatalf("%d %s", no.status, no.body)
	}
	r := h.want(h.do(h.anna(), "POST", "/v1/calls/"+o.call+"/dispatch", ""), 403, "rejected")
	if !strings.HasPrefix(r.get("detail"), "Rejected by a person") {
		t.Errorf("text: %s", r.body)
	}
	r = h.want(h.do(h.anna(), "POST", "/v1/calls", askingBody), 403, "rejected")
	if !strings.Contains(r.get("detail"), "wrong customer") {
		t.Errorf("the note is not told: %s", r.body)
	}
	h.effects(0)
}

// A dispatch that waits runs as soon as the question is answered.
func TestDispatchIsHeldForTheAnswer(t *testing.T) {
	h := newHouse(t)
	o := h.things()
	answer := make(chan reply, 1)
	go func() { answer <- h.do(h.anna(), "POST", "/v1/calls/"+o.call+"/dispatch?wait=20", "") }()
	select {
	case r := <-answer:
		t.Fatalf("it was not held: %s", r.body)
	case <-time.After(50 * time.Millisecond):
	}
	h.do(h.lena(), "POST", "/v1/approvals/"+o.approval+"/approve", `{"binding":"`+o.binding+`"}`)
	h.want(<-answer, 200, "")
	h.effects(1)
}

// Rule C2: a token that runs out during the wait is worth nothing after it.
func TestRule_C2_WhoWaitedIsVerifiedAgain(t *testing.T) {
	h := newHouse(t)
	o := h.things()
	short := h.token(identity.TokenSpec{Audience: proposing, Subject: "anna", Tenant: "acme", Agent: "bot", Scopes: []string{"work"}, TTL: time.Minute})
	answer := make(chan reply, 1)
	go func() { answer <- h.do(short, "POST", "/v1/calls/"+o.call+"/dispatch?wait=20", "") }()
	select {
	case r := <-answer:
		t.Fatalf("it was not held: %s", r.body)
	case <-time.After(50 * time.Millisecond):
	}
	h.offset.Add(int64(2 * time.Minute))
	h.do(h.lena(), "POST", "/v1/approvals/"+o.approval+"/approve", `{"binding":"`+o.binding+`"}`)
	h.want(<-answer, 401, "unauthenticated")
	h.effects(0)
	h.want(h.do(h.anna(), "POST", "/v1/calls/"+o.call+"/dispatch", ""), 200, "")
	h.effects(1)
}

func TestAgentLearnsNoApprover(t *testing.T) {
	h := newHouse(t)
	o := h.things()
	h.do(h.lena(), "POST", "/v1/approvals/"+o.approval+"/approve", `{"binding":"`+o.binding+`"}`)
	for _, path := range []string{"/v1/approvals/" + o.approval, "/v1/approvals", "/v1/calls/" + o.call, "/v1/events?call=" + o.call, "/v1/events?run=" + o.run} {
		r := h.do(h.anna(), "GET", path, "")
		if r.status != 200 || strings.Contains(r.body, "lena") || strings.Contains(r.body, "leads") {
			t.Errorf("%s tells the agent: %d %s", path, r.status, r.body)
		}
	}
	seen := h.do(h.lena(), "GET", "/v1/approvals/"+o.approval, "")
	for _, want := range []string{"lena", "leads", "ord_1001", "1200.00", "the customer asked"} {
		if !strings.Contains(seen.body, want) {
			t.Errorf("the approver does not see %q: %s", want, seen.body)
		}
	}
}

// A page is found although many questions before it are for others.
func TestApprovalsAreFoundBehindOthers(t *testing.T) {
	h := newHouse(t)
	for i := range 7 {
		h.want(h.do(h.anna(), "POST", "/v1/calls", fmt.Sprintf(`{"tool":"refund","arguments":{"order":"ord_%d","amount":"900"}}`, i)), 202, "above_limit")
	}
	next, found := "", 0
	for range 10 {
		path := "/v1/approvals?state=pending&limit=3"
		if next != "" {
			path += "&after=" + next
		}
		r := h.do(h.lena(), "GET", path, "")
		found += strings.Count(r.body, `"binding":"sha256:`)
		if next = r.get("next"); next == "" {
			break
		}
	}
	if found != 7 {
		t.Errorf("found %d of 7 questions", found)
	}
}
