package postgres

import (
	"context"
	"embed"
	"errors"
	"io/fs"
	"regexp"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/placet-dev/placet/record"
)

//go:embed migrations/*.sql
var migrations embed.FS

// steps returns the migrations in order; the n-th brings a schema to version n.
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

// Migrate brings the schema to its newest version, forward only, as a role that may
// create, and lets the role runtime use it: read and add, change what moves, and
// neither change nor delete an event. runtime is empty where the roles are one.
func Migrate(ctx context.Context, dsn, runtime string) error {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return record.Errorf(record.Invalid, "the connection string cannot be read; it looks like postgres://user:password@host/database")
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return unreachable(err)
	}
	defer conn.Close(ctx)
	all, err := steps()
	if err != nil {
		return err
	}
	if err := migrate(ctx, conn, all); err != nil {
		return unreachable(err)
	}
	if runtime == "" || runtime == config.User {
		return nil
	}
	return unreachable(grant(ctx, conn, runtime))
}

// Role is the role that a connection string names.
func Role(dsn string) (string, error) {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return "", record.Errorf(record.Invalid, "the store's connection string cannot be read; it looks like postgres://user:password@host/database")
	}
	return config.User, nil
}

// ready finds the schema at the version of this program, or brings it there, and returns
// that version.
func ready(ctx context.Context, config *pgx.ConnConfig, o Options) (known int, err error) {
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return 0, unreachable(err)
	}
	defer conn.Close(ctx)
	if err := durable(ctx, conn, o); err != nil {
		return 0, unreachable(err)
	}
	have, err := version(ctx, conn)
	if err != nil {
		return 0, unreachable(err)
	}
	all, err := steps()
	if err != nil {
		return 0, err
	}
	all = append(all, o.testOnlySteps...)
	if have >= len(all) {
		return len(all), fits(ctx, conn, have, len(all))
	}
	err = migrate(ctx, conn, all)
	var server *pgconn.PgError
	if errors.As(err, &server) && server.Code == "42501" {
		return 0, record.Errorf(record.Unavailable, "the store's schema is version %d and this program needs %d; the role %q may not change it: run placet migrate as the schema's owner", have, len(all), config.User)
	}
	if err != nil {
		return 0, unreachable(err)
	}
	return len(all), nil
}

// oldestLine is how a migration says that programs before the one with that migration
// are not to use the schema any more. Without it they may: it only adds, and what it
// adds has defaults.
var oldestLine = regexp.MustCompile(`(?m)^-- oldest: (\d+)$`)

// fits reports whether a program that knows so many migrations may use a schema with
// more. A rolling upgrade has both programs for a while.
func fits(ctx context.Context, conn *pgx.Conn, have, known int) error {
	if have == known {
		return nil
	}
	var oldest int
	if err := conn.QueryRow(ctx, `SELECT coalesce(max(oldest), 0) FROM placet.migrations WHERE version > $1`, known).Scan(&oldest); err != nil {
		return unreachable(err)
	}
	return fitting(have, oldest, known)
}

func fitting(have, oldest, known int) error {
	if oldest > known {
		return record.Errorf(record.Unavailable, "the store's schema is version %d, which programs before version %d are not to use; this one knows %d: use the newer program", have, oldest, known)
	}
	return nil
}

// durable says what of the server's settings weakens a commit.
func durable(ctx context.Context, conn *pgx.Conn, o Options) error {
	var fsync, pages string
	if err := conn.QueryRow(ctx, `SELECT current_setting('fsync'), current_setting('full_page_writes')`).Scan(&fsync, &pages); err != nil {
		return err
	}
	if fsync != "on" || pages != "on" {
		o.Log.Warn("store: the database may lose what it has committed", "fsync", fsync, "full_page_writes", pages)
	}
	return nil
}

// version is the schema's; 0 where there is none.
func version(ctx context.Context, conn *pgx.Conn) (n int, err error) {
	var there bool
	if err := conn.QueryRow(ctx, `SELECT to_regclass('placet.migrations') IS NOT NULL`).Scan(&there); err != nil || !there {
		return 0, err
	}
	err = conn.QueryRow(ctx, `SELECT coalesce(max(version), 0) FROM placet.migrations`).Scan(&n)
	return n, err
}

// migrate runs what is missing in one transaction, under a lock: of two programs that
// start at once one does it and the other finds it done.
func migrate(ctx context.Context, conn *pgx.Conn, all []string) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, lockMigrations); err != nil {
			return err
		}
		have, err := version(ctx, conn)
		if err != nil {
			return err
		}
		for i := have; i < len(all); i++ {
			if i == 0 {
				if _, err := tx.Exec(ctx, `CREATE SCHEMA IF NOT EXISTS placet`); err != nil {
					return err
				}
			}
			if _, err := tx.Exec(ctx, `SET LOCAL search_path = placet`); err != nil {
				return err
			}
			if _, err := tx.Conn().PgConn().Exec(ctx, all[i]).ReadAll(); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, `INSERT INTO placet.migrations (version) VALUES ($1)`, i+1); err != nil {
				return err
			}
			if m := oldestLine.FindStringSubmatch(all[i]); m != nil {
				if _, err := tx.Exec(ctx, `UPDATE placet.migrations SET oldest = $1::text::integer WHERE version = $2`, m[1], i+1); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// grant lets a role do what a running program does, and nothing else.
func grant(ctx context.Context, conn *pgx.Conn, role string) error {
	who := pgx.Identifier{role}.Sanitize()
	for _, sql := range []string{
		`GRANT USAGE ON SCHEMA placet TO ` + who,
		`GRANT SELECT ON ALL TABLES IN SCHEMA placet TO ` + who,
		`GRANT INSERT, UPDATE ON runs, calls, effects, approvals, rejections, counters, standing, lineages, emissions, model_requests, shares, schedules, revocations, fences, log_tiles TO ` + who,
		`GRANT INSERT ON answers, materials, activations, versions, events, model_objects, agreed, checkpoints, epochs, places TO ` + who,
		`GRANT INSERT, UPDATE, DELETE ON passkeys, transcripts, sessions TO ` + who,
		`GRANT USAGE ON SEQUENCE events_seq_seq, places_n_seq TO ` + who,
	} {
		if _, err := conn.Exec(ctx, `SET search_path = placet`); err != nil {
			return err
		}
		if _, err := conn.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}
