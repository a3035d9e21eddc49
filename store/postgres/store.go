package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

var (
	_ dispatch.Store    = (*Store)(nil)
	_ dispatch.Reader   = (*Store)(nil)
	_ dispatch.Follower = (*Store)(nil)
)

// Options are a store's settings; each has a usable zero value.
type Options struct {
	Log       *slog.Logger
	Readers   int           // connections for reading; 0 is 8
	Batch     int           // changes in one transaction at most; 0 is 64
	Lock      time.Duration // how long a statement waits for a lock; 0 is 5 s
	Idle      time.Duration // how long a transaction may wait for its process; less than Lock, so that others outwait it; 0 is 3 s
	Statement time.Duration // how long a statement may take; 0 is 15 s
	Poll      time.Duration // how often who waits looks while other processes cannot be heard; 0 is 1 s, and ten times that while they can
	Random    io.Reader     // nil: crypto/rand

	// testOnlyPause, when set, is called by the committer between what it read for a
	// batch and what it writes.
	testOnlyPause func()
	// testOnlySteps are migrations behind those that are there: a newer program's.
	testOnlySteps []string
}

func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Readers <= 0 {
		o.Readers = 8
	}
	if o.Batch <= 0 {
		o.Batch = 64
	}
	if o.Lock <= 0 {
		o.Lock = 5 * time.Second
	}
	if o.Idle <= 0 {
		o.Idle = 3 * time.Second
	}
	if o.Statement <= 0 {
		o.Statement = 15 * time.Second
	}
	if o.Poll <= 0 {
		o.Poll = time.Second
	}
	if o.Random == nil {
		o.Random = rand.Reader
	}
	return o
}

// Store is an open database.
type Store struct {
	log       *slog.Logger
	readers   *pgxpool.Pool
	committer *committer
	revoked   revokedCache
	broken    chan struct{}
	waiting   *pgx.ConnConfig // of connections that listen, or hold a lock
	schema    int             // the version that this program knows
	poll      time.Duration
	origin    string // of this process's notices

	closing sync.Once
	closed  error
}

// Open connects with a connection string, brings the schema to its newest version
// where the role may do that, and starts the committer. A role of least privilege
// finds the schema ready, made by [Migrate].
func Open(ctx context.Context, dsn string, o Options) (*Store, error) {
	o = o.withDefaults()
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		// What the library says of it may hold the password.
		return nil, record.Errorf(record.Invalid, "the store's connection string cannot be read; it looks like postgres://user:password@host/database")
	}
	schema, err := ready(ctx, config, o)
	if err != nil {
		return nil, err
	}
	pool, err := readers(ctx, dsn, o)
	if err != nil {
		return nil, unreachable(err)
	}
	s := &Store{log: o.Log, readers: pool, broken: make(chan struct{}), schema: schema, waiting: config.Copy(), poll: o.Poll}
	session(s.waiting, o)
	if s.origin, err = newOrigin(o.Random); err == nil {
		s.committer, err = newCommitter(ctx, writing(config, o), s.origin, o)
	}
	if err != nil {
		pool.Close()
		return nil, unreachable(err)
	}
	return s, nil
}

// session are the settings of every connection. The path names one schema, so that
// no object of another one can stand in the way of ours.
func session(c *pgx.ConnConfig, o Options) {
	c.DefaultQueryExecMode = pgx.QueryExecModeCacheStatement
	for name, value := range map[string]string{
		"application_name": "placet", "search_path": "placet", "client_encoding": "UTF8", "TimeZone": "UTC",
		"lock_timeout": millis(o.Lock), "statement_timeout": millis(o.Statement), "idle_in_transaction_session_timeout": millis(o.Idle),
		// What a machine holds that is gone, such as a lock, is free again soon.
		"tcp_keepalives_idle": "10", "tcp_keepalives_interval": "5", "tcp_keepalives_count": "3",
	} {
		c.RuntimeParams[name] = value
	}
}

// readers are connections that cannot write. What one sends at once is one
// transaction with one snapshot.
func readers(ctx context.Context, dsn string, o Options) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	session(config.ConnConfig, o)
	config.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
	config.ConnConfig.RuntimeParams["default_transaction_isolation"] = "repeatable read"
	config.MaxConns = int32(o.Readers)
	config.MaxConnIdleTime = 10 * time.Minute
	return pgxpool.NewWithConfig(ctx, config)
}

// writing are the committer's settings. It finds all by key: a plan that reads a
// whole table, made while that was small, is never wanted.
func writing(config *pgx.ConnConfig, o Options) *pgx.ConnConfig {
	c := config.Copy()
	session(c, o)
	for name, value := range map[string]string{
		"default_transaction_isolation": "read committed", "plan_cache_mode": "force_generic_plan", "jit": "off",
		"enable_seqscan": "off", "enable_bitmapscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off",
	} {
		c.RuntimeParams[name] = value
	}
	return c
}

// Apply implements dispatch.Store.
func (s *Store) Apply(ctx context.Context, c record.Change) error {
	if c.Empty() {
		return record.Errorf(record.Internal, "an empty change was given to the store")
	}
	p, err := prepare(c.Facts())
	if err != nil {
		return err
	}
	err = s.committer.apply(ctx, p)
	s.revoked.learn(c.Facts(), err)
	return err
}

// Broken is never closed: this process keeps nothing that a lost answer could make
// wrong, and goes on when the database does.
func (s *Store) Broken() <-chan struct{} { return s.broken }

// Close stops the committer after what is waiting, and ends the connections.
func (s *Store) Close() error {
	s.closing.Do(func() {
		s.closed = s.committer.close()
		s.readers.Close()
	})
	return s.closed
}

// see names the tenants whose rows the transaction may see and write.
const see = `SELECT set_config('placet.tenants', $1, true)`

// everyone is what a transaction sees that follows the log of every tenant.
const everyone = "*"

// only are the rows of these tenants, as see takes them.
func only(tenants ...record.TenantID) string {
	var b strings.Builder
	b.WriteByte('{')
	for i, t := range tenants {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteByte('"')
		b.WriteString(escapeArray.Replace(string(t)))
		b.WriteByte('"')
	}
	b.WriteByte('}')
	return b.String()
}

var escapeArray = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// read sends queries at once: one round trip, one snapshot, rows of these tenants alone.
func (s *Store) read(ctx context.Context, whose string, queries ...query) error {
	answered := false
	send := func() error {
		b := &pgx.Batch{}
		b.Queue(see, whose)
		for _, q := range queries {
			b.Queue(q.sql, q.args...).Query(func(rows pgx.Rows) error { answered = true; return q.scan(rows) })
		}
		return s.readers.SendBatch(ctx, b).Close()
	}
	err := send()
	if !answered && stale(ctx, err) {
		s.readers.Reset()
		err = send()
	}
	return readable(err)
}

// stale reports whether a connection was found broken, as all are after the database
// was away: a read that had no answer yet may be tried on another one.
func stale(ctx context.Context, err error) bool {
	var server *pgconn.PgError
	return err != nil && ctx.Err() == nil && (!errors.As(err, &server) || server.SeverityUnlocalized != "ERROR")
}

// view is one snapshot, for reads that depend on one another.
type view struct {
	ctx context.Context
	tx  pgx.Tx
}

// look runs f on one snapshot of rows of these tenants.
func (s *Store) look(ctx context.Context, whose string, f func(*view) error) error {
	tx, err := s.begin(ctx, whose)
	if stale(ctx, err) {
		s.readers.Reset()
		tx, err = s.begin(ctx, whose)
	}
	if err != nil {
		return readable(err)
	}
	err = f(&view{ctx, tx})
	return readable(errors.Join(err, tx.Rollback(context.WithoutCancel(ctx))))
}

func (s *Store) begin(ctx context.Context, whose string) (pgx.Tx, error) {
	tx, err := s.readers.Begin(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := tx.Exec(ctx, see, whose); err != nil {
		_ = tx.Rollback(context.WithoutCancel(ctx))
		return nil, err
	}
	return tx, nil
}

func (v *view) each(sql string, scan func(*columns) error, args ...any) error {
	rows, err := v.tx.Query(v.ctx, sql, args...)
	if err != nil {
		return err
	}
	return each(scan)(rows)
}

// row reads at most one row.
func (v *view) row(sql string, scan func(*columns), args ...any) (found bool, err error) {
	err = v.each(sql, func(c *columns) error { found = true; scan(c); return c.err }, args...)
	return found, err
}

// all sends queries that do not depend on one another at once.
func (v *view) all(queries ...query) error {
	b := &pgx.Batch{}
	for _, q := range queries {
		b.Queue(q.sql, q.args...).Query(q.scan)
	}
	return v.tx.SendBatch(v.ctx, b).Close()
}

// readable turns what a read met into an error of ours.
func readable(err error) error {
	var typed *record.Error
	if err == nil || errors.As(err, &typed) {
		return err
	}
	return record.Because(record.Unavailable, plain(err), "the store cannot be read now; try again")
}

func unreachable(err error) error {
	var typed *record.Error
	if err == nil || errors.As(err, &typed) {
		return err
	}
	return record.Because(record.Unavailable, plain(err), "the store's database cannot be used")
}

// plain is an error without the address, the user and the password that the
// library's own may hold. For operators the code of the server's is enough.
func plain(err error) error {
	var connecting *pgconn.ConnectError
	var server *pgconn.PgError
	switch {
	case errors.As(err, &server):
		return errors.New(server.Message + " (SQLSTATE " + server.Code + ")")
	case errors.As(err, &connecting):
		return errors.New("the database does not answer")
	}
	return err
}

func notFound(what, id string) error {
	return record.Errorf(record.NotFound, "there is no %s %q here", what, id)
}
