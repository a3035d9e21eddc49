package alert

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
	"github.com/placet-dev/placet/yamlfile"
)

func guard(argument, pattern string) yamlfile.Entry[registry.GuardEntry] {
	return yamlfile.Entry[registry.GuardEntry]{Key: argument, Value: registry.GuardEntry{Type: registry.Identifier, Pattern: pattern}}
}

// TestApprovedAndNeverRun: a yes that ended unused is an alert; one that was used,
// and a question that nobody answered, are none.
func TestApprovedAndNeverRun(t *testing.T) {
	w := newWorld(t)
	look := w.watch(w.store, Limits{})
	used, unused := w.call("refund", `{"order":"ord_1","amount":"500"}`), w.call("refund", `{"order":"ord_2","amount":"500"}`)
	w.call("refund", `{"order":"ord_3","amount":"500"}`)
	w.answer(used.Approval, record.Yes)
	w.answer(unused.Approval, record.Yes)
	w.call("refund", `{"order":"ord_1","amount":"500"}`)
	w.effects(1)
	look()
	w.want()
	w.pass(31*time.Minute, w.has(record.EventApprovalExpired))
	look()
	if a := w.want(record.AlertApprovedNeverRun); a[0].Subject != string(unused.Approval.ID) || a[0].Calls[0] != unused.Call.ID {
		t.Fatalf("%+v", a)
	}
	look()
	w.want(record.AlertApprovedNeverRun)
	w.effects(1)
}

// TestNobodyToAsk: a question without approvers, and one that no receiver can be
// told of.
func TestNobodyToAsk(t *testing.T) {
	w := newWorld(t)
	look := w.watch(w.store, Limits{})
	for range 3 {
		if got := w.call("close", `{}`); got.Code != record.CodeNoApprover {
			t.Fatalf("%s %s", got.Verdict, got.Code)
		}
	}
	asked := w.call("refund", `{"order":"ord_1","amount":"500"}`)
	if err := w.store.Apply(t.Context(), record.Untold(*asked.Approval, "not reached: room", w.now())); err != nil {
		t.Fatal(err)
	}
	look()
	if a := w.want(record.AlertNoApprover, record.AlertUnreachable); a[0].Subject != "tool close" || a[1].Subject != string(asked.Approval.ID) {
		t.Fatalf("%+v", a)
	}
	w.answer(asked.Approval, record.Yes)
	w.call("refund", `{"order":"ord_1","amount":"500"}`)
	w.effects(1)
}

// TestUnknownOutcomeWaits: after a while, unless somebody settled it.
func TestUnknownOutcomeWaits(t *testing.T) {
	w := newWorld(t)
	look := w.watch(w.store, Limits{UnknownAfter: 10 * time.Minute})
	left, settled := w.call("lost", `{"n":1}`), w.call("lost", `{"n":2}`)
	if left.State() != record.Unknown {
		// Equal effects would be asked about; these differ.
		t.Fatalf("%s %s", left.Verdict, left.Code)
	}
	look()
	w.offset.Add(int64(9 * time.Minute))
	look()
	w.want()
	if _, err := w.boundary.Reconcile(t.Context(), w.operator(), "acme", settled.Call.ID, record.Succeeded, "it is in the ledger"); err != nil {
		t.Fatal(err)
	}
	w.offset.Add(int64(2 * time.Minute))
	look()
	if a := w.want(record.AlertUnknownWaiting); a[0].Subject != string(left.Call.ID) {
		t.Fatalf("%+v", a)
	}
	w.effects(2)
	w.offset.Add(int64(2 * time.Hour))
	w.watch(w.store, Limits{UnknownAfter: 10 * time.Minute})() // a restart much later finds it raised
	w.want(record.AlertUnknownWaiting)
}

// TestRefusals: many of one principal, and in its lineage; not a few, not many over
// a long time, and not those of different people.
func TestRefusals(t *testing.T) {
	w := newWorld(t)
	look := w.watch(w.store, Limits{Refusals: 3})
	hostile := func(subject string, n int) {
		t.Helper()
		if got := w.callAs(subject, "write", fmt.Sprintf(`{"order":"ord_%d","text":"../../etc/passwd%d"}`, n, n)); got.Code != record.CodeGuardRefused {
			t.Fatalf("%s %s", got.Verdict, got.Code)
		}
	}
	for i, who := range []string{"anna", "anna", "bert", "bert"} {
		hostile(who, i)
	}
	look()
	w.want()
	w.offset.Add(int64(61 * time.Minute))
	hostile("anna", 10)
	look()
	w.want()
	hostile("anna", 11)
	hostile("anna", 12)
	hostile("anna", 13)
	look()
	a := w.want(record.AlertRefusals, record.AlertRefusals)
	if !strings.HasPrefix(a[0].Subject, "lineage ") || a[1].Subject != "principal anna@https://id.test" || a[0].Count != 3 || len(a[0].Calls) != 3 {
		t.Fatalf("%+v", a)
	}
	text, _ := json.Marshal(a)
	if strings.Contains(string(text), "passwd") || strings.Contains(string(text), "ord_1") {
		t.Errorf("an alert holds an argument's value: %s", text)
	}
	w.offset.Add(int64(2 * time.Hour))
	for n := range 3 {
		hostile("anna", 20+n)
	}
	look()
	w.want(record.AlertRefusals, record.AlertRefusals, record.AlertRefusals, record.AlertRefusals) // a window later, anew
	if got := w.call("write", `{"order":"ord_9","text":"an honest note"}`); got.Verdict != record.Allow {
		t.Fatalf("%s %s", got.Verdict, got.Code)
	}
	w.effects(1)
}

// TestRejectedInOtherWords: the same tool and target with another amount after a
// person's no; not another target, not another's call, not the same words.
func TestRejectedInOtherWords(t *testing.T) {
	w := newWorld(t)
	look := w.watch(w.store, Limits{})
	no := w.call("refund", `{"order":"ord_1","amount":"500"}`)
	w.answer(no.Approval, record.No)
	w.call("refund", `{"order":"ord_1","amount":"500"}`)           // the same words: stopped by the rejection itself
	w.call("refund", `{"order":"ord_2","amount":"100"}`)           // another order
	w.callAs("bert", "refund", `{"order":"ord_1","amount":"100"}`) // another's
	look()
	w.want()
	again := w.call("refund", `{"order":"ord_1","amount":"199"}`) // below the limit, so it runs
	look()
	a := w.want(record.AlertTriedAgain)
	if !strings.HasPrefix(a[0].Subject, "refund in lineage ") || len(a[0].Calls) != 2 || a[0].Calls[0] != no.Call.ID || a[0].Calls[1] != again.Call.ID {
		t.Fatalf("%+v", a)
	}
	w.call("refund", `{"order":"ord_1","amount":"198"}`)
	look()
	w.want(record.AlertTriedAgain)
	w.effects(4)
}

// TestDeniedInOtherWords: an agent that mends its arguments once or twice is no
// alert; one that goes on is.
func TestDeniedInOtherWords(t *testing.T) {
	w := newWorld(t)
	look := w.watch(w.store, Limits{Refusals: 1000, DeniedAgain: 3})
	try := func(n int) { w.call("write", fmt.Sprintf(`{"order":"ord_1","text":"%d!"}`, n)) }
	for n := range 3 {
		try(n)
	}
	look()
	w.want()
	try(3)
	look()
	if a := w.want(record.AlertTriedAgain); a[0].Count != 4 {
		t.Fatalf("%+v", a)
	}
	w.effects(0)
}

// TestCallsAfterAnApproval: an approval opens no door; many calls of its tool after
// it that nobody approved are an alert, and those that people approved are not.
func TestCallsAfterAnApproval(t *testing.T) {
	w := newWorld(t)
	look := w.watch(w.store, Limits{AfterApproval: 3})
	for i := range 5 {
		arguments := fmt.Sprintf(`{"order":"big_%d","amount":"500"}`, i)
		w.answer(w.call("refund", arguments).Approval, record.Yes)
		w.call("refund", arguments)
	}
	for i := range 3 {
		w.call("refund", fmt.Sprintf(`{"order":"small_%d","amount":"10"}`, i))
	}
	w.callAs("bert", "refund", `{"order":"small","amount":"10"}`)
	look()
	w.want()
	w.call("refund", `{"order":"small_4","amount":"10"}`)
	look()
	if a := w.want(record.AlertFollowedBy); a[0].Count != 5 || !strings.HasPrefix(a[0].Subject, "apr_") {
		t.Fatalf("%+v", a)
	}
	w.effects(10)
}

// rewritten gives events the members that a boundary with labels writes.
type rewritten struct {
	Records
	change func(*record.Event)
	broken atomic.Bool
}

func (r *rewritten) Events(ctx context.Context, q dispatch.EventQuery) ([]record.Event, error) {
	events, err := r.Records.Events(ctx, q)
	for i := range events {
		r.change(&events[i])
	}
	return events, err
}

func (r *rewritten) Apply(ctx context.Context, c record.Change) error {
	if r.broken.Load() {
		return errors.New("disk full")
	}
	return r.Records.Apply(ctx, c)
}

// TestSensitiveThenSink: what is sent out after a sensitive read in its lineage; not
// before it, not by another's lineage, and not by a tool that keeps it inside.
func TestSensitiveThenSink(t *testing.T) {
	w := newWorld(t)
	look := w.watch(&rewritten{Records: w.store, change: func(e *record.Event) {
		if e.Kind == eventLabelled {
			e.Body = json.RawMessage(`{"labels":["sensitive","untrusted"]}`)
		}
	}}, Limits{})
	w.call("send", `{"text":"before"}`)
	read := w.call("reading", `{}`)
	labelled := record.Event{At: w.now(), Tenant: "acme", Kind: eventLabelled, Run: read.Call.Run, Call: read.Call.ID, Who: read.Call.By()}
	if err := w.store.Apply(t.Context(), record.Note(labelled, record.Body{Tool: "reading"})); err != nil {
		t.Fatal(err)
	}
	w.callAs("bert", "send", `{"text":"bert's"}`)
	w.call("reading", `{}`)
	look()
	w.want()
	sent := w.call("send", `{"text":"after"}`)
	look()
	if a := w.want(record.AlertSensitiveToSink); len(a[0].Calls) != 2 || a[0].Calls[0] != read.Call.ID || a[0].Calls[1] != sent.Call.ID {
		t.Fatalf("%+v", a)
	}
	w.effects(5)
}

// TestOneDocument: refusals of many people's calls whose values stand in the result
// of one call are that document's.
func TestOneDocument(t *testing.T) {
	w := newWorld(t)
	look := w.watch(&rewritten{Records: w.store, change: func(e *record.Event) {
		if e.Kind == record.EventDenied {
			e.Body = append(e.Body[:len(e.Body)-1:len(e.Body)-1], `,"origins":[{"argument":"text","origin":"labelled_result","call":"call_ticket"},{"argument":"order","origin":"user"}]}`...)
		}
	}}, Limits{Refusals: 3})
	for i, who := range []string{"anna", "bert", "cleo"} {
		w.callAs(who, "write", fmt.Sprintf(`{"order":"ord_%d","text":"../%d"}`, i, i))
	}
	look()
	if a := w.want(record.AlertRefusals); a[0].Subject != "result of call_ticket" || a[0].Count != 3 {
		t.Fatalf("%+v", a)
	}
}

// TestARestartRepeatsNothing: what was counted before counts on, and what was raised
// is not raised again. A record that fails is tried again.
func TestARestartRepeatsNothing(t *testing.T) {
	w := newWorld(t)
	hostile := func(n int) { w.call("write", fmt.Sprintf(`{"order":"ord_%d","text":"../%d"}`, n, n)) }
	limits := Limits{Refusals: 4}
	look := w.watch(w.store, limits)
	hostile(0)
	hostile(1)
	hostile(2)
	look()
	w.want()
	look = w.watch(w.store, limits)
	hostile(3)
	look()
	w.want(record.AlertRefusals, record.AlertRefusals)
	look = w.watch(w.store, limits)
	hostile(4)
	look()
	w.want(record.AlertRefusals, record.AlertRefusals)

	w = newWorld(t)
	full := &rewritten{Records: w.store, change: func(*record.Event) {}}
	full.broken.Store(true)
	watch, err := New(Options{Records: full, Limits: limits, Clock: w.now, Poll: 2 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); watch.Run(ctx) }()
	for n := range 4 {
		hostile(n)
	}
	w.until("the events are there", w.has(record.EventDenied))
	w.want()
	full.broken.Store(false)
	w.until("both are raised", func() bool { return len(w.alerts()) == 2 })
	cancel()
	<-done
	w.want(record.AlertRefusals, record.AlertRefusals)
	if watch.Counts()[record.AlertRefusals] != 2 {
		t.Errorf("counts %v", watch.Counts())
	}
}

// TestOff: a rule that is switched off raises nothing; the others do.
func TestOff(t *testing.T) {
	w := newWorld(t)
	look := w.watch(w.store, Limits{Refusals: 1, Off: []record.AlertRule{record.AlertRefusals}})
	w.call("write", `{"order":"ord_1","text":"../1"}`)
	w.call("close", `{}`)
	look()
	w.want(record.AlertNoApprover)
}

// TestAnAlertHolds: an alert of a rule that is named holds the lineage of its evidence,
// others do not; the neighbour's calls run.
func TestAnAlertHolds(t *testing.T) {
	w := newWorld(t)
	look := w.watch(w.store, Limits{Refusals: 3, Hold: []record.AlertRule{record.AlertRefusals}})
	for i := range 3 {
		w.callAs("anna", "write", fmt.Sprintf(`{"order":"ord_%d","text":"../../etc/passwd%d"}`, i, i))
	}
	look()
	held, err := w.store.Held(t.Context(), "acme", "", 10)
	if err != nil || len(held) != 1 || held[0].Hold.Rule != record.AlertRefusals || len(held[0].Hold.Events) == 0 {
		t.Fatalf("held: %+v, %v", held, err)
	}
	if a := w.callAs("anna", "write", `{"order":"ord_1","text":"fine"}`); a.Code != record.CodeHeld || a.State() != record.Proposed {
		t.Fatalf("%s %s %s", a.Verdict, a.Code, a.State())
	}
	w.effects(0)
	if a := w.callAs("bert", "write", `{"order":"ord_1","text":"fine"}`); a.Verdict != record.Allow {
		t.Fatalf("%s %s", a.Verdict, a.Code)
	}
	w.effects(1)
	if _, err := w.boundary.Lift(t.Context(), w.operator(), held[0].Hold.Run, "a wrong client"); err != nil {
		t.Fatal(err)
	}
	if a := w.callAs("anna", "write", `{"order":"ord_1","text":"fine"}`); a.Verdict != record.Allow {
		t.Fatalf("%s %s", a.Verdict, a.Code)
	}
	w.effects(2)
}
