package sqlite

import (
	"context"
	"math"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

const (
	// Times rise with the numbers but for moments, so walking back from the newest
	// event reads what came after the time, and one more.
	selectLast    = `SELECT seq, at FROM events WHERE at < ? ORDER BY seq DESC LIMIT 1`
	selectPending = `SELECT tenant, id FROM approvals INDEXED BY approvals_pending WHERE state = 'pending' AND id > ? ORDER BY id LIMIT ?`
	selectAlerts  = `SELECT seq, at, tenant, kind, run, call, approval, who, body FROM events INDEXED BY events_alert
		WHERE kind = 'alert' AND tenant = ? AND seq < ? ORDER BY seq DESC LIMIT ?`
)

var _ dispatch.Follower = (*Store)(nil)

// Last implements dispatch.Follower.
func (s *Store) Last(ctx context.Context, before time.Time) (seq int64, at time.Time, err error) {
	limit := int64(math.MaxInt64)
	if !before.IsZero() {
		limit = micro(before)
	}
	err = s.read(ctx, func(conn *sqlite.Conn) error {
		_, err := row(conn, selectLast, func(s *sqlite.Stmt) { seq, at = s.ColumnInt64(0), moment(s.ColumnInt64(1)) }, limit)
		return err
	})
	return seq, at, err
}

// Pending implements dispatch.Follower.
func (s *Store) Pending(ctx context.Context, after record.ApprovalID, n int) ([]dispatch.Loaded, error) {
	return s.questions(ctx, selectPending, after, n)
}

// questions are those that a statement names, of every tenant.
func (s *Store) questions(ctx context.Context, which string, after record.ApprovalID, n int) (out []dispatch.Loaded, err error) {
	type ref struct {
		tenant record.TenantID
		id     record.ApprovalID
	}
	err = s.read(ctx, func(conn *sqlite.Conn) error {
		var refs []ref
		if err := each(conn, which, func(s *sqlite.Stmt) error {
			refs = append(refs, ref{record.TenantID(s.ColumnText(0)), record.ApprovalID(s.ColumnText(1))})
			return nil
		}, after, int64(n)); err != nil {
			return err
		}
		for _, r := range refs {
			a, err := selectApproval(conn, r.tenant, r.id)
			if err != nil {
				return err
			}
			l, err := load(conn, r.tenant, a.Call)
			if err != nil {
				return err
			}
			l.Approval = a
			out = append(out, l)
		}
		return nil
	})
	return out, err
}

// Alerts implements dispatch.Follower.
func (s *Store) Alerts(ctx context.Context, q dispatch.AlertQuery) (out []record.Event, err error) {
	before := q.Before
	if before <= 0 {
		before = math.MaxInt64
	}
	err = s.read(ctx, func(conn *sqlite.Conn) error {
		return each(conn, selectAlerts, collect(&out, scanEvent), q.Tenant, before, (&where{}).limit(q.Limit))
	})
	return out, err
}

const selectOpenCounts = `SELECT state, count(*), min(changed) FROM calls INDEXED BY calls_run WHERE ` + isOpen + ` GROUP BY state ORDER BY state`

// Open implements dispatch.Follower.
func (s *Store) Open(ctx context.Context) (out []dispatch.OpenCount, err error) {
	err = s.read(ctx, func(conn *sqlite.Conn) error {
		return each(conn, selectOpenCounts, func(stmt *sqlite.Stmt) error {
			col := &columns{stmt: stmt}
			out = append(out, dispatch.OpenCount{State: record.State(col.text()), N: col.int(), Oldest: col.time()})
			return col.err
		})
	})
	return out, err
}
