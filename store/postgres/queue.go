package postgres

import (
	"context"
	"time"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

const (
	isDead = `queued AND (state IN ('failed', 'denied', 'expired') OR state = 'unknown' AND attempt >= attempts)`

	wakeCalls = `UPDATE calls SET again = $1 WHERE tenant = $2 AND run = $3 AND ` + isOpen + ` AND queued AND again IS NULL
		AND (state IN ('proposed', 'dispatch_authorized') OR state = 'unknown' AND attempt < attempts)`
	// The tenants that have queued calls, each found behind the one before.
	queueing = `WITH RECURSIVE t AS ((SELECT tenant FROM calls WHERE again IS NOT NULL ORDER BY tenant LIMIT 1)
		UNION ALL SELECT (SELECT c.tenant FROM calls AS c WHERE c.again IS NOT NULL AND c.tenant > t.tenant ORDER BY c.tenant LIMIT 1) FROM t WHERE t.tenant IS NOT NULL)`
	selectQueued = queueing + ` SELECT t.tenant, q.id FROM t CROSS JOIN LATERAL (SELECT id, again FROM calls WHERE calls.tenant = t.tenant
		AND again IS NOT NULL AND again <= $1 ORDER BY again LIMIT $2) AS q WHERE t.tenant IS NOT NULL ORDER BY t.tenant, q.again`
	selectNext = queueing + ` SELECT min(q.again) FROM t CROSS JOIN LATERAL (SELECT again FROM calls WHERE calls.tenant = t.tenant
		AND again IS NOT NULL AND again > $1 ORDER BY again LIMIT 1) AS q`
	selectBacklog = `SELECT count(*), min(again) FROM calls WHERE again IS NOT NULL`
	selectDead    = `SELECT count(*) FROM (SELECT 1 FROM calls WHERE ` + isDead + ` LIMIT $1) AS dead`
)

// wake says that a change moves queued calls of a run, whichever they are.
func (w *wants) wake(k *record.Wake) {
	if k != nil {
		w.locks.own(lockLineage, string(k.Tenant), string(k.Lineage))
	}
}

// wake gives the clock a run's queued calls that waited for their agent. Nobody else
// moves a call of the lineage meanwhile.
func (w *writes) wake(k *record.Wake) {
	if k != nil {
		w.queue(wakeCalls, micro(k.At), string(k.Tenant), string(k.Run))
	}
}

// Queued implements dispatch.Store.
func (s *Store) Queued(ctx context.Context, now time.Time, n int) (out []dispatch.Queue, next time.Time, err error) {
	err = s.read(ctx, everyone, ask(func(c *columns) error {
		tenant := record.TenantID(c.text())
		if len(out) == 0 || out[len(out)-1].Tenant != tenant {
			out = append(out, dispatch.Queue{Tenant: tenant})
		}
		q := &out[len(out)-1]
		q.Calls = append(q.Calls, record.CallID(c.text()))
		return c.err
	}, selectQueued, micro(now), int64(n)), ask(func(c *columns) error { next = c.time(); return c.err }, selectNext, micro(now)))
	return out, next, err
}

// Backlog implements dispatch.Follower.
func (s *Store) Backlog(ctx context.Context) (out dispatch.Backlog, err error) {
	err = s.read(ctx, everyone, ask(func(c *columns) error { out.Queued, out.Oldest = c.int(), c.time(); return c.err }, selectBacklog),
		ask(func(c *columns) error { out.Dead = c.int(); return c.err }, selectDead, int64(dispatch.MostDead)))
	return out, err
}
