package storetest

import (
	"sync"
	"testing"
	"time"

	"github.com/placet-dev/placet/record"
)

// leases: a leased attempt keeps its holder, is extended and reported by guarded
// updates of which one wins, and is due when its lease ends (rule E6).
func leases(t *testing.T, b *bench) {
	r := b.openRun(t, owner("acme"), false)
	c := b.call(t, r, `{"amount":1}`)
	s := b.step(r, record.Allow)
	s.Holder = record.LeaseHolder(c.ID, 1, "secret")
	change, err := record.Reserve(c, s, b.at.Add(30*time.Second), nil, nil)
	b.apply(t, change, err)
	leased := b.load(t, "acme", c.ID).Call
	if leased.Holder != s.Holder || !leased.Leased() || leased.GivenUp() {
		t.Fatalf("the holder is %s, want %s", leased.Holder, s.Holder)
	}

	later := b.at.Add(time.Minute)
	change, err = record.Extend(leased, later, record.Step{At: b.at.Add(time.Second), Who: r.By()})
	b.apply(t, change, err)
	extended := b.load(t, "acme", c.ID).Call
	if !extended.Lease.Equal(later) || !extended.Changed.Equal(leased.Changed) || extended.Holder != s.Holder || extended.Version != leased.Version+1 {
		t.Fatalf("extended: %+v", extended)
	}
	if due, next, err := b.Due(b.ctx, b.at.Add(30*time.Second), 10); err != nil || len(due) != 0 || !next.Equal(later) {
		t.Fatalf("after the first end: %d due, next %s, %v", len(due), next, err)
	}

	// Two holders who know the same record, one outcome.
	b.linger()
	var won, lost int
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, to := range []record.State{record.Succeeded, record.Unknown, record.Succeeded, record.Unknown} {
		all.Go(func() {
			change, err := record.Settle(extended, to, record.Outcome{Sent: true, Reported: true}, record.Step{At: later, Who: r.By()}, record.ByBoundary)
			if err == nil {
				err = b.Apply(b.ctx, change)
			}
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				won++
			} else if refused(err) == record.RefusedConflict {
				lost++
			}
		})
	}
	all.Wait()
	if won != 1 || lost != 3 {
		t.Fatalf("%d reports won and %d lost", won, lost)
	}
	settled := b.load(t, "acme", c.ID).Call
	if settled.Outcome == nil || !settled.Outcome.Reported || settled.Holder != s.Holder || settled.State == record.Unknown && settled.Lease.IsZero() {
		t.Fatalf("settled: %+v", settled)
	}
	b.setPause(nil)

	// One that its holder gave up keeps what was said until its end.
	c = b.call(t, r, `{"amount":2}`)
	s.Holder = record.LeaseHolder(c.ID, 1, "secret")
	change, err = record.Reserve(c, s, later, nil, nil)
	b.apply(t, change, err)
	change, err = record.GiveUp(b.load(t, "acme", c.ID).Call, later.Add(-time.Second), record.Outcome{Code: record.CodeFailed, Reported: true}, record.Step{At: b.at, Who: r.By()})
	b.apply(t, change, err)
	if up := b.load(t, "acme", c.ID).Call; !up.GivenUp() || up.State != record.Executing || !up.Lease.Equal(later.Add(-time.Second)) {
		t.Fatalf("given up: %+v", up)
	}
	if due, _, err := b.Due(b.ctx, later.Add(-time.Second), 10); err != nil || len(due) != 1 || due[0].Call.ID != c.ID {
		t.Fatalf("given up: %d due, %v", len(due), err)
	}
}
