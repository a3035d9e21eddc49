package query

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	maxConnections = 4
	maxMessage     = 16 << 20 // bytes of one row on the wire
	connectTimeout = 5 * time.Second
	lockTimeout    = 5 * time.Second
)

// pools are the connections to PostgreSQL, by server.
type pools struct {
	mu     sync.Mutex
	all    map[string]*pool
	closed bool
	ending sync.WaitGroup
}

// pool is the connections of one server, with one connection string.
type pool struct {
	dsn        string
	searchPath string
	*pgxpool.Pool
}

// get returns the server's pool. A new connection string ends the pool before it,
// once its calls are over.
func (ps *pools) get(server, dsn string) (*pool, error) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p := ps.all[server]
	switch {
	case ps.closed:
		return nil, errors.New("this program is ending")
	case dsn == "":
		return nil, errors.New("there is no connection string: the server's credential is empty")
	case p != nil && p.dsn == dsn:
		return p, nil
	}
	next, err := open(dsn)
	if err != nil {
		return nil, err
	}
	if p != nil {
		ps.ending.Go(p.Close)
	}
	ps.all[server] = next
	return next, nil
}

// close ends every connection once its call is over.
func (ps *pools) close() {
	ps.mu.Lock()
	ps.closed = true
	for _, p := range ps.all {
		ps.ending.Go(p.Close)
	}
	clear(ps.all)
	ps.mu.Unlock()
	ps.ending.Wait()
}

// open makes a pool. Errors of the library hold parts of the connection string.
func open(dsn string) (*pool, error) {
	c, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, errors.New("the connection string cannot be read")
	}
	// What the string says of the search path holds for every transaction; without
	// it, names are those of the schema public. Temporary tables never hide others.
	path := "public, pg_temp"
	if said := c.ConnConfig.RuntimeParams["search_path"]; said != "" {
		var names []string
		for name := range strings.SplitSeq(said, ",") {
			names = append(names, pgx.Identifier{strings.Trim(strings.TrimSpace(name), `"`)}.Sanitize())
		}
		if path = strings.Join(names, ", "); !slices.Contains(names, `"pg_temp"`) {
			path += ", pg_temp"
		}
	}
	delete(c.ConnConfig.RuntimeParams, "search_path")
	c.MaxConns, c.MinConns, c.MaxConnIdleTime = maxConnections, 0, 5*time.Minute
	c.ConnConfig.ConnectTimeout = connectTimeout
	c.ConnConfig.MaxProtocolMessageBodyLen = maxMessage
	if c.ConnConfig.RuntimeParams["application_name"] == "" {
		c.ConnConfig.RuntimeParams["application_name"] = "placet"
	}
	p, err := pgxpool.NewWithConfig(context.Background(), c)
	if err != nil {
		return nil, errors.New("the connection string cannot be used")
	}
	return &pool{dsn, path, p}, nil
}

// kinds are the types that placeholders have. A statement that compares with others
// says so: @id::uuid.
var kinds = map[Kind]uint32{String: pgtype.TextOID, Integer: pgtype.Int8OID, Number: pgtype.NumericOID, Boolean: pgtype.BoolOID}

// statement is a query as PostgreSQL takes it: $1 in place of names.
type statement struct {
	sql    string
	values [][]byte
	types  []uint32
}

func rewrite(ctx context.Context, q *Query, values map[string]value) (statement, error) {
	named := pgx.StrictNamedArgs{}
	for name, v := range values {
		named[name] = v
	}
	sql, bound, err := named.RewriteQuery(ctx, nil, q.SQL, nil)
	if err != nil {
		return statement{}, errors.New("the library finds other placeholders in the query")
	}
	s := statement{sql: sql}
	for _, b := range bound {
		v := b.(value)
		s.types = append(s.types, kinds[v.kind])
		if v.null {
			s.values = append(s.values, nil)
		} else {
			s.values = append(s.values, []byte(v.text))
		}
	}
	return s, nil
}

// run runs a query. The error is one of those that [reached] tells apart.
func (p *pool) run(ctx context.Context, q *Query, values map[string]value, limit int) (json.RawMessage, error) {
	s, err := rewrite(ctx, q, values)
	if err != nil {
		return nil, unsent{err}
	}
	conn, err := p.Acquire(ctx)
	if err != nil {
		return nil, unsent{errors.New("the database cannot be reached: " + condition(err))}
	}
	// A connection that is still in a transaction is closed, which undoes it.
	defer conn.Release()
	pg := conn.Conn().PgConn()
	if _, err := pg.Exec(ctx, p.begin(q.Writes, remaining(ctx))).ReadAll(); err != nil {
		return nil, untouched{errors.New("the transaction cannot begin: " + condition(err))}
	}
	run := read
	if q.Writes {
		run = change
	}
	out, err := run(ctx, pg, s, limit)
	if err != nil || !q.Writes {
		if pg.TxStatus() != 'I' && !pg.IsClosed() {
			_, _ = pg.Exec(ctx, "ROLLBACK").ReadAll() // so that the connection can be used again; otherwise it is closed
		}
		return out, err
	}
	return out, commit(ctx, pg)
}

// begin is how every transaction begins: what a session or a pooler left behind
// does not count.
func (p *pool) begin(writes bool, left time.Duration) string {
	mode := "READ ONLY"
	if writes {
		mode = "READ WRITE"
	}
	ms := max(left.Milliseconds(), 1)
	return fmt.Sprintf("BEGIN ISOLATION LEVEL READ COMMITTED %s; SET LOCAL search_path = %s; SET LOCAL statement_timeout = %d; SET LOCAL lock_timeout = %d; "+
		"SET LOCAL idle_in_transaction_session_timeout = %d; SET LOCAL standard_conforming_strings = on; SET LOCAL TimeZone = 'UTC'; SET LOCAL DateStyle = 'ISO'; "+
		"SET LOCAL IntervalStyle = 'iso_8601'; SET LOCAL bytea_output = 'hex'; SET LOCAL extra_float_digits = 1",
		mode, p.searchPath, ms, min(ms, lockTimeout.Milliseconds()), ms)
}

// read fetches rows through a cursor, one more than the limit: the database makes no
// more than these.
func read(ctx context.Context, pg *pgconn.PgConn, s statement, limit int) (json.RawMessage, error) {
	declared := pg.ExecParams(ctx, "DECLARE placet NO SCROLL CURSOR FOR "+s.sql, s.values, s.types, nil, nil).Read()
	if declared.Err != nil {
		return nil, ended(declared.Err)
	}
	rows := pg.ExecParams(ctx, "FETCH FORWARD "+strconv.Itoa(limit+1)+" FROM placet", nil, nil, nil, nil)
	t, _, err := fill(rows, limit)
	if err != nil {
		return nil, err
	}
	return t.result(-1), nil
}

// change runs a statement to its end.
func change(ctx context.Context, pg *pgconn.PgConn, s statement, limit int) (json.RawMessage, error) {
	t, tag, err := fill(pg.ExecParams(ctx, s.sql, s.values, s.types, nil, nil), limit)
	if err != nil {
		return nil, err
	}
	return t.result(tag.RowsAffected()), nil
}

// fill reads all rows and keeps those that fit.
func fill(rows *pgconn.ResultReader, limit int) (*table, pgconn.CommandTag, error) {
	var t *table
	var failed error
	for room := true; rows.NextRow(); {
		if t == nil && failed == nil {
			t, failed = newTable(columns(rows), limit)
		}
		if failed == nil && room {
			cells, fields := rows.Values(), rows.FieldDescriptions()
			room, failed = t.add(func(i int) []byte { return text(cells[i], fields[i].DataTypeOID) })
		}
	}
	if t == nil && failed == nil {
		t, failed = newTable(columns(rows), limit)
	}
	tag, err := rows.Close()
	if err != nil {
		failed = ended(err)
	}
	return t, tag, failed
}

func columns(rows *pgconn.ResultReader) []string {
	var out []string
	for _, f := range rows.FieldDescriptions() {
		out = append(out, f.Name)
	}
	return out
}

// commit ends a change. Once COMMIT was sent, only an answer says what happened.
func commit(ctx context.Context, pg *pgconn.PgConn) error {
	if ctx.Err() != nil {
		return untouched{errors.New("the time was over before the change was committed")}
	}
	results, err := pg.Exec(ctx, "COMMIT").ReadAll()
	no := (*pgconn.PgError)(nil)
	switch {
	case err == nil && len(results) == 1 && results[0].CommandTag.String() == "COMMIT":
		return nil
	case err == nil:
		return untouched{errors.New("the database undid the change")}
	case errors.As(err, &no) && no.SeverityUnlocalized == "ERROR" && (strings.HasPrefix(no.Code, "23") || strings.HasPrefix(no.Code, "40") && no.Code != "40003"):
		return ended(err) // a constraint or a conflict: the transaction is over and undone
	}
	return errors.New("whether the change was committed is not known: " + explain(err))
}

// ended says why a statement ended before anything was committed.
func ended(err error) error {
	no := (*pgconn.PgError)(nil)
	if !errors.As(err, &no) {
		return untouched{errors.New("the statement did not end: " + explain(err))}
	}
	switch no.Code[:min(2, len(no.Code))] {
	case "22":
		return refuse("the database does not take one of the values (SQLSTATE %s)", no.Code)
	case "23":
		return refuse("the database does not allow the change (SQLSTATE %s)", no.Code)
	}
	return untouched{errors.New("the statement did not end: " + explain(err))}
}

// explain is a statement's error for operators, without values: messages of class 42
// are about the statement's own text.
func explain(err error) string {
	if no := (*pgconn.PgError)(nil); errors.As(err, &no) && strings.HasPrefix(no.Code, "42") {
		return condition(err) + ": " + no.Message
	}
	return condition(err)
}

// condition is an error for operators. Other messages of the database may hold
// values, and those of a connection what the connection string says.
func condition(err error) string {
	no := (*pgconn.PgError)(nil)
	switch {
	case errors.As(err, &no):
		return "SQLSTATE " + no.Code
	case pgconn.Timeout(err), errors.Is(err, context.DeadlineExceeded):
		return "the time was over"
	case errors.Is(err, context.Canceled):
		return "the call was canceled"
	}
	return "the connection failed"
}

// text is a value that PostgreSQL wrote as text, as JSON.
func text(cell []byte, oid uint32) []byte {
	if cell == nil {
		return []byte("null")
	}
	s := string(cell)
	switch oid {
	case pgtype.Int2OID, pgtype.Int4OID, pgtype.Int8OID, pgtype.OIDOID:
		if n, err := strconv.ParseInt(s, 10, 64); err == nil {
			return whole(n)
		}
	case pgtype.Float4OID, pgtype.Float8OID:
		if f, err := strconv.ParseFloat(s, 64); err == nil {
			return float(f)
		}
	case pgtype.BoolOID:
		return strconv.AppendBool(nil, s == "t")
	case pgtype.ByteaOID:
		if b, err := hex.DecodeString(strings.TrimPrefix(s, `\x`)); err == nil {
			return encoded(b)
		}
	case pgtype.TimestamptzOID:
		return quote(timeText(s, "2006-01-02 15:04:05.999999-07", time.RFC3339Nano))
	case pgtype.TimestampOID: // it has no zone, and none is made up
		return quote(timeText(s, "2006-01-02 15:04:05.999999", "2006-01-02T15:04:05.999999"))
	}
	return quote(s)
}

// timeText writes a time as RFC 3339 does. What is no such time, such as infinity,
// stays as it is.
func timeText(s, from, to string) string {
	t, err := time.Parse(from, s)
	if err != nil {
		return s
	}
	return t.UTC().Format(to)
}
