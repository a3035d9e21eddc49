package storetest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/placet-dev/placet/record"
)

// openProposals: of 32 that come at once, exactly as many wait as the smallest of the
// caps of turn, lineage and principal admits; an end frees one place of each.
func openProposals(t *testing.T, b *bench) {
	for n, caps := range [][3]int64{{3, 100, 100}, {100, 3, 100}, {100, 100, 3}} {
		run := b.openRun(t, owner(fmt.Sprintf("t%d", n)), true)
		propose := func(name string) (waiting []record.Call) {
			var wg sync.WaitGroup
			var mu sync.Mutex
			b.linger()
			for i := range 32 {
				c := b.call(t, run, fmt.Sprintf(`{"order":"%s%d"}`, name, i))
				q := b.question(t, &c, 1)
				s := b.step(run, record.RequiresApproval)
				s.OpenCap, s.OpenTurn, s.OpenBy = caps[1], caps[0], caps[2]
				change, err := record.Hold(c, s, q, nil)
				if err != nil {
					t.Fatal(err)
				}
				wg.Go(func() {
					switch err := b.Apply(b.ctx, change); {
					case err == nil:
						mu.Lock()
						waiting = append(waiting, change.Facts().Call.After)
						mu.Unlock()
					case refused(err) != record.RefusedLimit:
						t.Error(err)
					}
				})
			}
			wg.Wait()
			b.setPause(nil)
			return waiting
		}
		waiting := propose("a")
		if len(waiting) != 3 {
			t.Fatalf("caps %v: %d wait, want 3", caps, len(waiting))
		}
		l := b.load(t, run.Tenant, waiting[0].ID)
		change, err := record.End(l.Call, record.Canceled, record.ByPrincipal, record.CodeCanceled, record.Step{At: b.at, Who: run.By()}, l.Approval)
		b.apply(t, change, err)
		if more := propose("b"); len(more) != 1 {
			t.Fatalf("caps %v: %d took the one place that was free", caps, len(more))
		}
	}
}

// eventQuota: the events of proposals never pass the quota, however many come at
// once; what follows from calls that exist is never refused, and is counted.
func eventQuota(t *testing.T, b *bench) {
	run := b.openRun(t, owner("acme"), true)
	quota := record.Quota{Events: 20, Window: time.Hour}
	var admitted atomic.Int64
	var wg sync.WaitGroup
	var first record.Call
	var once sync.Once
	b.linger()
	for i := range 64 {
		c := b.call(t, run, fmt.Sprintf(`{"order":"%d"}`, i))
		q := b.question(t, &c, 1)
		change, err := record.Hold(c, b.step(run, record.RequiresApproval), q, nil)
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			switch err := b.Apply(b.ctx, change.Counted(quota)); {
			case err == nil:
				admitted.Add(1)
				once.Do(func() { first = change.Facts().Call.After })
			case refused(err) != record.RefusedLimit:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	b.setPause(nil)
	if n := admitted.Load(); n != 10 { // of two events each
		t.Fatalf("%d proposals were admitted, want 10", n)
	}
	note := record.Note(record.Event{At: b.at, Tenant: "acme", Kind: record.EventRefused}, record.Body{}).Counted(quota)
	if err := b.Apply(b.ctx, note); refused(err) != record.RefusedLimit {
		t.Errorf("the note of a proposal: %v", err)
	}
	l := b.load(t, "acme", first.ID)
	end, err := record.End(l.Call, record.Canceled, record.ByPrincipal, record.CodeCanceled, record.Step{At: b.at, Who: run.By()}, l.Approval)
	b.apply(t, end.Counted(quota), err)
	levels, err := b.Levels(b.ctx, "acme", []record.Counter{record.EventQuota})
	if err != nil || levels[0].Used(time.Hour, b.at) != 20+int64(len(end.Facts().Events)) {
		t.Errorf("%d events are counted, %v", levels[0].Used(time.Hour, b.at), err)
	}
	other := b.openRun(t, owner("globex"), true)
	c := b.call(t, other, `{"order":"1"}`)
	q := b.question(t, &c, 1)
	change, err := record.Hold(c, b.step(other, record.RequiresApproval), q, nil)
	b.apply(t, change.Counted(quota), err)
}
