package storetest

import (
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

// scheduled is a schedule of an owner's with its run.
func (b *bench) scheduled(t *testing.T, o record.Owner, next time.Time) (record.Schedule, record.Run) {
	t.Helper()
	s := record.Schedule{Owner: o, ID: record.ScheduleID(id(t, "sch", b.at)), Tool: "refund", Arguments: []byte(`{"note":"<b>&"}`), Cron: "0 9 * * *", Zone: "UTC", Next: next}
	d := &record.Delegation{Issuer: "https://idp", Granted: b.at, Until: b.at.Add(time.Hour)}
	run := record.Run{Owner: o, ID: record.RunID(id(t, "run", b.at)), Lineage: record.UnvouchedLineage(o, 0), Label: s.RunLabel(), Turn: 1, Opened: b.at, Active: b.at, Delegation: d}
	s.Run = run.ID
	c := record.NewSchedule(s, run, b.at)
	b.apply(t, c, nil)
	return c.Facts().Schedule.After, c.Facts().Run.After
}

// schedules: one change has a firing, and it brings one call; what fires is found, and
// what is another's is not.
func schedules(t *testing.T, b *bench) {
	s, run := b.scheduled(t, owner("acme"), b.at)
	b.scheduled(t, owner("globex"), b.at.Add(time.Hour))
	if got, err := b.Schedule(b.ctx, "acme", s.ID); err != nil || !cmp.Equal(got, s) {
		t.Fatalf("it reads back as %+v: %v", got, err)
	}
	if _, err := b.Schedule(b.ctx, "globex", s.ID); record.KindOf(err) != record.NotFound {
		t.Fatalf("another tenant reads it: %v", err)
	}
	due, next, err := b.Firing(b.ctx, b.at, 10)
	if err != nil || len(due) != 1 || due[0].ID != s.ID || !next.Equal(b.at.Add(time.Hour)) {
		t.Fatalf("firing are %+v, next %s: %v", due, next, err)
	}
	fire := func() record.Change {
		c := b.call(t, run, `{"amount":1}`)
		c.Queued, c.Occurrence = true, s.Occurrence()
		step := b.step(run, record.Allow)
		step.Again, step.Premise.Delegated = b.at, true
		change, err := record.Fire(s, c, b.at.Add(24*time.Hour), step)
		if err != nil {
			t.Fatal(err)
		}
		return change
	}
	one, two := fire(), fire()
	var first, second error
	var both sync.WaitGroup
	both.Go(func() { first = b.Apply(b.ctx, one) })
	both.Go(func() { second = b.Apply(b.ctx, two) })
	both.Wait()
	if (first == nil) == (second == nil) {
		t.Fatalf("one firing was claimed by two: %v and %v", first, second)
	}
	calls, err := b.OpenCalls(b.ctx, "acme", run.ID, 10)
	if err != nil || len(calls) != 1 || calls[0].Again.IsZero() {
		t.Fatalf("the firing opened %+v: %v", calls, err)
	}
	if due, _, err := b.Firing(b.ctx, b.at, 10); err != nil || len(due) != 0 {
		t.Fatalf("it fires again: %+v %v", due, err)
	}
	b.stops(t, s.ID, run)
}

// stops: a paused schedule fires nothing, and with a deleted one its run ends.
func (b *bench) stops(t *testing.T, name record.ScheduleID, run record.Run) {
	t.Helper()
	s, err := b.Schedule(b.ctx, "acme", name)
	if err != nil {
		t.Fatal(err)
	}
	change, err := record.PauseSchedule(s, "gone", record.Who{System: "test"}, b.at)
	b.apply(t, change, err)
	if due, _, err := b.Firing(b.ctx, b.at.Add(48*time.Hour), 10); err != nil || len(due) != 1 || due[0].Tenant != "globex" {
		t.Fatalf("paused, it fires: %+v %v", due, err)
	}
	change, err = record.DeleteSchedule(change.Facts().Schedule.After, run, b.at)
	b.apply(t, change, err)
	if r, err := b.Run(b.ctx, "acme", run.ID); err != nil || r.Live() {
		t.Fatalf("its run is %s: %v", r.State, err)
	}
	if open, err := b.OpenCalls(b.ctx, "acme", run.ID, 10); err != nil || len(open) != 0 {
		t.Fatalf("what it opened waits on: %+v %v", open, err)
	}
	o := owner("acme")
	for over, want := range map[bool]int{true: 1, false: 0} {
		if list, err := b.Schedules(b.ctx, dispatch.ScheduleQuery{Tenant: "acme", Owner: &o, Over: over, Limit: 10}); err != nil || len(list) != want {
			t.Errorf("%d schedules are listed, over %t: %v", len(list), over, err)
		}
	}
}
