package dispatch_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
)

const leaseYAML = `
version: 1
servers:
  desk: {url: "http://127.0.0.1:1/mcp"}
  app: {lease: true, dispatch_token: true}
defaults: {per_minute: 0, concurrent: 0, timeout: 20s}
tools:
  look: {server: app, scope: read, read: true, schema: s.json}
  retry_look: {server: app, scope: read, read: true, retry: safe, schema: s.json}
  note: {server: app, scope: refunds, write: true, sources: [direct], approval: {when: asked, approvers: ["group:leads"]}, schema: s.json}
  sure: {server: app, scope: refunds, write: true, sources: [direct], approval: {when: asked}, errors: no_effect, schema: s.json}
  keyed: {server: app, scope: refunds, write: true, sources: [direct], approval: {when: asked}, idempotency_argument: key, retry: idempotent, schema: s.json}
  alone: {server: app, scope: refunds, write: true, sources: [direct], approval: {when: asked}, concurrent: 1, schema: s.json}
  pay:
    server: app
    scope: refunds
    write: true
    sources: [direct]
    same_effect: [order, amount]
    autonomous_limit: {argument: amount, max: 200, count: 1, within: 24h}
    approval: {when: above_limit, approvers: ["group:leads"]}
    schema: s.json
  mark: {server: app, scope: refunds, write: true, sources: [direct], same_effect: [order], approval: {when: asked, approvers: ["group:leads"]}, schema: s.json}
  filtered: {server: app, scope: read, read: true, results: {only: [id]}, schema: s.json}
  wipe: {server: app, scope: refunds, destructive: true, sources: [direct], targets: [order], approval: {when: always, approvers: ["group:leads"]}, schema: s.json}
  mail: {server: desk, scope: refunds, sink: true, sources: [direct], approval: {when: asked, approvers: ["group:leads"]}}
`

// framework is a program that runs tools itself. What it does is in its own ledger.
type framework struct {
	*scene
	ledger []string
}

// newFramework makes a scene whose desk hands out what it gets a ticket for, as
// tool/lease does.
func newFramework(t testing.TB, edits ...func(*scene)) *framework {
	t.Helper()
	f := &framework{scene: newScene(t, append([]func(*scene){func(s *scene) { s.yaml = leaseYAML }}, edits...)...)}
	f.desk.on(handOut)
	return f
}

func handOut(_ context.Context, w dispatch.Work) (dispatch.Reached, bool) {
	if w.Server.Kind != registry.KindLease {
		return dispatch.Reached{}, false
	}
	return dispatch.Reached{Sent: true, Lease: &dispatch.Lease{Attempt: w.Attempt, Tool: w.Tool.Upstream, Arguments: w.Arguments,
		Key: w.Key, Ends: w.Lease, Secret: w.Secret}}, true
}

// take proposes a call and gets its lease.
func (f *framework) take(tool, arguments string) dispatch.Answer {
	f.t.Helper()
	a := f.wants(f.do(anna, tool, arguments), record.Allow, record.CodeLeased, record.Executing)
	if a.Lease == nil || a.Ran || a.Lease.Secret == "" || a.Lease.Attempt != a.Call.Attempt || a.Lease.Key != a.Call.Key || !a.Lease.Ends.Equal(a.Call.Lease) {
		f.t.Fatalf("not a lease: %+v", a.Lease)
	}
	return a
}

// run does what a lease allows, once.
func (f *framework) run(a dispatch.Answer) {
	f.ledger = append(f.ledger, a.Call.Tool.Name+" "+string(a.Lease.Arguments))
}

// did asserts how many effects the framework's ledger holds.
func (f *framework) did(n int) {
	f.t.Helper()
	if len(f.ledger) != n {
		f.t.Fatalf("the framework's ledger holds %d effects, want %d: %q", len(f.ledger), n, f.ledger)
	}
}

func said(a dispatch.Answer, what dispatch.Said, result string) dispatch.Report {
	r := dispatch.Report{Attempt: a.Lease.Attempt, Secret: a.Lease.Secret, Said: what}
	if result != "" {
		r.Result = json.RawMessage(result)
	}
	return r
}

func (f *framework) report(a dispatch.Answer, what dispatch.Said, result string) (dispatch.Answer, error) {
	return f.Report(f.ctx, f.caller(anna), a.Call.ID, said(a, what, result))
}

func (f *framework) beat(a dispatch.Answer) (dispatch.Beat, error) {
	return f.Heartbeat(f.ctx, f.caller(anna), a.Call.ID, a.Lease.Attempt, a.Lease.Secret)
}

// pass lets time pass until a call has left a state that lasts.
func (f *framework) pass(by time.Duration, a dispatch.Answer, want record.State) record.Call {
	f.t.Helper()
	f.clock.pass(by)
	ctx, stop := context.WithCancel(f.ctx)
	done := make(chan struct{})
	go func() { f.Work(ctx); close(done) }()
	defer func() { stop(); <-done }()
	for f.Await(f.ctx, a.Call.Tenant, a.Call.ID, 10*time.Second) {
		switch c := f.state(a).Call; c.State {
		case want:
			return c
		case record.Executing:
		default:
			f.t.Fatalf("the call is %s, want %s", c.State, want)
		}
	}
	f.t.Fatalf("the call is %s, want %s", f.state(a).Call.State, want)
	return record.Call{}
}

const paid = `{"content":[{"type":"text","text":"paid re_77"}]}`

func TestRule_E6_ALeasedCallRunsOnceAndItsHolderReports(t *testing.T) {
	f := newFramework(t)
	a := f.take("note", `{"n":1.0}`)
	if string(a.Lease.Arguments) != `{"n":1}` {
		t.Fatalf("to run: %s, want what was decided", a.Lease.Arguments)
	}
	f.run(a)
	first, err := f.report(a, dispatch.SaidSucceeded, paid)
	if err != nil {
		t.Fatal(err)
	}
	f.wants(first, record.Allow, record.CodeNone, record.Succeeded)
	// The answer of the report was lost: the same one again gets it.
	again, err := f.report(a, dispatch.SaidSucceeded, paid)
	if err != nil || string(again.Result) != paid || again.Call.Version != first.Call.Version {
		t.Fatalf("the same report again: %s version %d, %v", again.Result, again.Call.Version, err)
	}
	// An equal proposal finds the record (rule A7), and no lease.
	repeat := f.wants(f.do(anna, "note", `{"n":1}`), record.Allow, record.CodeAlreadyDone, record.Succeeded)
	if repeat.Lease != nil || string(repeat.Result) != paid {
		t.Fatalf("repeat: lease %v, %s", repeat.Lease, repeat.Result)
	}
	f.did(1)
	f.ran(0) // Placet reached nothing
	if o := f.state(a).Call.Outcome; !o.Reported || !o.Sent || o.Digest.IsZero() {
		t.Fatalf("the outcome does not say whose word it is: %+v", o)
	}
	if got, want := f.events(a.Call.ID), []record.EventKind{record.EventProposed, record.EventAuthorized, record.EventLabelled, record.EventExecuting, record.EventSucceeded, record.EventReturned}; !sameKinds(got, want) {
		t.Fatalf("events %v, want %v", got, want)
	}
	if e := f.event(a.Call.ID, record.EventSucceeded); !strings.Contains(string(e.Body), `"reported":true`) || strings.Contains(string(e.Body), a.Lease.Secret) {
		t.Fatalf("the event: %s", e.Body)
	}
}

func sameKinds(a, b []record.EventKind) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

func (s *scene) event(call record.CallID, kind record.EventKind) record.Event {
	s.t.Helper()
	all, err := s.store.Events(s.ctx, dispatch.EventQuery{Tenant: "acme", Call: call, Kinds: []record.EventKind{kind}, Limit: 500})
	if err != nil || len(all) == 0 {
		s.t.Fatalf("no event %s: %v", kind, err)
	}
	return all[len(all)-1]
}

func TestRule_E6_OnlyTheHolderOfTheAttemptReports(t *testing.T) {
	f := newFramework(t)
	a := f.take("note", `{"n":1}`)
	f.run(a)
	before := f.state(a).Call
	other := func(edit func(*who)) who { w := anna; edit(&w); return w }
	for name, w := range map[string]who{
		"another agent":     other(func(w *who) { w.agent = "other" }),
		"another principal": other(func(w *who) { w.subject = "mallory" }),
		"another tenant":    other(func(w *who) { w.tenant = "globex" }),
	} {
		c := f.caller(w)
		_, beat := f.Heartbeat(f.ctx, c, a.Call.ID, a.Lease.Attempt, a.Lease.Secret)
		_, report := f.Report(f.ctx, c, a.Call.ID, said(a, dispatch.SaidSucceeded, paid))
		_, show := f.Show(f.ctx, c, a.Call.ID)
		for what, err := range map[string]error{"heartbeat": beat, "report": report, "show": show} {
			if record.KindOf(err) != record.NotFound {
				t.Errorf("%s, %s: %v", name, what, err)
			}
		}
	}
	// Its own caller, without the secret: a handle is no credential (rule B2).
	guess := a
	for _, secret := range []string{"", "x", strings.ToUpper(a.Lease.Secret), a.Lease.Secret + "A", string(a.Call.ID), a.Call.Key} {
		lease := *a.Lease
		lease.Secret, guess.Lease = secret, &lease
		if _, err := f.report(guess, dispatch.SaidSucceeded, paid); record.KindOf(err) != record.Forbidden {
			t.Errorf("report with the secret %q: %v", secret, err)
		}
		if _, err := f.beat(guess); record.KindOf(err) != record.Forbidden {
			t.Errorf("heartbeat with the secret %q: %v", secret, err)
		}
	}
	for _, attempt := range []int{0, -1, 2} {
		lease := *a.Lease
		lease.Attempt, guess.Lease = attempt, &lease
		if _, err := f.report(guess, dispatch.SaidSucceeded, paid); record.KindOf(err) != record.Conflict {
			t.Errorf("report for attempt %d: %v", attempt, err)
		}
	}
	// The secret of another call is none for this one.
	b := f.take("note", `{"n":2}`)
	lease := *a.Lease
	lease.Secret, guess.Lease = b.Lease.Secret, &lease
	if _, err := f.report(guess, dispatch.SaidSucceeded, paid); record.KindOf(err) != record.Forbidden {
		t.Errorf("another call's secret: %v", err)
	}
	if after := f.state(a).Call; after.State != record.Executing || after.Version != before.Version {
		t.Fatalf("it moved: %s %d", after.State, after.Version)
	}
	f.wants(must(f.report(a, dispatch.SaidSucceeded, paid)), record.Allow, record.CodeNone, record.Succeeded)
	f.did(1)
}

// TestRule_E6_NoLeaseFromRecords: whatever comes back to a leased call, after a
// restart too, is given no lease.
func TestRule_E6_NoLeaseFromRecords(t *testing.T) {
	f := newFramework(t)
	a := f.take("note", `{"n":1}`)
	for range 2 {
		for what, got := range map[string]dispatch.Answer{
			"an equal proposal": f.do(anna, "note", `{"n":1}`),
			"a dispatch":        must(f.Dispatch(f.ctx, f.caller(anna), a.Call.ID, nil)),
			"a look":            must(f.Show(f.ctx, f.caller(anna), a.Call.ID)),
			"a cancel":          must(f.Cancel(f.ctx, f.caller(anna), a.Call.ID)),
		} {
			if f.wants(got, record.Allow, record.CodeInProgress, record.Executing); got.Lease != nil || got.Call.ID != a.Call.ID {
				t.Errorf("%s got a lease", what)
			}
		}
		f.restart() // as a kill between reservation and report leaves it
		f.desk.on(handOut)
	}
	// The holder outlived the restart, and so did its lease.
	f.run(a)
	f.wants(must(f.report(a, dispatch.SaidSucceeded, paid)), record.Allow, record.CodeNone, record.Succeeded)
	f.did(1)
}

func TestRule_E6_TwoHoldersOneOutcome(t *testing.T) {
	f := newFramework(t)
	for n := range 5 {
		a := f.take("sure", fmt.Sprintf(`{"n":%d}`, n))
		caller := f.caller(anna)
		var mu sync.Mutex
		var all sync.WaitGroup
		taken := map[string]int{}
		for i := range 8 {
			what, result := dispatch.SaidSucceeded, fmt.Sprintf(`{"content":[],"structuredContent":{"by":%d}}`, i)
			if i%2 == 1 {
				what = dispatch.SaidFailed
			}
			all.Go(func() {
				got, err := f.Report(f.ctx, caller, a.Call.ID, said(a, what, result))
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					taken[string(got.State())+" "+string(got.Result)]++
				case record.KindOf(err) != record.Conflict:
					t.Error(err)
				}
			})
		}
		all.Wait()
		if len(taken) != 1 {
			t.Fatalf("outcomes %v, want one", taken)
		}
		kinds := f.events(a.Call.ID)
		if late := count(kinds, record.EventLate); late != 7 {
			t.Fatalf("%d reports are kept as evidence, want 7: %v", late, kinds)
		}
	}
}

func count(kinds []record.EventKind, k record.EventKind) (n int) {
	for _, have := range kinds {
		if have == k {
			n++
		}
	}
	return n
}

// TestRule_E6_WhatAReportIsBelieved is rule E1 for the word of a holder.
func TestRule_E6_WhatAReportIsBelieved(t *testing.T) {
	f := newFramework(t)
	failure := `{"content":[{"type":"text","text":"no such order"}],"isError":true}`
	for n, c := range []struct {
		tool string
		said dispatch.Said
		want record.State
		code record.Code
	}{
		{"note", dispatch.SaidSucceeded, record.Succeeded, record.CodeNone},
		{"note", dispatch.SaidFailed, record.Unknown, record.CodeOutcomeUnknown}, // it began: the effect may have happened
		{"keyed", dispatch.SaidFailed, record.Unknown, record.CodeOutcomeUnknown},
		{"sure", dispatch.SaidFailed, record.Failed, record.CodeFailed}, // errors: no_effect
		{"look", dispatch.SaidSucceeded, record.Succeeded, record.CodeNone},
		{"look", dispatch.SaidFailed, record.Failed, record.CodeFailed},
		{"retry_look", dispatch.SaidFailed, record.Unknown, record.CodeOutcomeUnknown}, // attempts are left
	} {
		result := paid
		if c.said == dispatch.SaidFailed {
			result = failure
		}
		a := f.take(c.tool, fmt.Sprintf(`{"n":%d}`, n))
		got := f.wants(must(f.report(a, c.said, result)), record.Allow, c.code, c.want)
		if got.IsError != (c.said == dispatch.SaidFailed) || string(got.Result) != result || !got.Call.Outcome.Reported {
			t.Errorf("%s %s: error %t, %s", c.tool, c.said, got.IsError, got.Result)
		}
	}
	a := f.take("filtered", `{"n":1}`)
	got := must(f.report(a, dispatch.SaidSucceeded, `{"content":[],"structuredContent":{"id":"o1","secret":"4711"}}`))
	if strings.Contains(string(got.Result), "4711") || !strings.Contains(string(got.Result), "o1") {
		t.Errorf("only the field id is returned, got %s", got.Result)
	}
	for what, r := range map[string]dispatch.Report{
		"another word":       {Attempt: 1, Said: "done"},
		"no object":          {Attempt: 1, Said: dispatch.SaidSucceeded, Result: json.RawMessage(`"x"`)},
		"no JSON":            {Attempt: 1, Said: dispatch.SaidSucceeded, Result: json.RawMessage(`{"a":`)},
		"a result of naught": {Attempt: 1, Said: dispatch.SaidNotStarted, Result: json.RawMessage(`{}`)},
	} {
		if _, err := f.Report(f.ctx, f.caller(anna), a.Call.ID, r); record.KindOf(err) != record.Invalid {
			t.Errorf("%s: %v", what, err)
		}
	}
	big := said(a, dispatch.SaidSucceeded, `{"a":"`+strings.Repeat("x", 4<<20)+`"}`)
	if _, err := f.Report(f.ctx, f.caller(anna), a.Call.ID, big); record.KindOf(err) != record.TooLarge {
		t.Errorf("too large: %v", err)
	}
}

func TestRule_E6_AnEndedLeaseIsUnknown(t *testing.T) {
	f := newFramework(t)
	a := f.take("mark", `{"order":"o1"}`)
	f.run(a)
	if want := a.Call.Changed.Add(30 * time.Second); !a.Lease.Ends.Equal(want) {
		t.Fatalf("the lease ends %s, want %s (rule A11)", a.Lease.Ends, want)
	}
	f.clock.pass(30 * time.Second) // it is over, whether or not the clock has looked
	if _, err := f.report(a, dispatch.SaidSucceeded, paid); record.KindOf(err) != record.Conflict {
		t.Fatalf("a report after the end: %v", err)
	}
	if _, err := f.beat(a); record.KindOf(err) != record.Conflict {
		t.Fatalf("a heartbeat after the end: %v", err)
	}
	c := f.pass(0, a, record.Unknown)
	if c.Outcome.Reported {
		t.Fatal("nobody reported in time")
	}
	if _, err := f.report(a, dispatch.SaidSucceeded, paid); record.KindOf(err) != record.Conflict {
		t.Fatalf("a report after that: %v", err)
	}
	if n := count(f.events(a.Call.ID), record.EventLate); n != 2 {
		t.Fatalf("%d late reports are evidence, want 2", n)
	}
	// Rules A6 and A8: the unknown call keeps its effect.
	if same := f.wants(f.do(anna, "mark", `{"order":"o1"}`), record.Allow, record.CodeOutcomeUnknown, record.Unknown); same.Lease != nil || same.Call.ID != a.Call.ID {
		t.Fatal("it was leased again")
	}
	f.wants(f.do(anna, "mark", `{"order":"o1","note":"again"}`), record.RequiresApproval, record.CodeEffectUnsettled, record.ApprovalPending)
	if l, err := f.Reconcile(f.ctx, f.operator(), "acme", a.Call.ID, record.Succeeded, "the bank's book"); err != nil || l.State != record.Succeeded {
		t.Fatalf("reconciled: %v", err)
	}
	f.did(1)

	// A read without an attempt left has failed; one with attempts left may be leased
	// anew, under the same key, and the first holder's word counts no more.
	f.pass(30*time.Second, f.take("look", `{}`), record.Failed)
	first := f.take("retry_look", `{}`)
	f.pass(30*time.Second, first, record.Unknown)
	second := f.wants(must(f.Dispatch(f.ctx, f.caller(anna), first.Call.ID, nil)), record.Allow, record.CodeLeased, record.Executing)
	if second.Lease.Attempt != 2 || second.Lease.Key != first.Lease.Key || second.Lease.Secret == first.Lease.Secret {
		t.Fatalf("the second lease: %+v", second.Lease)
	}
	if _, err := f.report(first, dispatch.SaidSucceeded, paid); record.KindOf(err) != record.Conflict {
		t.Fatalf("the first holder: %v", err)
	}
	stale := *second.Lease
	stale.Secret = first.Lease.Secret
	if _, err := f.report(dispatch.Answer{Call: second.Call, Lease: &stale}, dispatch.SaidSucceeded, paid); record.KindOf(err) != record.Forbidden {
		t.Fatalf("the first holder as the second: %v", err)
	}
	if l := f.state(second).Call; l.State != record.Executing {
		t.Fatalf("the call is %s", l.State)
	}
	f.wants(must(f.report(second, dispatch.SaidSucceeded, paid)), record.Allow, record.CodeNone, record.Succeeded)
}

func TestRule_E6_HeartbeatsExtendALeaseUpToAnHour(t *testing.T) {
	f := newFramework(t)
	a := f.take("note", `{"n":1}`)
	began, ends := a.Call.Changed, a.Lease.Ends
	if beat := made(f.beat(a)); !beat.Ends.Equal(ends) || beat.Stop {
		t.Fatalf("a heartbeat at once adds nothing: %+v", beat)
	}
	for f.clock.Now().Before(began.Add(time.Hour - 40*time.Second)) {
		f.clock.pass(20 * time.Second)
		beat := made(f.beat(a))
		if want := f.clock.Now().Add(30 * time.Second); !beat.Ends.Equal(want) || beat.Stop {
			t.Fatalf("%s after the beginning: %+v, want %s", f.clock.Now().Sub(began), beat, want)
		}
	}
	f.clock.pass(25 * time.Second)
	if beat := made(f.beat(a)); !beat.Ends.Equal(began.Add(time.Hour)) {
		t.Fatalf("the last heartbeat: %s, want an hour after the beginning", beat.Ends)
	}
	if got := made(f.beat(a)); !got.Ends.Equal(began.Add(time.Hour)) {
		t.Fatalf("another one: %+v", got)
	}
	f.run(a)
	f.wants(must(f.report(a, dispatch.SaidSucceeded, paid)), record.Allow, record.CodeNone, record.Succeeded)
	f.did(1)
	if _, err := f.beat(a); record.KindOf(err) != record.Conflict {
		t.Fatalf("a heartbeat after the report: %v", err)
	}
	b := f.take("note", `{"n":2}`)
	f.clock.pass(20 * time.Second)
	made(f.EndRun(f.ctx, f.caller(anna), b.Call.Run, ""))
	if beat := made(f.beat(b)); !beat.Stop || !beat.Ends.Equal(b.Lease.Ends) {
		t.Fatalf("after the run's end: %+v", beat)
	}
	f.wants(must(f.report(b, dispatch.SaidSucceeded, paid)), record.Allow, record.CodeNone, record.Succeeded) // it finishes as it finishes
}

// TestRule_E3_NotStartedCountsWhenLeaseAndTokenAreOver: the holder's word that it did
// not begin frees the effect late, and gives back no money.
func TestRule_E3_NotStartedCountsWhenLeaseAndTokenAreOver(t *testing.T) {
	f := newFramework(t)
	a := f.take("pay", `{"order":"o1","amount":10}`)
	got := f.wants(must(f.report(a, dispatch.SaidNotStarted, "")), record.Allow, record.CodeInProgress, record.Executing)
	if again := must(f.report(a, dispatch.SaidNotStarted, "")); again.Call.Version != got.Call.Version {
		t.Fatal("the same report again moved the call")
	}
	if _, err := f.beat(a); record.KindOf(err) != record.Conflict {
		t.Fatalf("a lease that was given up is extended: %v", err)
	}
	f.wants(f.do(anna, "pay", `{"order":"o1","amount":10}`), record.Allow, record.CodeInProgress, record.Executing)
	c := f.pass(30*time.Second, a, record.Failed)
	if !c.Outcome.Reported || c.Outcome.Sent {
		t.Fatalf("the outcome: %+v", c.Outcome)
	}
	// The one payment a day without a question is spent all the same (rule E4).
	f.wants(f.do(anna, "pay", `{"order":"o1","amount":10}`), record.RequiresApproval, record.CodeAboveLimit, record.ApprovalPending)

	// A longer lease ends with the token, not with what heartbeats made of it.
	long := f.take("note", `{"n":1}`)
	f.clock.pass(25 * time.Second)
	made(f.beat(long))
	f.clock.pass(25 * time.Second)
	made(f.beat(long))
	must(f.report(long, dispatch.SaidNotStarted, ""))
	if ends := f.state(long).Call.Lease; !ends.Equal(long.Call.Changed.Add(time.Minute)) {
		t.Fatalf("it ends %s after the beginning, want a minute", ends.Sub(long.Call.Changed))
	}
	f.pass(10*time.Second, long, record.Failed)
	f.take("note", `{"n":1}`) // the effect is free again

	// One that says both has said nothing.
	both := f.take("note", `{"n":2}`)
	must(f.report(both, dispatch.SaidNotStarted, ""))
	f.wants(must(f.report(both, dispatch.SaidSucceeded, paid)), record.Allow, record.CodeOutcomeUnknown, record.Unknown)
	f.wants(must(f.report(both, dispatch.SaidSucceeded, paid)), record.Allow, record.CodeOutcomeUnknown, record.Unknown)
	if _, err := f.report(both, dispatch.SaidNotStarted, ""); record.KindOf(err) != record.Conflict {
		t.Fatalf("a third word: %v", err)
	}
}

// TestRule_E4_AReportGivesBackNoMoney: a holder that ran the call cannot get its
// limit back by calling it an error.
func TestRule_E4_AReportGivesBackNoMoney(t *testing.T) {
	f := newFramework(t, func(s *scene) {
		s.yaml = strings.Replace(leaseYAML, "  filtered:", `  owed:
    server: app
    scope: refunds
    write: true
    errors: no_effect
    sources: [direct]
    autonomous_limit: {argument: amount, max: 200, count: 1, within: 24h}
    approval: {when: above_limit, approvers: ["group:leads"]}
    schema: s.json
  asked:
    server: desk
    scope: refunds
    write: true
    errors: no_effect
    sources: [direct]
    autonomous_limit: {argument: amount, max: 200, count: 1, within: 24h}
    approval: {when: above_limit, approvers: ["group:leads"]}
  filtered:`, 1)
	})
	a := f.take("owed", `{"amount":10}`)
	f.wants(must(f.report(a, dispatch.SaidFailed, `{"content":[],"isError":true}`)), record.Allow, record.CodeFailed, record.Failed)
	f.wants(f.do(anna, "owed", `{"amount":11}`), record.RequiresApproval, record.CodeAboveLimit, record.ApprovalPending)
	// The same answer of a server that Placet called is proof, as the entry says.
	f.desk.on(func(context.Context, dispatch.Work) (dispatch.Reached, bool) {
		return dispatch.Reached{Sent: true, IsError: true, Result: json.RawMessage(`{"content":[],"isError":true}`)}, true
	})
	f.wants(f.do(anna, "asked", `{"amount":10}`), record.Allow, record.CodeFailed, record.Failed)
	f.wants(f.do(anna, "asked", `{"amount":11}`), record.Allow, record.CodeFailed, record.Failed)
	// What an operator proves gives back, also of a leased call.
	f.desk.on(handOut)
	f.wants(f.do(anna, "alone", `{"n":1}`), record.Allow, record.CodeLeased, record.Executing)
	f.wants(f.do(anna, "alone", `{"n":2}`), record.Deny, record.CodeRateLimited, record.Proposed) // its place is taken until it is reported
}

func TestRule_E6_AnApprovalLeasesItsCallOnce(t *testing.T) {
	f := newFramework(t)
	a := f.wants(f.do(anna, "wipe", `{"order":"o1"}`), record.RequiresApproval, record.CodeAlwaysAsks, record.ApprovalPending)
	if a.Lease != nil {
		t.Fatal("a held call is leased")
	}
	if held := must(f.Dispatch(f.ctx, f.caller(anna), a.Call.ID, nil)); held.Lease != nil {
		t.Fatal("a held call is leased by dispatch")
	}
	f.reply(a, "lena", record.Yes, "leads")
	leased := f.wants(must(f.Dispatch(f.ctx, f.caller(anna), a.Call.ID, nil)), record.Allow, record.CodeLeased, record.Executing)
	f.run(leased)
	if l := f.state(a); l.Approval.State != record.Consumed {
		t.Fatalf("the approval is %s", l.Approval.State)
	}
	for range 2 {
		if again := f.wants(must(f.Dispatch(f.ctx, f.caller(anna), a.Call.ID, nil)), record.Allow, record.CodeInProgress, record.Executing); again.Lease != nil {
			t.Fatal("one yes, two leases")
		}
	}
	// It ends without a report: the yes is used up, and the effect stays taken.
	f.pass(30*time.Second, a, record.Unknown)
	f.wants(must(f.Dispatch(f.ctx, f.caller(anna), a.Call.ID, nil)), record.Allow, record.CodeOutcomeUnknown, record.Unknown)
	f.did(1)
}

// TestRule_F1_ALeaseLabelsAtReservation: the framework reads the result before it
// reports, so its lineage is labelled before it can.
func TestRule_F1_ALeaseLabelsAtReservation(t *testing.T) {
	f := newFramework(t)
	f.wants(f.do(anna, "mail", `{"note":"before"}`), record.Allow, record.CodeNone, record.Succeeded)
	a := f.take("look", `{}`)
	f.wants(f.do(anna, "mail", `{"note":"after"}`), record.RequiresApproval, record.CodeTaintedTarget, record.ApprovalPending)
	l, err := f.store.Lineage(f.ctx, "acme", a.Call.Lineage)
	if err != nil || !slices.Contains(l.Labels(f.clock.Now(), 0), "untrusted") {
		t.Fatalf("labels %v, %v", l.Marks, err)
	}
	f.ran(1)
}

// TestRule_E6_NobodyIsLeasedWhileAway: a delegated run's approved call waits for who
// can run it.
func TestRule_E6_NobodyIsLeasedWhileAway(t *testing.T) {
	absent(t, func(t *testing.T, s *scene, _ *directory, pass func(time.Duration)) {
		s.yaml = leaseYAML
		s.activate()
		s.desk.on(handOut)
		a := s.wants(s.do(anna, "wipe", `{"order":"o1"}`), record.RequiresApproval, record.CodeAlwaysAsks, record.ApprovalPending)
		made(s.DelegateRun(s.ctx, s.caller(anna), a.Call.Run, s.clock.Now().Add(8*time.Hour)))
		s.reply(a, "lena", record.Yes, "leads")
		pass(time.Minute)
		if l := s.state(a); l.Call.State != record.ApprovalPending || l.Approval.State != record.Approved {
			t.Fatalf("the call is %s, its approval %s", l.Call.State, l.Approval.State)
		}
		s.wants(must(s.Dispatch(s.ctx, s.caller(anna), a.Call.ID, nil)), record.Allow, record.CodeLeased, record.Executing)
	})
}

// TestRule_E6_DoorsThatCannotRunGetNoLease: where the caller cannot run a tool
// itself, such tools are not there.
func TestRule_E6_DoorsThatCannotRunGetNoLease(t *testing.T) {
	f := newFramework(t)
	door := dispatch.Unleased{Boundary: f.Boundary}
	var names []string
	for _, tool := range door.Tools(f.ctx, f.caller(anna)) {
		names = append(names, tool.Name)
	}
	if !slices.Equal(names, []string{"mail"}) || len(f.Tools(f.ctx, f.caller(anna))) < 5 {
		t.Fatalf("listed: %v", names)
	}
	a, err := door.Do(f.ctx, dispatch.Proposal{Caller: f.caller(anna), Tool: "note", Arguments: json.RawMessage(`{"n":1}`)})
	if err != nil {
		t.Fatal(err)
	}
	none := f.wants(a, record.Deny, record.CodeNotAvailable, record.None)
	missing := must(door.Do(f.ctx, dispatch.Proposal{Caller: f.caller(anna), Tool: "nothing"}))
	if strings.ReplaceAll(none.Text(), "note", "nothing") != missing.Text() {
		t.Fatalf("it differs from what does not exist: %q and %q", none.Text(), missing.Text())
	}
	held := f.do(anna, "wipe", `{"order":"o1"}`)
	f.reply(held, "lena", record.Yes, "leads")
	f.wants(must(door.Dispatch(f.ctx, f.caller(anna), held.Call.ID, nil)), record.Deny, record.CodeNotAvailable, record.None)
	if l := f.state(held); l.Approval.State != record.Approved {
		t.Fatalf("the approval is %s", l.Approval.State)
	}
	f.wants(must(door.Do(f.ctx, dispatch.Proposal{Caller: f.caller(anna), Tool: "mail", Arguments: json.RawMessage(`{"n":1}`)})), record.Allow, record.CodeNone, record.Succeeded)
}

// TestRule_E6_AnyOrderOfWords: whatever a holder and the clock do, in any order, a
// call has one outcome, an end stays an end, and no word after the lease's end counts.
func TestRule_E6_AnyOrderOfWords(t *testing.T) {
	f := newFramework(t, func(s *scene) { s.limits.CallsPerRun = 1 << 20 })
	n := 0
	rapid.Check(t, func(r *rapid.T) {
		n++
		a := f.take(rapid.SampledFrom([]string{"note", "sure", "look"}).Draw(r, "tool"), fmt.Sprintf(`{"n":%d}`, n))
		ends, gone, accepted := a.Lease.Ends, false, map[record.State]bool{}
		for range rapid.IntRange(1, 8).Draw(r, "steps") {
			before := f.state(a).Call
			now := f.clock.Now()
			live := before.State == record.Executing && now.Before(before.Lease)
			switch step := rapid.SampledFrom([]string{"beat", "succeeded", "failed", "not_started", "time", "clock"}).Draw(r, "step"); step {
			case "beat":
				beat, err := f.beat(a)
				if (err == nil) != (live && !before.GivenUp()) {
					r.Fatalf("heartbeat, live %t, given up %t: %v", live, before.GivenUp(), err)
				}
				if err == nil {
					ends = beat.Ends
				}
			case "time":
				f.clock.pass(time.Duration(rapid.IntRange(1, 40).Draw(r, "seconds")) * time.Second)
			case "clock":
				if !now.Before(before.Lease) && before.State == record.Executing {
					f.pass(0, a, map[bool]record.State{true: record.Failed, false: record.Unknown}[before.GivenUp() || before.Tool.ReadOnly])
				}
			default:
				result := paid
				if step == "not_started" {
					result = ""
				}
				got, err := f.report(a, dispatch.Said(step), result)
				// One exception is on the safe side: who gave up, and says otherwise before the
				// clock made it an end, leaves it unknown.
				contradicts := before.GivenUp() && got.State() == record.Unknown
				if err == nil && !live && !contradicts && (before.Outcome == nil || got.Call.Version != before.Version) {
					r.Fatalf("a word after the lease's end counts: %s", got.State())
				}
				if err == nil && got.State() != record.Executing {
					accepted[got.State()] = true
				}
			}
			after := f.state(a).Call
			gone = gone || after.State != record.Executing
			switch {
			case before.State != record.Executing && (after.State != before.State || after.Version != before.Version):
				r.Fatalf("an end moved: %s to %s", before.State, after.State)
			case after.State == record.Executing && (gone || after.Lease.After(ends)):
				r.Fatalf("it is %s, lease %s, after %s", after.State, after.Lease, ends)
			case len(accepted) > 1 || len(accepted) == 1 && !accepted[after.State]:
				r.Fatalf("it is %s, and holders were told %v", after.State, accepted)
			case after.Attempt != 1:
				r.Fatalf("attempt %d", after.Attempt)
			}
		}
	})
}

// made is must for whatever is no answer.
func made[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
