package postgres

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/placet-dev/placet/record"
)

// committer is the one goroutine of this process that changes the database. Its
// connection belongs to it alone.
type committer struct {
	config *pgx.ConnConfig
	conn   *pgx.Conn // nil: the last one broke
	log    *slog.Logger
	origin string // who tells other processes of what is committed
	batch  int
	limit  time.Duration // for what is sent at once
	epoch  int64         // of the store when it was opened
	pause  func()

	in   chan *request
	quit chan struct{}
	done chan struct{}
	once sync.Once
	held []*request // taken from in, and for the next batch
}

type request struct {
	prepared
	done chan error // one send; the receiver may be gone
	err  error
}

func newCommitter(ctx context.Context, config *pgx.ConnConfig, origin string, o Options) (*committer, error) {
	c := &committer{config: config, origin: origin, log: o.Log, batch: o.Batch, limit: 3 * o.Statement, pause: o.testOnlyPause,
		in: make(chan *request, o.Batch), quit: make(chan struct{}), done: make(chan struct{})}
	if err := c.connect(ctx); err != nil {
		return nil, err
	}
	if err := c.conn.QueryRow(ctx, selectStoreEpoch).Scan(&c.epoch); err != nil {
		c.drop()
		return nil, err
	}
	go c.loop()
	return c, nil
}

func (c *committer) connect(ctx context.Context) (err error) {
	if c.conn, err = pgx.ConnectConfig(ctx, c.config); err != nil {
		c.conn = nil
		return err
	}
	// A role may be set to be told of commits before they are durable. Nobody is here.
	_, err = c.conn.Exec(ctx, `SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'`)
	if err != nil {
		c.drop()
	}
	return err
}

// drop gives a connection up of which it is not known what it does.
func (c *committer) drop() {
	if c.conn == nil {
		return
	}
	drop(c.conn)
	c.conn = nil
}

// apply hands a change over and waits for its commit. A caller that stops waiting
// does not stop the change: it learns that the outcome is not known.
func (c *committer) apply(ctx context.Context, p prepared) error {
	r := &request{prepared: p, done: make(chan error, 1)}
	select {
	case c.in <- r:
	case <-c.done:
		return errClosed()
	case <-ctx.Done():
		return record.Because(record.Unavailable, ctx.Err(), "the change was not recorded in time")
	}
	select {
	case err := <-r.done:
		return err
	case <-ctx.Done():
		return record.Because(record.Unavailable, ctx.Err(), "it is not known whether the change was recorded")
	case <-c.done:
		select {
		case err := <-r.done:
			return err
		default:
			return errClosed()
		}
	}
}

func errClosed() error { return record.Errorf(record.Unavailable, "the store is closed") }

func (c *committer) loop() {
	defer close(c.done)
	expect := 0 // how many callers the last batches had
	for {
		batch := c.held
		c.held = nil
		if len(batch) == 0 {
			select {
			case r := <-c.in:
				batch = append(batch, r)
			case <-c.quit:
				c.drain()
				return
			}
		}
		batch = c.gather(batch, expect)
		expect = (expect + len(batch)) / 2
		c.commit(batch)
	}
}

// patience is the longest that a batch waits for callers who are probably on their
// way: a part of what a commit takes, and nothing where callers are few.
const patience = 200 * time.Microsecond

// gather adds what is waiting to a batch, after letting the callers run: otherwise they
// fall into step and commit in halves. Of changes that find their rows in the store one
// is in a batch, and first: what it found is then what is so.
func (c *committer) gather(batch []*request, expect int) []*request {
	var until time.Time
	for runtime.Gosched(); len(batch) < c.batch; {
		select {
		case r := <-c.in:
			batch = append(batch, r)
			continue
		default:
		}
		if expect < 8 || len(batch) >= min(expect, c.batch) {
			break
		}
		if now := time.Now(); until.IsZero() {
			until = now.Add(patience)
		} else if now.After(until) {
			break
		}
		runtime.Gosched()
	}
	first := slices.IndexFunc(batch, func(r *request) bool { return r.sweeps() })
	if first < 0 {
		return batch
	}
	now := []*request{batch[first]}
	for i, r := range batch {
		switch {
		case i == first:
		case r.sweeps():
			c.held = append(c.held, r)
		default:
			now = append(now, r)
		}
	}
	return now
}

// drain commits what was handed over before the close.
func (c *committer) drain() {
	for {
		select {
		case r := <-c.in:
			c.commit([]*request{r})
		default:
			c.drop()
			return
		}
	}
}

// tries is how often a batch is tried that failed before anything was committed.
const tries = 4

// commit applies a batch as one transaction and answers everybody in it.
func (c *committer) commit(batch []*request) {
	for try := 1; ; try++ {
		sent, err := c.transaction(batch)
		if err == nil {
			for _, r := range batch {
				r.done <- r.err
			}
			return
		}
		c.log.Error("store: a batch failed", "error", plain(err), "changes", len(batch), "try", try, "commit_sent", sent)
		switch {
		case sent && !refusedByServer(err):
			// The answer to COMMIT is lost: it may be durable, and nobody may act on it.
			c.fail(batch, err, "it is not known whether the change was recorded")
		case try < tries && again(err):
			continue
		case len(batch) > 1 && !again(err) && refusedByServer(err):
			// One of them is one that the database does not take; the others are not to
			// suffer for it.
			for _, r := range batch {
				c.commit([]*request{r})
			}
		default:
			c.fail(batch, err, "the change could not be recorded")
		}
		return
	}
}

func (c *committer) fail(batch []*request, err error, what string) {
	for _, r := range batch {
		r.done <- record.Because(record.Unavailable, plain(err), "%s", what)
	}
}

// errNotCommitted is the answer to COMMIT of a transaction that had failed before.
var errNotCommitted = errors.New("the transaction was rolled back")

// refusedByServer reports whether the server said that a statement failed while it
// goes on working: then nothing behind that statement ran, COMMIT neither.
func refusedByServer(err error) bool {
	var server *pgconn.PgError
	if errors.Is(err, errNotCommitted) {
		return true
	}
	return errors.As(err, &server) && server.SeverityUnlocalized == "ERROR"
}

// again reports whether the same batch may succeed when it is tried anew: other
// replicas were in the way, or the connection broke before COMMIT was sent.
func again(err error) bool {
	var server *pgconn.PgError
	if !errors.As(err, &server) {
		return true
	}
	switch server.Code {
	case "40001", "40P01", "PL001":
		return true
	}
	return server.SeverityUnlocalized != "ERROR"
}

// transaction runs a batch. sent says that COMMIT was sent, so that an error which the
// server did not give leaves open what is so.
func (c *committer) transaction(batch []*request) (sent bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), c.limit)
	defer cancel()
	if c.conn == nil || c.conn.IsClosed() {
		if err := c.connect(ctx); err != nil {
			return false, err
		}
	}
	defer func() {
		if err != nil {
			c.rollback()
		}
	}()
	want, truth := newWants(), newTruth()
	truth.own = c.epoch
	for _, r := range batch {
		r.err = nil
		want.add(r.facts)
	}
	b := &pgx.Batch{}
	b.Queue("BEGIN")
	b.Queue(see, want.visible())
	parts, b, err := c.find(ctx, b, batch[0], want, truth)
	if err != nil {
		return false, err
	}
	keys, own := want.locks.upTo(lockLog)
	b.Queue(takeLocks, keys, own)
	truth.read(b, want)
	if err := c.conn.SendBatch(ctx, b).Close(); err != nil {
		return false, err
	}
	for missing := truth.beyond(); len(missing) > 0; missing = truth.beyond() {
		b := &pgx.Batch{}
		before := len(truth.runs)
		truth.readRuns(b, missing)
		if err := c.conn.SendBatch(ctx, b).Close(); err != nil {
			return false, err
		}
		if len(truth.runs) == before {
			break
		}
	}
	if c.pause != nil {
		c.pause()
	}
	w := newWrites()
	for i, r := range batch {
		if r.err = truth.change(r.prepared, w); r.err == nil && i == 0 {
			if err := truth.within(parts, w); err != nil {
				return false, err
			}
		}
	}
	b = &pgx.Batch{}
	if w.empty() {
		b.Queue("ROLLBACK") // everybody was refused
		return false, c.conn.SendBatch(ctx, b).Close()
	}
	w.send(b, c.origin)
	if err := c.conn.SendBatch(ctx, b).Close(); err != nil {
		return true, err
	}
	c.epoch = truth.own
	return true, nil
}

// visible are the tenants of a batch: what it does not name it cannot touch. Whether a
// passkey's ID is taken is asked of every tenant.
func (w *wants) visible() string {
	if len(w.taken) > 0 || w.everywhere || w.recovers {
		return everyone
	}
	return only(keysOf(w.tenants)...)
}

// rollback ends a transaction that failed, or the connection.
func (c *committer) rollback() {
	if c.conn == nil || c.conn.IsClosed() {
		c.conn = nil
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if _, err := c.conn.Exec(ctx, "ROLLBACK"); err != nil {
		c.drop()
	}
}

// find reads what a sweeping change moves, under the locks that keep it so, and makes
// the changes that are its parts. It sends what was queued when it has to read.
func (c *committer) find(ctx context.Context, b *pgx.Batch, first *request, want *wants, truth *truth) ([]prepared, *pgx.Batch, error) {
	if !first.sweeps() {
		return nil, b, nil
	}
	if m := first.facts.Revocation; m != nil {
		parts, err := c.catch(ctx, b, *m, want, truth)
		return parts, &pgx.Batch{}, err
	}
	var parts []prepared
	add := func(change record.Change, err error) (record.Facts, error) {
		if err != nil {
			return record.Facts{}, err
		}
		p, err := prepare(change.Facts())
		if err != nil {
			return p.facts, err
		}
		want.add(p.facts)
		parts = append(parts, p)
		return p.facts, nil
	}
	if r := first.facts.Recover; r != nil {
		err := c.findOpen(ctx, b, want, *r, add)
		return parts, &pgx.Batch{}, err
	}
	var sweeps []record.Sweep
	if s := first.facts.Sweep; s != nil {
		sweeps = append(sweeps, *s)
	}
	if f := first.facts.Fresh; f != nil {
		var runs []record.Run
		keys, own := want.locks.upTo(lockLineage)
		b.Queue(takeLocks, keys, own)
		o := f.Owner
		b.Queue(selectLive, string(o.Tenant), o.Principal.Issuer, o.Principal.Subject, string(o.Agent)).Query(each(collect(&runs, scanRun)))
		if err := c.conn.SendBatch(ctx, b).Close(); err != nil {
			return nil, nil, err
		}
		b = &pgx.Batch{}
		for _, run := range runs {
			ended, err := add(f.Of(run))
			if err != nil {
				return nil, nil, err
			}
			sweeps = append(sweeps, *ended.Sweep)
		}
	}
	b, err := c.below(ctx, b, &sweeps, want, add)
	if err != nil {
		return nil, nil, err
	}
	keys, own := want.locks.upTo(lockRun)
	b.Queue(takeLocks, keys, own)
	found := make([][]callKey, len(sweeps))
	for i, s := range sweeps {
		b.Queue(selectWaiting, string(s.Tenant), string(s.Run)).Query(each(func(col *columns) error {
			found[i] = append(found[i], callKey{s.Tenant, record.CallID(col.text())})
			return nil
		}))
	}
	if err := c.conn.SendBatch(ctx, b).Close(); err != nil {
		return nil, nil, err
	}
	for i, s := range sweeps {
		for _, k := range found[i] {
			l, err := loadAs(ctx, c.conn, k.tenant, k.id)
			if err != nil {
				return nil, nil, err
			}
			if _, err := add(s.Of(l.Call, l.Approval)); err != nil {
				return nil, nil, err
			}
		}
	}
	return parts, &pgx.Batch{}, nil
}

func (c *committer) close() error {
	c.once.Do(func() { close(c.quit) })
	<-c.done
	return nil
}
