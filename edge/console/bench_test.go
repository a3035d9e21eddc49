package console_test

import (
	"cmp"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"sync"
	"testing"
)

// BenchmarkPages is each page beside many questions that wait, made by the whole
// server on its SQLite file, without a network. PLACET_PENDING says how many; a
// person's own thousands, and a person who is asked none of them, are among them.
func BenchmarkPages(b *testing.B) {
	pending, err := strconv.Atoi(cmp.Or(os.Getenv("PLACET_PENDING"), "10000"))
	if err != nil {
		b.Fatal(err)
	}
	w := newWorld(b)
	lead := w.browser()
	lead.signIn("lena", "/console")
	settled := w.agent("anna", "refund", refund1200)
	lead.answers(settled.Approval, "approve", lead.get("/console/approvals/"+settled.Approval)).want(b, 200)
	w.back("anna", settled)
	last := w.fill(pending)
	cookies := map[string]string{"lena": lead.cookie()}
	for _, who := range []string{"mallory", "otto"} {
		other := w.browser()
		other.signIn(who, "/console")
		cookies[who] = other.cookie()
	}
	for _, page := range []struct{ name, who, path string }{
		{"Inbox", "lena", "/console"},
		{"InboxOfOnePerson", "lena", "/console?for=berta"},
		{"InboxOfOneTool", "lena", "/console?tool=both"},
		{"InboxApproved", "lena", "/console?state=approved"},
		{"InboxSettled", "lena", "/console?state=settled"},
		{"InboxOfNobody", "mallory", "/console"},
		{"Question", "lena", "/console/approvals/" + last.Approval},
		{"QuestionSettled", "lena", "/console/approvals/" + settled.Approval},
		{"QuestionForReader", "otto", "/console/approvals/" + last.Approval},
		{"Call", "otto", "/console/calls/" + settled.ID},
		{"Calls", "otto", "/console/calls"},
		{"RunForReader", "otto", "/console/runs/" + last.Run},
		{"Run", "lena", "/console/runs/" + last.Run},
		{"Tools", "otto", "/console/tools"},
		{"Limits", "otto", "/console/limits"},
	} {
		b.Run(page.name, func(b *testing.B) {
			for b.Loop() {
				r := httptest.NewRequest(http.MethodGet, page.path, nil)
				r.AddCookie(&http.Cookie{Name: w.sessionCookie(), Value: cookies[page.who]})
				got := httptest.NewRecorder()
				w.placet.Handler().ServeHTTP(got, r)
				if got.Code != http.StatusOK {
					b.Fatalf("%d %s", got.Code, got.Body)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/1000/float64(b.N), "ms/page")
		})
	}
}

// fill asks so many questions: a fifth for anna through one agent, the others for
// people of whom each has a hundred, as many as the default cap admits. It returns
// anna's newest.
func (w *world) fill(n int) answer {
	for i := range 3 {
		w.agent("berta", "anything", fmt.Sprintf(`{"title":"first %d"}`, i))
		w.agent("berta", "both", fmt.Sprintf(`{"title":"first %d"}`, i))
	}
	var all sync.WaitGroup
	const at = 32
	for k := range at {
		all.Go(func() {
			for i := k; i < n; i += at {
				who := "anna"
				if i%5 > 0 {
					who = fmt.Sprintf("person_%d", i%(n/100+1))
				}
				w.agent(who, "refund", fmt.Sprintf(`{"order_id":"ord_%d","amount":"900.00","currency":"EUR"}`, i))
			}
		})
	}
	all.Wait()
	return w.agent("anna", "refund", `{"order_id":"ord_last","amount":"901.00","currency":"EUR"}`)
}
