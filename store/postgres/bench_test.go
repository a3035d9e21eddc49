package postgres

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/store/postgres/pgtest"
)

// BenchmarkAgainstPlainInserts compares reservations, with their premise, guards and
// two counters, with plain inserts of the same rows (a call, its events, an effect, two
// counters): as many connections as callers, one round trip and one commit each. hot:
// one of the counters is the same for everybody. The server waits for its disk.
func BenchmarkAgainstPlainInserts(b *testing.B) {
	server := pgtest.Start(b, "fsync=on")
	for _, c := range []struct {
		callers, replicas int
		hot               bool
	}{{1, 1, false}, {16, 1, false}, {64, 1, false}, {64, 1, true}, {64, 2, false}, {64, 2, true}} {
		b.Run(fmt.Sprintf("callers=%d/replicas=%d/hot=%v", c.callers, c.replicas, c.hot), func(b *testing.B) {
			dsn := server.DSN("owner", server.Database(b))
			var stores []*Store
			for range c.replicas {
				stores = append(stores, open(b, dsn, nil))
			}
			plain := perSecond(b, c.callers, plainly(b, dsn, openRun(b, stores[0], anna), c.callers))
			ours := perSecond(b, c.callers, reserving(b, stores, c.callers, c.hot))
			b.ReportMetric(ours, "changes/s")
			b.ReportMetric(plain, "plain/s")
			b.ReportMetric(ours/plain, "ratio")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// perSecond runs f from so many callers at once, b.N times in all.
func perSecond(b *testing.B, callers int, f func(caller, i int) error) float64 {
	b.Helper()
	for caller := range callers { // connections and statements are ready
		if err := f(caller, -1-caller); err != nil {
			b.Fatal(err)
		}
	}
	var next atomic.Int64
	var all sync.WaitGroup
	start := time.Now()
	for caller := range callers {
		all.Go(func() {
			for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
				if err := f(caller, int(i)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	return float64(b.N) / time.Since(start).Seconds()
}

func reserving(b *testing.B, stores []*Store, callers int, hot bool) func(caller, i int) error {
	var runs []record.Run
	for range callers {
		runs = append(runs, openRun(b, stores[0], anna))
	}
	return func(caller, i int) error {
		r := runs[caller]
		c := proposal(b, r, fmt.Sprintf(`{"i":%d}`, i))
		step := stepOf(r, 0)
		step.Premise.Seen = []record.Seen{{Key: c.Effect}}
		shared := record.CounterFor("shared", string(r.ID))
		if hot {
			shared = "shared"
		}
		step.Charges = []record.Charge{{Counter: shared, Amount: 1, Limit: 1 << 40}, {Counter: record.CounterFor("run", string(r.ID)), Amount: 1, Limit: 1 << 40, Window: time.Minute}}
		change, err := record.Reserve(c, step, noon.Add(time.Minute), nil, nil)
		if err != nil {
			return err
		}
		return stores[caller%len(stores)].Apply(context.Background(), change)
	}
}

func plainly(b *testing.B, dsn string, r record.Run, callers int) func(caller, i int) error {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		b.Fatal(err)
	}
	session(config, Options{}.withDefaults())
	conns := make([]*pgx.Conn, callers)
	for i := range conns {
		if conns[i], err = pgx.ConnectConfig(b.Context(), config); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = conns[i].Close(context.Background()) })
		if _, err := conns[i].Exec(b.Context(), `SELECT set_config('placet.tenants', '*', false)`); err != nil {
			b.Fatal(err)
		}
	}
	return func(caller, i int) error {
		change, err := record.Reserve(proposal(b, r, fmt.Sprintf(`{"plain":%d}`, i)), stepOf(r, 0), noon.Add(time.Minute), nil, nil)
		if err != nil {
			return err
		}
		p, err := prepare(change.Facts())
		if err != nil {
			return err
		}
		calls, events, effects, counters := newTable(callTypes), newTable(eventTypes), newTable("tbi"), newTable("ttti")
		effects.add([]any{"plain", change.Facts().Call.After.Effect[:], int64(1)})
		for n := range 2 {
			counters.add([]any{"plain", fmt.Sprintf("plain|%d|%d|%d", caller, n, i), "1", int64(1)})
		}
		calls.add(p.call)
		for _, e := range p.event {
			events.add(e)
		}
		batch := &pgx.Batch{}
		calls.queue(batch, insertCalls)
		effects.queue(batch, insertPlainEffects)
		counters.queue(batch, insertPlainCounters)
		events.queue(batch, insertEvents)
		return conns[caller].SendBatch(context.Background(), batch).Close()
	}
}

const (
	insertPlainEffects  = `INSERT INTO effects SELECT * FROM unnest($1::text[], $2::bytea[], $3::bigint[])`
	insertPlainCounters = `INSERT INTO counters SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[])`
)
