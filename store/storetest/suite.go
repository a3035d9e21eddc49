package storetest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/placet-dev/placet/audit"
	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

// Store is what the suite tests.
type Store interface {
	dispatch.Store
	dispatch.Reader
	dispatch.Follower
	audit.Log
}

// Open opens an empty store for one test. A store that can, calls pause between
// what its writer read for a change and what it writes.
type Open func(t *testing.T, pause func()) Store

// Run runs the whole suite.
func Run(t *testing.T, open Open) {
	for name, f := range map[string]func(*testing.T, *bench){
		"RoundTrip":        roundTrip,
		"OneReservation":   oneReservation,
		"OneEqualCall":     oneEqualCall,
		"Premise":          premise,
		"LimitsAreExact":   limitsAreExact,
		"RefusalNoTrace":   refusalNoTrace,
		"HoldsComeBack":    holdsComeBack,
		"OpenProposals":    openProposals,
		"EventQuota":       eventQuota,
		"OwedUntilProof":   owedUntilProof,
		"ApprovalOnce":     approvalOnce,
		"QuorumRace":       quorumRace,
		"OnePersonOneVote": onePersonOneVote,
		"Rejection":        rejection,
		"TurnSupersedes":   turnSupersedes,
		"EndRunRace":       endRunRace,
		"ActivationFence":  activationFence,
		"Due":              due,
		"Tenants":          tenants,
		"CanceledCaller":   canceledCaller,
		"Prior":            prior,
		"Lists":            lists,
		"Transfer":         transfer,
		"Delegation":       delegation,
		"Answered":         answered,
		"Passkeys":         passkeys,
		"Asked":            asked,
		"Fresh":            fresh,
		"Follow":           follow,
		"Lineages":         lineages,
		"HeldLineages":     heldLineages,
		"Transcripts":      transcripts,
		"Emissions":        emissions,
		"Leases":           leases,
		"Revocations":      revocations,
		"RevokedRun":       revokedRun,
		"RevokedAnswers":   revokedAnswers,
		"RevocationFence":  revocationFence,
		"Children":         children,
		"ChildFresh":       childFresh,
		"ChildRace":        childRace,
		"Versions":         versions,
		"Unconsumed":       unconsumed,
		"Sealing":          sealing,
		"Recovery":         recovery,
		"Queue":            queue,
		"Schedules":        schedules,
		"Retention":        retention,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &bench{ctx: t.Context(), at: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)}
			b.Store = open(t, b.paused)
			f(t, b)
		})
	}
}

// bench is one test's store with a clock and ready-made records.
type bench struct {
	Store
	ctx   context.Context
	at    time.Time
	mu    sync.Mutex
	pause func()
}

func (b *bench) paused() {
	b.mu.Lock()
	p := b.pause
	b.mu.Unlock()
	if p != nil {
		p()
	}
}

func (b *bench) setPause(p func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pause = p
}

func owner(tenant string) record.Owner {
	return record.Owner{Tenant: record.TenantID(tenant), Principal: record.Principal{Issuer: "https://idp", Subject: "anna"}, Agent: "bot"}
}

func id(t *testing.T, prefix string, at time.Time) string {
	t.Helper()
	s, err := record.NewID(prefix, at, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (b *bench) apply(t *testing.T, c record.Change, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("construct: %v", err)
	}
	if err := b.Apply(b.ctx, c); err != nil {
		t.Fatalf("apply: %v", err)
	}
}

func (b *bench) openRun(t *testing.T, o record.Owner, vouched bool) record.Run {
	t.Helper()
	lineage := record.UnvouchedLineage(o, 0)
	if vouched {
		lineage = record.LineageID(id(t, "lin", b.at))
	}
	c := record.OpenRun(record.Run{Owner: o, ID: record.RunID(id(t, "run", b.at)), Lineage: lineage, Vouched: vouched,
		Turn: 1, Opened: b.at, Active: b.at}, o.By())
	b.apply(t, c, nil)
	return c.Facts().Run.After
}

// call is a candidate for a tool whose effect depends on arguments.
func (b *bench) call(t *testing.T, r record.Run, arguments string) record.Call {
	t.Helper()
	return record.Call{
		Owner: r.Owner, ID: record.CallID(id(t, "call", b.at)), Run: r.ID, Lineage: r.Lineage, Turn: r.Turn,
		Tool:      record.ToolRef{Name: "refund", Server: "desk", Version: canon.Of("v"), Pin: canon.Of("p")},
		Arguments: []byte(arguments), Digest: record.ArgumentDigest([]byte(arguments), nil),
		Salt: []byte("a salt of a call."), Effect: record.NewEffectKey(r.Owner, "refund", []byte(arguments)), Source: record.Direct, Route: record.RouteAPI,
		Targets: []record.Target{{Argument: "order", Value: []byte(`"ord_1"`)}}, EffectText: `Refund "1"`, Attempts: 1,
		Proposed: b.at, Changed: b.at, Expires: b.at.Add(time.Hour),
	}
}

func (b *bench) decision(v record.Verdict) record.Decision {
	return record.Decision{Verdict: v, At: b.at, DecidedBy: "sha256:x", Reasons: []record.Reason{{Rule: "registry", Verdict: v}}}
}

func (b *bench) step(r record.Run, v record.Verdict, seen ...record.Seen) record.Step {
	return record.Step{At: b.at, Who: r.By(), Decision: b.decision(v), OpenCap: 100,
		Premise: &record.Premise{Tenant: r.Tenant, Run: r.ID, Owner: r.Owner, Turn: r.Turn, Seen: seen}}
}

func (b *bench) question(t *testing.T, c *record.Call, quorum int) record.Approval {
	t.Helper()
	rule := record.ApprovalRule{Expires: time.Hour, Parts: []record.ApprovalPart{{From: "registry", Quorum: quorum,
		Groups: []record.Group{{Issuer: "https://idp", Name: "leads"}}}}}
	expires := b.at.Add(time.Hour)
	c.Binding = record.BindingOf(*c, &rule, expires, "sha256:x")
	return record.Approval{Owner: c.Owner, ID: record.ApprovalID(id(t, "apr", b.at)), Call: c.ID, Run: c.Run, Lineage: c.Lineage,
		Binding: c.Binding, Rule: rule, Code: record.CodeAboveLimit, Asked: b.at, Expires: expires}
}

func (b *bench) reply(person string, q record.Approval, w record.Word) record.Reply {
	return record.Reply{Person: record.Principal{Issuer: "https://idp", Subject: person}, Word: w, Binding: q.Binding, At: b.at,
		Groups: []record.Group{{Issuer: "https://idp", Name: "leads"}}, Note: "note"}
}

// linger makes the writer wait between what it read and what it writes, long
// enough for the others of a race to be there.
func (b *bench) linger() {
	b.setPause(func() {
		for range 50 {
			runtime.Gosched()
		}
	})
}

func refused(err error) record.RefusalKind {
	var r *record.Refusal
	if errors.As(err, &r) {
		return r.Kind
	}
	return ""
}

// held returns a call that waits for a question.
func (b *bench) held(t *testing.T, r record.Run, arguments string, quorum int) (record.Call, record.Approval) {
	t.Helper()
	c := b.call(t, r, arguments)
	q := b.question(t, &c, quorum)
	change, err := record.Hold(c, b.step(r, record.RequiresApproval), q, nil)
	b.apply(t, change, err)
	l := b.load(t, r.Tenant, c.ID)
	return l.Call, *l.Approval
}

func (b *bench) load(t *testing.T, tenant record.TenantID, c record.CallID) dispatch.Loaded {
	t.Helper()
	l, err := b.Call(b.ctx, tenant, c)
	if err != nil {
		t.Fatalf("load %s: %v", c, err)
	}
	return l
}

func (b *bench) events(t *testing.T, tenant record.TenantID) []record.Event {
	t.Helper()
	all, err := b.Events(b.ctx, dispatch.EventQuery{Tenant: tenant, Limit: 500})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func kinds(events []record.Event) (out []record.EventKind) {
	for _, e := range events {
		out = append(out, e.Kind)
	}
	return out
}

// together runs f n times at once and returns the errors.
func together(n int, f func(i int) error) []error {
	errs := make([]error, n)
	var start, done sync.WaitGroup
	start.Add(1)
	for i := range n {
		done.Go(func() {
			start.Wait()
			errs[i] = f(i)
		})
	}
	start.Done()
	done.Wait()
	return errs
}

func count(errs []error, f func(error) bool) (n int) {
	for _, err := range errs {
		if f(err) {
			n++
		}
	}
	return n
}

func isNil(err error) bool { return err == nil }

func roundTrip(t *testing.T, b *bench) {
	r := b.openRun(t, owner("acme"), false)
	got, err := b.Run(b.ctx, "acme", r.ID)
	if err != nil || got != r {
		t.Fatalf("run: %v\n got %+v\nwant %+v", err, got, r)
	}
	live, err := b.LiveRun(b.ctx, r.Owner, "")
	if err != nil || live.ID != r.ID {
		t.Fatalf("live run: %v %+v", err, live)
	}
	c := b.call(t, r, `{"amount":9007199254740992,"text":"é \u0001"}`)
	c.BlankArguments, c.Purpose, c.Input = true, "why", []byte(`{"a":1}`)
	change, err := record.Reserve(c, b.step(r, record.Allow), b.at.Add(30*time.Second), nil, nil)
	b.apply(t, change, err)
	executing := change.Facts().Call.After
	diff := func(want record.Call) {
		t.Helper()
		if d := cmp.Diff(want, b.load(t, "acme", c.ID).Call, cmpopts.EquateEmpty()); d != "" {
			t.Fatalf("what was applied is not what is read (-applied +read):\n%s", d)
		}
	}
	diff(executing)
	result := []byte("{\"n\": 9007199254740993 }\n")
	out := record.Outcome{Sent: true, Result: result, Digest: canon.Of("r", result), Detail: "d"}
	change, err = record.Settle(executing, record.Succeeded, out, record.Step{At: b.at.Add(time.Second), Who: r.By()}, record.ByBoundary)
	b.apply(t, change, err)
	diff(change.Facts().Call.After)
	want := []record.EventKind{record.EventRunOpened, record.EventProposed, record.EventAuthorized, record.EventExecuting, record.EventSucceeded}
	if d := cmp.Diff(want, kinds(b.events(t, "acme"))); d != "" {
		t.Fatalf("events (-want +got):\n%s", d)
	}
}

func oneReservation(t *testing.T, b *bench) {
	b.linger()
	r := b.openRun(t, owner("acme"), false)
	c := b.call(t, r, `{"amount":1}`)
	change, err := record.Authorize(c, b.step(r, record.Allow))
	b.apply(t, change, err)
	c = change.Facts().Call.After
	errs := together(32, func(int) error {
		change, err := record.Reserve(c, b.step(r, record.Allow), b.at.Add(time.Minute), nil, nil)
		if err != nil {
			return err
		}
		return b.Apply(b.ctx, change)
	})
	if won := count(errs, isNil); won != 1 {
		t.Fatalf("%d of 32 reserved the same call, want 1", won)
	}
	if lost := count(errs, func(err error) bool { return refused(err) == record.RefusedConflict }); lost != 31 {
		t.Fatalf("%d typed conflicts, want 31: %v", lost, errs)
	}
	if got := b.load(t, "acme", c.ID).Call; got.Attempt != 1 || got.State != record.Executing {
		t.Fatalf("after the race: %s, attempt %d", got.State, got.Attempt)
	}
}

func oneEqualCall(t *testing.T, b *bench) {
	b.linger()
	r := b.openRun(t, owner("acme"), false)
	errs := together(32, func(int) error {
		c := b.call(t, r, `{"amount":1}`)
		change, err := record.Reserve(c, b.step(r, record.Allow, record.Seen{Key: c.Effect}), b.at.Add(time.Minute), nil, nil)
		if err != nil {
			return err
		}
		return b.Apply(b.ctx, change)
	})
	if won := count(errs, isNil); won != 1 {
		t.Fatalf("%d equal calls were made at once, want 1: %v", won, errs)
	}
	if n := count(errs, func(err error) bool {
		return refused(err) == record.RefusedPremise || refused(err) == record.RefusedEqual
	}); n != 31 {
		t.Fatalf("%d typed refusals, want 31", n)
	}
	// Without the premise the index alone holds (rule A6).
	c := b.call(t, r, `{"amount":1}`)
	change, err := record.Authorize(c, b.step(r, record.Allow))
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Apply(b.ctx, change); refused(err) != record.RefusedEqual {
		t.Fatalf("a second open call for one effect: %v", err)
	}
	// A neighbour: other arguments, another occurrence, and a read are each their own.
	for _, change := range []func(*record.Call){
		func(c *record.Call) { c.Effect = canon.Of("other") },
		func(c *record.Call) { c.Occurrence = "second" },
		func(c *record.Call) { c.Tool.ReadOnly = true },
	} {
		c := b.call(t, r, `{"amount":1}`)
		change(&c)
		ch, err := record.Authorize(c, b.step(r, record.Allow))
		b.apply(t, ch, err)
	}
}

func premise(t *testing.T, b *bench) {
	r := b.openRun(t, owner("acme"), true)
	try := func(what string, want bool, edit func(*record.Premise)) {
		t.Helper()
		c := b.call(t, r, fmt.Sprintf(`{"amount":%q}`, what))
		s := b.step(r, record.Allow)
		edit(s.Premise)
		change, err := record.Reserve(c, s, b.at.Add(time.Minute), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		err = b.Apply(b.ctx, change)
		if want && err != nil || !want && refused(err) != record.RefusedPremise {
			t.Fatalf("%s: %v", what, err)
		}
		if _, err := b.Call(b.ctx, r.Tenant, c.ID); (err == nil) != want {
			t.Fatalf("%s: a trace was left, or none: %v", what, err)
		}
	}
	try("true premise", true, func(*record.Premise) {})
	try("another generation", false, func(p *record.Premise) { p.Generation = 7 })
	try("another turn", false, func(p *record.Premise) { p.Turn = 2 })
	try("another owner", false, func(p *record.Premise) { p.Owner.Agent = "other" })
	try("no such run", false, func(p *record.Premise) { p.Run = "run_none" })
	try("a newer call for the effect", false, func(p *record.Premise) { p.Seen = []record.Seen{{Key: canon.Of("e"), Version: 3}} })
	end, err := record.EndRun(r, "done", r.By(), b.at)
	b.apply(t, end, err)
	try("an ended run", false, func(*record.Premise) {})
}

func limitsAreExact(t *testing.T, b *bench) {
	b.linger()
	r := b.openRun(t, owner("acme"), false)
	charge := record.Charge{Counter: "minute|refund", Amount: 1, Limit: 5, Window: time.Minute, Code: record.CodeRateLimited}
	errs := together(40, func(i int) error {
		c := b.call(t, r, fmt.Sprintf(`{"amount":%d}`, i))
		s := b.step(r, record.Allow)
		s.Charges = []record.Charge{charge}
		change, err := record.Reserve(c, s, b.at.Add(time.Minute), nil, nil)
		if err != nil {
			return err
		}
		return b.Apply(b.ctx, change)
	})
	if won := count(errs, isNil); won != 5 {
		t.Fatalf("%d of 40 passed a limit of 5", won)
	}
	for _, err := range errs {
		var no *record.Refusal
		if err != nil && (!errors.As(err, &no) || no.Kind != record.RefusedLimit || no.Charge.Code != record.CodeRateLimited || !no.Retry.After(b.at)) {
			t.Fatalf("a refused charge says: %#v", err)
		}
	}
	// When it says to try again, it works; just before, it does not.
	var no *record.Refusal
	for _, err := range errs {
		if errors.As(err, &no) {
			break
		}
	}
	for _, tc := range []struct {
		at   time.Time
		want bool
	}{{no.Retry.Add(-time.Millisecond), false}, {no.Retry, true}} {
		c := b.call(t, r, `{"amount":"later"}`)
		s := b.step(r, record.Allow)
		s.At, s.Charges = tc.at, []record.Charge{charge}
		change, err := record.Reserve(c, s, tc.at.Add(time.Minute), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Apply(b.ctx, change); (err == nil) != tc.want {
			t.Fatalf("at %s: %v", tc.at, err)
		}
	}
}

func refusalNoTrace(t *testing.T, b *bench) {
	r := b.openRun(t, owner("acme"), false)
	before := len(b.events(t, "acme"))
	c := b.call(t, r, `{"amount":1}`)
	s := b.step(r, record.Allow)
	s.Charges = []record.Charge{{Counter: "first", Amount: 1, Limit: 1}, {Counter: "second", Amount: 2, Limit: 1}}
	change, err := record.Reserve(c, s, b.at.Add(time.Minute), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Apply(b.ctx, change); refused(err) != record.RefusedLimit {
		t.Fatalf("over the limit: %v", err)
	}
	if after := len(b.events(t, "acme")); after != before {
		t.Fatalf("a refused change wrote %d events", after-before)
	}
	// The first counter was not charged: there is still room for one.
	s.Charges = s.Charges[:1]
	change, err = record.Reserve(c, s, b.at.Add(time.Minute), nil, nil)
	b.apply(t, change, err)
}

func holdsComeBack(t *testing.T, b *bench) {
	r := b.openRun(t, owner("acme"), false)
	reserve := func(n string) (record.Call, error) {
		c := b.call(t, r, n)
		s := b.step(r, record.Allow)
		s.Charges = []record.Charge{{Counter: "concurrent", Amount: 1, Limit: 1, Hold: true}}
		change, err := record.Reserve(c, s, b.at.Add(time.Minute), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return change.Facts().Call.After, b.Apply(b.ctx, change)
	}
	first, err := reserve(`{"n":1}`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := reserve(`{"n":2}`); refused(err) != record.RefusedLimit {
		t.Fatalf("a second at once: %v", err)
	}
	change, err := record.Settle(first, record.Unknown, record.Outcome{Sent: true}, record.Step{At: b.at}, record.ByBoundary)
	b.apply(t, change, err)
	if _, err := reserve(`{"n":2}`); err != nil {
		t.Fatalf("after the first was settled: %v", err)
	}
}

// What only proof gives back stays while the outcome is unknown, through a restart
// of the count's window, and is read back as it is stored.
func owedUntilProof(t *testing.T, b *bench) {
	r := b.openRun(t, owner("acme"), false)
	day := record.Charge{Counter: record.CounterFor("money", "a|b", `c\d`), Amount: 60, Limit: 100, Window: 24 * time.Hour, Proof: true}
	used := func() int64 {
		levels, err := b.Levels(b.ctx, "acme", []record.Counter{"nothing", day.Counter})
		if err != nil || len(levels) != 2 || levels[0].Used(0, b.at) != 0 {
			t.Fatalf("levels %v, %v", levels, err)
		}
		return levels[1].Used(day.Window, b.at)
	}
	c := b.call(t, r, `{"n":1}`)
	s := b.step(r, record.Allow)
	s.Charges = []record.Charge{day}
	change, err := record.Reserve(c, s, b.at.Add(time.Minute), nil, nil)
	b.apply(t, change, err)
	change, err = record.Settle(change.Facts().Call.After, record.Unknown, record.Outcome{Sent: true}, record.Step{At: b.at}, record.ByBoundary)
	b.apply(t, change, err)
	if used() != 60 {
		t.Fatalf("while unknown %d are held, want 60", used())
	}
	l, err := b.Call(b.ctx, "acme", c.ID)
	if err != nil || len(l.Call.Holds) != 1 || l.Call.Holds[0].Counter != day.Counter {
		t.Fatalf("the call holds %v, %v", l.Call.Holds, err)
	}
	// Proof counts once the attempt can have no effect any more (rule E3).
	change, err = record.Settle(l.Call, record.Failed, record.Outcome{}, record.Step{At: l.Call.Lease}, record.ByReconcile)
	b.apply(t, change, err)
	if used() != 0 {
		t.Fatalf("after the proof %d are held", used())
	}
	all, err := b.Counters(b.ctx, "acme", "", 10)
	if err != nil || len(all) != 1 || all[0].Counter != day.Counter {
		t.Fatalf("counters %v, %v", all, err)
	}
	if what, parts := all[0].Counter.Parts(); what != "money" || len(parts) != 2 || parts[0] != "a|b" || parts[1] != `c\d` {
		t.Fatalf("parts %q %q", what, parts)
	}
	if other, err := b.Counters(b.ctx, "globex", "", 10); err != nil || len(other) != 0 {
		t.Fatalf("another tenant's counters %v, %v", other, err)
	}
}

func approvalOnce(t *testing.T, b *bench) {
	b.linger()
	r := b.openRun(t, owner("acme"), false)
	c, q := b.held(t, r, `{"amount":1}`, 1)
	change, err := record.Answer(q, c, b.reply("lena", q, record.Yes), b.decision(record.Allow), nil)
	b.apply(t, change, err)
	l := b.load(t, "acme", c.ID)
	if l.Approval.State != record.Approved || l.Call.State != record.ApprovalPending {
		t.Fatalf("after a yes: approval %s, call %s; a yes moves only the approval", l.Approval.State, l.Call.State)
	}
	errs := together(32, func(int) error {
		change, err := record.Reserve(l.Call, b.step(r, record.Allow), b.at.Add(time.Minute), l.Approval, nil)
		if err != nil {
			return err
		}
		return b.Apply(b.ctx, change)
	})
	if won := count(errs, isNil); won != 1 {
		t.Fatalf("one approval started %d attempts: %v", won, errs)
	}
	if got := b.load(t, "acme", c.ID).Approval.State; got != record.Consumed {
		t.Fatalf("the approval is %s, want consumed", got)
	}
}

func quorumRace(t *testing.T, b *bench) {
	r := b.openRun(t, owner("acme"), false)
	c, q := b.held(t, r, `{"amount":1}`, 2)
	var gate sync.WaitGroup
	gate.Add(1)
	b.setPause(func() { gate.Wait() }) // between what the writer read and what it writes
	answer := func(person string) func() error {
		return func() error {
			for {
				l, err := b.Call(b.ctx, "acme", c.ID)
				if err != nil {
					return err
				}
				change, err := record.Answer(*l.Approval, l.Call, b.reply(person, *l.Approval, record.Yes), b.decision(record.Allow), nil)
				if err != nil {
					return err
				}
				if err = b.Apply(b.ctx, change); refused(err) != record.RefusedConflict {
					return err
				}
			}
		}
	}
	people := []func() error{answer("lena"), answer("max")}
	done := make(chan []error)
	go func() { done <- together(2, func(i int) error { return people[i]() }) }()
	gate.Done()
	if errs := <-done; count(errs, isNil) != 2 {
		t.Fatalf("two approvers at once: %v", errs)
	}
	if got := b.load(t, "acme", c.ID).Approval; got.State != record.Approved || len(got.Answers) != 2 {
		t.Fatalf("two yeses at quorum 2 leave the approval %s with %d answers", got.State, len(got.Answers))
	}
	_ = q
}

func onePersonOneVote(t *testing.T, b *bench) {
	r := b.openRun(t, owner("acme"), false)
	c, q := b.held(t, r, `{"amount":1}`, 2)
	first, err := record.Answer(q, c, b.reply("lena", q, record.Yes), b.decision(record.Allow), nil)
	b.apply(t, first, err)
	l := b.load(t, "acme", c.ID)
	second, err := record.Answer(*l.Approval, l.Call, b.reply("lena", q, record.Yes), b.decision(record.Allow), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Apply(b.ctx, second); refused(err) != record.RefusedConflict {
		t.Fatalf("a second vote of one person: %v", err)
	}
	if got := b.load(t, "acme", c.ID).Approval; got.State != record.Pending || len(got.Answers) != 1 {
		t.Fatalf("approval %s with %d answers", got.State, len(got.Answers))
	}
}

func rejection(t *testing.T, b *bench) {
	r := b.openRun(t, owner("acme"), false)
	c, q := b.held(t, r, `{"amount":1}`, 1)
	change, err := record.Answer(q, c, b.reply("lena", q, record.No), b.decision(record.Deny), nil)
	b.apply(t, change, err)
	l := b.load(t, "acme", c.ID)
	if l.Approval.State != record.Rejected || l.Call.State != record.Denied {
		t.Fatalf("after a no: approval %s, call %s", l.Approval.State, l.Call.State)
	}
	no, err := b.Rejected(b.ctx, "acme", c.Lineage, c.Effect)
	if err != nil || no == nil || no.Approval != q.ID || no.Note != "note" {
		t.Fatalf("the rejection is not kept: %v %+v", err, no)
	}
	other, err := b.Rejected(b.ctx, "acme", "lin_other", c.Effect)
	if err != nil || other != nil {
		t.Fatalf("it holds in another lineage: %+v %v", other, err)
	}
}

func turnSupersedes(t *testing.T, b *bench) {
	r := b.openRun(t, owner("acme"), true)
	kept, keptQ := b.held(t, r, `{"amount":1}`, 1)
	gone, goneQ := b.held(t, r, `{"amount":2}`, 1)
	running := b.call(t, r, `{"amount":3}`)
	change, err := record.Reserve(running, b.step(r, record.Allow), b.at.Add(time.Minute), nil, nil)
	b.apply(t, change, err)
	turn, err := record.StartTurn(r, []record.CallID{kept.ID}, r.By(), b.at)
	b.apply(t, turn, err)
	l := b.load(t, "acme", kept.ID)
	if l.Call.State != record.ApprovalPending || l.Approval.State != record.Pending || l.Call.LiveTurn() != 2 || l.Approval.Binding != keptQ.Binding {
		t.Fatalf("the kept call: %s, approval %s, turn %d", l.Call.State, l.Approval.State, l.Call.LiveTurn())
	}
	l = b.load(t, "acme", gone.ID)
	if l.Call.State != record.Canceled || l.Approval.State != record.Void || l.Approval.ID != goneQ.ID {
		t.Fatalf("the superseded call: %s, approval %s", l.Call.State, l.Approval.State)
	}
	if got := b.load(t, "acme", running.ID).Call.State; got != record.Executing {
		t.Fatalf("the executing call: %s; it finishes as it finishes", got)
	}
}

func endRunRace(t *testing.T, b *bench) {
	b.linger()
	r := b.openRun(t, owner("acme"), false)
	errs := make(chan error, 64)
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			c := b.call(t, r, fmt.Sprintf(`{"amount":%d}`, i))
			change, err := record.Authorize(c, b.step(r, record.Allow))
			if err == nil {
				err = b.Apply(b.ctx, change)
			}
			errs <- err
		})
	}
	wg.Go(func() {
		change, err := record.EndRun(r, "race", r.By(), b.at)
		if err == nil {
			err = b.Apply(b.ctx, change)
		}
		if err != nil {
			t.Errorf("end: %v", err)
		}
	})
	wg.Wait()
	close(errs)
	for err := range errs {
		if err != nil && refused(err) != record.RefusedPremise {
			t.Fatalf("a call beside the end of its run: %v", err)
		}
	}
	open, err := b.OpenCalls(b.ctx, "acme", r.ID, 100)
	if err != nil || len(open) != 0 {
		t.Fatalf("an ended run keeps %d open calls (%v)", len(open), err)
	}
}

func activationFence(t *testing.T, b *bench) {
	r := b.openRun(t, owner("acme"), false)
	if g, _, err := b.Generation(b.ctx); g != 0 || err != nil {
		t.Fatalf("a new store is at generation %d (%v)", g, err)
	}
	change, err := record.Activate(record.Activation{From: 0, To: 1, Digest: "sha256:a", Who: record.Who{System: "test"}, At: b.at}, nil, []string{"tool x: sources"})
	b.apply(t, change, err)
	if g, d, err := b.Generation(b.ctx); g != 1 || d != "sha256:a" || err != nil {
		t.Fatalf("after activation: %d %s %v", g, d, err)
	}
	c := b.call(t, r, `{"amount":1}`)
	late, err := record.Reserve(c, b.step(r, record.Allow), b.at.Add(time.Minute), nil, nil) // decided under generation 0
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Apply(b.ctx, late); refused(err) != record.RefusedPremise {
		t.Fatalf("a reservation under the old version: %v", err)
	}
	if err := b.Apply(b.ctx, change); refused(err) != record.RefusedConflict {
		t.Fatalf("activating twice: %v", err)
	}
}

func due(t *testing.T, b *bench) {
	r := b.openRun(t, owner("acme"), false)
	c, _ := b.held(t, r, `{"amount":1}`, 1)
	none, next, err := b.Due(b.ctx, b.at, 10)
	if err != nil || len(none) != 0 || !next.Equal(b.at.Add(time.Hour)) {
		t.Fatalf("before: %d due, next %s, %v", len(none), next, err)
	}
	later := b.at.Add(time.Hour)
	ready, _, err := b.Due(b.ctx, later, 10)
	if err != nil || len(ready) != 1 || ready[0].Call.ID != c.ID || ready[0].Approval == nil {
		t.Fatalf("at its time: %+v %v", ready, err)
	}
	change, err := record.End(ready[0].Call, record.Expired, record.ByClock, record.CodeExpired, record.Step{At: later}, ready[0].Approval)
	b.apply(t, change, err)
	l := b.load(t, "acme", c.ID)
	if l.Call.State != record.Expired || l.Approval.State != record.Lapsed {
		t.Fatalf("expired: call %s, approval %s", l.Call.State, l.Approval.State)
	}
	if again, _, err := b.Due(b.ctx, later, 10); err != nil || len(again) != 0 {
		t.Fatalf("still due: %d %v", len(again), err)
	}
}

func tenants(t *testing.T, b *bench) {
	r := b.openRun(t, owner("acme"), false)
	c, q := b.held(t, r, `{"amount":1}`, 1)
	_, callErr := b.Call(b.ctx, "other", c.ID)
	_, aprErr := b.Approval(b.ctx, "other", q.ID)
	_, runErr := b.Run(b.ctx, "other", r.ID)
	for what, err := range map[string]error{"call": callErr, "approval": aprErr, "run": runErr} {
		if record.KindOf(err) != record.NotFound {
			t.Fatalf("another tenant reads the %s: %v", what, err)
		}
	}
	_, absent := b.Call(b.ctx, "other", "call_absent")
	if record.KindOf(absent) != record.KindOf(callErr) {
		t.Fatalf("absent %v and not yours %v differ", absent, callErr)
	}
	if p, err := b.Prior(b.ctx, "other", c.Lineage, c.Effect, ""); err != nil || p.Equal != nil {
		t.Fatalf("another tenant sees an equal call: %+v %v", p, err)
	}
	if calls, err := b.Calls(b.ctx, dispatch.CallQuery{Tenant: "other"}); err != nil || len(calls) != 0 {
		t.Fatalf("another tenant lists %d calls (%v)", len(calls), err)
	}
	if ev := b.events(t, "other"); len(ev) != 0 {
		t.Fatalf("another tenant reads %d events", len(ev))
	}
	if mine, err := b.Call(b.ctx, "acme", c.ID); err != nil || mine.Call.ID != c.ID {
		t.Fatalf("its own tenant: %v", err)
	}
}

func canceledCaller(t *testing.T, b *bench) {
	r := b.openRun(t, owner("acme"), false)
	ctx, cancel := context.WithCancel(b.ctx)
	var once sync.Once
	b.setPause(func() { once.Do(cancel) }) // the caller goes while its change is between read and write
	canceled := b.call(t, r, `{"amount":"canceled"}`)
	change, err := record.Authorize(canceled, b.step(r, record.Allow))
	if err != nil {
		t.Fatal(err)
	}
	err = b.Apply(ctx, change)
	if refused(err) != "" {
		t.Fatalf("a canceled caller is told of a refusal that was none: %v", err)
	}
	b.setPause(nil)
	// Its neighbours in the batch are not harmed, and the change itself is whole.
	neighbour := b.call(t, r, `{"amount":"neighbour"}`)
	change, err = record.Authorize(neighbour, b.step(r, record.Allow))
	b.apply(t, change, err)
	if l := b.load(t, "acme", canceled.ID); l.Call.State != record.DispatchAuthorized {
		t.Fatalf("the canceled caller's change: %s", l.Call.State)
	}
}

func prior(t *testing.T, b *bench) {
	r := b.openRun(t, owner("acme"), false)
	c := b.call(t, r, `{"amount":1}`)
	c.Occurrence = "first"
	look := func(occurrence string) dispatch.Prior {
		t.Helper()
		p, err := b.Prior(b.ctx, "acme", r.Lineage, c.Effect, occurrence)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	p := look("first")
	if p.Equal != nil || p.Done != nil || len(p.Unsettled) != 0 || len(p.Seen) != 2 || p.Seen[0].Version != 0 {
		t.Fatalf("before anything: %+v", p)
	}
	change, err := record.Reserve(c, b.step(r, record.Allow, p.Seen...), b.at.Add(time.Minute), nil, nil)
	b.apply(t, change, err)
	executing := change.Facts().Call.After
	if p = look("first"); p.Equal == nil || p.Equal.ID != c.ID || p.Same == nil || len(p.Unsettled) != 1 || p.Seen[0].Version != 1 || p.Seen[1].Version != 1 {
		t.Fatalf("while it executes: %+v", p)
	}
	if p = look(""); p.Equal != nil || len(p.Unsettled) != 1 {
		t.Fatalf("for another occurrence: %+v", p)
	}
	change, err = record.Settle(executing, record.Succeeded, record.Outcome{Sent: true, Result: []byte(`{}`)}, record.Step{At: b.at}, record.ByBoundary)
	b.apply(t, change, err)
	if p = look("first"); p.Equal != nil || p.Done == nil || string(p.Done.Outcome.Result) != "{}" || len(p.Unsettled) != 0 || p.Same == nil {
		t.Fatalf("after it succeeded: %+v", p)
	}
}

func lists(t *testing.T, b *bench) {
	r := b.openRun(t, owner("acme"), false)
	var ids []record.CallID
	for i := range 5 {
		b.at = b.at.Add(time.Second)
		c, _ := b.held(t, r, fmt.Sprintf(`{"amount":%d}`, i), 1)
		ids = append(ids, c.ID)
	}
	page, err := b.Calls(b.ctx, dispatch.CallQuery{Tenant: "acme", Limit: 2})
	if err != nil || len(page) != 2 || page[0].ID != ids[4] {
		t.Fatalf("newest first: %v %v", page, err)
	}
	page, err = b.Calls(b.ctx, dispatch.CallQuery{Tenant: "acme", Limit: 10, Before: page[1].ID, States: []record.State{record.ApprovalPending}})
	if err != nil || len(page) != 3 || page[0].ID != ids[2] {
		t.Fatalf("the next page: %v %v", page, err)
	}
	asked, err := b.Approvals(b.ctx, dispatch.ApprovalQuery{Tenant: "acme", States: []record.ApprovalState{record.Pending}, Limit: 3})
	if err != nil || len(asked) != 3 || asked[0].Call.ID != ids[0] {
		t.Fatalf("oldest question first: %v %v", asked, err)
	}
	asked, err = b.Approvals(b.ctx, dispatch.ApprovalQuery{Tenant: "acme", States: []record.ApprovalState{record.Pending}, Newest: true, After: asked[2].Approval.ID, Limit: 3})
	if err != nil || len(asked) != 2 || asked[0].Call.ID != ids[1] || asked[1].Call.ID != ids[0] {
		t.Fatalf("newest question first, after another: %v %v", asked, err)
	}
	stranger := r.Owner
	stranger.Agent = "other"
	if none, err := b.Calls(b.ctx, dispatch.CallQuery{Tenant: "acme", Owner: &stranger}); err != nil || len(none) != 0 {
		t.Fatalf("another agent's list: %v %v", none, err)
	}
	runs, err := b.Runs(b.ctx, dispatch.RunQuery{Tenant: "acme", Live: true})
	if err != nil || len(runs) != 1 || runs[0].ID != r.ID {
		t.Fatalf("runs: %v %v", runs, err)
	}
	ev, err := b.Events(b.ctx, dispatch.EventQuery{Tenant: "acme", Call: ids[0], Kinds: []record.EventKind{record.EventAsked}})
	if err != nil || len(ev) != 1 || ev[0].Call != ids[0] || ev[0].Who.Agent != "bot" {
		t.Fatalf("events of a call: %+v %v", ev, err)
	}
}
