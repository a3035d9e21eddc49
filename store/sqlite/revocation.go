package sqlite

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"

	"zombiezen.com/go/sqlite"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

const (
	upsertRevocation = `INSERT INTO revocations (tenant, id, live, expires, body) VALUES (?,?,?,?,?)
		ON CONFLICT (tenant, id) DO UPDATE SET live = excluded.live, body = excluded.body`
	expireRevocations = `UPDATE revocations SET live = 0 WHERE tenant = ? AND live <> 0 AND expires <> 0 AND expires <= ?`
	raiseFence        = `INSERT INTO fences (tenant, moves) VALUES (?,?) ON CONFLICT (tenant) DO UPDATE SET moves = excluded.moves`
	selectFences      = `SELECT tenant, moves FROM fences`
	selectRevoked     = `SELECT body FROM revocations INDEXED BY revocations_live WHERE live <> 0 ORDER BY tenant, id`
	listRevocations   = `SELECT body FROM revocations WHERE tenant = ? AND (? OR live <> 0) AND (? = '' OR id < ?) ORDER BY id DESC LIMIT ?`
	findRevocation    = `SELECT body FROM revocations WHERE tenant = ? AND id = ?`

	selectOpenOf  = `SELECT ` + callFields + ` FROM calls INDEXED BY calls_run WHERE tenant = ? AND ` + isOpen + ` ORDER BY id`
	selectOpenAll = `SELECT ` + callFields + ` FROM calls INDEXED BY calls_run WHERE ` + isOpen + ` ORDER BY tenant, id`
	// A question that was answered yes and not used.
	selectYes = `SELECT tenant, call FROM approvals INDEXED BY approvals_state WHERE (? = '' OR tenant = ?) AND (state = 'pending' OR state = 'approved')
		AND EXISTS (SELECT 1 FROM answers WHERE answers.tenant = approvals.tenant AND answers.approval = approvals.id AND answers.word = 'approved') ORDER BY tenant, id`
	selectRunsBelow = `WITH RECURSIVE below (id) AS (SELECT id FROM runs WHERE tenant = ?1 AND id = ?2
		UNION SELECT runs.id FROM below JOIN runs INDEXED BY runs_parent ON runs.tenant = ?1 AND runs.parent = below.id AND runs.parent <> '') SELECT id FROM below`
)

// revokedCache holds what is revoked, all of it, for readers: every decision asks.
type revokedCache struct {
	mu    sync.RWMutex
	of    map[record.TenantID]record.Revocations // by their own tenant; that of all of them is ""
	moves int64
}

// get returns what is revoked in a tenant: its own, and what is revoked everywhere.
func (c *revokedCache) get(tenant record.TenantID) record.Revocations {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return join(c.of[""], c.of[tenant])
}

func join(everywhere, own record.Revocations) record.Revocations {
	out := record.Revocations{Fence: record.Fence{Everywhere: everywhere.Fence.Everywhere, Tenant: own.Fence.Tenant}}
	switch {
	case len(everywhere.List) == 0:
		out.List = own.List
	case len(own.List) == 0:
		out.List = everywhere.List
	default:
		out.List = slices.Concat(everywhere.List, own.List)
	}
	return out
}

// raised is one tenant's revocations with a fence that has moved on.
func raised(rs record.Revocations, tenant record.TenantID) record.Revocations {
	if tenant == "" {
		rs.Fence.Everywhere++
	} else {
		rs.Fence.Tenant++
	}
	return rs
}

func movesOf(rs record.Revocations) int64 { return rs.Fence.Everywhere + rs.Fence.Tenant }

// Revocations implements dispatch.Store.
func (s *Store) Revocations(_ context.Context, tenant record.TenantID) (record.Revocations, error) {
	return s.revoked.get(tenant), nil
}

// RevocationMoves implements dispatch.Store.
func (s *Store) RevocationMoves(context.Context) (int64, error) {
	s.revoked.mu.RLock()
	defer s.revoked.mu.RUnlock()
	return s.revoked.moves, nil
}

// ListRevocations implements dispatch.Reader.
func (s *Store) ListRevocations(ctx context.Context, q dispatch.RevocationQuery) (out []record.Revocation, err error) {
	err = s.read(ctx, func(conn *sqlite.Conn) error {
		out, err = bodies(conn, listRevocations, q.Tenant, flag(q.Ended), string(q.Before), string(q.Before), int64(q.Size()))
		return err
	})
	return out, err
}

// Revocation implements dispatch.Reader.
func (s *Store) Revocation(ctx context.Context, tenant record.TenantID, id record.RevocationID) (r record.Revocation, err error) {
	err = s.read(ctx, func(conn *sqlite.Conn) error {
		found, err := bodies(conn, findRevocation, tenant, string(id))
		if err == nil && len(found) == 0 {
			return notFound("revocation", string(id))
		}
		if err == nil {
			r = found[0]
		}
		return err
	})
	return r, err
}

func bodies(conn *sqlite.Conn, sql string, args ...any) (out []record.Revocation, err error) {
	err = each(conn, sql, func(s *sqlite.Stmt) error {
		var r record.Revocation
		out, err = append(out, r), json.Unmarshal([]byte(s.ColumnText(0)), &r)
		out[len(out)-1] = r
		return err
	}, args...)
	return out, err
}

// loadRevoked reads what is revoked. It is what is committed.
func (w *writer) loadRevoked() error {
	of := map[record.TenantID]record.Revocations{}
	var moves int64
	err := each(w.conn, selectFences, func(s *sqlite.Stmt) error {
		tenant, n := record.TenantID(s.ColumnText(0)), s.ColumnInt64(1)
		rs := of[tenant]
		if tenant == "" {
			rs.Fence.Everywhere = n
		} else {
			rs.Fence.Tenant = n
		}
		of[tenant] = rs
		moves += n
		return nil
	})
	if err != nil {
		return err
	}
	live, err := bodies(w.conn, selectRevoked)
	if err != nil {
		return err
	}
	for _, r := range live {
		rs := of[r.Tenant]
		rs.List = append(rs.List, r)
		of[r.Tenant] = rs
	}
	w.revoked.mu.Lock()
	defer w.revoked.mu.Unlock()
	w.revoked.of, w.revoked.moves = of, moves
	return nil
}

// publishRevoked shows readers what the commit made true.
func (w *writer) publishRevoked() {
	if len(w.freshRevoked) == 0 {
		return
	}
	w.revoked.mu.Lock()
	defer w.revoked.mu.Unlock()
	of := maps.Clone(w.revoked.of)
	for tenant, rs := range w.freshRevoked {
		w.revoked.moves += movesOf(rs) - movesOf(of[tenant])
		of[tenant] = rs
		delete(w.freshRevoked, tenant)
	}
	w.revoked.of = of
}

// revocations are those of a tenant as the open transaction sees them.
func (w *writer) revocations(tenant record.TenantID) record.Revocations {
	return join(w.revokedIn(""), w.revokedIn(tenant))
}

func (w *writer) revokedIn(tenant record.TenantID) record.Revocations {
	if rs, ok := w.freshRevoked[tenant]; ok {
		return rs
	}
	w.revoked.mu.RLock()
	defer w.revoked.mu.RUnlock()
	return w.revoked.of[tenant]
}

// mayUndo guards that a revocation is undone once.
func (w *writer) mayUndo(m *record.RevocationMove) error {
	if m == nil || m.New {
		return nil
	}
	at := slices.IndexFunc(w.revokedIn(m.After.Tenant).List, func(r record.Revocation) bool { return r.ID == m.After.ID })
	if at < 0 {
		return &record.Refusal{Kind: record.RefusedConflict, What: "the revocation has ended"}
	}
	return nil
}

// revoke writes a revocation, or that it was undone, and raises the fence. A new one
// ends what waits. Nothing else writes, so the guards of its parts hold.
func (w *writer) revoke(m record.RevocationMove) error {
	r := m.After
	rs := raised(w.revokedIn(r.Tenant), r.Tenant)
	rs.List = slices.DeleteFunc(slices.Clone(rs.List), func(old record.Revocation) bool { return old.ID == r.ID || !old.Live(r.At) })
	if m.New {
		if err := w.catch(m, &r.Caught); err != nil {
			return err
		}
		rs.List = append(rs.List, r)
	}
	w.freshRevoked[r.Tenant] = rs
	if err := w.run(expireRevocations, r.Tenant, micro(r.At)); err != nil {
		return err
	}
	if err := w.run(upsertRevocation, r.Tenant, string(r.ID), flag(m.New), micro(r.Expires), encode(r)); err != nil {
		return err
	}
	return w.run(raiseFence, r.Tenant, movesOf(rs))
}

// catch ends what a revocation takes the authority of, and counts it.
func (w *writer) catch(m record.RevocationMove, caught *record.Caught) error {
	r := m.After
	below, err := w.endRuns(m, caught)
	if err != nil {
		return err
	}
	query, args := selectOpenOf, []any{r.Tenant}
	if r.Tenant == "" {
		query, args = selectOpenAll, nil
	}
	var open []record.Call
	err = each(w.conn, query, func(s *sqlite.Stmt) error {
		c, err := scanCall(s)
		if below[c.Run] && r.Stops(c.Names(record.RunID(r.Name))) || r.Stops(c.Names()) {
			open = append(open, c)
		}
		return err
	}, args...)
	if err != nil {
		return err
	}
	for _, c := range open {
		if caught.Add(c) {
			continue
		}
		if err := w.part(c.Tenant, c.ID, func(l dispatch.Loaded) (record.Change, error) { return m.Call(l.Call, l.Approval) }); err != nil {
			return err
		}
	}
	return w.doubt(m, caught)
}

// endRuns ends a run with all below it.
func (w *writer) endRuns(m record.RevocationMove, caught *record.Caught) (map[record.RunID]bool, error) {
	r, below := m.After, map[record.RunID]bool{}
	if r.Kind != record.RevokedRun {
		return nil, nil
	}
	err := each(w.conn, selectRunsBelow, func(s *sqlite.Stmt) error { below[record.RunID(s.ColumnText(0))] = true; return nil }, r.Tenant, r.Name)
	if err != nil {
		return nil, err
	}
	for _, id := range slices.Sorted(maps.Keys(below)) {
		run, ok, err := w.loadRun(runKey{r.Tenant, id})
		if err != nil {
			return nil, err
		}
		if !ok || !run.Live() {
			continue
		}
		c, err := m.Run(run)
		if err == nil {
			err = w.within(c)
		}
		if err != nil {
			return nil, err
		}
		caught.Runs++
	}
	return below, nil
}

// doubt asks questions anew that rest on answers which do not count any more.
func (w *writer) doubt(m record.RevocationMove, caught *record.Caught) error {
	if !m.After.ByAnswer() {
		return nil
	}
	refs, err := callRefs(w.conn, selectYes, m.After.Tenant, m.After.Tenant)
	if err != nil {
		return err
	}
	for _, ref := range refs {
		l, err := load(w.conn, ref.tenant, ref.id)
		if err != nil {
			return err
		}
		if !m.Doubts(l.Approval) {
			continue
		}
		c, err := m.Question(l.Call, *l.Approval)
		if err == nil {
			err = w.within(c)
		}
		if err != nil {
			return err
		}
		caught.Questions++
	}
	return nil
}

// part makes a change of a call as a part of another one.
func (w *writer) part(tenant record.TenantID, id record.CallID, change func(dispatch.Loaded) (record.Change, error)) error {
	l, err := load(w.conn, tenant, id)
	if err != nil {
		return err
	}
	c, err := change(l)
	if err != nil {
		return err
	}
	return w.within(c)
}
