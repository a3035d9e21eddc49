package postgres

import (
	"context"
	"math"
	"time"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

const (
	// Times rise with the numbers but for moments, so walking back from the newest
	// event reads what came after the time, and one more.
	selectLast       = `SELECT seq, at FROM events WHERE at < $1 ORDER BY seq DESC LIMIT 1`
	selectPending    = `SELECT tenant, id FROM approvals WHERE state = 'pending' AND id > $1 ORDER BY id LIMIT $2`
	selectAlerts     = `SELECT ` + eventFields + ` FROM events WHERE kind = 'alert' AND tenant = $1 AND seq < $2 ORDER BY seq DESC LIMIT $3`
	selectOpenCounts = `SELECT state, count(*), min(changed) FROM calls WHERE ` + isOpen + ` GROUP BY state ORDER BY state`
)

// Last implements dispatch.Follower.
func (s *Store) Last(ctx context.Context, before time.Time) (seq int64, at time.Time, err error) {
	limit := int64(math.MaxInt64)
	if !before.IsZero() {
		limit = micro(before)
	}
	err = s.read(ctx, everyone, ask(func(c *columns) error { seq, at = c.int(), c.time(); return nil }, selectLast, limit))
	return seq, at, err
}

// Pending implements dispatch.Follower.
func (s *Store) Pending(ctx context.Context, after record.ApprovalID, n int) ([]dispatch.Loaded, error) {
	return s.questions(ctx, selectPending, after, n)
}

// questions are those that a statement names, of every tenant.
func (s *Store) questions(ctx context.Context, which string, after record.ApprovalID, n int) (out []dispatch.Loaded, err error) {
	err = s.look(ctx, everyone, func(v *view) error {
		var refs []approvalKey
		if err := v.each(which, collect(&refs, func(c *columns) (approvalKey, error) {
			return approvalKey{record.TenantID(c.text()), record.ApprovalID(c.text())}, nil
		}), string(after), int64(n)); err != nil {
			return err
		}
		for _, r := range refs {
			list, err := v.questions(r.tenant, []record.ApprovalID{r.id})
			if err != nil {
				return err
			}
			out = append(out, list...)
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
	err = s.read(ctx, only(q.Tenant), ask(collect(&out, scanEvent), selectAlerts, string(q.Tenant), before, int64(limit(q.Limit))))
	return out, err
}

// Open implements dispatch.Follower.
func (s *Store) Open(ctx context.Context) (out []dispatch.OpenCount, err error) {
	err = s.read(ctx, everyone, ask(collect(&out, func(col *columns) (dispatch.OpenCount, error) {
		return dispatch.OpenCount{State: record.State(col.text()), N: col.int(), Oldest: col.time()}, col.err
	}), selectOpenCounts))
	return out, err
}
