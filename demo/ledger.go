package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// ledgerFile is the help desk's own file in the demo's folder.
const ledgerFile = "helpdesk.db"

const ledgerSchema = `
CREATE TABLE orders (id TEXT PRIMARY KEY, customer TEXT NOT NULL, total TEXT NOT NULL, currency TEXT NOT NULL);
INSERT INTO orders VALUES ('ord_1001', 'cus_17', '1200.00', 'EUR'), ('ord_1002', 'cus_17', '60.00', 'EUR'), ('ord_1003', 'cus_21', '75.50', 'EUR');
WITH RECURSIVE n (i) AS (VALUES (1004) UNION ALL SELECT i + 1 FROM n WHERE i < 1040)
	INSERT INTO orders SELECT 'ord_' || i, 'cus_' || (i - 960), '75.50', 'EUR' FROM n;
CREATE TABLE serves (login TEXT NOT NULL, customer TEXT NOT NULL, PRIMARY KEY (login, customer));
INSERT INTO serves VALUES ('anna', 'cus_17'), ('anna', 'cus_21'), ('ben', 'cus_21');
CREATE TABLE tickets (id TEXT PRIMARY KEY, customer TEXT NOT NULL, text TEXT NOT NULL);
CREATE TABLE effects (id INTEGER PRIMARY KEY, effect TEXT NOT NULL, key TEXT NOT NULL, args TEXT NOT NULL, at TEXT NOT NULL);
CREATE UNIQUE INDEX effects_by_key ON effects (key) WHERE key <> '';
`

// ledger is the help desk's side of its file: the one writer.
type ledger struct{ conn *sqlite.Conn }

// newLedger makes the file. Without WAL, one file holds everything that is
// committed, and FULL means that it is on the disk before an effect is answered.
func newLedger(path string) (*ledger, error) {
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite|sqlite.OpenCreate)
	if err != nil {
		return nil, fmt.Errorf("open the ledger: %w", err)
	}
	conn.SetBusyTimeout(5 * time.Second)
	if err = sqlitex.ExecuteTransient(conn, "PRAGMA synchronous = FULL", nil); err == nil {
		err = sqlitex.ExecuteScript(conn, ledgerSchema, nil)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make the ledger: %w", err), conn.Close())
	}
	return &ledger{conn}, nil
}

// add commits one effect and returns its number. A key that is there already is
// the same effect asked for again: its number comes back and nothing is added. A
// key that was used for something else is refused.
func (l *ledger) add(effect, key, args string, at time.Time) (id int64, err error) {
	end, err := sqlitex.ImmediateTransaction(l.conn)
	if err != nil {
		return 0, fmt.Errorf("begin an effect: %w", err)
	}
	// The deferred end commits, and its error becomes the caller's: an effect is
	// answered only if it is on the disk.
	defer end(&err)
	found := ""
	if key != "" {
		err = sqlitex.Execute(l.conn, "SELECT id, effect || ' ' || args AS what FROM effects WHERE key = ?", &sqlitex.ExecOptions{
			Args:       []any{key},
			ResultFunc: func(s *sqlite.Stmt) error { id, found = s.GetInt64("id"), s.GetText("what"); return nil },
		})
	}
	switch {
	case err != nil:
		return 0, fmt.Errorf("look for a key: %w", err)
	case found == effect+" "+args:
		return id, nil
	case found != "":
		return 0, errors.New("this idempotency key was used for another effect")
	}
	err = sqlitex.Execute(l.conn, "INSERT INTO effects (effect, key, args, at) VALUES (?, ?, ?, ?)",
		&sqlitex.ExecOptions{Args: []any{effect, key, args, at.UTC().Format(time.RFC3339Nano)}})
	if err != nil {
		return 0, fmt.Errorf("write an effect: %w", err)
	}
	return l.conn.LastInsertRowID(), nil
}

// order is a row of the help desk's orders.
type order struct {
	ID       string `json:"id"`
	Total    string `json:"total"`
	Currency string `json:"currency"`
}

func (l *ledger) orders(customer string) ([]order, error) {
	out := []order{}
	err := sqlitex.Execute(l.conn, "SELECT id, total, currency FROM orders WHERE customer = ? ORDER BY id", &sqlitex.ExecOptions{
		Args: []any{customer},
		ResultFunc: func(s *sqlite.Stmt) error {
			out = append(out, order{s.GetText("id"), s.GetText("total"), s.GetText("currency")})
			return nil
		},
	})
	return out, err
}

// mayServe is the help desk's own access control: whether a login serves the
// customer whose order it is.
func (l *ledger) mayServe(login, order string) (yes bool, err error) {
	err = sqlitex.Execute(l.conn, "SELECT 1 FROM orders JOIN serves USING (customer) WHERE id = ? AND login = ?", &sqlitex.ExecOptions{
		Args:       []any{order, login},
		ResultFunc: func(*sqlite.Stmt) error { yes = true; return nil },
	})
	return yes, err
}

// takeIn stores a ticket as its customer wrote it.
func (l *ledger) takeIn(id, customer, text string) error {
	return sqlitex.Execute(l.conn, "INSERT INTO tickets VALUES (?, ?, ?)", &sqlitex.ExecOptions{Args: []any{id, customer, text}})
}

func (l *ledger) ticket(id string) (text string, err error) {
	err = sqlitex.Execute(l.conn, "SELECT text FROM tickets WHERE id = ?", &sqlitex.ExecOptions{
		Args:       []any{id},
		ResultFunc: func(s *sqlite.Stmt) error { text = s.GetText("text"); return nil },
	})
	return text, err
}

// effect is a row of the ledger, as the demo reads it.
type effect struct {
	id              int64
	tool, key, args string
}

// readLedger returns every effect in the help desk's file, which it opens
// read-only and closes again.
func readLedger(ctx context.Context, path string) (out []effect, err error) {
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadOnly)
	if err != nil {
		return nil, fmt.Errorf("open the ledger to read: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	conn.SetInterrupt(ctx.Done())
	conn.SetBusyTimeout(5 * time.Second)
	err = sqlitex.Execute(conn, "SELECT id, effect, key, args FROM effects ORDER BY id", &sqlitex.ExecOptions{
		ResultFunc: func(s *sqlite.Stmt) error {
			out = append(out, effect{s.GetInt64("id"), s.GetText("effect"), s.GetText("key"), s.GetText("args")})
			return nil
		},
	})
	if err != nil {
		return nil, fmt.Errorf("read the ledger: %w", err)
	}
	return out, nil
}
