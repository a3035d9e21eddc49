package query

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"zombiezen.com/go/sqlite"

	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
)

const orders = `/*
description: Orders of one customer.
parameters:
  customer: {type: string, pattern: "^cus_[0-9]+$", max_length: 20, description: The customer's ID.}
  least: {type: number, minimum: -1.5, optional: true}
  state: {type: string, enum: [open, paid]}
  urgent: {type: boolean}
  page: {type: integer, minimum: 0, maximum: 50}
*/
-- newest first; a quote here's nothing, and neither is @this
SELECT id, 'it''s @not; one' AS "a ""name"" @either" FROM orders
 WHERE tenant = @tenant AND customer = @customer AND (@least IS NULL OR amount >= @least)
   AND state = @state AND urgent = @urgent /* nor @here; */ AND owner = @principal
 ORDER BY id LIMIT 10 OFFSET 10 * @page; -- the end
`

func TestParse(t *testing.T) {
	for _, d := range []Dialect{PostgreSQL, SQLite} {
		q, ps := Parse("orders", "orders.sql", orders, d)
		if len(ps) > 0 {
			t.Fatal(ps)
		}
		if want := []string{"tenant", "customer", "least", "state", "urgent", "principal", "page"}; !slices.Equal(q.Names, want) {
			t.Errorf("placeholders %v, want %v", q.Names, want)
		}
		if !strings.HasPrefix(q.SQL, "-- newest") || !strings.HasSuffix(q.SQL, "@page") {
			t.Errorf("the statement is %q", q.SQL)
		}
		o, err := q.offer(orders)
		if err != nil {
			t.Fatal(err)
		}
		want := `{"additionalProperties":false,"properties":{"customer":{"description":"The customer's ID.","maxLength":20,"pattern":"^cus_[0-9]+$","type":"string"},` +
			`"least":{"maximum":9007199254740991,"minimum":-1.5,"type":"number"},"page":{"maximum":50,"minimum":0,"type":"integer"},` +
			`"state":{"enum":["open","paid"],"maxLength":256,"type":"string"},"urgent":{"type":"boolean"}},"required":["customer","state","urgent","page"],"type":"object"}`
		if string(o.InputSchema) != want {
			t.Errorf("schema %s\nwant   %s", o.InputSchema, want)
		}
		if o.Definition != orders || o.Description != "Orders of one customer." || !strings.Contains(string(o.Annotations), `"readOnlyHint":true`) {
			t.Errorf("offer %+v", o)
		}
	}
}

// What is wrong with a file is said with its place.
func TestParseRefuses(t *testing.T) {
	const head, one = "/*\ndescription: D.\n*/\n", "SELECT 1 WHERE @tenant = 'a'"
	for name, c := range map[string]struct {
		text, want string
		only       []Dialect
	}{
		"no comment":          {"SELECT @tenant", "q.sql:1: must begin with a comment", nil},
		"comment open":        {"/* description: x", "q.sql:1: must begin with a comment", nil},
		"empty":               {"", "q.sql:1: must begin with a comment", nil},
		"no description":      {"/*\nwrites: false\n*/\n" + one, "needs the key description", nil},
		"unknown key":         {"\n/*\ndescription: D.\nrows: 5\n*/\n" + one, "q.sql:4:1: rows: is not a key here", nil},
		"key given twice":     {"/*\ndescription: D.\ndescription: E.\n*/\n" + one, "q.sql:3:1: description: is given twice", nil},
		"parameter type":      {"/*\ndescription: D.\nparameters: {x: {type: text}}\n*/\n" + one, "q.sql:3", nil},
		"parameter key":       {"/*\ndescription: D.\nparameters:\n  x: {type: string, minimum: 1}\n*/\n" + one + " AND @x = ''", "minimum: does not go with type string", nil},
		"parameter pattern":   {"/*\ndescription: D.\nparameters:\n  x: {type: string, pattern: a+}\n*/\n" + one + " AND @x = ''", "must begin with ^", nil},
		"pattern not RE2":     {"/*\ndescription: D.\nparameters:\n  x: {type: string, pattern: '^(?=a)$'}\n*/\n" + one + " AND @x = ''", "RE2", nil},
		"bounds crossed":      {"/*\ndescription: D.\nparameters:\n  x: {type: integer, minimum: 2, maximum: 1}\n*/\n" + one + " AND @x = 1", "is more than maximum", nil},
		"bound too large":     {"/*\ndescription: D.\nparameters:\n  x: {type: integer, maximum: 9007199254740992}\n*/\n" + one + " AND @x = 1", "2^53", nil},
		"bound not whole":     {"/*\ndescription: D.\nparameters:\n  x: {type: integer, minimum: 0.5}\n*/\n" + one + " AND @x = 1", "whole", nil},
		"tenant as parameter": {"/*\ndescription: D.\nparameters:\n  tenant: {type: string}\n*/\n" + one, "q.sql:4: parameters.tenant: is bound by the server", nil},
		"principal as one":    {"/*\ndescription: D.\nparameters:\n  principal: {type: string}\n*/\n" + one, "q.sql:4: parameters.principal: is bound by the server", nil},
		"parameter unused":    {"/*\ndescription: D.\nparameters:\n  x: {type: string}\n*/\n" + one, "q.sql:4: parameters.x: is not used", nil},
		"used in text only":   {"/*\ndescription: D.\nparameters:\n  x: {type: string}\n*/\n" + one + " || '@x'", "q.sql:4: parameters.x: is not used", nil},
		"undeclared":          {head + one + "\n AND @x = 1", "q.sql:5: @x is not declared", nil},
		"in another case":     {head + "SELECT @Tenant", "@Tenant is not declared", nil},
		"no tenant":           {head + "\nSELECT 1", "q.sql:5: the statement does not use @tenant", nil},
		"tenant in a comment": {head + "SELECT 1 -- @tenant", "does not use @tenant", nil},
		"tenant in a text":    {head + "SELECT '@tenant'", "does not use @tenant", nil},
		"tenant in a name":    {head + `SELECT 1 AS "@tenant"`, "does not use @tenant", nil},
		"none and used":       {"/*\ndescription: D.\ntenant: none\n*/\n" + one, "remove one of the two", nil},
		"two statements":      {head + one + ";\n DROP TABLE orders", "q.sql:5: a second statement", nil},
		"two semicolons":      {head + one + ";;", "a second statement", nil},
		"nothing":             {head, "has no statement", nil},
		"only a semicolon":    {head + " ;", "has no statement", nil},
		"write undeclared":    {head + "DELETE FROM orders WHERE tenant = @tenant", "q.sql:4: the statement must begin with SELECT, WITH, VALUES", nil},
		"schema change":       {"/*\ndescription: D.\nwrites: true\n*/\nDROP TABLE orders", "must begin with", nil},
		"transaction":         {"/*\ndescription: D.\nwrites: true\n*/\nCOMMIT AND CHAIN", "must begin with", nil},
		"pragma":              {"/*\ndescription: D.\nwrites: true\n*/\nPRAGMA query_only = @tenant", "must begin with", nil},
		"attach":              {"/*\ndescription: D.\nwrites: true\n*/\nATTACH @tenant AS x", "must begin with", nil},
		"copy":                {"/*\ndescription: D.\nwrites: true\n*/\nCOPY orders TO PROGRAM 'sh'", "must begin with", nil},
		"nested comment":      {head + one + " /* a /* b */ c */", "holds another", nil},
		"open comment":        {head + one + " /* a", "does not end", nil},
		"open text":           {head + one + " AND 'a", "the quote does not end", nil},
		"escape text":         {head + one + ` AND e'\'' = @tenant`, "backslash", nil},
		"dollar text":         {head + one + " AND $$@x$$ = ''", "is not read here", nil},
		"numbered":            {head + one + " AND $1 = ''", "is not read here", nil},
		"backtick":            {head + one + " AND `a` = ''", "is not read here", nil},
		"question mark":       {head + one + " AND ? = ''", "is not read here", []Dialect{SQLite}},
		"colon":               {head + one + " AND :x = ''", "is not read here", []Dialect{SQLite}},
		"brackets":            {head + one + " AND [a' ] = ''", "is not read here", []Dialect{SQLite}},
		"name goes on":        {head + one + " AND @tenantü = ''", "does not end where it should", nil},
		"control character":   {head + one + "\x01", "q.sql:4: holds a control character", nil},
		"zero byte":           {head + one + "\x00", "q.sql:4: holds a control character", nil},
		"lone return":         {head + one + " -- \r OR 1=1", "line end", nil},
		"not UTF-8":           {head + one + "\xff", "UTF-8", nil},
		"too large":           {head + one + strings.Repeat(" ", maxFile), "is larger", nil},
	} {
		if c.only == nil {
			c.only = []Dialect{PostgreSQL, SQLite}
		}
		for _, d := range c.only {
			q, ps := Parse("q", "q.sql", c.text, d)
			if q != nil || !strings.Contains(ps.Error(), c.want) {
				t.Errorf("%s: got %v, want %q", name, ps, c.want)
			}
		}
	}
	for name, text := range map[string]string{
		"plain":            head + one,
		"semicolon":        head + one + " ; /* end */ -- of it",
		"other line ends":  strings.ReplaceAll(head+one, "\n", "\r\n"),
		"with":             head + "with x as (select @tenant as t) select * from x",
		"declared write":   "/*\ndescription: D.\nwrites: true\n*/\nDELETE FROM orders WHERE tenant = @tenant",
		"no tenant wanted": "/*\ndescription: D.\ntenant: none\n*/\nSELECT 1",
	} {
		for _, d := range []Dialect{PostgreSQL, SQLite} {
			if _, ps := Parse("q", "q.sql", text, d); len(ps) > 0 {
				t.Errorf("%s: %v", name, ps)
			}
		}
	}
	// Operators of PostgreSQL are none of SQLite.
	if _, ps := Parse("q", "q.sql", head+"SELECT a[1:2], b @> '{1}', c::text, d ? 'x', @ -5 FROM t WHERE e <@@tenant", PostgreSQL); len(ps) > 0 {
		t.Error(ps)
	}
}

func TestValues(t *testing.T) {
	q, ps := Parse("orders", "orders.sql", orders, SQLite)
	if len(ps) > 0 {
		t.Fatal(ps)
	}
	anna := record.Owner{Tenant: "acme", Principal: record.Principal{Issuer: "https://login.example.com", Subject: "anna@example.com"}}
	got, err := q.values(json.RawMessage(`{"customer":"cus_1' OR ''='","state":"open","urgent":true,"page":3}`), anna)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]value{"tenant": {String, false, "acme"}, "principal": {String, false, "anna@example.com@https://login.example.com"},
		"customer": {String, false, "cus_1' OR ''='"}, "state": {String, false, "open"}, "urgent": {Boolean, false, "true"}, "page": {Integer, false, "3"}, "least": {Number, true, ""}}
	if !maps.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	for name, c := range map[string]struct {
		arguments string
		who       record.Owner
	}{
		"zero byte":       {`{"customer":"a\u0000","state":"open","urgent":true,"page":3}`, anna},
		"missing":         {`{"state":"open","urgent":true,"page":3}`, anna},
		"null":            {`{"customer":null,"state":"open","urgent":true,"page":3}`, anna},
		"another type":    {`{"customer":1,"state":"open","urgent":true,"page":3}`, anna},
		"not whole":       {`{"customer":"a","state":"open","urgent":true,"page":3.5}`, anna},
		"no tenant":       {`{"customer":"a","state":"open","urgent":true,"page":3}`, record.Owner{Principal: anna.Principal}},
		"no principal":    {`{"customer":"a","state":"open","urgent":true,"page":3}`, record.Owner{Tenant: "acme"}},
		"ambiguous issue": {`{"customer":"a","state":"open","urgent":true,"page":3}`, record.Owner{Tenant: "acme", Principal: record.Principal{Issuer: "x@y", Subject: "a"}}},
	} {
		if v, err := q.values(json.RawMessage(c.arguments), c.who); err == nil {
			t.Errorf("%s: %v", name, v)
		}
	}
}

// What this package takes for placeholders and for one statement is what pgx and
// SQLite take for them.
func FuzzParse(f *testing.F) {
	f.Add(orders)
	for _, sql := range []string{"SELECT @tenant", "SELECT 1;--@tenant\nSELECT @tenant", "SELECT 'a''@x' || @tenant /* ; */ ; ", "VALUES (@tenant, \"@x\")",
		"SELECT e'\\'@tenant", "SELECT $a$ @tenant $a$", "SELECT @tenant(1)", "SELECT 1e'@tenant", "SELECT @tenant::text, @@tenant", "SELECT x'00', @tenant$x", "SELECT U&'d\\0061' || @tenant"} {
		f.Add("/*\ndescription: D.\n*/\n" + sql)
	}
	conn, err := sqlite.OpenConn(":memory:", sqlite.OpenReadWrite|sqlite.OpenMemory)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = conn.Close() })
	f.Fuzz(func(t *testing.T, text string) {
		if q, ps := Parse("q", "q.sql", text, PostgreSQL); len(ps) == 0 {
			named := pgx.StrictNamedArgs{}
			for _, n := range q.Names {
				named[n] = n
			}
			if _, bound, err := named.RewriteQuery(context.Background(), nil, q.SQL, nil); err != nil || len(bound) != len(q.Names) {
				t.Errorf("%q: %v, placeholders %v", q.SQL, err, q.Names)
			}
		} else if q != nil || ps.Error() == "" {
			t.Error("refused without a word")
		}
		q, ps := Parse("q", "q.sql", text, SQLite)
		if len(ps) > 0 {
			return
		}
		if err := conn.SetAuthorizer(sqlite.AuthorizeFunc(func(a sqlite.Action) sqlite.AuthResult { return allowed(false)(a) })); err != nil {
			t.Fatal(err)
		}
		stmt, trailing, err := conn.PrepareTransient(q.SQL)
		if err != nil {
			return // SQLite does not take it
		}
		defer stmt.Finalize()
		var found []string
		for i := 1; i <= stmt.BindParamCount(); i++ {
			found = append(found, strings.TrimPrefix(stmt.BindParamName(i), "@"))
		}
		if trailing != 0 || !slices.Equal(found, q.Names) {
			t.Errorf("%q: %d bytes behind it, SQLite finds %q, we %q", q.SQL, trailing, found, q.Names)
		}
	})
}

// The sample in the documentation is read, and is what its lock holds.
func TestDocumentedSample(t *testing.T) {
	s, err := registry.Load([]string{"../../docs/sample/tools.yaml"}, registry.Options{Environment: "production"})
	if err != nil {
		t.Fatal(err)
	}
	tool, ok := s.Tool("orders_for_customer")
	if !ok {
		t.Fatal("the sample's query is not callable")
	}
	server, _ := s.Server(tool.Server)
	v := New(Options{})
	defer v.Close()
	offer, err := v.Offer(t.Context(), server, tool.Upstream, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := tool.Pin.Check(offer); err != nil {
		t.Error(err)
	}
}
