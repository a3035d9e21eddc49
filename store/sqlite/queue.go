package sqlite

import (
	"context"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

const (
	isDead = `queued = 1 AND (state = 'failed' OR state = 'denied' OR state = 'expired' OR (state = 'unknown' AND attempt >= attempts))`

	wakeCalls = `UPDATE calls INDEXED BY calls_run SET again = ? WHERE tenant = ? AND run = ? AND ` + isOpen + ` AND queued = 1 AND again IS NULL
		AND (state = 'proposed' OR state = 'dispatch_authorized' OR (state = 'unknown' AND attempt < attempts))`
	selectQueueing = `SELECT tenant FROM calls INDEXED BY calls_again WHERE again IS NOT NULL AND tenant > ? ORDER BY tenant LIMIT 1`
	selectQueued   = `SELECT id FROM calls INDEXED BY calls_again WHERE tenant = ? AND again IS NOT NULL AND again <= ? ORDER BY again LIMIT ?`
	selectNext     = `SELECT again FROM calls INDEXED BY calls_again WHERE tenant = ? AND again IS NOT NULL AND again > ? ORDER BY again LIMIT 1`
	selectBacklog  = `SELECT count(*), min(again) FROM calls INDEXED BY calls_again WHERE again IS NOT NULL`
	selectDead     = `SELECT count(*) FROM (SELECT 1 FROM calls INDEXED BY calls_dead WHERE ` + isDead + ` LIMIT ?)`
)

// wake gives the clock a run's queued calls that waited for their agent.
func (w *writer) wake(k *record.Wake) error {
	if k == nil {
		return nil
	}
	return w.run(wakeCalls, micro(k.At), k.Tenant, k.Run)
}

// Queued implements dispatch.Store.
func (s *Store) Queued(ctx context.Context, now time.Time, n int) (out []dispatch.Queue, next time.Time, err error) {
	err = s.read(ctx, func(conn *sqlite.Conn) error {
		for q := (dispatch.Queue{}); ; {
			found, err := row(conn, selectQueueing, func(stmt *sqlite.Stmt) { q = dispatch.Queue{Tenant: record.TenantID(stmt.ColumnText(0))} }, q.Tenant)
			if err != nil || !found {
				return err
			}
			err = each(conn, selectQueued, func(stmt *sqlite.Stmt) error {
				q.Calls = append(q.Calls, record.CallID(stmt.ColumnText(0)))
				return nil
			}, q.Tenant, micro(now), int64(n))
			if err != nil {
				return err
			}
			if len(q.Calls) > 0 {
				out = append(out, q)
			}
			_, err = row(conn, selectNext, func(stmt *sqlite.Stmt) {
				if at := moment(stmt.ColumnInt64(0)); next.IsZero() || at.Before(next) {
					next = at
				}
			}, q.Tenant, micro(now))
			if err != nil {
				return err
			}
		}
	})
	return out, next, err
}

// Backlog implements dispatch.Follower.
func (s *Store) Backlog(ctx context.Context) (out dispatch.Backlog, err error) {
	err = s.read(ctx, func(conn *sqlite.Conn) error {
		_, err := row(conn, selectBacklog, func(stmt *sqlite.Stmt) { out.Queued, out.Oldest = stmt.ColumnInt64(0), moment(stmt.ColumnInt64(1)) })
		if err != nil {
			return err
		}
		_, err = row(conn, selectDead, func(stmt *sqlite.Stmt) { out.Dead = stmt.ColumnInt64(0) }, int64(dispatch.MostDead))
		return err
	})
	return out, err
}
