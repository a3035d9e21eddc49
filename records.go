package placet

import (
	"context"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/store/postgres"
	"github.com/placet-dev/placet/store/sqlite"
)

// records is a store with what is read beside the boundary.
type records interface {
	dispatch.Store
	dispatch.Reader
	dispatch.Follower
	Broken() <-chan struct{}
	Close() error
}

// openStore opens what the configuration names.
func (o Options) openStore(ctx context.Context) (records, error) {
	dsn, shared, err := o.Config.Database(o.LookupEnv, o.ReadFile)
	if err != nil {
		return nil, record.Errorf(record.Invalid, "the store: %w", err)
	}
	if !shared {
		s, err := sqlite.Open(ctx, o.Config.StorePath(), sqlite.Options{Log: o.Log})
		if err != nil {
			return nil, err
		}
		return s, nil
	}
	s, err := postgres.Open(ctx, dsn, postgres.Options{Log: o.Log})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Migrate brings the schema of a PostgreSQL store to this program's version, as the
// role that a connection string names, and lets the role of the store use it.
func Migrate(ctx context.Context, o Options, owner string) error {
	o, err := o.withDefaults()
	if err != nil {
		return err
	}
	dsn, shared, err := o.Config.Database(o.LookupEnv, o.ReadFile)
	if err != nil {
		return record.Errorf(record.Invalid, "the store: %w", err)
	}
	if !shared {
		return record.Errorf(record.Invalid, "store is a SQLite file, which the server brings to its version when it starts; only PostgreSQL is migrated apart")
	}
	role, err := postgres.Role(dsn)
	if err != nil {
		return err
	}
	return postgres.Migrate(ctx, owner, role)
}

// Backup copies a SQLite store into a new file, while a server uses it or not, and
// verifies the copy.
func Backup(ctx context.Context, o Options, to string) (sqlite.Copy, error) {
	path, err := o.ownFile()
	if err != nil {
		return sqlite.Copy{}, err
	}
	return sqlite.Backup(ctx, path, to)
}

// Restore verifies a copy and puts it in the store's place. It returns where the store
// that was there is kept.
func Restore(ctx context.Context, o Options, from string) (sqlite.Copy, string, error) {
	path, err := o.ownFile()
	if err != nil {
		return sqlite.Copy{}, "", err
	}
	if o, err = o.withDefaults(); err != nil {
		return sqlite.Copy{}, "", err
	}
	aside := path + ".before-restore-" + o.Clock().UTC().Format("20060102T150405Z")
	got, err := sqlite.Restore(ctx, from, path, aside)
	return got, aside, err
}

// ownFile is the file of a SQLite store.
func (o Options) ownFile() (string, error) {
	o, err := o.withDefaults()
	if err != nil {
		return "", err
	}
	if _, shared, err := o.Config.Database(o.LookupEnv, o.ReadFile); err != nil {
		return "", record.Errorf(record.Invalid, "the store: %w", err)
	} else if shared {
		return "", record.Errorf(record.Invalid, "the store is a PostgreSQL database: back it up with its own tools, such as pg_dump")
	}
	return o.Config.StorePath(), nil
}
