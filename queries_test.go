package placet

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/guard"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
	toolmcp "github.com/placet-dev/placet/tool/mcp"
)

// queryFiles are the queries of both databases' tests.
var queryFiles = map[string]string{
	"queries/orders.sql": `/*
description: Orders of a customer.
parameters:
  customer: {type: string, max_length: 60000}
*/
SELECT id, note, amount FROM orders WHERE tenant = @tenant AND customer = @customer ORDER BY id`,
	"queries/mine.sql": `/*
description: Orders that the caller took.
*/
SELECT id FROM orders WHERE tenant = @tenant AND taken_by = @principal`,
	"queries/numbers.sql": `/*
description: Many rows.
parameters:
  up_to: {type: integer, minimum: 1, maximum: 1000000000}
*/
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < @up_to) SELECT i, @tenant AS tenant FROM n`,
	"queries/slow.sql": `/*
description: Takes for ever.
*/
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) AS c, @tenant AS tenant FROM n`,
	"queries/twice.sql": `/*
description: Two columns of one name.
*/
SELECT id, note AS id FROM orders WHERE tenant = @tenant`,
	"queries/large.sql": `/*
description: One large row after a small one.
parameters:
  bytes: {type: integer, minimum: 1, maximum: 4000000}
*/
SELECT note FROM big WHERE tenant = @tenant AND bytes <= @bytes ORDER BY bytes`,
	"queries/add_order.sql": `/*
description: Adds an order.
writes: true
parameters:
  id: {type: string}
  customer: {type: string}
  note: {type: string, max_length: 1000}
*/
INSERT INTO orders (id, tenant, customer, taken_by, note, amount) VALUES (@id, @tenant, @customer, @principal, @note, 1) RETURNING id, tenant`,
	"queries/pay.sql": `/*
description: Sets the note of all orders of a customer.
writes: true
parameters:
  customer: {type: string}
  note: {type: string, optional: true}
*/
UPDATE orders SET note = @note WHERE tenant = @tenant AND customer = @customer`,
	"queries/every.sql": `/*
description: How many orders there are in all.
tenant: none
*/
SELECT count(*) AS orders FROM orders`,
}

const queriesYAML = `version: 1
servers:
  warehouse: {queries: queries, database: DATABASE}
defaults: {per_minute: 0}
tools:
  orders: {server: warehouse, scope: files, read: true, max_rows: 5}
  mine: {server: warehouse, scope: files, read: true}
  numbers: {server: warehouse, scope: files, read: true}
  slow: {server: warehouse, scope: files, read: true, timeout: 1s}
  twice: {server: warehouse, scope: files, read: true}
  large: {server: warehouse, scope: files, read: true}
  every: {server: warehouse, scope: files, read: true}
  add_order: {server: warehouse, scope: files, write: true, sources: [direct], approval: {when: asked}, repeat: {within: 10m, answer: run}}
  pay: {server: warehouse, scope: files, write: true, sources: [direct], approval: {when: asked}, repeat: {within: 10m, answer: run}}
`

const orderTables = `
CREATE TABLE orders (id text PRIMARY KEY, tenant text NOT NULL, customer text NOT NULL, taken_by text, note text, amount numeric);
INSERT INTO orders VALUES ('o1', 'acme', 'cus_1', 'anna@urn:placet:dev', 'first', 10), ('o2', 'acme', 'cus_1', 'anna@urn:placet:elsewhere', 'second', 2.5),
  ('g1', 'globex', 'cus_1', 'anna@urn:placet:dev', 'globex only', 7), ('q1', 'acme', 'o''neil " -- ; /*', 'bob@urn:placet:dev', 'quoted', 1);
CREATE TABLE big (tenant text, bytes integer, note text);
`

// sqliteFile makes a database beside a test's configuration.
func sqliteFile(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "warehouse.db")
	onSQLite(t, path, func(conn *sqlite.Conn) error { return sqlitex.ExecuteScript(conn, script, nil) })
	return path
}

func onSQLite(t *testing.T, path string, do func(*sqlite.Conn) error) {
	t.Helper()
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite|sqlite.OpenCreate)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := do(conn); err != nil {
		t.Fatal(err)
	}
}

// sqliteRows is what a database holds, read by nobody's tool.
func sqliteRows(t *testing.T, path, sql string) string {
	t.Helper()
	var rows []string
	onSQLite(t, path, func(conn *sqlite.Conn) error {
		return sqlitex.Execute(conn, sql, &sqlitex.ExecOptions{ResultFunc: func(stmt *sqlite.Stmt) error {
			var cells []string
			for i := range stmt.ColumnCount() {
				cells = append(cells, stmt.ColumnText(i))
			}
			rows = append(rows, strings.Join(cells, "|"))
			return nil
		}})
	})
	return strings.Join(rows, "\n")
}

// structured is a result's structured content.
func structured(t *testing.T, a dispatch.Answer) (out struct {
	Rows    []map[string]any `json:"rows"`
	More    bool             `json:"more"`
	Changed *int             `json:"changed"`
}) {
	t.Helper()
	var result struct {
		StructuredContent json.RawMessage `json:"structuredContent"`
	}
	if err := json.Unmarshal(a.Result, &result); err != nil {
		t.Fatalf("%s: %s: %v", a.State(), a.Result, err)
	}
	if err := json.Unmarshal(result.StructuredContent, &out); err != nil {
		t.Fatalf("%s: %s: %v", a.State(), a.Result, err)
	}
	return out
}

func TestQueriesOnSQLite(t *testing.T) {
	for _, mode := range []string{"delete", "wal"} {
		path := sqliteFile(t, orderTables+"INSERT INTO big VALUES ('acme', 10, 'small'), ('acme', 2000000, printf('%.2000000c', 'x'))")
		if got := sqliteRows(t, path, "PRAGMA journal_mode="+mode); got != mode {
			t.Fatalf("the journal is %s", got)
		}
		rows := func(sql string) string { return sqliteRows(t, path, sql) }
		testQueries(t, strings.ReplaceAll(queriesYAML, "DATABASE", "sqlite:"+path), nil, rows)
	}
}

// testQueries is what holds on every database. rows reads the database itself.
func testQueries(t *testing.T, yaml string, settings map[string]string, rows func(sql string) string) {
	files := maps.Clone(queryFiles)
	maps.Copy(files, settings)
	h := openFolder(t, yaml, files)
	anna, gleb := h.caller("acme", "anna"), h.caller("globex", "anna")
	const all = "SELECT id, tenant, customer, taken_by, note FROM orders ORDER BY id"
	before := rows(all)
	call := func(c identity.Caller, tool string, arguments map[string]any) dispatch.Answer {
		t.Helper()
		if arguments == nil {
			arguments = map[string]any{}
		}
		text, err := json.Marshal(arguments)
		if err != nil {
			t.Fatal(err)
		}
		return h.do(c, tool, string(text))
	}
	ids := func(a dispatch.Answer) string {
		t.Helper()
		var out []string
		for _, r := range structured(t, a).Rows {
			out = append(out, r["id"].(string))
		}
		return strings.Join(out, " ")
	}

	// The tenant and the principal are the caller's own, whatever the customer is called.
	if got := ids(call(anna, "orders", map[string]any{"customer": "cus_1"})); got != "o1 o2" {
		t.Errorf("anna of acme sees %s", got)
	}
	if got := ids(call(gleb, "orders", map[string]any{"customer": "cus_1"})); got != "g1" {
		t.Errorf("anna of globex sees %s", got)
	}
	if got := ids(call(anna, "mine", nil)); got != "o1" {
		t.Errorf("anna took %s", got)
	}
	if a := call(anna, "orders", map[string]any{"customer": "cus_1", "tenant": "globex"}); a.State() == record.Succeeded {
		t.Errorf("a tenant as an argument: %s", a.Result)
	}
	if got := structured(t, call(anna, "every", nil)).Rows[0]["orders"]; got != 4.0 {
		t.Errorf("there are %v orders", got)
	}

	// Values are values.
	if got := ids(call(anna, "orders", map[string]any{"customer": `o'neil " -- ; /*`})); got != "q1" {
		t.Errorf("the quoted customer has %s", got)
	}
	for _, hostile := range []string{"' OR '1'='1", "cus_1' --", "'; DROP TABLE orders; --", "cus_1'; DELETE FROM orders WHERE '1'='1", "@tenant", "' UNION SELECT note, note, 1 FROM orders --",
		"\\'; SELECT 1", "$1", "cus_1\n", "\u02bc OR 1=1", "%", strings.Repeat("'", 60_000)} {
		if got := ids(call(anna, "orders", map[string]any{"customer": hostile})); got != "" {
			t.Errorf("%.40q sees %s", hostile, got)
		}
	}
	for _, bad := range []any{"a\x00' OR 1=1", strings.Repeat("a", 60_001), 5, nil, []string{"cus_1"}, map[string]any{"$ne": ""}} {
		if a := call(anna, "orders", map[string]any{"customer": bad}); a.State() == record.Succeeded || a.Ran {
			t.Errorf("%.40v: %s %s", bad, a.State(), a.Result)
		}
	}
	if now := rows(all); now != before {
		t.Fatalf("the table was\n%s\nand is\n%s", before, now)
	}

	// Rows, bytes and time are bounded.
	if got := structured(t, call(anna, "numbers", map[string]any{"up_to": 100})); len(got.Rows) != 100 || got.More {
		t.Errorf("%d rows of 100, more %t", len(got.Rows), got.More)
	}
	if got := structured(t, call(anna, "numbers", map[string]any{"up_to": 101})); len(got.Rows) != 100 || !got.More {
		t.Errorf("%d rows of 101, more %t", len(got.Rows), got.More)
	}
	if got := structured(t, call(anna, "large", map[string]any{"bytes": 10})); len(got.Rows) != 1 || got.More {
		t.Errorf("%d small rows, more %t", len(got.Rows), got.More)
	}
	if got := structured(t, call(anna, "large", map[string]any{"bytes": 4_000_000})); len(got.Rows) != 1 || !got.More {
		t.Errorf("%d rows of which one is large, more %t", len(got.Rows), got.More)
	}
	h.wants(call(anna, "slow", nil), record.Failed, "")
	h.wants(call(anna, "twice", nil), record.Failed, "two columns of one name")

	// A change happens once, in the caller's tenant, or not at all.
	a := call(anna, "add_order", map[string]any{"id": "o9", "customer": "cus_9", "note": "'); DROP TABLE orders; --"})
	if got := structured(t, a); len(got.Rows) != 1 || got.Rows[0]["tenant"] != "acme" || got.Changed == nil || *got.Changed != 1 {
		t.Errorf("added %s", a.Result)
	}
	h.wants(call(gleb, "add_order", map[string]any{"id": "o9", "customer": "cus_9", "note": "again"}), record.Failed, "does not allow the change")
	if got := rows("SELECT tenant, customer, taken_by, note FROM orders WHERE id = 'o9'"); got != "acme|cus_9|anna@urn:placet:dev|'); DROP TABLE orders; --" {
		t.Errorf("there is %s", got)
	}
	if got := structured(t, call(gleb, "pay", map[string]any{"customer": "cus_1", "note": "paid"})); len(got.Rows) != 0 || *got.Changed != 1 {
		t.Errorf("changed %+v", got)
	}
	h.wants(call(anna, "pay", map[string]any{"customer": "cus_9"}), record.Succeeded, `"changed":1`)
	if got := rows("SELECT id, coalesce(note, 'NULL') FROM orders ORDER BY id"); got != "g1|paid\no1|first\no2|second\no9|NULL\nq1|quoted" {
		t.Errorf("there is\n%s", got)
	}

	// What an operator is told of: a query that is not bound to a tenant.
	if !slices.ContainsFunc(h.p.Boundary().Current().Overrides, func(o registry.Override) bool { return o.Setting == "tenant" && o.Subject == "tool every" }) {
		t.Error("the query without a tenant is not among the overrides")
	}

	// A changed file is not there until it was reviewed, and its text never ran.
	file := filepath.Join(h.dir, "queries/mine.sql")
	changed := strings.ReplaceAll(queryFiles["queries/mine.sql"], "taken_by = @principal", "taken_by <> @principal")
	if err := os.WriteFile(file, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	if a := call(anna, "mine", nil); a.Code != record.CodeNotAvailable || a.Ran {
		t.Errorf("a changed query: %s %s %s", a.State(), a.Code, a.Result)
	}
	h.wants(call(anna, "orders", map[string]any{"customer": "cus_1"}), record.Succeeded, "first") // its neighbour works
	if err := os.Remove(registry.LockPath(filepath.Join(h.dir, "tools.yaml"))); err != nil {
		t.Fatal(err)
	}
	h.lock()
	if _, err := h.p.Reload(t.Context(), record.Who{System: "test"}, ""); err != nil {
		t.Fatal(err)
	}
	if got := ids(call(anna, "mine", nil)); strings.Contains(got, "o1") || !strings.Contains(got, "o2") {
		t.Errorf("after the review, others took %s", got)
	}
}

// The database itself refuses what a query that only reads may not do.
func TestQueriesReadOnlyOnSQLite(t *testing.T) {
	path := sqliteFile(t, orderTables+"CREATE VIRTUAL TABLE words USING fts5(tenant, word); INSERT INTO words VALUES ('acme', 'needle in hay')")
	q := func(sql string) string { return "/*\ndescription: D.\n*/\n" + sql }
	files := map[string]string{
		"queries/fine.sql":      q("SELECT word FROM words WHERE tenant = @tenant AND words MATCH 'needle'"),
		"queries/hidden.sql":    q("WITH x AS (SELECT @tenant) DELETE FROM orders"),
		"queries/schema.sql":    q("SELECT sql FROM sqlite_master, (SELECT @tenant)"),
		"queries/pragma.sql":    q("SELECT * FROM pragma_database_list, (SELECT @tenant AS t)"),
		"queries/extension.sql": q("SELECT load_extension('/tmp/x.so'), @tenant AS t"),
		"queries/changes.sql":   q("SELECT * FROM (SELECT @tenant), pragma_query_only(0)"),
		"queries/bomb.sql":      q("SELECT length(randomblob(500000000)) AS n, @tenant AS t"),
	}
	yaml := "version: 1\nservers: {warehouse: {queries: queries, database: \"sqlite:" + path + "\"}}\ndefaults: {per_minute: 0}\ntools:\n"
	for name := range files {
		yaml += "  " + strings.TrimSuffix(filepath.Base(name), ".sql") + ": {server: warehouse, scope: files, read: true, timeout: 5s}\n"
	}
	h := openFolder(t, yaml, maps.Clone(files))
	anna, before := h.caller("acme", "anna"), sqliteRows(t, path, "SELECT * FROM orders")
	for name := range files {
		tool := strings.TrimSuffix(filepath.Base(name), ".sql")
		a := h.do(anna, tool, `{}`)
		switch fine := tool == "fine" || tool == "schema"; { // the schema is no secret of its own file
		case fine && a.State() != record.Succeeded, !fine && a.State() != record.Failed:
			t.Errorf("%s: %s %s %+v", tool, a.State(), a.Result, a.Call)
		case strings.Contains(string(a.Result), "warehouse.db"):
			t.Errorf("%s: %s", tool, a.Result)
		}
	}
	if now := sqliteRows(t, path, "SELECT * FROM orders"); now != before {
		t.Errorf("the table is\n%s", now)
	}
}

// Times are of the database's own kind; integers, numbers and bytes come through as they are.
func TestQueryTypesOnSQLite(t *testing.T) {
	path := sqliteFile(t, orderTables)
	h := openFolder(t, "version: 1\nservers: {warehouse: {queries: queries, database: \"sqlite:"+path+"\"}}\ntools:\n  types: {server: warehouse, scope: files, read: true}\n", map[string]string{
		"queries/types.sql": "/*\ndescription: D.\nparameters:\n  n: {type: integer}\n  d: {type: number}\n  b: {type: boolean}\n  s: {type: string, optional: true}\n*/\n" +
			"SELECT @n AS n, 9007199254740993 AS large, -9007199254740992 AS edge, @d AS d, @b AS b, @s AS s, x'00ff' AS bytes, 1e999 AS inf, 'ü\"' AS \"a \"\"b\"\"\" FROM (SELECT @tenant)"})
	a := h.do(h.caller("acme", "anna"), "types", `{"n":9007199254740991,"d":0.1,"b":true}`)
	h.wants(a, record.Succeeded, `"structuredContent":{"rows":[{"n":9007199254740991,"large":"9007199254740993","edge":-9007199254740992,"d":0.1,"b":1,"s":null,"bytes":"AP8=","inf":"+Inf","a \"b\"":"ü\""}],"more":false}`)
}

// A registry cannot call a query a read that says it writes, nor reach Placet's own database (rule K2).
func TestQueriesAreCheckedAtLoad(t *testing.T) {
	path := sqliteFile(t, orderTables)
	yaml := "version: 1\nservers: {warehouse: {queries: queries, database: \"sqlite:" + path + "\"}}\ntools:\n  pay: {server: warehouse, scope: files, write: true}\n"
	h := openFolder(t, yaml, maps.Clone(queryFiles))
	file := filepath.Join(h.dir, "tools.yaml")
	reload := func(text string) error {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := h.p.Reload(t.Context(), record.Who{System: "test"}, "")
		return err
	}
	if err := reload(strings.ReplaceAll(yaml, "write: true", "read: true")); err == nil || !strings.Contains(err.Error(), "tools.yaml:4: tools.pay: is marked read, and its query says writes: true (queries/pay.sql)") {
		t.Errorf("a read that writes: %v", err)
	}
	if err := reload(strings.ReplaceAll(yaml, path, h.p.o.Config.StorePath())); err == nil || !strings.Contains(err.Error(), "reaches files of Placet itself") {
		t.Errorf("Placet's own store: %v", err)
	}
	link := filepath.Join(t.TempDir(), "link.db")
	if err := os.Symlink(h.p.o.Config.StorePath(), link); err != nil {
		t.Fatal(err)
	}
	if err := reload(strings.ReplaceAll(yaml, path, link)); err == nil || !strings.Contains(err.Error(), "reaches files of Placet itself") {
		t.Errorf("a link to Placet's own store: %v", err)
	}
	if err := reload(yaml); err != nil {
		t.Errorf("as it was: %v", err)
	}
}

// What a listing shows is every query, or what is wrong with those that cannot be read.
func TestQueriesAreListed(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range queryFiles {
		write(filepath.Base(name), text)
	}
	write("README.md", "no query")
	write(".hidden.sql", "no query either")
	servers := OpenServers(toolmcp.Options{}, guard.World{})
	defer servers.Close()
	s := &registry.Server{Name: "warehouse", Kind: registry.KindQueries, Queries: dir, Database: "postgres"}
	offers, err := servers.ListOffers(t.Context(), s)
	if err != nil || len(offers) != len(queryFiles) {
		t.Fatalf("%d of %d: %v", len(offers), len(queryFiles), err)
	}
	for _, name := range []string{"../tools", "orders.sql", "a/b", "", ".hidden", "none"} {
		if o, err := servers.Offer(t.Context(), s, name, time.Minute); err == nil {
			t.Errorf("%q offers %+v", name, o)
		}
	}
	write("broken.sql", "/*\ndescription: D.\n*/\nDROP TABLE orders")
	if _, err := servers.ListOffers(t.Context(), s); err == nil || !strings.Contains(err.Error(), "broken.sql:4: the statement must begin with") {
		t.Errorf("a broken file: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, "broken.sql")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "passwd.sql")); err != nil {
		t.Fatal(err)
	}
	if _, err := servers.Offer(t.Context(), s, "passwd", time.Minute); err == nil || record.KindOf(err) != record.Unavailable {
		t.Errorf("a link that leads out: %v", err)
	}
}
