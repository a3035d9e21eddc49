package console_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
)

// apply writes a change as the boundary does.
func (w *world) apply(c record.Change, err error) {
	w.t.Helper()
	if err == nil {
		err = w.placet.Records().(interface {
			Apply(context.Context, record.Change) error
		}).Apply(w.t.Context(), c)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// schedule makes a schedule of an agent's for a person, as it is made where there is a
// live source to delegate to: the development issuer has none.
func (w *world) schedule(tenant record.TenantID, n int, subject, title string, until time.Duration) record.Schedule {
	w.t.Helper()
	now := w.now().UTC().Truncate(time.Microsecond)
	o := record.Owner{Tenant: tenant, Principal: record.Principal{Issuer: "urn:placet:dev", Subject: subject}, Agent: "support-bot"}
	id := func(kind string) string {
		id, err := record.NewID(kind, now, strings.NewReader(fmt.Sprintf("%032d", n)))
		if err != nil {
			w.t.Fatal(err)
		}
		return id
	}
	run := record.Run{Owner: o, ID: record.RunID(id("run")), Lineage: record.UnvouchedLineage(o, int64(n)), Turn: 1, Opened: now, Active: now,
		Delegation: &record.Delegation{Issuer: o.Principal.Issuer, Sealed: []byte("x"), Granted: now, Until: now.Add(until)}}
	arguments, err := json.Marshal(map[string]string{"title": title})
	if err != nil {
		w.t.Fatal(err)
	}
	s := record.Schedule{Owner: o, ID: record.ScheduleID(id("sch")), Run: run.ID, Tool: "report", Pin: canon.Of("pin"), Arguments: arguments,
		Purpose: "The weekly report, as " + title + " asked.", Cron: "0 9 * * 1-5", Zone: "Europe/Berlin", Next: now.Add(48 * time.Hour)}
	w.apply(record.NewSchedule(s, run, now), nil)
	made, err := w.placet.Records().(interface {
		Schedule(context.Context, record.TenantID, record.ScheduleID) (record.Schedule, error)
	}).Schedule(w.t.Context(), tenant, s.ID)
	if err != nil {
		w.t.Fatal(err)
	}
	return made
}

// TestLaterPage: readers see the queue, what came to nothing and the schedules of their
// tenant; for approvers there is no such page, and another tenant's shows none of it.
func TestLaterPage(t *testing.T) {
	w := newWorld(t)
	waits := w.agent("anna", "report", `{"title":"<script>x</script>\u202e"}`)
	lost := w.agent("anna", "report", `{"title":"lost"}`)
	done := w.agent("anna", "report", `{"title":"done"}`)
	w.back("anna", lost)
	w.back("anna", done)
	first, second := w.agent("anna", "digest", `{"title":"one"}`), w.agent("anna", "digest", `{"title":"two"}`)
	w.back("anna", first)
	w.back("anna", second)
	effects := w.effects()
	mine := w.schedule("dev", 1, "anna", "<b>anna</b>", 30*24*time.Hour)
	paused := w.schedule("dev", 2, "anna", "paused", -time.Hour)
	w.apply(record.PauseSchedule(paused, "its principal <i>is gone</i>", record.Who{System: "clock"}, w.now()))
	theirs := w.schedule("globex", 3, "anna", "theirs", time.Hour)

	reader, lead, other := w.browser(), w.browser(), w.browser()
	reader.signIn("rita", "/console/later").want(t, 200, "&lt;script&gt;x", "U+202E", "not tried yet", "it waits for its agent", `href="/console/calls/`+waits.ID+`"`,
		`href="/console/calls/`+second.ID+`"`, "put off: as many calls as are allowed at a time had been made").
		without(t, "<script>x", lost.ID, done.ID, first.ID, "Revoke its run")
	dead := reader.get("/console/later?list=dead").want(t, 200, lost.ID, "outcome unknown", "attempt 1 of 1", "its outcome is not known").without(t, waits.ID, done.ID, second.ID, "Say what happened")
	schedules := reader.get("/console/later?list=schedules").want(t, 200, string(mine.ID), string(paused.ID), "0 9 * * 1-5 (Europe/Berlin)", "Its delegation lasts until", "Its delegation ended",
		"&lt;b&gt;anna", "its principal &lt;i&gt;is gone", "paused").without(t, string(theirs.ID), "<b>anna", "<i>is gone", "Revoke…")
	lead.signIn("lena", "/console").without(t, "/console/later")
	for _, list := range []string{"", "?list=dead", "?list=schedules"} {
		lead.get("/console/later"+list).want(t, 404).without(t, waits.ID, lost.ID, string(mine.ID))
		lead.get("/console/schedules/"+string(mine.ID)+"/arguments").want(t, 404).without(t, "anna")
		other.signIn("greta", "/console/later"+list).want(t, 200).without(t, waits.ID, second.ID, lost.ID, string(mine.ID))
	}
	other.get("/console/later?list=schedules").want(t, 200, string(theirs.ID), "Revoke…")
	reader.get("/console/schedules/"+string(mine.ID)+"/arguments").want(t, 200, `{"title":"\u003cb\u003eanna`)
	other.get("/console/schedules/"+string(mine.ID)+"/arguments").want(t, 404).without(t, "anna")

	// Nobody but an operator of the tenant says what happened, and once.
	settle := func(b *browser, page shown) shown {
		return b.post("/console/calls/"+lost.ID+"/settle", url.Values{"form": {secretOf(page)}, "outcome": {"succeeded"}, "evidence": {"the desk's book"}})
	}
	settle(reader, schedules).want(t, 404)
	settle(lead, lead.get("/console")).want(t, 404)
	settle(other, other.get("/console/later")).want(t, 404)
	if got := reader.get("/console/later?list=dead"); got.body == "" || !strings.Contains(got.body, lost.ID) || dead.status != 200 {
		t.Fatalf("it was settled: %s", got.body)
	}
	operator := w.browser()
	page := operator.signIn("otto", "/console/later?list=dead").want(t, 200, "Say what happened", lost.ID)
	operator.post("/console/calls/"+lost.ID+"/settle", url.Values{"form": {secretOf(page)}, "outcome": {"succeeded"}}).want(t, 400, "state the evidence")
	settle(operator, page).want(t, 200, "succeeded", "the desk&#39;s book")
	operator.get("/console/later?list=dead").want(t, 200, "There are none.")
	settle(operator, page).want(t, 409)
	w.wantEffects(t, effects...)
}

// secretOf is the form's secret of a page.
func secretOf(page shown) string { return first(formOf, page.body) }

// TestRevocationsPage: an operator revokes and undoes on the page, and what the tool does
// says so. A reader looks, and nobody else even does; another tenant goes on.
func TestRevocationsPage(t *testing.T) {
	w := newWorld(t)
	small := func(n int) string { return fmt.Sprintf(`{"order_id":"ord_%d","amount":"1","currency":"EUR"}`, n) }
	effect := func(n int) string {
		return fmt.Sprintf(`refund {"amount":"1","currency":"EUR","order_id":"ord_%d"}`, n)
	}
	globex, err := w.local.Sign(identity.TokenSpec{Audience: w.url + "/mcp", Subject: "anna", Tenant: "globex", Agent: "support-bot", Scopes: []string{"work"}})
	if err != nil {
		t.Fatal(err)
	}
	inGlobex := func(n int) answer { return w.sendAs(globex, "/v1/calls", `{"tool":"refund","arguments":`+small(n)+`}`) }
	w.agent("anna", "refund", small(1))
	waiting := w.agent("anna", "refund", refund1200)

	operator, reader, lead, other := w.browser(), w.browser(), w.browser(), w.browser()
	form := func(page shown, more ...string) url.Values {
		f := url.Values{"form": {secretOf(page)}, "target": {"tool:refund"}, "reason": {"<b>wrong</b> amounts\u202e"}, "for": {"1h"}, "sure": {"yes"}}
		for i := 0; i+1 < len(more); i += 2 {
			f.Set(more[i], more[i+1])
		}
		return f
	}
	asReader := reader.signIn("rita", "/console/revocations").want(t, 200, "There are none.").without(t, `action="/console/revocations"`)
	asLead := lead.signIn("lena", "/console").without(t, "/console/revocations")
	lead.get("/console/revocations").want(t, 404)
	asOther := other.signIn("greta", "/console/revocations").want(t, 200, `action="/console/revocations"`)
	reader.post("/console/revocations", form(asReader)).want(t, 404)
	lead.post("/console/revocations", form(asLead)).want(t, 404)
	operatorPage := operator.signIn("otto", "/console/revocations?target=tool:refund").want(t, 200, `value="tool:refund"`).without(t, "In every tenant")
	operator.post("/console/revocations", form(operatorPage, "sure", "")).want(t, 400, "tick the box")
	operator.post("/console/revocations", form(operatorPage, "target", "tool:refunds")).want(t, 400, "the registry has no tool")
	operator.post("/console/revocations", form(operatorPage, "for", "soon")).want(t, 400, "1h30m")
	operator.post("/console/revocations", form(operatorPage, "everywhere", "yes")).want(t, 403, "operate_all")
	operator.post("/console/revocations", form(operatorPage, "form", secretOf(asReader))).want(t, 403)
	if got := w.agent("anna", "refund", small(2)); got.State != "succeeded" {
		t.Fatalf("somebody revoked it: %+v", got)
	}

	made := operator.post("/console/revocations", form(operatorPage)).want(t, 200, "tool:refund", "&lt;b&gt;wrong", "U+202E", "otto@", "Undo it", "1 call that waited was ended").without(t, "<b>wrong")
	path := made.at.Path
	if got := w.agent("anna", "refund", small(3)); got.Code != "not_available" && got.Code != "revoked" {
		t.Fatalf("after it was revoked: %+v", got)
	}
	if got := w.back("anna", waiting); got.State != "revoked" {
		t.Fatalf("what waited: %+v", got)
	}
	if got := inGlobex(4); got.State != "succeeded" {
		t.Fatalf("another tenant's: %+v", got)
	}
	lead.answers(waiting.Approval, "approve", lead.get("/console/approvals/"+waiting.Approval))
	reader.get("/console/revocations").want(t, 200, "tool:refund", path, "otto@", "&lt;b&gt;wrong")
	reader.get(path).want(t, 200, "tool:refund").without(t, "Undo it")
	reader.get("/console/alerts").want(t, 200, "1 revocation is in force")
	lead.get(path).want(t, 404)
	other.get(path).want(t, 404)
	other.get("/console/revocations").want(t, 200, "There are none.")

	undo := func(b *browser, page shown) shown {
		return b.post(path+"/undo", url.Values{"form": {secretOf(page)}, "reason": {"mended"}})
	}
	undo(reader, asReader).want(t, 404)
	undo(lead, asLead).want(t, 404)
	undo(other, asOther).want(t, 404)
	if got := w.agent("anna", "refund", small(5)); got.State == "succeeded" {
		t.Fatalf("somebody undid it: %+v", got)
	}
	operator.post(path+"/undo", url.Values{"form": {secretOf(made)}}).want(t, 400, "state the reason")
	undo(operator, made).want(t, 200, "undone", "mended").without(t, "Undo it")
	undo(operator, made).want(t, 409)
	if got := w.agent("anna", "refund", small(6)); got.State != "succeeded" {
		t.Fatalf("after it was undone: %+v", got)
	}
	reader.get("/console/revocations").want(t, 200, "There are none.")
	reader.get("/console/revocations?ended=yes").want(t, 200, "tool:refund", "undone", "mended")
	w.wantEffects(t, effect(1), effect(2), effect(4), effect(6))
}

// TestBrowserLater: the pages in a real browser, light, dark and on a phone, with what
// others wrote shown as text; and an operator stops a schedule from its row.
func TestBrowserLater(t *testing.T) {
	w := newWorld(t)
	long := strings.Repeat("W", 3000)
	w.agent("anna", "report", `{"title":"<img src=x onerror=\"document.title='owned'\">\u202e`+long+`"}`)
	w.back("anna", w.agent("anna", "report", `{"title":"lost"}`))
	w.back("anna", w.agent("anna", "digest", `{"title":"one"}`))
	w.back("anna", w.agent("anna", "digest", `{"title":"two"}`))
	s := w.schedule("dev", 1, "anna", "<script>document.title='owned'</script>\u202e"+long, 30*24*time.Hour)
	paused := w.schedule("dev", 2, "anna", "every week", -time.Hour)
	w.apply(record.PauseSchedule(paused, "nothing speaks for anna@urn:placet:dev any more", record.Who{System: "clock"}, w.now()))
	effects := w.effects()
	look := func(b *tab, name string) {
		b.known("otto")
		for list, says := range map[string]string{"queue": "put off: as many calls", "dead": "outcome unknown", "schedules": "Its delegation ended"} {
			b.open("/console/later?list=" + list)
			b.says(says)
			if n := js[int](b, `document.querySelectorAll("main script, main img").length`); n != 0 || js[string](b, `document.title`) != "Later · Placet" {
				t.Errorf("%s: %d elements of the agent's, title %q", list, n, js[string](b, `document.title`))
			}
			b.shot("later-" + list + name)
		}
	}
	look(w.tab(t, 360, 740), "-phone")
	look(w.tab(t, 1000, 900, dark), "-dark")
	b := w.tab(t, 1000, 900)
	look(b, "")
	b.open("/console/later?list=schedules")
	b.press(`a[href$="target=schedule:` + string(s.ID) + `#revoke"]`)
	if got := js[string](b, `document.querySelector("#target").value`); got != "schedule:"+string(s.ID) {
		t.Fatalf("the form is about %q", got)
	}
	b.shot("revoke")
	b.do(chromedp.SendKeys(chromedp.CSS("#reason"), "wrong recipients"))
	js[bool](b, `(document.querySelector("[name=sure]").checked = true)`)
	b.press("form.box button")
	b.says("schedule:"+string(s.ID), "wrong recipients", "until it is undone")
	b.shot("revocation")
	b.open("/console/later?list=schedules")
	b.says("revoked")
	for name, tab := range map[string]*tab{"": b, "-phone": w.tab(t, 360, 740), "-dark": w.tab(t, 1000, 900, dark)} {
		tab.known("otto")
		tab.open("/console/revocations")
		tab.says("schedule:"+string(s.ID), "wrong recipients")
		tab.shot("revocations" + name)
	}
	w.wantEffects(t, effects...)
}
