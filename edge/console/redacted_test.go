package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/placet-dev/placet/identity"
)

// redact is an operator's request, over the API.
func (w *world) redact(t *testing.T, a answer, why string) shown {
	t.Helper()
	token, err := w.local.Sign(identity.TokenSpec{Audience: w.url + "/console", Subject: "otto", Tenant: "dev", Groups: []string{"platform"}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequest(http.MethodPost, w.url+"/v1/calls/"+a.ID+"/redact", strings.NewReader(`{"reason":"`+why+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	return w.browser().do(r)
}

// TestRedactedCallSaysSo: the pages of a call that was redacted, and of its question, say
// that it was, by whose word, and what went; no page shows anything of the content, and
// the next question compares nothing with it. A call beside it is whole.
func TestRedactedCallSaysSo(t *testing.T) {
	w := newWorld(t)
	a, beside := w.agent("anna", "refund", refund1200), w.agent("anna", "refund", `{"order_id":"ord_7","amount":"777.00","currency":"EUR"}`)
	lead := w.browser()
	lead.signIn("lena", "/console")
	for _, x := range []answer{a, beside} {
		lead.answers(x.Approval, "approve", lead.get("/console/approvals/"+x.Approval)).want(t, 200, "approved</strong> by you")
		w.back("anna", x)
	}
	effects := []string{`refund {"amount":"1200.00","currency":"EUR","order_id":"ord_1001"}`, `refund {"amount":"777.00","currency":"EUR","order_id":"ord_7"}`}
	w.wantEffects(t, effects...)
	reader := w.browser()
	reader.signIn("otto", "/console")
	reader.get("/console/calls/"+a.ID).want(t, 200, "1200.00", "T-88").without(t, "not in the record any more")

	got := w.redact(t, a, "asked <for> by the customer").want(t, 200, `"redacted"`, `"argument_digest":""`)
	got.without(t, "1200.00", "T-88", `sha256:`+w.hex(t, "digest", a), `sha256:`+w.hex(t, "effect", a))
	content := []string{"1200.00", "ord_1001", "T-88", "currency"}
	for _, page := range []shown{reader.get("/console/calls/" + a.ID), lead.get("/console/approvals/" + a.Approval)} {
		page.want(t, 200, "not in the record any more", "asked &lt;for&gt; by the customer", "arguments", "purpose").without(t, content...)
	}
	for _, path := range []string{"/console/calls", "/console/runs/" + a.Run, "/console/calls/" + a.ID + "/arguments"} {
		reader.get(path).want(t, 200).without(t, "1200.00", "ord_1001")
	}
	lead.get("/console/approvals/"+a.Approval+"/arguments").want(t, 200).without(t, content...)
	reader.get("/console/calls/"+beside.ID).want(t, 200, "777.00", "ord_7").without(t, "not in the record any more")
	w.redact(t, a, "again").want(t, 409)

	// The newest approved call is redacted as well: the next question says why it compares nothing.
	w.redact(t, beside, "both").want(t, 200)
	next := w.agent("anna", "refund", `{"order_id":"ord_8","amount":"888.00","currency":"EUR"}`)
	page := lead.get("/console/approvals/"+next.Approval).want(t, 200, "888.00", "so that nothing is compared").without(t, "777.00", "ord_7", "not there")
	lead.answers(next.Approval, "approve", page).want(t, 200, "approved</strong> by you")
	w.redact(t, next, "it has not run").want(t, 409)
	w.back("anna", next)
	w.wantEffects(t, append(effects, `refund {"amount":"888.00","currency":"EUR","order_id":"ord_8"}`)...)

	// Who may not operate redacts nothing.
	lead.post("/v1/calls/"+next.ID+"/redact", url.Values{}).without(t, `"redacted"`)
	reader.get("/console/calls/"+next.ID).want(t, 200, "888.00")
}

// hex is a digest of a call's row.
func (w *world) hex(t *testing.T, column string, a answer) string {
	t.Helper()
	return strings.ToLower(string(w.stored(t, `SELECT hex(`+column+`) FROM calls WHERE id = ?`, a.ID)))
}
