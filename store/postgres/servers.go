package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/record"
)

// What the servers of one store share beside the records: which keys they have, and
// who is signed in at the console. Nothing of it decides about a call.

const (
	insertAgreed = `INSERT INTO agreed (name, digest) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING`
	selectAgreed = `SELECT digest FROM agreed WHERE name = $1`

	selectSession = `SELECT sealed, version, used FROM sessions WHERE name = $1`
	insertSession = `INSERT INTO sessions (name, owner, began, used, version, sealed) VALUES ($1, $2, $3, $3, 1, $4) ON CONFLICT (name) DO NOTHING`
	updateSession = `UPDATE sessions SET version = version + 1, sealed = $2, used = greatest(used, $4) WHERE name = $1 AND version = $3 - 1`
	useSession    = `UPDATE sessions SET used = greatest(used, $2) WHERE name = $1`
	dropSession   = `DELETE FROM sessions WHERE name = $1`
	dropUnused    = `DELETE FROM sessions WHERE used < $1 OR began < $2`
	dropOldest    = `DELETE FROM sessions WHERE owner = $1 AND name NOT IN (SELECT name FROM sessions WHERE owner = $1 ORDER BY began DESC LIMIT $2)`
)

// Agree reports whether this server has the keys of the others on this store, by
// their digests: record.Conflict names the first that it has not. What the first server
// says, the others are held to; a zero digest says that there is no such key.
func (s *Store) Agree(ctx context.Context, name string, digest canon.Digest) error {
	return s.write(ctx, func(tx pgx.Tx) error {
		if !digest.IsZero() {
			if _, err := tx.Exec(ctx, insertAgreed, name, digest[:]); err != nil {
				return err
			}
		}
		var have []byte
		switch err := tx.QueryRow(ctx, selectAgreed, name).Scan(&have); {
		case errors.Is(err, pgx.ErrNoRows):
			return nil
		case err != nil:
			return err
		case string(have) != string(digest[:]):
			return record.Errorf(record.Conflict, "the other servers of this store have another %s", name)
		}
		return nil
	})
}

// Fits reports whether this program may still use the schema, which a newer one may
// have changed since it was opened.
func (s *Store) Fits(ctx context.Context) error {
	var have, oldest int64
	if err := s.read(ctx, only(), ask(func(c *columns) error { have, oldest = c.int(), c.int(); return nil },
		`SELECT coalesce(max(version), 0)::bigint, coalesce(max(oldest) FILTER (WHERE version > $1), 0)::bigint FROM migrations`, int64(s.schema))); err != nil {
		return err
	}
	return fitting(int(have), int(oldest), s.schema)
}

// write runs what is no change of a record, in a transaction of its own.
func (s *Store) write(ctx context.Context, f func(pgx.Tx) error) error {
	try := func() error {
		return pgx.BeginTxFunc(ctx, s.readers, pgx.TxOptions{AccessMode: pgx.ReadWrite, IsoLevel: pgx.ReadCommitted}, f)
	}
	err := try()
	if stale(ctx, err) && record.KindOf(err) != record.Conflict && record.KindOf(err) != record.NotFound {
		s.readers.Reset()
		err = try()
	}
	return readable(err)
}

// Session returns a sign-in that PutSession kept, its version, and when it was used.
func (s *Store) Session(ctx context.Context, name canon.Digest) (sealed []byte, version int64, used time.Time, err error) {
	found := false
	err = s.read(ctx, only(), ask(func(c *columns) error {
		found, sealed, version, used = true, c.blob(), c.int(), c.time()
		return nil
	}, selectSession, name[:]))
	if err == nil && !found {
		err = notFound("session", "")
	}
	return sealed, version, used, err
}

// PutSession keeps what follows a version of a sign-in; 1 is a new one.
func (s *Store) PutSession(ctx context.Context, name, owner canon.Digest, sealed []byte, version int64, now time.Time) error {
	sql, args := updateSession, []any{name[:], sealed, version, micro(now)}
	if version == 1 {
		sql, args = insertSession, []any{name[:], owner[:], micro(now), sealed}
	}
	return s.write(ctx, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, sql, args...)
		if err == nil && tag.RowsAffected() == 0 {
			err = record.Errorf(record.Conflict, "another server changed this session")
		}
		return err
	})
}

// UseSession notes that a sign-in was used.
func (s *Store) UseSession(ctx context.Context, name canon.Digest, now time.Time) error {
	return s.exec(ctx, useSession, name[:], micro(now))
}

// DropSession ends a sign-in.
func (s *Store) DropSession(ctx context.Context, name canon.Digest) error {
	return s.exec(ctx, dropSession, name[:])
}

// TrimSessions removes sign-ins that were not used since, or began before, and of an
// owner all but the newest.
func (s *Store) TrimSessions(ctx context.Context, owner canon.Digest, newest int, unused, began time.Time) error {
	if err := s.exec(ctx, dropUnused, micro(unused), micro(began)); err != nil {
		return err
	}
	return s.exec(ctx, dropOldest, owner[:], int64(newest))
}

func (s *Store) exec(ctx context.Context, sql string, args ...any) error {
	return s.write(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, sql, args...)
		return err
	})
}
