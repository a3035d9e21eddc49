package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

const (
	readFences          = `SELECT tenant, moves FROM unnest($1::text[]) AS k (t) JOIN fences ON fences.tenant = k.t`
	readLiveRevocations = `SELECT tenant, id FROM unnest($1::text[], $2::text[]) AS k (t, i) JOIN revocations ON revocations.tenant = k.t AND revocations.id = k.i AND live`

	upsertRevocation = `INSERT INTO revocations (tenant, id, live, expires, body) VALUES ($1,$2,$3,$4,$5)
		ON CONFLICT (tenant, id) DO UPDATE SET live = excluded.live, body = excluded.body`
	expireRevocations = `UPDATE revocations SET live = false WHERE tenant = $1 AND live AND expires <> 0 AND expires <= $2`
	raiseFence        = `WITH u AS (INSERT INTO fences (tenant, moves) VALUES ($1,$2) ON CONFLICT (tenant) DO UPDATE SET moves = excluded.moves
		WHERE fences.moves = excluded.moves - 1 RETURNING 1) SELECT held((SELECT count(*) FROM u), 1)`

	selectFences    = `SELECT tenant, moves FROM fences WHERE tenant IN ($1, '')`
	selectRevoked   = `SELECT body FROM revocations WHERE tenant IN ($1, '') AND live ORDER BY tenant, id`
	selectMoves     = `SELECT coalesce(sum(moves), 0)::bigint FROM fences`
	listRevocations = `SELECT body FROM revocations WHERE tenant = $1 AND ($2 OR live) AND ($3 = '' OR id < $3) ORDER BY id DESC LIMIT $4`
	findRevocation  = `SELECT body FROM revocations WHERE tenant = $1 AND id = $2`

	selectOpenOf = `SELECT ` + callFields + ` FROM calls WHERE ($1 = '' OR tenant = $1) AND ` + isOpen + ` ORDER BY tenant, id`
	// A question that was answered yes and not used.
	selectYes = `SELECT tenant, call FROM approvals WHERE ($1 = '' OR tenant = $1) AND state IN ('pending', 'approved')
		AND EXISTS (SELECT 1 FROM answers WHERE answers.tenant = approvals.tenant AND answers.approval = approvals.id AND answers.word = 'approved') ORDER BY tenant, id`
	selectRunsBelow = `WITH RECURSIVE below (id) AS (SELECT id FROM runs WHERE tenant = $1 AND id = $2
		UNION SELECT runs.id FROM below JOIN runs ON runs.tenant = $1 AND runs.parent = below.id AND runs.parent <> '') SELECT id FROM below`
)

type revocationKey struct {
	tenant record.TenantID
	id     record.RevocationID
}

// revoked says that a change rests on what was revoked when it was decided.
func (w *wants) revoked(tenant record.TenantID) {
	w.tenants[""] = true
	w.fences[""], w.fences[tenant] = true, true
}

// revocation takes the fence for itself alone: whoever decided before is seen, and
// whoever decides later sees it.
func (w *wants) revocation(m *record.RevocationMove) {
	if m == nil {
		return
	}
	tenant := m.After.Tenant
	if tenant == "" {
		w.locks.own(lockGlobal)
		w.everywhere = w.everywhere || m.New
	} else {
		w.locks.share(lockGlobal)
		w.locks.own(lockTenant, string(tenant))
	}
	w.tenants[tenant] = true
	w.revoked(tenant)
	w.revocations[revocationKey{tenant, m.After.ID}] = true
}

// under adds what a part of a revocation rests on. All that could move it shares the
// fence which the revocation has for itself alone, so that it needs no lock of its own:
// there may be more of them than the database has locks.
func (w *wants) under(f record.Facts) {
	kept := maps.Clone(w.locks)
	w.add(f)
	w.locks = kept
}

func (t *truth) readRevoked(queue func(int, func(*columns) error, string, ...any), w *wants) {
	queue(len(w.fences), func(c *columns) error { t.fences[record.TenantID(c.text())] = c.int(); return nil }, readFences,
		list(w.fences, func(tenant record.TenantID) string { return string(tenant) }))
	keys := keysOf(w.revocations)
	queue(len(keys), func(c *columns) error {
		t.revocations[revocationKey{record.TenantID(c.text()), record.RevocationID(c.text())}] = true
		return nil
	}, readLiveRevocations, texts(keys, func(k revocationKey) string { return string(k.tenant) }), texts(keys, func(k revocationKey) string { return string(k.id) }))
}

func (t *truth) fence(tenant record.TenantID) record.Fence {
	return record.Fence{Everywhere: t.fences[""], Tenant: t.fences[tenant]}
}

// mayUndo guards that a revocation is undone once.
func (t *truth) mayUndo(m *record.RevocationMove) error {
	if m != nil && !m.New && !t.revocations[revocationKey{m.After.Tenant, m.After.ID}] {
		return conflict("the revocation has ended")
	}
	return nil
}

// putRevocation writes a revocation, or that it was undone, and raises the fence.
func (t *truth) putRevocation(m *record.RevocationMove, w *writes) {
	if m == nil {
		return
	}
	r := m.After
	if m.New {
		r.Caught = t.caught
	}
	t.fences[r.Tenant]++
	t.revocations[revocationKey{r.Tenant, r.ID}] = m.New
	w.queue(expireRevocations, string(r.Tenant), micro(r.At))
	w.queue(upsertRevocation, string(r.Tenant), string(r.ID), m.New, micro(r.Expires), encode(r))
	w.queue(raiseFence, string(r.Tenant), t.fences[r.Tenant])
}

// catch finds what a revocation takes the authority of, under the fence, and makes the
// changes that end it.
func (c *committer) catch(ctx context.Context, b *pgx.Batch, m record.RevocationMove, want *wants, truth *truth) (parts []prepared, err error) {
	r := m.After
	below := map[record.RunID]bool{}
	var open []record.Call
	var answered []callKey
	keys, own := want.locks.upTo(lockTenant)
	b.Queue(takeLocks, keys, own)
	if r.Kind == record.RevokedRun {
		b.Queue(selectRunsBelow, string(r.Tenant), r.Name).Query(each(func(col *columns) error { below[record.RunID(col.text())] = true; return nil }))
	}
	b.Queue(selectOpenOf, string(r.Tenant)).Query(each(func(col *columns) error {
		call, err := scanCall(col)
		if below[call.Run] && r.Stops(call.Names(record.RunID(r.Name))) || r.Stops(call.Names()) {
			open = append(open, call)
		}
		return err
	}))
	if r.ByAnswer() {
		b.Queue(selectYes, string(r.Tenant)).Query(each(collect(&answered, scanRef)))
	}
	if err := c.conn.SendBatch(ctx, b).Close(); err != nil {
		return nil, err
	}
	truth.caught = record.Caught{}
	add := func(change record.Change, err error) error {
		if err != nil {
			return err
		}
		p, err := prepare(change.Facts())
		want.under(p.facts)
		parts = append(parts, p)
		return err
	}
	if err := c.endRuns(ctx, m, below, truth, add); err != nil {
		return nil, err
	}
	var waiting []callKey
	for _, call := range open {
		if !truth.caught.Add(call) {
			waiting = append(waiting, callKey{call.Tenant, call.ID})
		}
	}
	ended := map[callKey]bool{}
	err = c.loadMany(ctx, waiting, func(l dispatch.Loaded) error {
		ended[callKey{l.Call.Tenant, l.Call.ID}] = true
		return add(m.Call(l.Call, l.Approval))
	})
	if err != nil {
		return nil, err
	}
	err = c.loadMany(ctx, answered, func(l dispatch.Loaded) error {
		if ended[callKey{l.Call.Tenant, l.Call.ID}] || !m.Doubts(l.Approval) {
			return nil
		}
		truth.caught.Questions++
		return add(m.Question(l.Call, *l.Approval))
	})
	return parts, err
}

// endRuns ends a run with all below it.
func (c *committer) endRuns(ctx context.Context, m record.RevocationMove, below map[record.RunID]bool, truth *truth, add func(record.Change, error) error) error {
	if len(below) == 0 {
		return nil
	}
	var runs []record.Run
	b := &pgx.Batch{}
	for _, id := range slices.Sorted(maps.Keys(below)) {
		b.Queue(selectRun, string(m.After.Tenant), string(id)).Query(each(collect(&runs, scanRun)))
	}
	if err := c.conn.SendBatch(ctx, b).Close(); err != nil {
		return err
	}
	for _, run := range runs {
		if !run.Live() {
			continue
		}
		truth.caught.Runs++
		if err := add(m.Run(run)); err != nil {
			return err
		}
	}
	return nil
}

// loadMany loads calls with what belongs to them, some at once.
func (c *committer) loadMany(ctx context.Context, keys []callKey, f func(dispatch.Loaded) error) error {
	const atOnce = 100
	for len(keys) > 0 {
		n := min(len(keys), atOnce)
		b, loads := &pgx.Batch{}, make([]loading, n)
		for i, k := range keys[:n] {
			for _, q := range loads[i].queries(k.tenant, k.id) {
				b.Queue(q.sql, q.args...).Query(q.scan)
			}
		}
		if err := c.conn.SendBatch(ctx, b).Close(); err != nil {
			return err
		}
		for i, k := range keys[:n] {
			l, err := loads[i].loaded(k.id)
			if err == nil {
				err = f(l)
			}
			if err != nil {
				return err
			}
		}
		keys = keys[n:]
	}
	return nil
}

// revokedLasts is how long a process goes by what it read of revocations. What another
// one revoked meanwhile meets the fence at the commit, and is read anew then; what it
// gave back is denied for so long.
const revokedLasts = 200 * time.Millisecond

// revokedCache is what this process read of revocations, by tenant.
type revokedCache struct {
	mu    sync.Mutex
	of    map[record.TenantID]revokedAt
	moves int64
}

type revokedAt struct {
	record.Revocations
	at time.Time
}

// drop forgets what was read.
func (c *revokedCache) drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of = nil
}

// learn forgets what was read where a change showed that it is not so any more.
func (c *revokedCache) learn(f record.Facts, err error) {
	var refused *record.Refusal
	if f.Revocation != nil || errors.As(err, &refused) && refused.Kind == record.RefusedPremise {
		c.drop()
	}
}

func (c *revokedCache) get(tenant record.TenantID, now time.Time) (record.Revocations, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	have, ok := c.of[tenant]
	return have.Revocations, ok && now.Sub(have.at) < revokedLasts
}

// put keeps what was read by a question that was asked at a time.
func (c *revokedCache) put(tenant record.TenantID, rs record.Revocations, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil || len(c.of) > 10_000 {
		c.of = map[record.TenantID]revokedAt{}
	}
	if have, ok := c.of[tenant]; !ok || have.Fence.Everywhere <= rs.Fence.Everywhere && have.Fence.Tenant <= rs.Fence.Tenant {
		c.of[tenant] = revokedAt{rs, at}
	}
}

// Revocations implements dispatch.Store.
func (s *Store) Revocations(ctx context.Context, tenant record.TenantID) (record.Revocations, error) {
	now := time.Now()
	if rs, ok := s.revoked.get(tenant, now); ok {
		return rs, nil
	}
	var rs record.Revocations
	err := s.read(ctx, only(tenant, ""),
		ask(func(c *columns) error {
			of := &rs.Fence.Tenant
			if c.text() == "" {
				of = &rs.Fence.Everywhere
			}
			*of = c.int()
			return nil
		}, selectFences, string(tenant)),
		ask(collect(&rs.List, scanRevocation), selectRevoked, string(tenant)))
	if err == nil {
		s.revoked.put(tenant, rs, now)
	}
	return rs, err
}

// RevocationMoves implements dispatch.Store.
func (s *Store) RevocationMoves(ctx context.Context) (n int64, err error) {
	err = s.read(ctx, everyone, ask(func(c *columns) error { n = c.int(); return nil }, selectMoves))
	if err != nil {
		return 0, err
	}
	s.revoked.mu.Lock()
	defer s.revoked.mu.Unlock()
	if n != s.revoked.moves {
		s.revoked.of, s.revoked.moves = nil, n
	}
	return n, nil
}

// ListRevocations implements dispatch.Reader.
func (s *Store) ListRevocations(ctx context.Context, q dispatch.RevocationQuery) (out []record.Revocation, err error) {
	err = s.read(ctx, only(q.Tenant), ask(collect(&out, scanRevocation), listRevocations, string(q.Tenant), q.Ended, string(q.Before), int64(q.Size())))
	return out, err
}

// Revocation implements dispatch.Store.
func (s *Store) Revocation(ctx context.Context, tenant record.TenantID, id record.RevocationID) (record.Revocation, error) {
	var r *record.Revocation
	err := s.read(ctx, only(tenant), ask(one(&r, scanRevocation), findRevocation, string(tenant), string(id)))
	if err == nil && r == nil {
		err = notFound("revocation", string(id))
	}
	if err != nil {
		return record.Revocation{}, err
	}
	return *r, nil
}

func scanRevocation(c *columns) (r record.Revocation, err error) {
	err = json.Unmarshal([]byte(c.text()), &r)
	return r, err
}
