package sqlite

import (
	"context"
	"errors"
	"io/fs"
	"net/url"
	"os"

	"zombiezen.com/go/sqlite"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

const (
	examineActive   = `SELECT generation, digest FROM activations ORDER BY generation DESC LIMIT 1`
	examineLast     = `SELECT ifnull(max(seq), 0) FROM events`
	examineUnsealed = `SELECT at FROM events WHERE seq > (SELECT ifnull(max(seq), 0) FROM checkpoints) ORDER BY seq LIMIT 1`
	examineUnknown  = `SELECT count(*) FROM calls INDEXED BY calls_run WHERE ` + isOpen + ` AND state = 'unknown'`
)

// Examine looks at a file, whether a process owns it or not, and changes nothing. Of a
// schema that is not this program's it says no more than which one that is.
func Examine(ctx context.Context, path string) (c dispatch.Condition, err error) {
	all, err := steps()
	if err != nil {
		return c, err
	}
	c.Known = len(all)
	conn, err := sqlite.OpenConn(look(path), sqlite.OpenReadOnly|sqlite.OpenURI)
	if err != nil {
		return c, record.Because(record.NotFound, err, "there is no store %s that can be read", path)
	}
	defer conn.Close()
	conn.SetInterrupt(ctx.Done())
	if c.Schema, err = userVersion(conn); err != nil {
		return c, unavailable(err)
	}
	if c.Schema != c.Known {
		return c, nil
	}
	for sql, scan := range map[string]func(*sqlite.Stmt){
		examineActive:   func(s *sqlite.Stmt) { c.Generation, c.Version = s.ColumnInt64(0), s.ColumnText(1) },
		examineLast:     func(s *sqlite.Stmt) { c.Events = s.ColumnInt64(0) },
		examineUnsealed: func(s *sqlite.Stmt) { c.Unsealed = moment(s.ColumnInt64(0)) },
		examineUnknown:  func(s *sqlite.Stmt) { c.Unknown = s.ColumnInt64(0) },
	} {
		if _, err := row(conn, sql, scan); err != nil {
			return c, unavailable(err)
		}
	}
	return c, nil
}

// look names a file for somebody who only looks. One that nobody has open has no log
// beside it, and gets none by being looked at.
func look(path string) string {
	u := url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath()}
	if _, err := os.Stat(path + "-wal"); errors.Is(err, fs.ErrNotExist) {
		u.RawQuery = "immutable=1"
	}
	return u.String()
}
