package query

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/placet-dev/placet/guard"
)

// file is one SQLite database. Each call has a connection of its own, so that
// nothing stays from one caller to the next.
type file struct {
	path string
	own  []string // files of Placet itself
}

const (
	maxSQLiteValue = 16 << 20 // bytes of one value while a statement runs
	maxSQLiteOps   = 250_000  // instructions of one statement
)

// run runs a query. The error is one of those that [reached] tells apart.
func (f file) run(ctx context.Context, q *Query, values map[string]value, limit int) (json.RawMessage, error) {
	if guard.Meets(f.path, f.own) {
		return nil, unsent{errors.New("the database is a file of Placet itself")}
	}
	mode := sqlite.OpenReadOnly
	if q.Writes {
		mode = sqlite.OpenReadWrite
	}
	conn, err := sqlite.OpenConn(f.path, mode)
	if err != nil {
		return nil, unsent{fmt.Errorf("the database cannot be opened (%s)", sqlite.ErrCode(err))}
	}
	// Closing undoes what was not committed.
	defer func() { _ = conn.Close() }()
	conn.SetInterrupt(ctx.Done())
	if err := confine(conn, q.Writes); err != nil {
		return nil, unsent{fmt.Errorf("the connection cannot be confined (%s)", sqlite.ErrCode(err))}
	}
	if err := exec(conn, map[bool]string{false: "BEGIN", true: "BEGIN IMMEDIATE"}[q.Writes]); err != nil {
		return nil, untouched{fmt.Errorf("the transaction cannot begin (%s)", sqlite.ErrCode(err))}
	}
	out, err := f.statement(conn, q, values, limit)
	if err != nil {
		return nil, err
	}
	return out, f.end(ctx, conn, q)
}

// end commits a change. Nothing interrupts a commit, so that its answer is known.
func (file) end(ctx context.Context, conn *sqlite.Conn, q *Query) error {
	if !q.Writes {
		return nil
	}
	if ctx.Err() != nil {
		return untouched{errors.New("the time was over before the change was committed")}
	}
	conn.SetInterrupt(nil)
	conn.SetBusyTimeout(remaining(ctx))
	if err := conn.SetAuthorizer(nil); err != nil {
		return untouched{errors.New("the change could not be committed")}
	}
	err := exec(conn, "COMMIT")
	if err == nil {
		return nil
	}
	switch code := sqlite.ErrCode(err); {
	case code.ToPrimary() == sqlite.ResultBusy, code.ToPrimary() == sqlite.ResultConstraint:
		return untouched{fmt.Errorf("the change was not committed (%s)", code)} // the transaction is still open
	default:
		return fmt.Errorf("whether the change was committed is not known (%s)", code)
	}
}

// confine makes the connection one that can do what a query may do, and no more.
func confine(conn *sqlite.Conn, writes bool) error {
	for id, n := range map[sqlite.Limit]int32{sqlite.LimitAttached: 0, sqlite.LimitLength: maxSQLiteValue, sqlite.LimitVDBEOp: maxSQLiteOps,
		sqlite.LimitWorkerThreads: 0, sqlite.LimitLikePatternLength: 1000} {
		conn.Limit(id, n)
	}
	if err := conn.SetDefensive(true); err != nil {
		return err
	}
	settings := []string{"PRAGMA trusted_schema=OFF", "PRAGMA foreign_keys=ON", "PRAGMA temp_store=MEMORY"}
	if !writes {
		settings = append(settings, "PRAGMA query_only=ON")
	}
	for _, sql := range settings {
		if err := exec(conn, sql); err != nil {
			return err
		}
	}
	return nil
}

func exec(conn *sqlite.Conn, sql string) error { return sqlitex.ExecuteTransient(conn, sql, nil) }

// allowed are the actions of a statement that reads, or reads and changes rows.
// There are no others: no ATTACH, no PRAGMA, no change of the schema, no extension,
// no end of the transaction.
func allowed(writes bool) sqlite.AuthorizeFunc {
	return func(a sqlite.Action) sqlite.AuthResult {
		ok := false
		switch a.Type() {
		case sqlite.OpSelect, sqlite.OpRead, sqlite.OpRecursive, sqlite.OpFunction: // load_extension is off
			ok = true
		case sqlite.OpPragma:
			ok = a.Pragma() == "data_version" // full-text search asks for it
		case sqlite.OpInsert, sqlite.OpUpdate, sqlite.OpDelete:
			ok = writes && !strings.HasPrefix(strings.ToLower(a.Table()), "sqlite_")
		}
		if ok {
			return sqlite.AuthResultOK
		}
		return sqlite.AuthResultDeny
	}
}

func (file) statement(conn *sqlite.Conn, q *Query, values map[string]value, limit int) (json.RawMessage, error) {
	if err := conn.SetAuthorizer(allowed(q.Writes)); err != nil {
		return nil, untouched{errors.New("the connection cannot be confined")}
	}
	stmt, trailing, err := conn.PrepareTransient(q.SQL)
	if err != nil {
		// No value was bound yet: the message is about the file's text.
		return nil, untouched{fmt.Errorf("the database does not take the query: %w", err)}
	}
	defer func() { _ = stmt.Finalize() }()
	if trailing > 0 {
		return nil, untouched{errors.New("the query is more than one statement")}
	}
	if err := bind(stmt, values); err != nil {
		return nil, untouched{err}
	}
	columns := make([]string, stmt.ColumnCount())
	for i := range columns {
		columns[i] = stmt.ColumnName(i)
	}
	t, err := newTable(columns, limit)
	if err != nil {
		return nil, err
	}
	for room := true; ; {
		row, err := stmt.Step()
		if err != nil {
			return nil, stepped(err)
		}
		if !row {
			break
		}
		if room {
			room, err = t.add(func(i int) []byte { return cell(stmt, i) })
		}
		if err != nil {
			return nil, err
		}
		if !room && !q.Writes {
			break // a change goes on to its end
		}
	}
	changed := int64(-1)
	if q.Writes {
		changed = int64(conn.Changes())
	}
	return t.result(changed), nil
}

// stepped says why a statement ended. SQLite's own messages may hold values.
func stepped(err error) error {
	code := sqlite.ErrCode(err)
	switch code.ToPrimary() {
	case sqlite.ResultConstraint:
		return refuse("the database does not allow the change (%s)", code)
	case sqlite.ResultTooBig:
		return refuse("a value is larger than %d bytes", maxSQLiteValue)
	}
	return untouched{fmt.Errorf("the statement did not end (%s)", code)}
}

// bind binds each placeholder that SQLite found, and refuses when these are not
// exactly the query's.
func bind(stmt *sqlite.Stmt, values map[string]value) error {
	if stmt.BindParamCount() != len(values) {
		return errors.New("the database finds other placeholders in the query")
	}
	for i := 1; i <= stmt.BindParamCount(); i++ {
		name, ok := strings.CutPrefix(stmt.BindParamName(i), "@")
		v, known := values[name]
		if !ok || !known {
			return errors.New("the database finds other placeholders in the query")
		}
		switch {
		case v.null:
			stmt.BindNull(i)
		case v.kind == Integer:
			n, err := strconv.ParseInt(v.text, 10, 64)
			if err != nil {
				return err
			}
			stmt.BindInt64(i, n)
		case v.kind == Number:
			n, err := strconv.ParseFloat(v.text, 64)
			if err != nil {
				return err
			}
			stmt.BindFloat(i, n)
		case v.kind == Boolean:
			stmt.BindBool(i, v.text == "true")
		default:
			stmt.BindText(i, v.text)
		}
	}
	return nil
}

func cell(stmt *sqlite.Stmt, i int) []byte {
	switch stmt.ColumnType(i) {
	case sqlite.TypeNull:
		return []byte("null")
	case sqlite.TypeInteger:
		return whole(stmt.ColumnInt64(i))
	case sqlite.TypeFloat:
		return float(stmt.ColumnFloat(i))
	case sqlite.TypeText:
		return quote(stmt.ColumnText(i))
	}
	b := make([]byte, stmt.ColumnLen(i))
	return encoded(b[:stmt.ColumnBytes(i, b)])
}

// remaining is how long the call may still take.
func remaining(ctx context.Context) time.Duration {
	end, ok := ctx.Deadline()
	if !ok {
		return time.Minute
	}
	return max(time.Until(end), 0)
}
