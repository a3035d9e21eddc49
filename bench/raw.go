package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/placet-dev/placet/record"
	placetstore "github.com/placet-dev/placet/store/sqlite"
)

// template is the rows that one call of Placet left in its store, to be written
// again by the bare writer.
type template struct {
	columns  []string // of calls
	call     []any
	names    []string // of events, without seq
	events   [][]any  // the last is the outcome's
	counters [][]any  // of one caller
	held     int      // how many of them the second commit gives back
}

// read takes the newest call and what belongs to it.
func readTemplate(path string) (*template, error) {
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadOnly)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	t := &template{held: 1}
	var rows [][]any
	if t.columns, rows, err = table(conn, "SELECT * FROM calls ORDER BY id DESC LIMIT 1"); err != nil {
		return nil, err
	}
	if len(rows) != 1 {
		return nil, errors.New("there is no call to take as a template")
	}
	t.call = rows[0]
	id := t.call[t.column("id")]
	if t.names, t.events, err = table(conn, "SELECT at, tenant, kind, run, call, approval, who, body FROM events WHERE call = ? ORDER BY seq", id); err != nil {
		return nil, err
	}
	if len(t.events) < 2 {
		return nil, errors.New("the call has no events of two commits")
	}
	var n [][]any
	if _, n, err = table(conn, "SELECT (SELECT count(*) FROM counters) / (SELECT count(DISTINCT subject) FROM runs)"); err != nil {
		return nil, err
	}
	_, t.counters, err = table(conn, "SELECT tenant, counter, level FROM counters LIMIT ?", n[0][0])
	return t, err
}

func (t *template) column(name string) int {
	for i, c := range t.columns {
		if c == name {
			return i
		}
	}
	return -1
}

// table reads all rows as they are.
func table(conn *sqlite.Conn, query string, args ...any) (names []string, rows [][]any, err error) {
	err = sqlitex.Execute(conn, query, &sqlitex.ExecOptions{Args: args, ResultFunc: func(s *sqlite.Stmt) error {
		row := make([]any, s.ColumnCount())
		names = names[:0]
		for i := range row {
			names = append(names, s.ColumnName(i))
			switch s.ColumnType(i) {
			case sqlite.TypeInteger:
				row[i] = s.ColumnInt64(i)
			case sqlite.TypeText:
				row[i] = s.ColumnText(i)
			case sqlite.TypeBlob:
				b := make([]byte, s.ColumnLen(i))
				s.ColumnBytes(i, b)
				row[i] = b
			}
		}
		rows = append(rows, row)
		return nil
	}})
	return names, rows, err
}

// raw writes the same rows into the same tables with the same indexes, in the
// same number of group commits, and does nothing else: no decision, no guard, no
// encoding.
type raw struct {
	conn *sqlite.Conn
	t    *template
	in   chan *commit
	done chan error

	insertCall, updateCall, insertEvent, upsertCounter *sqlite.Stmt
}

// commit is one change of one caller.
type commit struct {
	caller int
	id     string
	settle bool
	done   chan error
}

// openRaw makes a store with Placet's own schema and opens it barely, with the
// same settings.
func openRaw(ctx context.Context, path string, t *template) (*raw, error) {
	made, err := placetstore.Open(ctx, path, placetstore.Options{})
	if err != nil {
		return nil, err
	}
	if err := made.Close(); err != nil {
		return nil, err
	}
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite|sqlite.OpenWAL)
	if err != nil {
		return nil, err
	}
	r := &raw{conn: conn, t: t, in: make(chan *commit, 256), done: make(chan error, 1)}
	for _, pragma := range []string{"PRAGMA synchronous = FULL", "PRAGMA cache_size = -32000", "PRAGMA wal_autocheckpoint = 4000"} {
		if err := sqlitex.ExecuteTransient(conn, pragma, nil); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
	}
	if err := r.prepare(); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	go func() { r.done <- r.loop() }()
	return r, nil
}

func (r *raw) prepare() (err error) {
	marks := func(n int) string { return strings.TrimSuffix(strings.Repeat("?,", n), ",") }
	for _, p := range []struct {
		stmt **sqlite.Stmt
		text string
	}{
		{&r.insertCall, fmt.Sprintf("INSERT INTO calls (%s) VALUES (%s)", strings.Join(r.t.columns, ","), marks(len(r.t.columns)))},
		{&r.updateCall, "UPDATE calls SET state = ?, version = ?, lease = ?, holds = ?, outcome = ?, result = ?, changed = ?, due = ? WHERE tenant = ? AND id = ?"},
		{&r.insertEvent, fmt.Sprintf("INSERT INTO events (%s) VALUES (%s)", strings.Join(r.t.names, ","), marks(len(r.t.names)))},
		{&r.upsertCounter, "INSERT INTO counters (tenant, counter, level) VALUES (?,?,?) ON CONFLICT (tenant, counter) DO UPDATE SET level = excluded.level"},
	} {
		if *p.stmt, err = r.conn.Prepare(p.text); err != nil {
			return err
		}
	}
	return nil
}

// call is what one call costs at least: two commits of its rows.
func (r *raw) call(_ context.Context, caller int) error {
	id, err := record.NewID("call", time.Now(), rand.Reader)
	if err != nil {
		return err
	}
	for _, settle := range []bool{false, true} {
		c := &commit{caller: caller, id: id, settle: settle, done: make(chan error, 1)}
		r.in <- c
		if err := <-c.done; err != nil {
			return err
		}
	}
	return nil
}

// loop is the writer: it gathers as Placet's does.
func (r *raw) loop() error {
	batch := make([]*commit, 0, 256)
	for first := range r.in {
		batch = append(batch[:0], first)
		runtime.Gosched()
		for len(batch) < cap(batch) {
			select {
			case c, ok := <-r.in:
				if ok {
					batch = append(batch, c)
					continue
				}
			default:
			}
			break
		}
		err := r.write(batch)
		for _, c := range batch {
			c.done <- err
		}
	}
	return r.conn.Close()
}

func (r *raw) write(batch []*commit) error {
	if err := sqlitex.Execute(r.conn, "BEGIN IMMEDIATE", nil); err != nil {
		return err
	}
	for _, c := range batch {
		if err := r.rows(c); err != nil {
			return err
		}
	}
	return sqlitex.Execute(r.conn, "COMMIT", nil)
}

// close ends the writer after what is waiting.
func (r *raw) close() error {
	close(r.in)
	return <-r.done
}
