package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

// added are columns that only this store has, with what they begin with.
var added = map[string]map[string]any{"counters": {"version": int64(1)}}

// apart are tables that hold nothing that another store has.
var apart = []string{"migrations", "agreed", "sessions", "places"}

// Import fills an empty schema with the tables of another store, as the schema's
// owner, in one transaction: all of it or nothing. Each table is read again before
// the end, and its rows must be those that came.
func Import(ctx context.Context, dsn string, export func(func(dispatch.Table) error) error) (out []dispatch.Moved, err error) {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, record.Errorf(record.Invalid, "the connection string cannot be read; it looks like postgres://user:password@host/database")
	}
	config.RuntimeParams["search_path"], config.RuntimeParams["TimeZone"] = "placet", "UTC"
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, unreachable(err)
	}
	defer drop(conn)
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		// Nobody else migrates or fills it meanwhile; who serves from it waits, or is noticed.
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1), set_config('placet.tenants', '*', true)`, lockMigrations); err != nil {
			return err
		}
		tables, err := ours(ctx, tx)
		if err != nil {
			return err
		}
		for _, name := range tables {
			var some bool
			if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM `+pgx.Identifier{name}.Sanitize()+`)`).Scan(&some); err != nil {
				return err
			}
			if some {
				return record.Errorf(record.Conflict, "the database has records already (%s); move into an empty one", name)
			}
		}
		// COPY does not work through row level security; nobody else reaches the tables meanwhile.
		forced, err := holdOwner(ctx, tx, "NO FORCE", nil)
		if err != nil {
			return err
		}
		if err := export(func(t dispatch.Table) error {
			if !slices.Contains(tables, t.Name) {
				return record.Errorf(record.Internal, "there is no table %s here", t.Name)
			}
			m, err := take(ctx, tx, t)
			out = append(out, m)
			return err
		}); err != nil {
			return err
		}
		if len(out) != len(tables) {
			return record.Errorf(record.Internal, "%d tables came, and there are %d", len(out), len(tables))
		}
		if _, err := holdOwner(ctx, tx, "FORCE", forced); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `SELECT setval(pg_get_serial_sequence('events', 'seq'), (SELECT coalesce(max(seq), 0) + 1 FROM events), false)`)
		return err
	})
	if err != nil {
		return nil, unreachable(err)
	}
	return out, nil
}

// holdOwner says whether row level security holds the tables' owner too: for those
// that are named, or all that are held now, which it returns.
func holdOwner(ctx context.Context, tx pgx.Tx, how string, tables []string) ([]string, error) {
	if tables == nil {
		rows, err := tx.Query(ctx, `SELECT relname::text FROM pg_class WHERE relnamespace = 'placet'::regnamespace AND relforcerowsecurity ORDER BY 1`)
		if err != nil {
			return nil, err
		}
		if tables, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
			return nil, err
		}
	}
	for _, name := range tables {
		if _, err := tx.Exec(ctx, `ALTER TABLE `+pgx.Identifier{name}.Sanitize()+` `+how+` ROW LEVEL SECURITY`); err != nil {
			return nil, err
		}
	}
	return tables, nil
}

// ours are the tables of the schema that records are in.
func ours(ctx context.Context, tx pgx.Tx) ([]string, error) {
	rows, err := tx.Query(ctx, `SELECT relname::text FROM pg_class WHERE relnamespace = 'placet'::regnamespace AND relkind = 'r' AND relname <> ALL ($1) ORDER BY 1`, apart)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// take copies a table, and compares.
func take(ctx context.Context, tx pgx.Tx, t dispatch.Table) (dispatch.Moved, error) {
	flags, missing, err := columnsOf(ctx, tx, t)
	if err != nil {
		return dispatch.Moved{}, err
	}
	if len(missing) > 0 {
		return dispatch.Moved{}, record.Errorf(record.Internal, "table %s has columns here that nothing is known of: %v", t.Name, missing)
	}
	columns := slices.Clone(t.Columns)
	var more []any
	for name, value := range added[t.Name] {
		columns, more = append(columns, name), append(more, value)
	}
	var sent dispatch.Tally
	rows, stop := make(chan []any, 64), make(chan struct{})
	failed := make(chan error, 1)
	go func() {
		defer close(rows)
		failed <- t.Rows(func(row []any) error {
			if err := sent.Add(row); err != nil {
				return err
			}
			row = append(slices.Clone(row), more...)
			for i := range row {
				if flags[columns[i]] {
					row[i] = row[i] != int64(0)
				}
			}
			select {
			case rows <- row:
				return nil
			case <-stop:
				return errors.New("the copy ended")
			}
		})
	}()
	_, err = tx.CopyFrom(ctx, pgx.Identifier{t.Name}, columns, pgx.CopyFromFunc(func() ([]any, error) {
		row, ok := <-rows
		if !ok {
			return nil, nil
		}
		return row, nil
	}))
	close(stop)
	if read := <-failed; read != nil || err != nil {
		return dispatch.Moved{}, errors.Join(err, read)
	}
	var here dispatch.Tally
	if err := readBack(ctx, tx, t, &here); err != nil {
		return dispatch.Moved{}, err
	}
	if there, here := sent.Of(t.Name), here.Of(t.Name); there != here {
		return here, record.Errorf(record.Internal, "table %s is not what was sent: %d rows of %d, or other values", t.Name, here.Rows, there.Rows)
	}
	return sent.Of(t.Name), nil
}

// columnsOf says which columns of a table are flags here, and which are here alone.
func columnsOf(ctx context.Context, tx pgx.Tx, t dispatch.Table) (flags map[string]bool, missing []string, err error) {
	rows, err := tx.Query(ctx, `SELECT attname::text, atttypid = 'boolean'::regtype FROM pg_attribute WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped`,
		"placet."+t.Name)
	if err != nil {
		return nil, nil, err
	}
	flags = map[string]bool{}
	var name string
	var flag bool
	_, err = pgx.ForEachRow(rows, []any{&name, &flag}, func() error {
		flags[name] = flag
		if _, known := added[t.Name][name]; !known && !slices.Contains(t.Columns, name) {
			missing = append(missing, name)
		}
		return nil
	})
	return flags, missing, err
}

// readBack reads a table as it is here, in the order of its key.
func readBack(ctx context.Context, tx pgx.Tx, t dispatch.Table, into *dispatch.Tally) error {
	list := func(names []string) (out string) {
		for i, n := range names {
			if i > 0 {
				out += ", "
			}
			out += pgx.Identifier{n}.Sanitize()
		}
		return out
	}
	rows, err := tx.Query(ctx, `SELECT `+list(t.Columns)+` FROM `+pgx.Identifier{t.Name}.Sanitize()+` ORDER BY `+list(t.Key))
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		row, err := rows.Values()
		if err != nil {
			return err
		}
		for i, v := range row {
			switch v := v.(type) {
			case bool:
				row[i] = int64(0)
				if v {
					row[i] = int64(1)
				}
			case int64, string, []byte, nil:
			default:
				return fmt.Errorf("column %s of %s has a type that no record has: %T", t.Columns[i], t.Name, v)
			}
		}
		if err := into.Add(row); err != nil {
			return err
		}
	}
	return rows.Err()
}
