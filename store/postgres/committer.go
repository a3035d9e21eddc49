package postgres

import (
	"cmp"
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
	limit  time.Duration // for a transaction, with all that is sent in it
	idle   time.Duration // after which the server ends a transaction that waits for us
	brief  time.Duration // how long a change waits for a lock that its batch did not get
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
	c := &committer{config: config, origin: origin, log: o.Log, batch: o.Batch, limit: 3 * o.Statement, idle: o.Idle, brief: max(o.Lock/50, 10*time.Millisecond), pause: o.testOnlyPause,
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
		c.commit(batch, 0)
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
			c.commit([]*request{r}, 0)
		default:
			c.drop()
			return
		}
	}
}

// tries is how often a batch is tried that failed before anything was committed.
const tries = 4

// commit applies a batch as one transaction and answers everybody in it. wait is how
// long it waits for a lock, where that is not as long as the connection does.
func (c *committer) commit(batch []*request, wait time.Duration) {
	for try := 1; ; try++ {
		sent, err := c.transaction(batch, wait)
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
		case len(batch) > 1 && ofOne(err):
			// The others are not to suffer for it, nor to wait long for the same lock.
			if codeOf(err) == lockTimeout {
				wait = c.brief
			}
			for _, r := range batch {
				c.commit([]*request{r}, wait)
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

// What the server calls the errors that are told apart here.
const (
	cannotSerialize = "40001"
	deadlock        = "40P01"
	notHeld         = "PL001" // a row was not as a statement of ours expects (held)
	lockTimeout     = "55P03"
	canceled        = "57014" // a statement that took too long, too
	idleTimeout     = "25P03"
)

// errPaused says that this process stood still within a transaction for so long that
// the server ended it.
var errPaused = errors.New("this process stood still in the middle of a transaction")

func codeOf(err error) string {
	if server, ok := errors.AsType[*pgconn.PgError](err); ok {
		return server.Code
	}
	return ""
}

// refusedByServer reports whether the server said that a statement failed while it
// goes on working: then nothing behind that statement ran, COMMIT neither. It ends a
// connection for waiting in a transaction only before it was told to commit that.
func refusedByServer(err error) bool {
	if errors.Is(err, errNotCommitted) {
		return true
	}
	server, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (server.SeverityUnlocalized == "ERROR" || server.Code == idleTimeout)
}

// again reports whether the same batch may succeed when it is tried anew at once: other
// replicas were in the way, or the connection broke. Who waited for a lock or an answer
// until the time was over has waited long enough.
func again(err error) bool {
	switch codeOf(err) {
	case cannotSerialize, deadlock, notHeld, idleTimeout:
		return true
	case "":
		return !errors.Is(err, context.DeadlineExceeded)
	}
	return !refusedByServer(err)
}

// ofOne reports whether one change of a batch may be what the server does not take, or
// what has to wait. A server that is slow is so for all.
func ofOne(err error) bool { return refusedByServer(err) && codeOf(err) != canceled }

// transaction runs a batch. sent says that COMMIT was sent, so that an error which the
// server did not give leaves open what is so.
func (c *committer) transaction(batch []*request, wait time.Duration) (sent bool, err error) {
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
	if wait > 0 {
		b.Queue(waitForLocks, millis(wait))
	}
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
	read := time.Now()
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
	if time.Since(read) >= c.idle {
		return false, errPaused
	}
	w.send(b, c.origin)
	if err := c.conn.SendBatch(ctx, b).Close(); err != nil {
		return true, err
	}
	c.epoch = truth.own
	return true, nil
}

// waitForLocks shortens the wait of one transaction.
const waitForLocks = `SELECT set_config('lock_timeout', $1, true)`

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
		slices.SortFunc(runs, func(x, y record.Run) int { return cmp.Compare(x.ID, y.ID) })
		for _, run := range runs {
			ended, err := add(f.Of(run))
			if err != nil {
				return nil, nil, err
			}
			sweeps = append(sweeps, *ended.Sweep)
		}
	}
	roots := slices.Clone(sweeps)
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
		slices.SortFunc(found[i], func(x, y callKey) int { return cmp.Compare(x.id, y.id) })
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
	return inOrder(parts, roots), &pgx.Batch{}, nil
}

// inOrder puts what a change sweeps in the order that the log has on every store: a
// run's end, its calls, and then each run below it with its own.
func inOrder(parts []prepared, roots []record.Sweep) (out []prepared) {
	ends, calls, below := map[record.RunID]prepared{}, map[record.RunID][]prepared{}, map[record.RunID][]record.RunID{}
	for _, p := range parts {
		if m := p.facts.Run; m != nil {
			ends[m.After.ID] = p
			below[m.After.Parent] = append(below[m.After.Parent], m.After.ID)
			continue
		}
		run := p.facts.Call.After.Run
		calls[run] = append(calls[run], p)
	}
	var walk func(record.RunID)
	walk = func(run record.RunID) {
		if end, ok := ends[run]; ok {
			out = append(out, end)
		}
		out = append(out, calls[run]...)
		for _, child := range below[run] {
			walk(child)
		}
	}
	for _, s := range roots {
		walk(s.Run)
	}
	return out
}

func (c *committer) close() error {
	c.once.Do(func() { close(c.quit) })
	<-c.done
	return nil
}
