package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// watch looks, while a side is measured, at what the transactions of the store's
// servers are doing, and how busy the machine's processors are.
type watch struct {
	dsn       string
	seen      map[string]int // what a transaction was doing, by how often that was seen
	busy, all int64          // ticks of all processors
}

// A transaction waits for its program between two round trips. What waits for nothing
// runs, or would if it had a processor.
const selectDoing = `SELECT CASE WHEN state = 'idle in transaction' THEN 'the server program' ELSE coalesce(wait_event_type || ' ' || wait_event, 'running') END, count(*)
	FROM pg_stat_activity WHERE application_name = 'placet' AND state <> 'idle' GROUP BY 1`

// during watches a remote side.
func (w *watch) during(of remote) remote {
	return func(ctx context.Context, callers int, d time.Duration) (int64, time.Duration, error) {
		conn, err := pgx.Connect(ctx, w.dsn)
		if err != nil {
			return 0, 0, err
		}
		defer conn.Close(ctx)
		looking, stop := context.WithCancel(ctx)
		var failed error
		var looks sync.WaitGroup
		busy, all := ticks()
		looks.Go(func() { failed = w.look(looking, conn) })
		made, took, err := of(ctx, callers, d)
		stop()
		looks.Wait()
		after, afterAll := ticks()
		w.busy, w.all = w.busy+after-busy, w.all+afterAll-all
		return made, took, errors.Join(err, failed)
	}
}

func (w *watch) look(ctx context.Context, conn *pgx.Conn) error {
	for every := time.NewTicker(10 * time.Millisecond); ; {
		select {
		case <-ctx.Done():
			every.Stop()
			return nil
		case <-every.C:
		}
		var doing string
		var n int
		rows, err := conn.Query(context.WithoutCancel(ctx), selectDoing)
		if err != nil {
			return err
		}
		if _, err := pgx.ForEachRow(rows, []any{&doing, &n}, func() error { w.seen[doing] += n; return nil }); err != nil {
			return err
		}
	}
}

// String says what was seen most.
func (w *watch) String() string {
	total := 0
	for _, n := range w.seen {
		total += n
	}
	most := slices.SortedFunc(maps.Keys(w.seen), func(a, b string) int { return w.seen[b] - w.seen[a] })
	var out []string
	for _, doing := range most[:min(5, len(most))] {
		out = append(out, fmt.Sprintf("%s %.0f %%", doing, 100*float64(w.seen[doing])/float64(total)))
	}
	return fmt.Sprintf("processors busy %.0f %%, transactions: %s", 100*float64(w.busy)/float64(max(1, w.all)), strings.Join(out, ", "))
}

// ticks are those that all processors were busy, and all there were, since the system
// started; zeros where it does not tell.
func ticks() (busy, all int64) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0
	}
	first, _, _ := strings.Cut(string(text), "\n")
	for i, field := range strings.Fields(first) {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil || i > 8 { // what guests take is in the first already
			continue
		}
		if all += n; i != 4 && i != 5 { // idle, and waiting for a disk
			busy += n
		}
	}
	return busy, all
}
