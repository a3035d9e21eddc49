package sqlite

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

//go:embed migrations/*.sql
var migrations embed.FS

// steps returns the migrations in order; the n-th brings a file to version n.
func steps() ([]string, error) {
	names, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	out := make([]string, len(names))
	for i, n := range names {
		text, err := fs.ReadFile(migrations, n)
		if err != nil {
			return nil, err
		}
		out[i] = string(text)
	}
	return out, nil
}

// migrate brings the file to the newest schema, forward only. Before it changes a
// file that has records it copies it to path.before-N. A file of a newer schema
// is refused: this program would not understand it.
func migrate(conn *sqlite.Conn, path string) error {
	all, err := steps()
	if err != nil {
		return err
	}
	have, err := userVersion(conn)
	if err != nil {
		return err
	}
	switch {
	case have > len(all):
		return fmt.Errorf("the file has schema %d and this program knows up to %d; use the newer program", have, len(all))
	case have == len(all):
		return nil
	case have > 0:
		backup := fmt.Sprintf("%s.before-%d", path, have+1)
		if err := os.Remove(backup); err != nil && !os.IsNotExist(err) {
			return err
		}
		if err := sqlitex.ExecuteTransient(conn, "VACUUM INTO ?", &sqlitex.ExecOptions{Args: []any{backup}}); err != nil {
			return fmt.Errorf("back up before migrating: %w", err)
		}
	}
	for i := have; i < len(all); i++ {
		if err := step(conn, all[i], i+1); err != nil {
			return fmt.Errorf("migrate to schema %d: %w", i+1, err)
		}
	}
	return nil
}

// step runs one migration and sets the version in one transaction.
func step(conn *sqlite.Conn, script string, version int) (err error) {
	end, err := sqlitex.ImmediateTransaction(conn)
	if err != nil {
		return err
	}
	defer end(&err)
	if err := sqlitex.ExecScript(conn, script); err != nil {
		return err
	}
	return sqlitex.ExecuteTransient(conn, fmt.Sprintf("PRAGMA user_version = %d", version), nil)
}

func userVersion(conn *sqlite.Conn) (int, error) {
	var v int
	err := sqlitex.ExecuteTransient(conn, "PRAGMA user_version", &sqlitex.ExecOptions{
		ResultFunc: func(stmt *sqlite.Stmt) error { v = stmt.ColumnInt(0); return nil },
	})
	return v, err
}
