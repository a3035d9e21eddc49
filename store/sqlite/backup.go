package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/placet-dev/placet/record"
)

// Copy is what a copy of a store holds, as its verification found it.
type Copy struct {
	Schema int   // its version
	Calls  int64 // how many
	Events int64 // how many, without a gap
	Last   int64 // the last one's number
}

// Backup copies an open or closed store into a new file, durably, and verifies the
// copy. It is a snapshot, and stops nobody. A file that is there is not touched.
func Backup(ctx context.Context, from, to string) (Copy, error) {
	if err := absent(to); err != nil {
		return Copy{}, err
	}
	part := to + ".part" // so that no half copy has a copy's name
	if err := os.Remove(part); err != nil && !errors.Is(err, os.ErrNotExist) {
		return Copy{}, err
	}
	conn, err := sqlite.OpenConn(from, sqlite.OpenReadOnly)
	if err != nil {
		return Copy{}, record.Because(record.NotFound, err, "there is no store %s that can be read", from)
	}
	defer conn.Close()
	conn.SetInterrupt(ctx.Done())
	if err := sqlitex.ExecuteTransient(conn, "VACUUM INTO ?", &sqlitex.ExecOptions{Args: []any{part}}); err != nil {
		return Copy{}, record.Because(record.Unavailable, errors.Join(err, os.Remove(part)), "the store could not be copied to %s", to)
	}
	got, err := Verify(ctx, part)
	if err == nil {
		err = settle(part, to)
	}
	if err != nil {
		return Copy{}, errors.Join(err, os.Remove(part))
	}
	return got, nil
}

func absent(path string) error {
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		return record.Errorf(record.Conflict, "%s is there already; name a new file", path)
	}
	return nil
}

// settle gives a whole file its name, durably.
func settle(part, to string) error {
	if err := os.Chmod(part, 0o600); err != nil {
		return err
	}
	if err := syncFile(part); err != nil {
		return err
	}
	if err := os.Rename(part, to); err != nil {
		return err
	}
	return syncFile(filepath.Dir(to))
}

func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Verify reads a file that no process owns: that it is whole (SQLite's own check and
// the foreign keys), of a schema that this program knows, and that no event of it is missing.
func Verify(ctx context.Context, path string) (c Copy, err error) {
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadOnly)
	if err != nil {
		return c, record.Because(record.Invalid, err, "%s cannot be read as a store", path)
	}
	defer conn.Close()
	conn.SetInterrupt(ctx.Done())
	broken := func(err error, why string) (Copy, error) {
		if err == nil {
			err = errors.New(why)
		}
		return c, record.Because(record.Invalid, err, "%s is no whole store: %s", path, why)
	}
	said := ""
	if err := sqlitex.ExecuteTransient(conn, "PRAGMA integrity_check(1)", &sqlitex.ExecOptions{
		ResultFunc: func(s *sqlite.Stmt) error { said = s.ColumnText(0); return nil }}); err != nil || said != "ok" {
		return broken(err, "its pages do not hold together")
	}
	all, err := steps()
	if err != nil {
		return c, err
	}
	if c.Schema, err = userVersion(conn); err != nil || c.Schema == 0 {
		return broken(err, "it has no schema of Placet's")
	}
	if c.Schema > len(all) {
		return broken(nil, fmt.Sprintf("it has schema %d, and this program knows up to %d", c.Schema, len(all)))
	}
	var first int64
	if err := sqlitex.ExecuteTransient(conn, "SELECT count(*), ifnull(min(seq), 0), ifnull(max(seq), 0), (SELECT count(*) FROM calls) FROM events", &sqlitex.ExecOptions{
		ResultFunc: func(s *sqlite.Stmt) error {
			c.Events, first, c.Last, c.Calls = s.ColumnInt64(0), s.ColumnInt64(1), s.ColumnInt64(2), s.ColumnInt64(3)
			return nil
		}}); err != nil {
		return broken(err, "it has no log")
	}
	if c.Events > 0 && (first != 1 || c.Events != c.Last) {
		return broken(nil, fmt.Sprintf("its log has %d events, and the last is number %d", c.Events, c.Last))
	}
	return c, nil
}

// Restore puts a verified copy in a store's place, which no process may own. The
// store that was there is kept beside it, and its name is returned.
func Restore(ctx context.Context, from, path, aside string) (Copy, error) {
	got, err := Verify(ctx, from)
	if err != nil {
		return got, err
	}
	lock, err := own(path + ".lock")
	if err != nil {
		return got, err
	}
	defer lock.Close()
	if err := absent(aside); err != nil {
		return got, err
	}
	part := path + ".part"
	if err := os.Remove(part); err != nil && !errors.Is(err, os.ErrNotExist) {
		return got, err
	}
	if _, err := Backup(ctx, from, part); err != nil {
		return got, err
	}
	if err := leave(path, aside); err != nil {
		return got, errors.Join(err, os.Remove(part))
	}
	if err := os.Rename(path, aside); err != nil && !errors.Is(err, os.ErrNotExist) {
		return got, errors.Join(err, os.Remove(part))
	}
	return got, settle(part, path)
}

// leave brings what stands in a store's log files into the file. Where the file is too
// broken for that, they are kept beside it under its new name: they belong to it alone.
func leave(path, aside string) error {
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err == nil {
		err = errors.Join(sqlitex.ExecuteTransient(conn, "PRAGMA wal_checkpoint(TRUNCATE)", nil), conn.Close())
	}
	for _, end := range []string{"-wal", "-shm"} {
		gone := os.Remove
		if err != nil {
			gone = func(name string) error { return os.Rename(name, aside+end) }
		}
		if err := gone(path + end); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}
