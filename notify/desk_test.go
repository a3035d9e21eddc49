package notify

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

// TestAQuestionReachesItsReceivers: those whom a question asks are told once, signed,
// with the link and without arguments; others hear nothing. Nobody can answer with
// what they got, and the call runs once after people did, elsewhere.
func TestAQuestionReachesItsReceivers(t *testing.T) {
	w := newWorld(t)
	leads, finance, others, rooms := newReceiver(t, nil), newReceiver(t, nil), newReceiver(t, nil), newReceiver(t, nil)
	foreign := newReceiver(t, nil)
	elsewhere := foreign.webhook("globex", "leads")
	elsewhere.Tenants = []record.TenantID{"globex"}
	shows := finance.webhook("finance", "finance")
	shows.ShowArguments = true
	_, _ = w.run(w.store, leads.webhook("leads", "leads"), shows, others.webhook("others", "others"), rooms.slack("room", "leads"), elsewhere)
	a := w.ask("anna", "acme", "ord_7751")
	w.until("all are told", func() bool { return len(w.events(record.EventNotified)) == 3 })

	m := leads.all()[0]
	wh, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	if err := wh.Verify([]byte(m.body), m.header); err != nil {
		t.Fatalf("the specification's own library: %v\n%v", err, m.header)
	}
	key, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(m.header.Get("webhook-id") + "." + m.header.Get("webhook-timestamp") + "." + m.body))
	if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); m.header.Get("webhook-signature") != want {
		t.Fatalf("signature %s, want %s", m.header.Get("webhook-signature"), want)
	}
	for path, want := range map[string]string{"approval": string(a.ID), "tool": "refund", "agent": "bot", "tenant": "acme", "link": "https://tools.test/console/approvals/" + string(a.ID), "reminder": "0"} {
		if got := text(t, m, "data", path); got != want {
			t.Errorf("%s is %q, want %q", path, got, want)
		}
	}
	if got := text(t, m, "type"); got != "approval.requested" || text(t, m, "data", "principal", "subject") != "anna" {
		t.Errorf("%s", m.body)
	}
	for name, r := range map[string]*receiver{"webhook": leads, "room": rooms} {
		if r.count() != 1 {
			t.Errorf("the %s got %d messages", name, r.count())
		}
		for _, hidden := range []string{"ord_7751", a.Binding.String(), "effect", "arguments"} {
			if strings.Contains(r.all()[0].body, hidden) {
				t.Errorf("the %s was told %q: %s", name, hidden, r.all()[0].body)
			}
		}
	}
	if room := text(t, rooms.all()[0], "text"); !strings.Contains(room, "`refund` for `anna`, by `bot`") || !strings.Contains(room, "<https://tools.test/console/approvals/"+string(a.ID)+"|") {
		t.Errorf("the room reads %s", room)
	}
	if m := finance.all()[0]; text(t, m, "data", "arguments", "order") != "ord_7751" || text(t, m, "data", "effect") != `Refund "ord_7751"` {
		t.Errorf("with show_arguments: %s", m.body)
	}
	if others.count() != 0 || foreign.count() != 0 {
		t.Errorf("a group that is not asked got %d, another tenant's receiver %d", others.count(), foreign.count())
	}
	if m.header.Get("webhook-id") == finance.all()[0].header.Get("webhook-id") {
		t.Error("two receivers have one ID")
	}

	w.answer(a, "lena", "leads", record.Yes)
	w.answer(a, "otto", "finance", record.Yes)
	if got := w.propose("anna", "acme", "ord_7751"); got.Verdict != record.Allow || len(w.ledger) != 1 {
		t.Fatalf("after two people said yes: %s %s, %d effects", got.Verdict, got.Code, len(w.ledger))
	}
}

// TestDeliverySurvivesARestart: what was not taken is sent after a restart under
// the same ID, and what was taken is not.
func TestDeliverySurvivesARestart(t *testing.T) {
	w := newWorld(t)
	good, bad := newReceiver(t, nil), newReceiver(t, status(503))
	_, stop := w.run(w.store, good.webhook("good", "leads"), bad.webhook("bad", "leads"))
	a := w.ask("anna", "acme", "ord_1")
	w.until("one took it, one failed", func() bool { return len(w.events(record.EventNotified)) == 1 && bad.count() > 1 })
	stop()
	if err := w.store.Close(); err != nil {
		t.Fatal(err)
	}
	w.open()
	bad.set(nil)
	_, stop = w.run(w.store, good.webhook("good", "leads"), bad.webhook("bad", "leads"))
	w.until("the other took it", func() bool { return len(w.events(record.EventNotified)) == 2 })
	b := w.ask("anna", "acme", "ord_2") // a later one passes: the first was seen
	w.until("the second question was told", func() bool { return len(w.events(record.EventNotified)) == 4 })
	stop()
	if good.count() != 2 || text(t, good.all()[1], "data", "approval") != string(b.ID) {
		t.Fatalf("who took it before the restart got %d messages", good.count())
	}
	if ids := bad.ids(); len(ids) != 2 {
		t.Fatalf("every try has the same ID: %v for %s and %s", ids, a.ID, b.ID)
	}
}

// forgetful loses the records of notices, as a full disk would.
type forgetful struct {
	Records
	broken atomic.Bool
}

func (f *forgetful) Apply(ctx context.Context, c record.Change) error {
	if f.broken.Load() && c.Facts().Events[0].Kind == record.EventNotified {
		return errors.New("disk full")
	}
	return f.Records.Apply(ctx, c)
}

// TestWhatIsNotRecordedIsSentAgainUnderItsID: while the record fails in a living
// process the notice is not sent again; a process that dies without it sends again,
// under the ID by which the receiver drops it.
func TestWhatIsNotRecordedIsSentAgainUnderItsID(t *testing.T) {
	w := newWorld(t)
	r, f := newReceiver(t, nil), &forgetful{Records: w.store}
	f.broken.Store(true)
	_, stop := w.run(f, r.webhook("leads", "leads"))
	w.ask("anna", "acme", "ord_1")
	w.until("the record failed often", func() bool { return strings.Count(w.logged(), "disk full") > 3 })
	if r.count() != 1 {
		t.Fatalf("it was sent %d times by one process", r.count())
	}
	stop()
	_, _ = w.run(w.store, r.webhook("leads", "leads"))
	w.until("it is recorded", func() bool { return len(w.events(record.EventNotified)) == 1 })
	if ids := r.ids(); r.count() != 2 || len(ids) != 1 {
		t.Fatalf("sent %d times under %d IDs, want 2 under 1", r.count(), len(ids))
	}
}

// TestReceiversDoNotWait: one hangs, one redirects, one answers without end; the
// others and the calls do not wait for them, and nothing goes where a redirect leads.
func TestReceiversDoNotWait(t *testing.T) {
	w := newWorld(t)
	release := make(chan struct{})
	hang := newReceiver(t, func(_ http.ResponseWriter, q *http.Request) {
		select {
		case <-release:
		case <-q.Context().Done():
		}
	})
	defer close(release)
	elsewhere := newReceiver(t, nil)
	redirects := newReceiver(t, func(rw http.ResponseWriter, q *http.Request) {
		http.Redirect(rw, q, elsewhere.url, http.StatusFound)
	})
	var written atomic.Int64
	endless := newReceiver(t, func(rw http.ResponseWriter, q *http.Request) {
		for q.Context().Err() == nil && written.Load() < 64<<20 {
			n, err := rw.Write(make([]byte, 32<<10))
			written.Add(int64(n))
			if err != nil {
				return
			}
		}
	})
	good := newReceiver(t, nil)
	d, stop := w.run(w.store, hang.webhook("hang", "leads"), redirects.webhook("redirects", "leads"), endless.webhook("endless", "leads"), good.webhook("good", "leads"))
	for _, order := range []string{"ord_1", "ord_2", "ord_3"} {
		w.ask("anna", "acme", order)
	}
	w.until("the good ones have three each", func() bool { return good.count() == 3 && endless.count() == 3 && redirects.count() > 1 })
	w.until("the endless answers were enough", func() bool { return d.Counts()["endless"].Taken == 3 })
	if hang.count() != 1 || elsewhere.count() != 0 {
		t.Errorf("the hanging one got %d at once, the redirect's goal %d", hang.count(), elsewhere.count())
	}
	if c := d.Counts(); c["redirects"].Taken != 0 || c["redirects"].Failed == 0 || c["hang"].Wait != 3 {
		t.Errorf("counts: %+v", c)
	}
	if written.Load() >= 64<<20 {
		t.Error("an endless answer was read to its end")
	}
	stop()
	if strings.Contains(w.logged(), "T0PSECRET") {
		t.Errorf("the log holds an address: %s", w.logged())
	}
}

// TestItIsToldUntilTheQuestionEnds: a question that was answered, or expired, is
// sent to nobody any more.
func TestItIsToldUntilTheQuestionEnds(t *testing.T) {
	w := newWorld(t)
	r := newReceiver(t, status(500))
	d, _ := w.run(w.store, r.webhook("leads", "leads"))
	a := w.ask("anna", "acme", "ord_1")
	w.until("it was tried", func() bool { return r.count() > 2 })
	w.answer(a, "lena", "leads", record.No)
	w.until("it is given up", func() bool { return d.Counts()["leads"].Wait == 0 })
	b := w.ask("anna", "acme", "ord_2")
	w.until("the next one is tried", func() bool { return strings.Contains(r.all()[r.count()-1].body, string(b.ID)) })
	w.offset.Store(int64(5 * time.Hour))
	w.until("it has expired", func() bool { return d.Counts()["leads"].Wait == 0 })
	r.set(nil)
	c := w.ask("anna", "acme", "ord_3")
	w.until("the third is told", func() bool { return len(w.events(record.EventNotified)) == 1 })
	if last := r.all()[r.count()-1]; text(t, last, "data", "approval") != string(c.ID) || len(w.ledger) != 0 {
		t.Fatalf("%s; %d effects", last.body, len(w.ledger))
	}
}

// TestReminders: who has not answered is told again, marked, so often and no more,
// also when the process was started anew between; who answered is not.
func TestReminders(t *testing.T) {
	w := newWorld(t)
	lena, finance := newReceiver(t, nil), newReceiver(t, nil)
	with := func(r Receiver) Receiver {
		r.Reminders, r.Remind = 2, func(life time.Duration) time.Duration { return life / 5 }
		return r
	}
	her := with(lena.webhook("lena"))
	her.For.People = []record.Principal{person("lena")}
	receivers := []Receiver{her, with(finance.slack("finance", "finance"))}
	_, stop := w.run(w.store, receivers...)
	a := w.ask("anna", "acme", "ord_1")
	w.until("both are told", func() bool { return len(w.events(record.EventNotified)) == 2 })
	w.answer(a, "lena", "leads", record.Yes)
	stop()
	w.offset.Store(int64(47 * time.Minute))
	d, stop := w.run(w.store, receivers...)
	w.until("both wait", func() bool { return d.Counts()["lena"].Wait == 1 && d.Counts()["finance"].Wait == 1 })
	w.offset.Store(int64(49 * time.Minute))
	w.until("finance is reminded", func() bool { return finance.count() == 2 })
	w.until("lena has nothing left", func() bool { return d.Counts()["lena"].Wait == 0 })
	w.offset.Store(int64(98 * time.Minute))
	w.until("finance is reminded again", func() bool { return finance.count() == 3 })
	w.until("and then no more", func() bool { return d.Counts()["finance"].Wait == 0 })
	stop()
	if lena.count() != 1 || finance.count() != 3 {
		t.Fatalf("lena got %d and finance %d", lena.count(), finance.count())
	}
	for i, m := range finance.all() {
		if is := strings.Contains(text(t, m, "text"), "Reminder"); is != (i > 0) {
			t.Errorf("message %d: %s", i, m.body)
		}
	}
	w.answer(a, "otto", "finance", record.Yes)
	if got := w.propose("anna", "acme", "ord_1"); got.Verdict != record.Allow || len(w.ledger) != 1 {
		t.Fatalf("after two answered: %s %s, %d effects", got.Verdict, got.Code, len(w.ledger))
	}
}

// TestWhomAReceiverStandsFor: a group that a part names is told until the part has
// its answers; a person until they gave theirs, and not of their own calls.
func TestWhomAReceiverStandsFor(t *testing.T) {
	seen := canon.Of("seen")
	leads, finance := record.ApprovalPart{Groups: group("leads").Groups, Quorum: 2}, record.ApprovalPart{Groups: group("finance").Groups, People: []record.Principal{person("otto")}, Quorum: 1}
	yes := func(name, in string) record.Reply {
		return record.Reply{Person: person(name), Groups: group(in).Groups, Word: record.Yes, Binding: seen}
	}
	question := func(self bool, answers ...record.Reply) record.Approval {
		return record.Approval{Owner: record.Owner{Tenant: "acme", Principal: person("anna")}, Binding: seen, Answers: answers,
			Rule: record.ApprovalRule{Parts: []record.ApprovalPart{leads, finance}, Self: self}}
	}
	forPeople := func(names ...string) (p record.ApprovalPart) {
		for _, n := range names {
			p.People = append(p.People, person(n))
		}
		return p
	}
	mine := question(false)
	mine.Principal = person("otto")
	own := question(true)
	own.Principal = person("otto")
	for _, c := range []struct {
		name           string
		of             record.ApprovalPart
		a              record.Approval
		asks, answered bool
	}{
		{"leads", group("leads"), question(false), true, false},
		{"one of two leads answered", group("leads"), question(false, yes("lena", "leads")), true, false},
		{"both leads answered", group("leads"), question(false, yes("lena", "leads"), yes("lisa", "leads")), true, true},
		{"leads answered, finance did not", group("finance"), question(false, yes("lena", "leads"), yes("lisa", "leads")), true, false},
		{"both groups in one room", group("leads", "finance"), question(false, yes("lena", "leads"), yes("lisa", "leads")), true, false},
		{"otto", forPeople("otto"), question(false), true, false},
		{"otto's part was answered by another", forPeople("otto"), question(false, yes("olga", "finance")), true, true},
		{"otto's own call", forPeople("otto"), mine, false, false},
		{"otto's own call, which he may answer", forPeople("otto"), own, true, false},
		{"a stranger", forPeople("mallory"), question(false), false, true},
	} {
		r := Receiver{For: c.of}
		if got := r.asks(c.a); got != c.asks {
			t.Errorf("%s: is told %t", c.name, got)
		}
		if got := r.answered(c.a, nil); c.asks && got != c.answered {
			t.Errorf("%s: has answered %t", c.name, got)
		}
	}
}

// TestNobodyCanBeTold: when every receiver of a question fails again and again, it
// is recorded once; while one takes it, it is not.
func TestNobodyCanBeTold(t *testing.T) {
	w := newWorld(t)
	down, also, up := newReceiver(t, status(500)), newReceiver(t, status(404)), newReceiver(t, nil)
	_, _ = w.run(w.store, down.webhook("down", "leads"), also.webhook("also", "leads"), up.webhook("up", "others"))
	a := w.ask("anna", "acme", "ord_1")
	w.until("it is recorded", func() bool { return len(w.events(record.EventUnreachable)) == 1 })
	n := down.count()
	w.until("it is still tried", func() bool { return down.count() > n+2 })
	if e := w.events(record.EventUnreachable); len(e) != 1 || e[0].Approval != a.ID || e[0].Call != a.Call {
		t.Fatalf("recorded: %+v", e)
	}

	w = newWorld(t)
	_, _ = w.run(w.store, down.webhook("down", "leads"), up.webhook("up", "finance"))
	w.ask("anna", "acme", "ord_1")
	n = down.count()
	w.until("one fails often", func() bool { return down.count() > n+lost+2 })
	if e := w.events(record.EventUnreachable); len(e) != 0 || up.count() != 1 {
		t.Fatalf("one took it, and yet: %+v", e)
	}
}

// TestOneNoticeThatIsNotTaken does not hold up the others; a receiver that asks for
// time gets it.
func TestOneNoticeThatIsNotTaken(t *testing.T) {
	w := newWorld(t)
	r := newReceiver(t, nil)
	first := w.ask("anna", "acme", "ord_1")
	second := w.ask("anna", "acme", "ord_2")
	r.set(func(rw http.ResponseWriter, _ *http.Request) {
		if strings.Contains(r.all()[r.count()-1].body, string(first.ID)) {
			rw.WriteHeader(http.StatusBadRequest)
		}
	})
	_, stop := w.run(w.store, r.webhook("leads", "leads"))
	w.until("the second is told", func() bool { return len(w.events(record.EventNotified)) == 1 })
	if e := w.events(record.EventNotified)[0]; e.Approval != second.ID {
		t.Fatalf("told of %s", e.Approval)
	}
	stop()

	slow := newReceiver(t, func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Retry-After", "120")
		rw.WriteHeader(http.StatusTooManyRequests)
	})
	d, _ := w.run(w.store, slow.webhook("slow", "leads"))
	w.until("it asked for time", func() bool { return d.Counts()["slow"].Failed == 1 })
	w.offset.Store(int64(119 * time.Second))
	slow.set(nil)
	w.offset.Store(int64(125 * time.Second))
	w.until("both are told", func() bool { return d.Counts()["slow"].Taken == 2 })
	if slow.count() != 3 {
		t.Fatalf("it got %d requests, want 3", slow.count())
	}
}

// TestAlertsAreTold: to those who are set up for them, once, also over a restart.
func TestAlertsAreTold(t *testing.T) {
	w := newWorld(t)
	ops, room, leads := newReceiver(t, nil), newReceiver(t, nil), newReceiver(t, nil)
	hook, chat := ops.webhook("ops"), room.slack("ops room")
	hook.Alerts, chat.Alerts = true, true
	receivers := []Receiver{hook, chat, leads.webhook("leads", "leads")}
	raise := func(subject string) {
		t.Helper()
		a := record.Alert{Rule: record.AlertRefusals, Subject: subject, Text: "5 refusals", Count: 5, Events: []int64{4, 5}}
		if err := w.store.Apply(t.Context(), record.Raise(a, "acme", "", "", w.now())); err != nil {
			t.Fatal(err)
		}
	}
	raise("anna before the start")
	_, stop := w.run(w.store, receivers...)
	w.until("the first is told", func() bool { return len(w.events(record.EventNotified)) == 2 })
	raise("<!channel> @here")
	w.until("the second is told", func() bool { return len(w.events(record.EventNotified)) == 4 })
	stop()
	_, stop = w.run(w.store, receivers...)
	raise("third")
	w.until("the third is told", func() bool { return len(w.events(record.EventNotified)) == 6 })
	stop()
	if ops.count() != 3 || room.count() != 3 || leads.count() != 0 || len(ops.ids()) != 3 {
		t.Fatalf("the hook got %d, the room %d, the leads %d", ops.count(), room.count(), leads.count())
	}
	if m := ops.all()[0]; text(t, m, "type") != "alert.raised" || text(t, m, "data", "rule") != "refusals" || text(t, m, "data", "count") != "5" {
		t.Errorf("%s", m.body)
	}
	if got := text(t, room.all()[1], "text"); strings.Contains(got, "<!channel>") || !strings.Contains(got, "`&lt;!channel&gt; @here`") {
		t.Errorf("the room reads %s", got)
	}
	w.offset.Store(int64(25 * time.Hour))
	late := newReceiver(t, nil)
	hook = late.webhook("late")
	hook.Alerts = true
	d, _ := w.run(w.store, hook)
	raise("fourth")
	w.until("only the new one is told", func() bool { return d.Counts()["late"].Taken == 1 && d.Counts()["late"].Wait == 0 })
	if late.count() != 1 || text(t, late.all()[0], "data", "subject") != "fourth" {
		t.Fatalf("a day later it got %d", late.count())
	}
}

// TestHostileNamesInARoom: whatever a token or an agent calls itself, the room
// reads it as a name.
func TestHostileNamesInARoom(t *testing.T) {
	w := newWorld(t)
	room := newReceiver(t, nil)
	r := room.slack("room", "leads")
	r.ShowArguments = true
	_, _ = w.run(w.store, r)
	w.ask("<!channel> <@U123|you> *b* `end` @here & e", "acme", "\u202e<https://evil.test|Approve> `x` \u200b"+strings.Repeat("y", 5000))
	w.until("it is told", func() bool { return room.count() == 1 })
	got := text(t, room.all()[0], "text")
	outside := ""
	for i, part := range strings.Split(got, "`") {
		if i%2 == 0 {
			outside += part
		}
	}
	for _, bad := range []string{"<!channel>", "<@U123", "<https://evil", "\u202e", "\u200b"} {
		if strings.Contains(got, bad) {
			t.Errorf("the room reads %q in %s", bad, got)
		}
	}
	for _, bad := range []string{"evil", "here", "U123", "channel"} {
		if strings.Contains(outside, bad) {
			t.Errorf("outside of a quote: %q in %s", bad, outside)
		}
	}
	if !strings.Contains(got, "⟦U+202E⟧") || !strings.Contains(got, "more characters)") || strings.Count(got, "<") != 1 {
		t.Errorf("the room reads %s", got)
	}
}

// TestRecordsThatCannotBeRead hold nothing up for good.
func TestRecordsThatCannotBeRead(t *testing.T) {
	w := newWorld(t)
	r := newReceiver(t, nil)
	records := &unreadable{Records: w.store}
	records.broken.Store(true)
	_, _ = w.run(records, r.webhook("leads", "leads"))
	w.ask("anna", "acme", "ord_1")
	w.until("it was logged", func() bool { return strings.Contains(w.logged(), "cannot be read") })
	records.broken.Store(false)
	w.until("it is told", func() bool { return r.count() == 1 })
}

type unreadable struct {
	Records
	broken atomic.Bool
}

func (u *unreadable) Pending(ctx context.Context, after record.ApprovalID, n int) ([]dispatch.Loaded, error) {
	if u.broken.Load() {
		return nil, io.ErrUnexpectedEOF
	}
	return u.Records.Pending(ctx, after, n)
}
