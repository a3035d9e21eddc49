package sqlite

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/placet-dev/placet/record"
)

// writer is the one goroutine that changes the file. Its connection, statements
// and caches belong to it alone; nothing else touches them.
type writer struct {
	conn  *sqlite.Conn
	log   *slog.Logger
	batch int
	pause func()

	in     chan *request
	quit   chan struct{}
	done   chan struct{}
	broken chan struct{}
	once   sync.Once

	// Caches of what the file holds. They speak of committed rows and of the
	// open transaction; when that fails they are dropped whole.
	counters   map[counterKey]record.Level
	dirty      map[counterKey]struct{}
	generation int64
	rejections atomic.Int64 // how many rows; readers skip the table while there is none
	emitted    atomic.Bool  // there is an emission; readers skip the table while there is none
	runs       *runCache
	fresh      map[runKey]record.Run // runs the open transaction wrote

	lineages      *lineageCache
	freshLineages map[lineageKey]record.Lineage // lineages the open transaction wrote

	revoked      *revokedCache
	freshRevoked map[record.TenantID]record.Revocations // those that the open transaction changed
}

type counterKey struct {
	tenant  record.TenantID
	counter record.Counter
}

type request struct {
	prepared
	done chan error // one send; the receiver may be gone
	err  error
}

// prepared is a change with its rows made ready. Callers do it, in parallel: the
// writer has the one transaction, and no time for encoding.
type prepared struct {
	facts record.Facts
	call  []any  // the bound columns of the call's insert or update
	who   []text // of each event
}

func prepare(f record.Facts) prepared {
	p := prepared{facts: f, who: make([]text, len(f.Events))}
	if m := f.Call; m != nil {
		switch {
		case m.Redacts:
			p.call = redactColumns(&m.After, m)
		case m.From == record.None:
			p.call = callColumns(&m.After)
		case m.From == record.Executing:
			p.call = settleColumns(&m.After, m)
		default:
			p.call = updateColumns(&m.After, m)
		}
	}
	for i := range f.Events {
		p.who[i] = f.Events[i].Who.AppendJSON(nil)
	}
	return p
}

func newWriter(conn *sqlite.Conn, runs *runCache, lineages *lineageCache, revoked *revokedCache, o Options) (*writer, error) {
	w := &writer{
		conn: conn, log: o.Log, batch: o.Batch, pause: o.testOnlyPause, runs: runs, lineages: lineages, revoked: revoked,
		in: make(chan *request, o.Batch), quit: make(chan struct{}), done: make(chan struct{}), broken: make(chan struct{}),
	}
	w.forget()
	if err := w.loadGeneration(); err != nil {
		return nil, err
	}
	go w.loop()
	return w, nil
}

// apply hands a change over and waits for its commit. A caller that stops
// waiting does not stop the change: it learns that the outcome is not known.
func (w *writer) apply(ctx context.Context, f record.Facts) error {
	r := &request{prepared: prepare(f), done: make(chan error, 1)}
	select {
	case w.in <- r:
	case <-w.done:
		return errClosed()
	case <-ctx.Done():
		return record.Because(record.Unavailable, ctx.Err(), "the change was not recorded in time")
	}
	select {
	case err := <-r.done:
		return err
	case <-ctx.Done():
		return record.Because(record.Unavailable, ctx.Err(), "it is not known whether the change was recorded")
	case <-w.done:
		select {
		case err := <-r.done:
			return err
		default:
			return errClosed()
		}
	}
}

func errClosed() error { return record.Errorf(record.Unavailable, "the store is closed") }

func (w *writer) loop() {
	defer close(w.done)
	batch := make([]*request, 0, w.batch)
	expect := 0 // how many callers the last batches had
	for {
		batch = batch[:0]
		select {
		case r := <-w.in:
			batch = append(batch, r)
		case <-w.quit:
			w.drain()
			return
		}
		batch = w.gather(batch, expect)
		expect = (expect + len(batch)) / 2
		if !w.commit(batch) {
			return
		}
	}
}

// patience is the longest that a batch waits for callers who are probably on
// their way: a part of what a commit takes, and nothing where callers are few.
const patience = 100 * time.Microsecond

// tries bounds the same wait where the clock stands still, as it does in a synctest
// bubble while the writer runs. Elsewhere patience ends first.
const tries = 1 << 12

// gather adds what is waiting to a batch. Letting the callers run before it does
// fills batches: without that they fall into step and commit in halves. Where the
// last batches had many callers, most of them are deciding their next call right
// now, and it is worth a moment to have them in this commit.
func (w *writer) gather(batch []*request, expect int) []*request {
	var until time.Time
	runtime.Gosched()
	for try := 0; try < tries && len(batch) < w.batch; try++ {
		select {
		case r := <-w.in:
			batch = append(batch, r)
			continue
		default:
		}
		if expect < 8 || len(batch) >= expect {
			break
		}
		if now := time.Now(); until.IsZero() {
			until = now.Add(patience)
		} else if now.After(until) {
			break
		}
		runtime.Gosched()
	}
	return batch
}

// drain commits what was handed over before the close.
func (w *writer) drain() {
	for {
		select {
		case r := <-w.in:
			if !w.commit([]*request{r}) {
				return
			}
		default:
			return
		}
	}
}

// commit applies a batch as one transaction and answers everybody in it. It
// returns false when the store is broken.
func (w *writer) commit(batch []*request) bool {
	if err := w.exec("BEGIN IMMEDIATE"); err != nil {
		w.fail(batch, err)
		return true
	}
	for i, r := range batch {
		r.err = w.change(r.prepared)
		var refused *record.Refusal
		if r.err == nil || errors.As(r.err, &refused) {
			continue
		}
		// A statement failed for a reason of the file's, not of the change's. The
		// transaction may be gone; nothing more is issued in it, and the whole
		// batch fails (rule J1).
		w.log.Error("store: a change failed", "error", r.err, "batch", len(batch), "at", i)
		w.rollback()
		w.fail(batch, r.err)
		return true
	}
	if err := w.flush(); err != nil {
		w.rollback()
		w.fail(batch, err)
		return true
	}
	if err := w.exec("COMMIT"); err != nil {
		// Whether it is durable cannot be known here: the process must end, and
		// restart reads the truth.
		w.log.Error("store: COMMIT failed; this process must end", "error", err)
		w.once.Do(func() { close(w.broken) })
		w.fail(batch, err)
		return false
	}
	w.publish()
	for _, r := range batch {
		r.done <- r.err
	}
	return true
}

// fail answers a batch whose changes were not made, and forgets what was cached.
func (w *writer) fail(batch []*request, err error) {
	w.forget()
	if e := w.loadGeneration(); e != nil {
		w.log.Error("store: cannot read back", "error", e)
	}
	for _, r := range batch {
		r.done <- record.Because(record.Unavailable, err, "the change could not be recorded")
	}
}

func (w *writer) rollback() {
	if w.conn.AutocommitEnabled() {
		return // SQLite has rolled back already
	}
	if err := w.exec("ROLLBACK"); err != nil {
		w.log.Error("store: ROLLBACK failed; this process must end", "error", err)
		w.once.Do(func() { close(w.broken) })
	}
}

func (w *writer) forget() {
	w.counters = make(map[counterKey]record.Level)
	w.dirty = make(map[counterKey]struct{})
	w.fresh = make(map[runKey]record.Run)
	w.runs.clear()
	w.freshLineages = make(map[lineageKey]record.Lineage)
	w.lineages.clear()
	w.freshRevoked = make(map[record.TenantID]record.Revocations)
}

// publish shows readers what the commit made true.
func (w *writer) publish() {
	for k, r := range w.fresh {
		w.runs.put(k, r)
		delete(w.fresh, k)
	}
	for k, l := range w.freshLineages {
		w.lineages.committed(k, l)
		delete(w.freshLineages, k)
	}
	w.publishRevoked()
	if len(w.counters) > 200_000 {
		w.counters = make(map[counterKey]record.Level)
	}
}

func (w *writer) exec(sql string) error {
	stmt, err := w.conn.Prepare(sql)
	if err != nil {
		return err
	}
	_, err = stmt.Step()
	return errors.Join(err, stmt.Reset())
}

func (w *writer) loadGeneration() error {
	err := sqlitex.Execute(w.conn, "SELECT count(*) FROM (SELECT 1 FROM rejections LIMIT 1)", &sqlitex.ExecOptions{
		ResultFunc: func(stmt *sqlite.Stmt) error { w.rejections.Store(stmt.ColumnInt64(0)); return nil },
	})
	if err != nil {
		return err
	}
	err = sqlitex.Execute(w.conn, countEmissions, &sqlitex.ExecOptions{
		ResultFunc: func(stmt *sqlite.Stmt) error { w.emitted.Store(stmt.ColumnInt64(0) != 0); return nil },
	})
	if err != nil {
		return err
	}
	if err := w.loadRevoked(); err != nil {
		return err
	}
	return sqlitex.Execute(w.conn, "SELECT coalesce(max(generation), 0) FROM activations", &sqlitex.ExecOptions{
		ResultFunc: func(stmt *sqlite.Stmt) error { w.generation = stmt.ColumnInt64(0); return nil },
	})
}

// stop lets it write what is waiting, and nothing after.
func (w *writer) stop() {
	select {
	case <-w.quit:
	default:
		close(w.quit)
	}
	<-w.done
}
