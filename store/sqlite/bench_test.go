package sqlite

import (
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/record"
)

// BenchmarkAllowedCall is what an allowed call writes: a reservation and its outcome,
// of many callers at once, so that commits are shared.
func BenchmarkAllowedCall(b *testing.B) {
	s, err := Open(b.Context(), filepath.Join(b.TempDir(), "state.db"), Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	open := record.OpenRun(record.Run{Owner: testOwner(), ID: record.RunID(mustID("run")), Lineage: record.UnvouchedLineage(testOwner(), 0), Turn: 1, Opened: noon, Active: noon}, record.Who{System: "test"})
	if err := s.Apply(b.Context(), open); err != nil {
		b.Fatal(err)
	}
	run := open.Facts().Run.After
	var n atomic.Int64
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			arguments := fmt.Appendf(nil, `{"n":%d}`, n.Add(1))
			c := record.Call{Owner: run.Owner, ID: record.CallID(mustID("call")), Run: run.ID, Lineage: run.Lineage, Turn: 1,
				Tool:      record.ToolRef{Name: "refund", Server: "desk", Version: canon.Of("v"), Pin: canon.Of("p")},
				Arguments: arguments, Digest: record.ArgumentDigest(arguments, nil), Effect: record.NewEffectKey(run.Owner, "refund", arguments),
				Source: record.Direct, Route: record.RouteAPI, Attempts: 1, Proposed: noon, Changed: noon, Expires: noon.Add(time.Hour)}
			step := record.Step{At: noon, Who: run.By(), Decision: record.Decision{Verdict: record.Allow, At: noon},
				Premise: &record.Premise{Tenant: run.Tenant, Run: run.ID, Owner: run.Owner, Turn: 1}}
			reserve, err := record.Reserve(c, step, noon.Add(time.Minute), nil, nil)
			if err == nil {
				err = s.Apply(b.Context(), reserve)
			}
			if err != nil {
				b.Error(err)
				return
			}
			settle, err := record.Settle(reserve.Facts().Call.After, record.Succeeded, record.Outcome{Sent: true}, step, record.ByBoundary)
			if err == nil {
				err = s.Apply(b.Context(), settle)
			}
			if err != nil {
				b.Error(err)
				return
			}
		}
	})
}
