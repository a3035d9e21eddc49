package placet

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"

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

// Move takes the records of a SQLite file into the PostgreSQL database of the store, as
// the schema's owner: all of them or none, compared row by row. The keys beside the file
// come with it, and the file gets another name, so that nobody serves from it again.
func Move(ctx context.Context, o Options, owner, path string) ([]dispatch.Moved, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, record.Errorf(record.Invalid, "--from: there is no file %s", path)
	}
	if err := Migrate(ctx, o, owner); err != nil {
		return nil, err
	}
	from, err := sqlite.Open(ctx, path, sqlite.Options{Log: o.Log}) // nobody else has it then
	if err != nil {
		return nil, err
	}
	to := o.Config.StorePath()
	if err := moveKeys(path, to); err != nil {
		return nil, errors.Join(err, from.Close())
	}
	moved, err := postgres.Import(ctx, owner, func(f func(dispatch.Table) error) error { return from.Export(ctx, f) })
	if err = errors.Join(err, from.Close()); err != nil {
		return nil, err
	}
	if err := os.Rename(path, path+".moved"); err != nil {
		return moved, record.Because(record.Unavailable, err, "everything was moved; rename %s, so that no server uses it again", path)
	}
	return moved, nil
}

// moveKeys copies what seals the log, passkeys and delegations. A key that is there already and
// is another one would make them worthless.
func moveKeys(from, to string) error {
	for _, kind := range []string{".passkey-key", ".delegation-key", ".log-key"} {
		key, err := os.ReadFile(from + kind)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return record.Because(record.Unavailable, err, "a key beside the file cannot be read")
		}
		have, err := os.ReadFile(to + kind)
		switch {
		case err == nil && bytes.Equal(have, key):
			continue
		case err == nil:
			return record.Errorf(record.Conflict, "%s is another key than the one beside the file; move it away first: what it sealed then ends", to+kind)
		case !errors.Is(err, fs.ErrNotExist):
			return record.Because(record.Unavailable, err, "%s cannot be read", to+kind)
		}
		if err := os.WriteFile(to+kind, key, 0o600); err != nil {
			return record.Because(record.Unavailable, err, "a key beside the file cannot be copied")
		}
	}
	return nil
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
