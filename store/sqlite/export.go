package sqlite

import (
	"context"
	"fmt"
	"strings"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

// Export hands every table to f, for another store, in the order of names and of one
// snapshot. A store that is open belongs to its process alone, so nothing is written
// meanwhile by another one.
func (s *Store) Export(ctx context.Context, f func(dispatch.Table) error) (err error) {
	conn, err := s.readers.Take(ctx)
	if err != nil {
		return record.Because(record.Unavailable, err, "the store cannot be read now; try again")
	}
	defer s.readers.Put(conn)
	defer sqlitex.Transaction(conn)(&err)
	var names []string
	if err := sqlitex.ExecuteTransient(conn, `SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name`,
		&sqlitex.ExecOptions{ResultFunc: func(r *sqlite.Stmt) error { names = append(names, r.ColumnText(0)); return nil }}); err != nil {
		return err
	}
	for _, name := range names {
		t, err := tableOf(conn, name)
		if err != nil {
			return err
		}
		if err := f(t); err != nil {
			return err
		}
	}
	return nil
}

// tableOf describes a table, whose rows come in the order of its key.
func tableOf(conn *sqlite.Conn, name string) (t dispatch.Table, err error) {
	t.Name = name
	keys := map[int]string{}
	if err := sqlitex.ExecuteTransient(conn, `SELECT name, pk FROM pragma_table_info(?) ORDER BY cid`, &sqlitex.ExecOptions{Args: []any{name},
		ResultFunc: func(r *sqlite.Stmt) error {
			t.Columns = append(t.Columns, r.ColumnText(0))
			if n := r.ColumnInt(1); n > 0 {
				keys[n] = r.ColumnText(0)
			}
			return nil
		}}); err != nil {
		return t, err
	}
	for n := 1; keys[n] != ""; n++ {
		t.Key = append(t.Key, keys[n])
	}
	if len(t.Key) == 0 {
		return t, fmt.Errorf("table %s has no key", name)
	}
	sql := `SELECT "` + strings.Join(t.Columns, `", "`) + `" FROM "` + name + `" ORDER BY "` + strings.Join(t.Key, `", "`) + `"`
	t.Rows = func(yield func([]any) error) error {
		return sqlitex.ExecuteTransient(conn, sql, &sqlitex.ExecOptions{ResultFunc: func(r *sqlite.Stmt) error {
			row := make([]any, len(t.Columns))
			for i := range row {
				switch r.ColumnType(i) {
				case sqlite.TypeInteger:
					row[i] = r.ColumnInt64(i)
				case sqlite.TypeText:
					row[i] = r.ColumnText(i)
				case sqlite.TypeBlob:
					b := make([]byte, r.ColumnLen(i))
					r.ColumnBytes(i, b)
					row[i] = b
				case sqlite.TypeNull:
				default:
					return fmt.Errorf("table %s holds a value of a kind that no record has", name)
				}
			}
			return yield(row)
		}})
	}
	return t, nil
}
