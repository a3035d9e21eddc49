package console_test

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"
)

// A person signs in, reads, says yes: one effect, when the agent comes back.
func TestApproveWithoutScripts(t *testing.T) {
	w := newWorld(t)
	a := w.agent("anna", "refund", refund1200)
	b := w.browser()
	b.get("/console/approvals/"+a.Approval).want(t, 200, "Sign in at").without(t, "ord_1001", "anna")
	page := b.signIn("lena", "/console/approvals/"+a.Approval).want(t, 200,
		`Refund <span class="given">&#34;1200.00&#34;</span> <span class="given">&#34;EUR&#34;</span> on order <span class="given">&#34;ord_1001&#34;</span>`, "anna", "support-bot", "above what the agent may do alone",
		"59 min left", "production", "ticket T-88", "group leads", "Approve", "Reject")
	if page.at.Path != "/console/approvals/"+a.Approval {
		t.Fatalf("returned to %s", page.at)
	}
	w.wantEffects(t)
	b.answers(a.Approval, "approve", page).want(t, 200, "approved</strong> by you", "It runs once, when the agent asks again before").without(t, `id="approve"`)
	w.wantEffects(t)
	if got := w.back("anna", a); got.State != "succeeded" {
		t.Fatalf("the agent came back to %+v", got)
	}
	w.wantEffects(t, `refund {"amount":"1200.00","currency":"EUR","order_id":"ord_1001"}`)
	w.back("anna", a)
	b.get("/console/approvals/"+a.Approval).want(t, 200, "Approved, and done at")
	w.wantEffects(t, `refund {"amount":"1200.00","currency":"EUR","order_id":"ord_1001"}`)

	// The next page says what is different from it.
	next := w.agent("anna", "refund", `{"order_id":"ord_1001","amount":"4800.00","currency":"EUR"}`)
	b.get("/console/approvals/"+next.Approval).want(t, 200, "Since the last approved call", "1200.00", "4800.00", "2 arguments are the same")
	b.get("/console").want(t, 200, "<title>(1) Questions", "4800.00").without(t, "1200.00")
}

func (s shown) without(t testing.TB, parts ...string) shown {
	t.Helper()
	for _, part := range parts {
		if strings.Contains(s.body, part) {
			t.Errorf("%s says %q:\n%s", s.at, part, s.body)
		}
	}
	return s
}

func TestRejectWithNote(t *testing.T) {
	w := newWorld(t)
	a := w.agent("anna", "refund", refund1200)
	b := w.browser()
	page := b.signIn("lena", "/console/approvals/"+a.Approval)
	b.answers(a.Approval, "reject", page, "note", "wrong customer").want(t, 200, "rejected</strong> by you", "wrong customer", "It does not run")
	if got := w.back("anna", a); got.State != "denied" || got.Code != "rejected" {
		t.Fatalf("%+v", got)
	}
	w.wantEffects(t)
}

// What a dry run showed stands on the page as text from outside; the yes runs the call
// itself, once.
func TestWhatWouldChange(t *testing.T) {
	w := newWorld(t)
	a := w.agent("anna", "purge", `{"title":"old rows"}`)
	w.wantEffects(t)
	lead := w.browser()
	page := lead.signIn("lena", "/console/approvals/"+a.Approval)
	page.want(t, 200, "What would change", "&lt;script&gt;alert(1)&lt;/script&gt;", "U+202E", "nothing was decided by it").without(t, "<script>alert", "\u202e")
	lead.answers(a.Approval, "approve", page).want(t, 200)
	w.back("anna", a)
	w.wantEffects(t, `purge {"title":"old rows"}`)
	other := w.agent("anna", "refund", refund1200)
	lead.get("/console/approvals/"+other.Approval).want(t, 200).without(t, "What would change")
}

// What undoes a call is named to readers once it has had its effect, and to nobody
// else; the page proposes nothing.
func TestWhatUndoesACall(t *testing.T) {
	w := newWorld(t)
	a := w.agent("anna", "refund", refund1200)
	reader, lead := w.browser(), w.browser()
	reader.signIn("otto", "/console/calls/"+a.ID).want(t, 200).without(t, "undoes this")
	page := lead.signIn("lena", "/console/approvals/"+a.Approval)
	lead.answers(a.Approval, "approve", page).want(t, 200)
	w.back("anna", a)
	reader.get("/console/calls/"+a.ID).want(t, 200, "<bdi>anything</bdi></strong> as the tool that undoes this")
	lead.get("/console/calls/"+a.ID).want(t, 200, "ord_1001").without(t, "undoes this")
	w.wantEffects(t, `refund {"amount":"1200.00","currency":"EUR","order_id":"ord_1001"}`)
}

// A stranger's session, another tenant's and none get the same as for what does not
// exist; a reader reads and cannot answer.
func TestNotYoursIsNotThere(t *testing.T) {
	w := newWorld(t)
	a := w.agent("anna", "refund", refund1200)
	lead := w.browser()
	yes := lead.signIn("lena", "/console/approvals/"+a.Approval)
	missing := func(id string) string { return id[:len(id)-4] + "0000" }
	for _, who := range []string{"mallory", "gail", "anna"} {
		b := w.browser()
		b.signIn(who, "/console").want(t, 200, "There is nothing here for you").without(t, "ord_1001")
		for _, path := range []string{"/console/approvals/{a}", "/console/approvals/{a}/arguments", "/console/calls/{c}", "/console/calls/{c}/arguments", "/console/runs/{r}",
			"/console/live?question={a}", "/console/live?call={c}", "/console/live?run={r}", "/console/calls", "/console/tools", "/console/limits", "/console/alerts"} {
			there := b.get(strings.NewReplacer("{a}", a.Approval, "{c}", a.ID, "{r}", a.Run).Replace(path)).want(t, 404).without(t, "ord_1001", "support-bot")
			none := b.get(strings.NewReplacer("{a}", missing(a.Approval), "{c}", missing(a.ID), "{r}", missing(a.Run)).Replace(path))
			plain := strings.NewReplacer(a.Approval, "A", missing(a.Approval), "A", a.ID, "C", missing(a.ID), "C", a.Run, "R", missing(a.Run), "R")
			if plain.Replace(there.body) != plain.Replace(none.body) {
				t.Errorf("%s tells %s of what is there:\n%s\n%s", path, who, there.body, none.body)
			}
		}
		own := b.get("/console")
		f := url.Values{"form": {first(formOf, own.body)}, "binding": {first(binding, yes.body)}}
		b.post("/console/approvals/"+a.Approval+"/approve", f).want(t, 404)
		f.Set("question", a.Approval+" "+first(binding, yes.body))
		b.post("/console/runs/"+a.Run+"/reject", f).want(t, 404)
	}
	reader := w.browser()
	page := reader.signIn("otto", "/console/approvals/"+a.Approval).want(t, 200, "ord_1001").without(t, `id="approve"`)
	reader.post("/console/approvals/"+a.Approval+"/approve", url.Values{"form": {first(formOf, page.body)}, "binding": {first(binding, yes.body)}}).want(t, 404)
	if got := w.back("anna", a); got.State != "approval_pending" {
		t.Fatalf("%+v", got)
	}
	w.wantEffects(t)
	// Whoever is asked can answer: the refusals above left all as it was.
	lead.answers(a.Approval, "approve", yes).want(t, 200)
	w.back("anna", a)
	w.wantEffects(t, `refund {"amount":"1200.00","currency":"EUR","order_id":"ord_1001"}`)
}

// No form of another site, of another session or without its secret does anything.
func TestForgedFormsDoNothing(t *testing.T) {
	w := newWorld(t)
	a := w.agent("anna", "refund", refund1200)
	b, other := w.browser(), w.browser()
	page := b.signIn("lena", "/console/approvals/"+a.Approval)
	foreign := other.signIn("lars", "/console")
	good := url.Values{"form": {first(formOf, page.body)}, "binding": {first(binding, page.body)}}
	path := "/console/approvals/" + a.Approval + "/approve"
	for name, send := range map[string]func() shown{
		"another origin":          func() shown { return b.post(path, good, "Origin", "https://evil.example") },
		"a cross-site request":    func() shown { return b.post(path, good, "Sec-Fetch-Site", "cross-site") },
		"a same-site neighbour":   func() shown { return b.post(path, good, "Sec-Fetch-Site", "same-site") },
		"neither origin nor site": func() shown { return b.post(path, good, "Origin", "") },
		"no secret":               func() shown { return b.post(path, url.Values{"binding": good["binding"]}) },
		"another session's": func() shown {
			return b.post(path, url.Values{"binding": good["binding"], "form": {first(formOf, foreign.body)}})
		},
		"the secret in the query": func() shown { return b.post(path+"?"+good.Encode(), url.Values{"binding": good["binding"]}) },
		"no session":              func() shown { return w.browser().post(path, good) },
	} {
		if got := send(); got.status != http.StatusForbidden {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
	if got := b.get(path); got.status != http.StatusNotFound {
		t.Errorf("an answer by a link: %d", got.status)
	}
	for _, bad := range []string{"", "sha256:00", "sha256:" + strings.Repeat("0", 64)} {
		if got := b.post(path, url.Values{"form": good["form"], "binding": {bad}}); got.status != http.StatusBadRequest {
			t.Errorf("binding %q: %d", bad, got.status)
		}
	}
	w.back("anna", a)
	w.wantEffects(t)
	b.post(path, good).want(t, 200, "by you")
	w.back("anna", a)
	w.wantEffects(t, `refund {"amount":"1200.00","currency":"EUR","order_id":"ord_1001"}`)
}

// An answer to something else than is asked now is none, and the page says so.
func TestWhatYouSawIsNotWhatWouldRun(t *testing.T) {
	w := newWorld(t)
	a := w.agent("anna", "refund", refund1200)
	b := w.browser()
	page := b.signIn("lena", "/console/approvals/"+a.Approval)
	wrong := "sha256:" + strings.Repeat("ab", 32)
	b.answers(a.Approval, "approve", page, "binding", wrong).want(t, 409, "What you saw is not what would run", "was not recorded", "Approve")
	w.back("anna", a)
	w.wantEffects(t)
	b.answers(a.Approval, "approve", page).want(t, 200)
	b.answers(a.Approval, "approve", page).want(t, 200, "by you")
	b.answers(a.Approval, "reject", page).want(t, 409, "You answered this question already").without(t, `id="approve"`)
	w.back("anna", a)
	w.wantEffects(t, `refund {"amount":"1200.00","currency":"EUR","order_id":"ord_1001"}`)
}

// After its time a question takes no answer, whoever still has its page.
func TestExpiredQuestion(t *testing.T) {
	w := newWorld(t)
	a := w.agent("anna", "refund", refund1200)
	b := w.browser()
	w.offset.Store(int64(50 * time.Minute))
	page := b.signIn("lena", "/console/approvals/"+a.Approval).want(t, 200, "9 min left")
	w.offset.Store(int64(61 * time.Minute))
	b.answers(a.Approval, "approve", page).want(t, 409, "expired", "Nobody answered in time").without(t, `id="approve"`)
	w.back("anna", a)
	w.wantEffects(t)
}

// Two persons, each once.
func TestQuorumOnThePage(t *testing.T) {
	w := newWorld(t)
	a := w.agent("anna", "both", `{"title":"it"}`)
	lena, lars := w.browser(), w.browser()
	page := lena.signIn("lena", "/console/approvals/"+a.Approval).want(t, 200, "0 of 2 said yes")
	lena.answers(a.Approval, "approve", page).want(t, 200, "1 of 2 said yes", "Others are still asked")
	lena.answers(a.Approval, "approve", page).want(t, 200, "1 of 2 said yes")
	w.back("anna", a)
	w.wantEffects(t)
	page = lars.signIn("lars", "/console/approvals/"+a.Approval)
	lars.answers(a.Approval, "approve", page).want(t, 200, "2 of 2 said yes")
	w.back("anna", a)
	w.wantEffects(t, `both {"title":"it"}`)
}

// A batch is rejected with each binding that was shown, and its run ends; there is
// no form that approves several.
func TestRejectAllAndEndTheRun(t *testing.T) {
	w := newWorld(t)
	var all []answer
	for _, order := range []string{"ord_1", "ord_2", "ord_3"} {
		all = append(all, w.agent("anna", "refund", `{"order_id":"`+order+`","amount":"900.00","currency":"EUR"}`))
	}
	b := w.browser()
	page := b.signIn("lena", "/console/approvals/"+all[0].Approval).want(t, 200, "2 more calls of this run wait for you", "Reject all 3 and end the run", "One by one").without(t, "pprove all")
	f := url.Values{"form": {first(formOf, page.body)}, "note": {"made up"}}
	for _, a := range all {
		f.Add("question", a.Approval+" "+first(binding, b.get("/console/approvals/"+a.Approval).body))
	}
	other := w.agent("berta", "refund", refund1200) // a run of somebody else, that lena is asked about too
	mixed := url.Values{"form": f["form"], "question": {f["question"][0], other.Approval + " " + first(binding, b.get("/console/approvals/"+other.Approval).body)}}
	b.post("/console/runs/"+all[0].Run+"/reject", mixed).want(t, 400, "not all of that run")
	if got := w.back("anna", all[0]); got.State != "approval_pending" {
		t.Fatalf("a batch that was refused did something: %+v", got)
	}
	b.post("/console/runs/"+all[0].Run+"/reject", f).want(t, 200, "ended", "denied")
	if got := w.back("berta", other); got.State != "approval_pending" {
		t.Fatalf("another run was touched: %+v", got)
	}
	for _, a := range all {
		if got := w.back("anna", a); got.State != "denied" {
			t.Errorf("%+v", got)
		}
	}
	b.post("/console/runs/"+all[0].Run+"/reject", f).want(t, 200) // the same answer once more
	w.wantEffects(t)
}

// Every page keeps out frames, foreign scripts and caches; assets carry their hash.
func TestHeaders(t *testing.T) {
	w := newWorld(t)
	a := w.agent("anna", "refund", refund1200)
	b := w.browser()
	b.signIn("lena", "/console")
	for _, path := range []string{"/console", "/console/approvals/" + a.Approval, "/console/approvals/" + a.Approval + "/arguments", "/console/nothing", "/console/runs/" + a.Run, "/console/calls/" + a.ID} {
		h := b.get(path).header
		csp := h.Get("Content-Security-Policy")
		if !strings.Contains(csp, "frame-ancestors 'none'") || !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") || strings.Contains(csp, "http") {
			t.Errorf("%s: policy %q", path, csp)
		}
		if h.Get("X-Frame-Options") != "DENY" || h.Get("Cache-Control") != "no-store" || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Referrer-Policy") == "" {
			t.Errorf("%s: %v", path, h)
		}
	}
	file := b.get("/console/approvals/" + a.Approval + "/arguments")
	if file.body != `{"amount":"1200.00","currency":"EUR","order_id":"ord_1001"}` || !strings.HasPrefix(file.header.Get("Content-Type"), "text/plain") || !strings.HasPrefix(file.header.Get("Content-Disposition"), "attachment") {
		t.Errorf("the file: %v %q", file.header, file.body)
	}
	page := b.get("/console")
	style := page.body[strings.Index(page.body, "/console/assets/"):]
	style = style[:strings.Index(style, `"`)]
	if got := b.get(style); got.status != 200 || !strings.Contains(got.header.Get("Cache-Control"), "immutable") || strings.Contains(got.body, "@import") || strings.Contains(got.body, "url(") {
		t.Errorf("%s: %d %v", style, got.status, got.header)
	}
	for _, agent := range []string{"Mozilla/5.0 (Linux; Android 14; wv) AppleWebKit/537.36 Chrome/120 Mobile Safari/537.36", "Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) AppleWebKit/605.1.15 Mobile/15E148 Slack/24"} {
		r, _ := http.NewRequest(http.MethodGet, w.url+"/console/approvals/"+a.Approval, nil)
		r.Header.Set("User-Agent", agent)
		w.browser().do(r).want(t, 200, "Open this in your browser", w.url+"/console/approvals/"+a.Approval)
	}
	b.get("/console").without(t, "Open this in your browser")
}

// A list that is longer than its page goes on, and says so; filters narrow it.
func TestInboxPages(t *testing.T) {
	w := newWorld(t)
	for n := range 60 {
		w.agent("anna", "refund", fmt.Sprintf(`{"order_id":"ord_%d","amount":"900.00","currency":"EUR"}`, n))
	}
	w.agent("berta", "anything", `{"title":"the newest"}`)
	b := w.browser()
	page := b.signIn("lena", "/console").want(t, 200, "(50&#43;) Questions", "the newest", "ord_59", "ord_11&#34;").without(t, "ord_10&#34;")
	older := first(regexp.MustCompile(`id="older" href="([^"]+)"`), page.body)
	b.get(older).want(t, 200, "ord_10&#34;", "ord_0&#34;", "(11) Questions").without(t, "ord_59", `id="older"`)
	b.get("/console?state=waiting&tool=anything").want(t, 200, "(1) Questions", "the newest").without(t, "ord_1")
	b.get("/console?for=nobody").want(t, 200, "There is nothing here for you")
	b.get("/console?state=settled").want(t, 200, "There is nothing here for you")
}
