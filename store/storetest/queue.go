package storetest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

// queued puts a call into the queue, due at a time; zero: it waits for its agent.
func (b *bench) queued(t *testing.T, r record.Run, arguments string, at time.Time) record.Call {
	t.Helper()
	c := b.call(t, r, arguments)
	c.Queued = true
	step := b.step(r, record.Allow)
	step.Again, step.Premise.Alone = at, at.IsZero()
	change, err := record.Authorize(c, step)
	b.apply(t, change, err)
	return change.Facts().Call.After
}

// queue: calls are found when they are due, of each tenant so many; a delegation wakes
// what waited for its agent; and what came to nothing is listed (rule C2).
func queue(t *testing.T, b *bench) {
	acme, globex := b.openRun(t, owner("acme"), false), b.openRun(t, owner("globex"), false)
	due := func(n int) map[record.TenantID]int {
		t.Helper()
		queues, _, err := b.Queued(b.ctx, b.at, n)
		if err != nil {
			t.Fatal(err)
		}
		out := map[record.TenantID]int{}
		for _, q := range queues {
			out[q.Tenant] += len(q.Calls)
		}
		return out
	}
	for i := range 20 {
		b.queued(t, acme, fmt.Sprintf(`{"amount":%d}`, i), b.at.Add(-time.Hour))
	}
	mine := b.queued(t, globex, `{"amount":1}`, b.at.Add(-time.Second))
	b.queued(t, globex, `{"amount":2}`, b.at.Add(time.Minute))
	if got := due(3); got["acme"] != 3 || got["globex"] != 1 {
		t.Fatalf("due are %v, want three of acme and the one of globex", got)
	}
	if _, next, err := b.Queued(b.ctx, b.at, 3); err != nil || !next.Equal(b.at.Add(time.Minute)) {
		t.Fatalf("the next comes at %s: %v", next, err)
	}
	if l := b.load(t, "globex", mine.ID); !l.Call.Queued || !l.Call.Again.Equal(mine.Again) {
		t.Fatalf("it reads back as queued %t for %s", l.Call.Queued, l.Call.Again)
	}
	b.putsOff(t, mine)
	if got := due(3); got["globex"] != 0 {
		t.Fatalf("due are %v after globex's was put off", got)
	}
	b.wakes(t)
	b.dead(t, globex)
}

// putsOff moves a queued call's time; whoever read it before gets the conflict.
func (b *bench) putsOff(t *testing.T, c record.Call) {
	t.Helper()
	change, err := record.Requeue(c, b.at.Add(time.Hour), record.Step{At: b.at})
	if err != nil {
		t.Fatal(err)
	}
	var first, second error
	var both sync.WaitGroup
	both.Go(func() { first = b.Apply(b.ctx, change) })
	both.Go(func() { second = b.Apply(b.ctx, change) })
	both.Wait()
	if first == nil {
		first = second
	} else if second != nil {
		t.Fatalf("put off by two: %v and %v", first, second)
	}
	if refused(first) != record.RefusedConflict {
		t.Fatalf("put off by two at once: %v", first)
	}
}

// wakes: a run's delegation makes its queued calls due, and a call that is queued for
// its agent beside it finds it there.
func (b *bench) wakes(t *testing.T) {
	t.Helper()
	o := owner("initech")
	run, other := b.openRun(t, o, true), b.openRun(t, o, true)
	waits, not := b.queued(t, run, `{"amount":1}`, time.Time{}), b.queued(t, other, `{"amount":2}`, time.Time{})
	d := record.Delegation{Issuer: "https://idp", Granted: b.at, Until: b.at.Add(time.Hour)}
	change, err := record.Delegate(run, d, false, o.By(), b.at)
	b.apply(t, change, err)
	if l := b.load(t, "initech", waits.ID); !l.Call.Again.Equal(b.at) {
		t.Fatalf("the run holds a delegation, and its call is due at %s", l.Call.Again)
	}
	if l := b.load(t, "initech", not.ID); !l.Call.Again.IsZero() {
		t.Fatalf("another run's call is due at %s", l.Call.Again)
	}
	delegated, err := b.Run(b.ctx, "initech", run.ID)
	if err != nil {
		t.Fatal(err)
	}
	late := b.call(t, delegated, `{"amount":3}`)
	late.Queued = true
	step := b.step(delegated, record.Allow)
	step.Premise.Alone = true
	change, err = record.Authorize(late, step)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Apply(b.ctx, change); refused(err) != record.RefusedPremise {
		t.Fatalf("queued for its agent beside a delegation: %v", err)
	}
	b.parks(t, b.load(t, "initech", waits.ID), step)
}

// parks: a call is left to its agent only where the run holds no delegation.
func (b *bench) parks(t *testing.T, l dispatch.Loaded, step record.Step) {
	t.Helper()
	change, err := record.Park(l.Call, "no delegation", step)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Apply(b.ctx, change); refused(err) != record.RefusedPremise {
		t.Fatalf("left to its agent beside a delegation: %v", err)
	}
	b.apply(t, record.Withdraw(l.Run, "over", l.Run.By(), b.at), nil)
	b.apply(t, change, nil)
	if l := b.load(t, "initech", l.Call.ID); !l.Call.Again.IsZero() || l.Call.State != record.DispatchAuthorized {
		t.Fatalf("left to its agent, it is %s and due at %s", l.Call.State, l.Call.Again)
	}
}

// dead: what came to nothing is found, and what succeeded is not.
func (b *bench) dead(t *testing.T, r record.Run) {
	t.Helper()
	settled := func(arguments string, to record.State) record.CallID {
		c := b.queued(t, r, arguments, b.at)
		c.Attempts = 1
		change, err := record.Reserve(c, b.step(r, record.Allow), b.at.Add(time.Minute), nil, nil)
		b.apply(t, change, err)
		change, err = record.Settle(change.Facts().Call.After, to, record.Outcome{}, record.Step{At: b.at, Again: b.at}, record.ByBoundary)
		b.apply(t, change, err)
		return c.ID
	}
	settled(`{"amount":10}`, record.Succeeded)
	failed, unknown := settled(`{"amount":11}`, record.Failed), settled(`{"amount":12}`, record.Unknown)
	got, err := b.Calls(b.ctx, dispatch.CallQuery{Tenant: r.Tenant, Dead: true, Limit: 10})
	if err != nil || len(got) != 2 || !got[0].Dead() || !got[1].Dead() {
		t.Fatalf("dead are %+v: %v", got, err)
	}
	waiting, err := b.Calls(b.ctx, dispatch.CallQuery{Tenant: r.Tenant, Queued: true, Limit: 10})
	if err != nil || len(waiting) != 2 || waiting[0].Dead() || waiting[1].Dead() {
		t.Fatalf("in the queue are %+v: %v", waiting, err)
	}
	if own, err := b.Calls(b.ctx, dispatch.CallQuery{Tenant: r.Tenant, Queued: true, Before: waiting[0].ID, Limit: 10}); err != nil || len(own) != 1 || own[0].ID != waiting[1].ID {
		t.Errorf("behind the first of the queue: %+v: %v", own, err)
	}
	for _, c := range got {
		if c.ID != failed && c.ID != unknown {
			t.Errorf("%s is dead", c.ID)
		}
	}
	if none, err := b.Calls(b.ctx, dispatch.CallQuery{Tenant: "acme", Dead: true, Limit: 10}); err != nil || len(none) != 0 {
		t.Errorf("another tenant's dead calls: %v %v", none, err)
	}
	if l, err := b.Backlog(b.ctx); err != nil || l.Dead != 2 || l.Queued < 20 || !l.Oldest.Equal(b.at.Add(-time.Hour)) {
		t.Errorf("the backlog is %+v: %v", l, err)
	}
}
