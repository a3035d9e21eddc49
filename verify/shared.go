package verify

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"
)

// SharedTable makes the table that [Shared] uses. SQLite and PostgreSQL take it as it
// is. Run it once, with the migrations of the server.
const SharedTable = `CREATE TABLE IF NOT EXISTS placet_used_tokens (id VARCHAR(64) PRIMARY KEY, ends BIGINT NOT NULL)`

// Shared remembers used tokens in a table that every process of a server uses, so a
// token works once in all of them, and once across a restart. The table is
// [SharedTable]; it needs a database that keeps what it committed, read and written
// in one place and not through a replica. Whatever the database answers but that the
// row came in refuses the call. clock is time.Now if it is nil.
func Shared(db *sql.DB, clock func() time.Time) Seen {
	if clock == nil {
		clock = time.Now
	}
	return &shared{db: db, clock: clock}
}

const (
	// sharedKeep is how long a row outlives its token. Until then no clock of another
	// process, which may be ahead, forgets a token that this one would still take.
	sharedKeep = time.Hour
	// sharedSweep is how often one process removes rows that ended.
	sharedSweep = time.Minute
)

type shared struct {
	db    *sql.DB
	clock func() time.Time

	mu    sync.Mutex
	swept time.Time
}

func (s *shared) Use(ctx context.Context, id string, until time.Time) (bool, error) {
	if err := s.sweep(ctx); err != nil {
		return false, fmt.Errorf("remove tokens that ended: %w", err)
	}
	// The key is a digest, since an ID may be longer than a database indexes. A digest
	// and a number need no parameters, whose spelling differs between databases.
	sum := sha256.Sum256([]byte(id))
	key := hex.EncodeToString(sum[:])
	r, failed := s.db.ExecContext(ctx, fmt.Sprintf(`INSERT INTO placet_used_tokens (id, ends) VALUES ('%s', %d)`, key, until.Unix()))
	if failed == nil {
		n, err := r.RowsAffected()
		if err == nil && n != 1 {
			err = fmt.Errorf("the table took %d rows for one", n)
		}
		return err == nil, err
	}
	// What a duplicate's error looks like is the driver's own affair. Whether the row
	// is there is not, and both answers refuse.
	var n int
	err := s.db.QueryRowContext(ctx, fmt.Sprintf(`SELECT COUNT(*) FROM placet_used_tokens WHERE id = '%s'`, key)).Scan(&n)
	if err != nil || n == 0 {
		return false, errors.Join(failed, err)
	}
	return false, nil
}

// sweep removes what ended long ago, now and then. It comes before the token is used
// up, so a table that cannot be kept small refuses calls and does not grow.
func (s *shared) sweep(ctx context.Context) error {
	now := s.clock()
	s.mu.Lock()
	due := now.Sub(s.swept) >= sharedSweep
	s.mu.Unlock()
	if !due {
		return nil
	}
	if _, err := s.db.ExecContext(ctx, fmt.Sprintf(`DELETE FROM placet_used_tokens WHERE ends < %d`, now.Add(-sharedKeep).Unix())); err != nil {
		return err
	}
	s.mu.Lock()
	s.swept = now
	s.mu.Unlock()
	return nil
}
