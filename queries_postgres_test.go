package placet

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/store/postgres/pgtest"
)

// warehouse is a real server.
type warehouse struct {
	*pgtest.Server
	t *testing.T
}

// wait waits for a condition, for at most half a minute.
func (p *warehouse) wait(until func() bool) {
	p.t.Helper()
	for end := time.After(30 * time.Second); !until(); {
		select {
		case <-end:
			p.t.Fatal("it did not come to pass")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (p *warehouse) dsn(user string) string { return p.DSN(user, "postgres") }

// do runs statements as the database's owner, and returns the last one's rows.
func (p *warehouse) do(sql string) string {
	p.t.Helper()
	return p.Do(p.t, "postgres", sql)
}

// settings are the configuration and the secret of a house on this server.
func (p *warehouse) settings(dsn string) map[string]string {
	return map[string]string{"dsn": dsn,
		"placet.yaml": "version: 1\nenvironment: test\npublic_url: http://127.0.0.1:8088\nstore: sqlite:state/state.db\nregistry: [tools.yaml]\ncredentials: {warehouse: {type: static, value: \"file:dsn\"}}\n"}
}

const onPostgres = "postgres, credential: warehouse"

func TestQueriesOnPostgreSQL(t *testing.T) {
	p := &warehouse{pgtest.Start(t), t}
	p.do("CREATE ROLE agents LOGIN PASSWORD 's3cret-agents'; " + orderTables +
		"INSERT INTO big VALUES ('acme', 10, 'small'), ('acme', 2000000, repeat('x', 2000000)); GRANT ALL ON orders, big TO agents")
	t.Run("the same", func(t *testing.T) {
		yaml := strings.ReplaceAll(queriesYAML, "DATABASE", onPostgres)
		testQueries(t, yaml, p.settings(p.dsn("agents")), func(sql string) string { p.t = t; return p.do(sql) })
		if n := p.do("SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in%' OR query LIKE '%RECURSIVE%' AND state = 'active' AND pid <> pg_backend_pid()"); n != "0" {
			t.Errorf("%s sessions still work", n)
		}
	})
	t.Run("read only", p.testReadOnly)
	t.Run("types", p.testTypes)
	t.Run("the documented sample", p.testSample)
	t.Run("a commit without an answer", p.testLostCommit)
	t.Run("a database that is away", p.testAway)
}

func sqlQuery(sql string) string { return "/*\ndescription: D.\n*/\n" + sql }

func readTools(files map[string]string) string {
	yaml := "version: 1\nservers: {warehouse: {queries: queries, database: " + onPostgres + "}}\ndefaults: {per_minute: 0}\ntools:\n"
	for _, name := range slices.Sorted(maps.Keys(files)) {
		yaml += "  " + strings.TrimSuffix(filepath.Base(name), ".sql") + ": {server: warehouse, scope: files, read: true, timeout: 5s}\n"
	}
	return yaml
}

// The database itself refuses what a query that only reads may not do.
func (p *warehouse) testReadOnly(t *testing.T) {
	p.t = t
	p.do(`CREATE TABLE audit (who text); CREATE FUNCTION log(w text) RETURNS text LANGUAGE sql AS 'INSERT INTO audit VALUES (w) RETURNING who';
		CREATE SCHEMA evil; CREATE FUNCTION evil.upper(text) RETURNS text LANGUAGE sql AS 'SELECT ''planted'''; ALTER ROLE agents SET search_path = evil, pg_catalog, public;
		GRANT USAGE ON SCHEMA evil TO agents; GRANT ALL ON audit TO agents`)
	files := map[string]string{
		"queries/fine.sql":     sqlQuery("SELECT upper(id) AS id FROM orders WHERE tenant = @tenant AND id = 'o1'"),
		"queries/changes.sql":  sqlQuery("WITH x AS (DELETE FROM orders WHERE tenant = @tenant RETURNING id) SELECT id FROM x"),
		"queries/function.sql": sqlQuery("SELECT log(@tenant)"),
		"queries/into.sql":     sqlQuery("SELECT @tenant AS t INTO TABLE stolen"),
		"queries/settings.sql": sqlQuery("SELECT set_config('transaction_read_only', 'off', true), log(@tenant)"),
		"queries/locks.sql":    sqlQuery("SELECT id FROM orders WHERE tenant = @tenant FOR UPDATE"),
		"queries/nowhere.sql":  sqlQuery("SELECT id FROM nowhere WHERE tenant = @tenant"),
	}
	house := p.settings(p.dsn("agents"))
	maps.Copy(house, files)
	h := openFolder(t, readTools(files), house)
	anna, before := h.caller("acme", "anna"), p.do("SELECT * FROM orders ORDER BY id")
	for name := range files {
		tool := strings.TrimSuffix(filepath.Base(name), ".sql")
		a := h.do(anna, tool, `{}`)
		if tool == "fine" {
			h.wants(a, record.Succeeded, `"id":"O1"`)
		} else if a.State() != record.Failed {
			t.Errorf("%s: %s %s", tool, a.State(), a.Result)
		}
		if out := fmt.Sprintf("%s %+v", a.Result, a.Call); strings.Contains(out, "s3cret") || strings.Contains(out, "postgres://") {
			t.Errorf("%s: %s", tool, out)
		}
	}
	if a := h.do(anna, "nowhere", `{}`); a.Call.Outcome == nil || !strings.Contains(a.Call.Outcome.Detail, `SQLSTATE 42P01: relation "nowhere" does not exist`) {
		t.Errorf("operators are told %+v", a.Call.Outcome)
	}
	if now := p.do("SELECT * FROM orders ORDER BY id"); now != before {
		t.Errorf("the table is\n%s", now)
	}
	if got := p.do("SELECT (SELECT count(*) FROM audit), to_regclass('stolen') IS NULL"); got != "0|t" {
		t.Errorf("what was refused happened: %s", got)
	}
}

func (p *warehouse) testTypes(t *testing.T) {
	p.t = t
	files := map[string]string{"queries/types.sql": "/*\ndescription: D.\nparameters:\n  n: {type: integer}\n  d: {type: number}\n  b: {type: boolean}\n  s: {type: string, optional: true}\n  day: {type: string}\n*/\n" +
		`SELECT @n AS n, 9007199254740993 AS large, (-9007199254740992)::bigint AS edge, @d AS d, 12345678901234567890.10::numeric AS decimal, 0.1::float8 AS f, 'NaN'::float8 AS nan, @b AS b, @s AS s,
  '\x00ff'::bytea AS bytes, @day::date AS day, '2026-11-30 12:00:00.5+02'::timestamptz AS at, '2026-11-30 12:00'::timestamp AS there, 'infinity'::timestamptz AS never, '1 day 2 hours'::interval AS span,
  '{"a": 1.10}'::jsonb AS doc, ARRAY[1, 2] AS list, '0192d5a0-0000-7000-8000-000000000001'::uuid AS id, pg_typeof(@n)::text AS n_is, pg_typeof(@d)::text AS d_is WHERE @tenant = 'acme'`}
	house := p.settings(p.dsn("agents"))
	maps.Copy(house, files)
	h := openFolder(t, readTools(files), house)
	anna := h.caller("acme", "anna")
	h.wants(h.do(anna, "types", `{"n":9007199254740991,"d":0.1,"b":true,"day":"2026-02-28"}`), record.Succeeded,
		`"structuredContent":{"rows":[{"n":9007199254740991,"large":"9007199254740993","edge":-9007199254740992,"d":"0.1","decimal":"12345678901234567890.10","f":0.1,"nan":"NaN","b":true,"s":null,`+
			`"bytes":"AP8=","day":"2026-02-28","at":"2026-11-30T10:00:00.5Z","there":"2026-11-30T12:00:00","never":"infinity","span":"P1DT2H",`+
			`"doc":"{\"a\": 1.10}","list":"{1,2}","id":"0192d5a0-0000-7000-8000-000000000001","n_is":"bigint","d_is":"numeric"}],"more":false}`)
	a := h.do(anna, "types", `{"n":1,"d":0.1,"b":true,"day":"2026-02-31' OR secret"}`)
	h.wants(a, record.Failed, "does not take one of the values (SQLSTATE 22")
	if out := fmt.Sprintf("%s %+v", a.Result, *a.Call.Outcome); strings.Contains(out, "secret") {
		t.Errorf("the value is in %s", out)
	}
}

// The sample in the documentation works, in the schema that the connection string names.
func (p *warehouse) testSample(t *testing.T) {
	p.t = t
	p.do(`CREATE SCHEMA sample; GRANT USAGE ON SCHEMA sample TO agents; CREATE TABLE sample.orders (id text, tenant text, customer_id text, placed_at date, state text, amount numeric(12,2), currency text);
		GRANT SELECT ON sample.orders TO agents; INSERT INTO sample.orders VALUES ('a', 'acme', 'cus_1', '2026-01-02', 'paid', 1200, 'EUR'), ('b', 'acme', 'cus_1', '2026-03-04', 'open', 80, 'EUR'), ('c', 'globex', 'cus_1', '2026-03-04', 'open', 80, 'EUR')`)
	text, err := os.ReadFile("docs/sample/queries/orders_for_customer.sql")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"queries/orders_for_customer.sql": string(text)}
	house := p.settings(p.dsn("agents") + "&search_path=sample")
	maps.Copy(house, files)
	h := openFolder(t, readTools(files), house)
	anna := h.caller("acme", "anna")
	b := `{"id":"b","placed_at":"2026-03-04","state":"open","amount":"80.00","currency":"EUR"}`
	h.wants(h.do(anna, "orders_for_customer", `{"customer_id":"cus_1","since":"2026-02-01"}`), record.Succeeded, `"rows":[`+b+`],"more":false`)
	h.wants(h.do(anna, "orders_for_customer", `{"customer_id":"cus_1"}`), record.Succeeded, `"rows":[`+b+`,{"id":"a","placed_at":"2026-01-02"`)
}

// testLostCommit: the answer to COMMIT is lost on the way. The change is done, and
// nobody is told that it is not.
func (p *warehouse) testLostCommit(t *testing.T) {
	p.t = t
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var lose atomic.Pointer[string] // the word after whose sending no answer comes back
	none := ""
	lose.Store(&none)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go p.pass(c, &lose)
		}
	}()
	dsn := strings.ReplaceAll(p.dsn("agents"), ":"+strconv.Itoa(p.Port), ":"+strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
	house := p.settings(dsn)
	maps.Copy(house, queryFiles)
	h := openFolder(t, "version: 1\nservers: {warehouse: {queries: queries, database: "+onPostgres+"}}\ndefaults: {per_minute: 0}\ntools:\n"+
		"  add_order: {server: warehouse, scope: files, write: true, sources: [direct], approval: {when: asked}, repeat: {within: 10m, answer: run}}\n", house)
	anna := h.caller("acme", "anna")
	for _, c := range []struct {
		word, id string
		state    record.State
		there    string
	}{{"", "l0", record.Succeeded, "1"}, {"COMMIT\x00", "l1", record.Unknown, "1"}, {"INSERT", "l2", record.Failed, "0"}, {"BEGIN", "l3", record.Failed, "0"}, {"", "l4", record.Succeeded, "1"}} {
		lose.Store(&c.word)
		a := h.do(anna, "add_order", fmt.Sprintf(`{"id":%q,"customer":"c","note":"n"}`, c.id))
		if a.State() != c.state {
			t.Errorf("without the answer to %q: %s %s %+v", c.word, a.State(), a.Result, a.Call.Outcome)
		}
		p.wait(func() bool { return p.do("SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in%'") == "0" })
		if got := p.do("SELECT count(*) FROM orders WHERE id = '" + c.id + "'"); got != c.there {
			t.Errorf("without the answer to %q: %s orders, want %s", c.word, got, c.there)
		}
	}
}

// pass carries bytes to the database and back, and ends when the word was sent: what
// comes back from then on is lost.
func (p *warehouse) pass(c net.Conn, lose *atomic.Pointer[string]) {
	defer c.Close()
	d, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(p.Port))
	if err != nil {
		return
	}
	defer d.Close()
	var lost atomic.Bool
	go func() {
		buf := make([]byte, 64<<10)
		for {
			n, err := c.Read(buf)
			if word := *lose.Load(); n > 0 && word != "" && strings.Contains(string(buf[:n]), word) {
				lost.Store(true)
			}
			if n > 0 {
				_, _ = d.Write(buf[:n])
			}
			if err != nil {
				_ = d.(*net.TCPConn).CloseWrite()
				return
			}
		}
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := d.Read(buf)
		if err != nil && !errors.Is(err, io.EOF) || n == 0 || lost.Load() {
			return
		}
		if _, err := c.Write(buf[:n]); err != nil {
			return
		}
	}
}

// testAway: what cannot be reached or cannot be read was not changed, and no error
// holds the connection string.
func (p *warehouse) testAway(t *testing.T) {
	p.t = t
	for name, dsn := range map[string]string{
		"nobody listens":  strings.ReplaceAll(p.dsn("agents"), strconv.Itoa(p.Port), "1"),
		"wrong password":  strings.ReplaceAll(p.dsn("agents"), "s3cret-agents", "s3cret-wrong"),
		"no such user":    p.dsn("nobody"),
		"no such string":  "postgres://s3cret-user:s3cret-agents@[::1",
		"not a string":    "s3cret",
		"no such setting": p.dsn("agents") + "&s3cret_setting=1",
	} {
		house := p.settings(dsn)
		maps.Copy(house, queryFiles)
		h := openFolder(t, strings.ReplaceAll(queriesYAML, "DATABASE", onPostgres), house)
		for _, tool := range []string{"mine", "add_order"} {
			arguments := map[string]string{"mine": `{}`, "add_order": `{"id":"away","customer":"c","note":"n"}`}[tool]
			a := h.do(h.caller("acme", "anna"), tool, arguments)
			if a.State() != record.Failed || a.Call.Outcome == nil || a.Call.Outcome.Sent {
				t.Errorf("%s: %s: %s %+v", name, tool, a.State(), a.Call.Outcome)
			}
			if out := fmt.Sprintf("%s %s %+v %+v", a.Result, a.Text(), a.Call, a.Call.Outcome); strings.Contains(out, "s3cret") || strings.Contains(out, "127.0.0.1") {
				t.Errorf("%s: %s", name, out)
			}
		}
	}
	if got := p.do("SELECT count(*) FROM orders WHERE id = 'away'"); got != "0" {
		t.Errorf("%s orders came from away", got)
	}
}
