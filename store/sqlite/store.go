package sqlite

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

var (
	_ dispatch.Store  = (*Store)(nil)
	_ dispatch.Reader = (*Store)(nil)
)

// Options are a store's settings; each has a usable zero value.
type Options struct {
	Log     *slog.Logger
	Readers int           // read-only connections; 0 is 4
	Batch   int           // changes in one transaction at most; 0 is 256
	Busy    time.Duration // how long to wait for a lock another program holds; 0 is 5 s

	// testOnlyPause, when set, is called by the writer between what it read for a
	// change and what it writes.
	testOnlyPause func()
}

// Store is an open file.
type Store struct {
	log     *slog.Logger
	lock    *os.File
	readers *sqlitex.Pool
	writer  *writer
	runs    *runCache

	lineages *lineageCache
	revoked  *revokedCache

	closing sync.Once
	closed  error
}

// Open opens or creates the file, brings it to the newest schema and starts its
// writer. It refuses a file that another process owns.
func Open(ctx context.Context, path string, o Options) (*Store, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Readers <= 0 {
		o.Readers = 4
	}
	if o.Batch <= 0 {
		o.Batch = 256
	}
	if o.Busy <= 0 {
		o.Busy = 5 * time.Second
	}
	lock, err := own(path + ".lock")
	if err != nil {
		return nil, err
	}
	s := &Store{log: o.Log, lock: lock, runs: newRunCache(), lineages: newLineageCache(), revoked: &revokedCache{}}
	if err := s.open(ctx, path, o); err != nil {
		_ = lock.Close()
		return nil, record.Because(record.Unavailable, err, "the store %s cannot be opened", path)
	}
	return s, nil
}

func (s *Store) open(ctx context.Context, path string, o Options) error {
	conn, err := openWriter(path, o.Busy)
	if err != nil {
		return err
	}
	if err := migrate(conn, path); err != nil {
		return errors.Join(err, conn.Close())
	}
	readers, err := sqlitex.NewPool(path, sqlitex.PoolOptions{
		Flags:    sqlite.OpenReadOnly,
		PoolSize: o.Readers,
		PrepareConn: func(c *sqlite.Conn) error {
			c.SetBusyTimeout(o.Busy)
			return sqlitex.ExecuteTransient(c, "PRAGMA query_only = ON", nil)
		},
	})
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	w, err := newWriter(conn, s.runs, s.lineages, s.revoked, o)
	if err != nil {
		return errors.Join(err, readers.Close(), conn.Close())
	}
	s.readers, s.writer = readers, w
	return ctx.Err()
}

// openWriter opens the connection that changes the file, with the settings that
// durability rests on.
func openWriter(path string, busy time.Duration) (*sqlite.Conn, error) {
	// Arguments and results are in it as they are: it is nobody else's to read. The
	// files that SQLite puts beside it get the same mode.
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := file.Close(); err != nil {
		return nil, err
	}
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite|sqlite.OpenCreate|sqlite.OpenWAL)
	if err != nil {
		return nil, err
	}
	conn.SetBusyTimeout(busy)
	// secure_delete overwrites pages that what was redacted leaves free.
	for _, pragma := range []string{"PRAGMA synchronous = FULL", "PRAGMA foreign_keys = ON", "PRAGMA cache_size = -32000",
		"PRAGMA wal_autocheckpoint = 4000", "PRAGMA secure_delete = ON"} {
		if err := sqlitex.ExecuteTransient(conn, pragma, nil); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
	}
	return conn, nil
}

// own takes the file's owner lock; it goes with the process, however that ends.
func own(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, record.Because(record.Unavailable, err, "the store's lock file cannot be opened")
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, record.Errorf(record.Unavailable, "another process owns this store; stop it, or give this one a store of its own")
	}
	return f, nil
}

// Apply implements dispatch.Store.
func (s *Store) Apply(ctx context.Context, c record.Change) error {
	if c.Empty() {
		return record.Errorf(record.Internal, "an empty change was given to the store")
	}
	return s.writer.apply(ctx, c.Facts())
}

// Broken is closed when the store can no longer tell what is durable. The
// process must end then.
func (s *Store) Broken() <-chan struct{} { return s.writer.broken }

// Close stops the writer after what is waiting, and releases the file. The connection that
// may write goes last: it brings the write-ahead log into the file and removes it, with
// what it still holds of calls that were redacted.
func (s *Store) Close() error {
	s.closing.Do(func() {
		s.writer.stop()
		s.closed = errors.Join(s.readers.Close(), s.writer.conn.Close(), s.lock.Close())
	})
	return s.closed
}

// read runs f on a read-only connection, inside one transaction: one snapshot.
func (s *Store) read(ctx context.Context, f func(*sqlite.Conn) error) error {
	conn, err := s.readers.Take(ctx)
	if err != nil {
		return unavailable(err)
	}
	defer s.readers.Put(conn)
	end := sqlitex.Transaction(conn)
	defer func() {
		var none error
		end(&none)
	}()
	if err := f(conn); err != nil {
		var typed *record.Error
		if errors.As(err, &typed) {
			return err
		}
		return unavailable(err)
	}
	return nil
}

func unavailable(err error) error {
	return record.Because(record.Unavailable, err, "the store cannot be read now; try again")
}

func notFound(what, id string) error {
	return record.Errorf(record.NotFound, "there is no %s %q here", what, id)
}
