package placet

import (
	"context"

	"github.com/placet-dev/placet/audit"
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
	audit.Log
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
