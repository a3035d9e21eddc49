package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/placet-dev/placet/store/postgres/pgtest"
)

// batch is how many calls are copied in one transaction.
const batch = 100_000

// perPrincipal is how many of the copied calls one principal has, in one run.
const perPrincipal = 100

// database is what rows are copied in.
type database interface {
	columns(ctx context.Context, table string) ([]string, error)
	exec(ctx context.Context, sql string) error
	dialect() dialect
	close(ctx context.Context) error
}

// dialect is how a database spells what is needed of it; %s is a number.
type dialect struct {
	prefix string // of tables
	series string // rows s(i) from %d to %d
	pad    string // a text of 24 digits
	effect string // 32 bytes that rise with the number; %s twice, and a factor
}

// copied is how a table's rows are copied: how many calls one copy stands for, which
// rows are taken as they are now, and which columns are made anew, of i. Columns that
// are not named are copied, so that a new one needs nothing here.
type copied struct {
	table string
	each  int
	where string
	sets  map[string]string
}

// copies are the rows of calls that ran: slim, since nothing on the way of another call
// reads their texts.
func (d dialect) copies(n int) []copied {
	// Names of copies come before those that are made now: the longest text is a zero.
	named := func(prefix, number string) string { return "'" + prefix + "00' || " + fmt.Sprintf(d.pad, number) }
	owner, effect := fmt.Sprintf("(i / %d)", perPrincipal), fmt.Sprintf(d.effect, fmt.Sprintf("(i * %d)", max(1, (1<<32-1)/(n+1))), "i")
	return []copied{
		{"calls", 1, "1=1", map[string]string{"id": named("call_", "i"), "run": named("run_", owner), "lineage": named("lin_s", owner), "subject": named("crowd-", owner),
			"effect": effect, "arguments": "'{}'", "details": "'{}'", "decision": "'{}'", "outcome": "'{}'", "result": "NULL"}},
		{"effects", 1, "1=1", map[string]string{"effect": effect}},
		{"events", 1, "kind = 'executing'", map[string]string{"seq": "1000000 + 2 * i", "call": named("call_", "i"), "run": named("run_", owner), "who": "'{}'", "body": "'{}'"}},
		{"events", 1, "kind = 'succeeded'", map[string]string{"seq": "1000001 + 2 * i", "call": named("call_", "i"), "run": named("run_", owner), "who": "'{}'", "body": "'{}'"}},
		{"runs", perPrincipal, "1=1", map[string]string{"id": named("run_", "i"), "lineage": named("lin_s", "i"), "subject": named("crowd-", "i")}},
		{"standing", perPrincipal, "1=1", map[string]string{"subject": named("crowd-", "i"), "lineage": named("lin_s", "i")}},
		{"counters", perPrincipal, "1=1", map[string]string{"counter": "counter || " + named("-", "i")}},
	}
}

// multiply copies the rows of the one call that a store holds until there are n.
func multiply(ctx context.Context, db database, n int) error {
	d := db.dialect()
	for k, c := range d.copies(n) {
		template := fmt.Sprintf("template_%d", k)
		if err := db.exec(ctx, fmt.Sprintf("CREATE TEMPORARY TABLE %s AS SELECT * FROM %s%s WHERE %s", template, d.prefix, c.table, c.where)); err != nil {
			return err
		}
		columns, err := db.columns(ctx, c.table)
		if err != nil {
			return err
		}
		values := make([]string, len(columns))
		left := len(c.sets)
		for i, name := range columns {
			values[i] = name
			if made, ok := c.sets[name]; ok {
				values[i], left = made, left-1
			}
		}
		if left != 0 {
			return fmt.Errorf("%s lacks columns that are made here", c.table)
		}
		for from := 1; from <= n/c.each; from += batch {
			to := min(from+batch-1, n/c.each)
			err := db.exec(ctx, fmt.Sprintf("INSERT INTO %s%s (%s) SELECT %s FROM %s, %s", d.prefix, c.table, strings.Join(columns, ", "), strings.Join(values, ", "),
				fmt.Sprintf(d.series, from, to), template))
			if err != nil {
				return fmt.Errorf("%s from %d: %w", c.table, from, err)
			}
		}
	}
	return nil
}

// file is a SQLite store, not synced while it is filled: who measures it syncs it first.
type file struct{ conn *sqlite.Conn }

func openFile(ctx context.Context, dir string) (database, error) {
	conn, err := sqlite.OpenConn(filepath.Join(dir, "state.db"), sqlite.OpenReadWrite|sqlite.OpenWAL)
	if err != nil {
		return nil, err
	}
	f := file{conn}
	for _, pragma := range []string{"synchronous = OFF", "cache_size = -200000", "temp_store = MEMORY"} {
		if err := f.exec(ctx, "PRAGMA "+pragma); err != nil {
			return nil, err
		}
	}
	return f, nil
}

func (f file) dialect() dialect {
	return dialect{series: "(WITH RECURSIVE n(i) AS (SELECT %d UNION ALL SELECT i + 1 FROM n WHERE i < %d) SELECT i FROM n)",
		pad: "printf('%%024d', %s)", effect: "unhex(printf('%%08x%%056x', %s, %s))"}
}

func (f file) exec(ctx context.Context, sql string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return sqlitex.ExecuteTransient(f.conn, sql, nil)
}

func (f file) columns(_ context.Context, table string) (names []string, err error) {
	err = sqlitex.ExecuteTransient(f.conn, "SELECT name FROM pragma_table_info('"+table+"')", &sqlitex.ExecOptions{
		ResultFunc: func(s *sqlite.Stmt) error { names = append(names, s.ColumnText(0)); return nil }})
	return names, err
}

func (f file) close(ctx context.Context) error {
	if err := f.exec(ctx, "PRAGMA synchronous = FULL"); err != nil {
		return err
	}
	if err := f.exec(ctx, "PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
		return err
	}
	return f.conn.Close()
}

// shared is a PostgreSQL store.
type shared struct{ conn *pgx.Conn }

func openShared(ctx context.Context, server *pgtest.Server, name string) (database, error) {
	conn, err := pgx.Connect(ctx, server.DSN("owner", name))
	if err != nil {
		return nil, err
	}
	return shared{conn}, nil
}

func (s shared) dialect() dialect {
	return dialect{prefix: "placet.", series: "generate_series(%d::bigint, %d::bigint) AS s(i)",
		pad: "lpad((%s)::text, 24, '0')", effect: "decode(lpad(to_hex(%s), 8, '0') || lpad(to_hex(%s), 56, '0'), 'hex')"}
}

func (s shared) exec(ctx context.Context, sql string) error {
	_, err := s.conn.Exec(ctx, sql)
	return err
}

func (s shared) columns(ctx context.Context, table string) ([]string, error) {
	rows, err := s.conn.Query(ctx, "SELECT column_name FROM information_schema.columns WHERE table_schema = 'placet' AND table_name = $1 ORDER BY ordinal_position", table)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// close leaves the tables as they are in a database that has run for long: with
// statistics, and written back.
func (s shared) close(ctx context.Context) error {
	for _, sql := range []string{"SELECT setval(pg_get_serial_sequence('placet.events', 'seq'), (SELECT max(seq) FROM placet.events))", "VACUUM ANALYZE", "CHECKPOINT"} {
		if err := s.exec(ctx, sql); err != nil {
			return err
		}
	}
	return s.conn.Close(ctx)
}
