// Package query is named SQL queries as tools: one file NAME.sql each, on PostgreSQL
// or SQLite.
//
// It promises that a caller chooses among statements that an operator wrote and a
// reviewer pinned, and gives values only: values are bound, never put into the text.
// What runs is the pinned text, whatever the file says meanwhile. The tenant, and
// the principal where a query asks for it, come from verified identity; no argument
// can stand for them. A query changes something only if its file says so: all others
// run read-only, which the database itself enforces. Rows, bytes and time are
// bounded. A change whose COMMIT was not sent is known not to have happened; one
// whose COMMIT was not answered is not known. No connection string and no value is
// in any error. The database of Placet itself is out of reach (rule K2).
//
// It may import canon, dispatch, guard, record, registry, tool/local, yamlfile, pgx,
// zombiezen's SQLite and the standard library.
package query
