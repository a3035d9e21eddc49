package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

const (
	examineSettings = `SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, current_setting('fsync') = 'on', current_setting('full_page_writes') = 'on',
		(SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user)`
	examineLast     = `SELECT coalesce(max(seq), 0) FROM events`
	examineUnsealed = `SELECT at FROM events WHERE seq > (SELECT coalesce(max(seq), 0) FROM checkpoints) ORDER BY seq LIMIT 1`
	examineUnknown  = `SELECT count(*) FROM calls WHERE ` + isOpen + ` AND state = 'unknown'`
)

// Examine looks at a database as the role that a connection string names, and changes
// nothing. Of a schema that is not this program's it says no more than which one that is,
// and how the database is set up.
func Examine(ctx context.Context, dsn string) (c dispatch.Condition, err error) {
	all, err := steps()
	if err != nil {
		return c, err
	}
	c.Known = len(all)
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return c, record.Errorf(record.Invalid, "the store's connection string cannot be read; it looks like postgres://user:password@host/database")
	}
	session(config, Options{}.withDefaults())
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return c, unreachable(err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var now int64
	var fsync, pages, above bool
	if err := conn.QueryRow(ctx, examineSettings).Scan(&now, &fsync, &pages, &above); err != nil {
		return c, unreachable(err)
	}
	c.Clock = moment(now)
	for _, w := range []struct {
		is   bool
		says string
	}{
		{!fsync, "fsync is off: the database may lose what it has committed"},
		{!pages, "full_page_writes is off: the database may lose what it has committed"},
		{above, "the role is above row level security: nothing in the database keeps tenants apart"},
	} {
		if w.is {
			c.Weak = append(c.Weak, w.says)
		}
	}
	if c.Schema, err = version(ctx, conn); err != nil || c.Schema != c.Known {
		return c, unreachable(err)
	}
	err = pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, see, everyone); err != nil {
			return err
		}
		v := &view{ctx, tx}
		return v.all(
			ask(func(r *columns) error { c.Generation, c.Version = r.int(), r.text(); return r.err }, selectGeneration),
			ask(func(r *columns) error { c.Events = r.int(); return r.err }, examineLast),
			ask(func(r *columns) error { c.Unsealed = r.time(); return r.err }, examineUnsealed),
			ask(func(r *columns) error { c.Unknown = r.int(); return r.err }, examineUnknown))
	})
	return c, unreachable(err)
}
