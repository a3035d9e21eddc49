package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/placet-dev/placet/record"
)

const (
	selectStoreEpoch = `SELECT coalesce(max(epoch), 1) FROM epochs`
	insertStoreEpoch = `INSERT INTO epochs (epoch, at, who, why) VALUES ($1,$2,$3,$4)`
	selectUnended    = `SELECT tenant, id FROM calls WHERE ` + isOpen + ` AND state <> 'unknown' ORDER BY id`
	selectDelegated  = `SELECT ` + runFields + ` FROM runs WHERE delegation <> '' ORDER BY id`

	// A cluster that was made anew has another identifier, and one that was restored or
	// promoted another timeline.
	here        = `(SELECT system_identifier::text FROM pg_control_system()) || '/' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8)`
	selectPlace = `SELECT ` + here + `, current_setting('synchronous_standby_names') <> '' AND current_setting('synchronous_commit') <> 'local',
		coalesce((SELECT place FROM places ORDER BY n DESC LIMIT 1), ''), coalesce((SELECT synchronous FROM places ORDER BY n DESC LIMIT 1), false)`
	insertPlace = `INSERT INTO places (place, synchronous) SELECT ` + here + `, current_setting('synchronous_standby_names') <> '' AND current_setting('synchronous_commit') <> 'local'`
)

// StoreEpoch implements audit.Log.
func (s *Store) StoreEpoch(ctx context.Context) (epoch int64, err error) {
	err = s.read(ctx, everyone, ask(func(c *columns) error { epoch = c.int(); return nil }, selectStoreEpoch))
	return epoch, err
}

// Moved refuses a database that is not where it was when it was opened last, unless a
// synchronous standby had every commit then: what is missing here may have happened
// (rule J2). A new epoch is opened where it is.
func (s *Store) Moved(ctx context.Context) error {
	conn, err := pgx.ConnectConfig(ctx, s.committer.config)
	if err != nil {
		return unreachable(err)
	}
	defer conn.Close(ctx)
	var now, was string
	var synchronous, had bool
	if err := conn.QueryRow(ctx, selectPlace).Scan(&now, &synchronous, &was, &had); err != nil {
		return unreachable(err)
	}
	switch {
	case was == now && had == synchronous:
		return nil
	case was != "" && was != now && !had:
		return record.Errorf(record.Conflict, "the database is another one than when it was opened last, or was restored or promoted (%s, it was %s), and no synchronous standby had every commit", now, was)
	}
	_, err = conn.Exec(ctx, insertPlace)
	return unreachable(err)
}

// mayRecover guards the epoch: this process changes only what it opened.
func (t *truth) mayRecover(r *record.Recovery) error {
	switch {
	case r != nil && t.epoch != r.From:
		return conflict("another epoch was opened")
	case r == nil && t.epoch != t.own:
		return refusePremise("a new epoch of the store was opened; this process must be restarted")
	}
	return nil
}

func (t *truth) putRecovery(r *record.Recovery, w *writes) {
	if r == nil {
		return
	}
	t.epoch, t.own = r.To, r.To // its own parts follow
	w.queue(insertStoreEpoch, r.To, micro(r.At), encode(r.Who), r.Why)
	w.queue(insertPlace)
}

// findOpen reads what a recovery moves. It holds the fence of everybody, so that it
// stays so.
func (c *committer) findOpen(ctx context.Context, b *pgx.Batch, want *wants, r record.Recovery, add func(record.Change, error) (record.Facts, error)) error {
	keys, own := want.locks.upTo(lockGlobal)
	b.Queue(takeLocks, keys, own)
	var calls []callKey
	var runs []record.Run
	b.Queue(selectUnended).Query(each(func(col *columns) error {
		calls = append(calls, callKey{record.TenantID(col.text()), record.CallID(col.text())})
		return nil
	}))
	b.Queue(selectDelegated).Query(each(collect(&runs, scanRun)))
	if err := c.conn.SendBatch(ctx, b).Close(); err != nil {
		return err
	}
	for _, k := range calls {
		l, err := loadAs(ctx, c.conn, k.tenant, k.id)
		if err != nil {
			return err
		}
		if _, err := add(r.Of(l.Call, l.Approval)); err != nil {
			return err
		}
	}
	for _, run := range runs {
		if _, err := add(r.OfRun(run), nil); err != nil {
			return err
		}
	}
	return nil
}
