package sqlite

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

func scanCall(stmt *sqlite.Stmt) (record.Call, error) {
	col := &columns{stmt: stmt}
	var c record.Call
	c.Tenant = record.TenantID(col.text())
	c.ID, c.Run, c.Lineage = record.CallID(col.text()), record.RunID(col.text()), record.LineageID(col.text())
	c.Turn, c.Kept = record.Turn(col.int()), record.Turn(col.int())
	c.Principal = record.Principal{Issuer: col.text(), Subject: col.text()}
	c.Agent = record.AgentID(col.text())
	c.Tool = record.ToolRef{Name: col.text(), Server: col.text(), Version: col.digest(), Pin: col.digest(), ReadOnly: col.flag()}
	c.Arguments, c.Input = col.blob(), col.blob()
	c.Digest, c.Effect = col.digest(), col.digest()
	c.Occurrence, c.Source, c.Route, c.Purpose = col.text(), record.Source(col.text()), record.Route(col.text()), col.text()
	var d details
	col.json(&d)
	c.Targets, c.Edits, c.Shown, c.EffectText, c.BlankArguments, c.Supports = d.Targets, d.Edits, d.Shown, d.Effect, d.Blank, d.Supports
	c.Received, c.Emission, c.Redacted = d.Received, d.Emission, d.Redacted
	if d.Retention != nil {
		c.Retention = *d.Retention
	}
	c.State, c.Version = record.State(col.text()), col.int()
	col.json(&c.Decision)
	c.Binding = col.digest()
	c.Approval, c.Attempt, c.Attempts = record.ApprovalID(col.text()), int(col.int()), int(col.int())
	c.Key, c.Lease, c.Holder = col.text(), col.time(), col.holder()
	col.json(&c.Holds)
	if o := col.blob(); len(o) > 0 {
		c.Outcome = &record.Outcome{}
		if err := json.Unmarshal(o, c.Outcome); err != nil {
			return c, err
		}
	}
	if r := col.blob(); r != nil && c.Outcome != nil {
		c.Outcome.Result = r
	}
	c.Proposed, c.Changed, c.Expires, c.Due = col.time(), col.time(), col.time(), col.time()
	c.Queued, c.Again, c.Salt = col.flag(), col.time(), col.blob()
	if len(c.Holds) == 0 {
		c.Holds = nil
	}
	return c, col.err
}

func scanRun(stmt *sqlite.Stmt) record.Run {
	col := &columns{stmt: stmt}
	var r record.Run
	r.Tenant, r.ID = record.TenantID(col.text()), record.RunID(col.text())
	r.Lineage, r.Parent = record.LineageID(col.text()), record.RunID(col.text())
	r.Principal = record.Principal{Issuer: col.text(), Subject: col.text()}
	r.Agent, r.Label, r.Vouched = record.AgentID(col.text()), col.text(), col.flag()
	r.Turn, r.Turns = record.Turn(col.int()), col.flag()
	r.State, r.Version = record.RunState(col.text()), col.int()
	r.Opened, r.Active, r.Ended, r.Why = col.time(), col.time(), col.time(), col.text()
	if text := col.text(); text != "" {
		r.Delegation = &record.Delegation{}
		if json.Unmarshal([]byte(text), r.Delegation) != nil {
			r.Delegation = nil // what cannot be read delegates nothing
		}
	}
	r.Replays, r.Grant = record.RunID(col.text()), granted(col.text())
	_ = col.int() // when it ends, which the grant says
	return r
}

func scanApproval(stmt *sqlite.Stmt) (record.Approval, error) {
	col := &columns{stmt: stmt}
	var a record.Approval
	a.Tenant, a.ID, a.Call = record.TenantID(col.text()), record.ApprovalID(col.text()), record.CallID(col.text())
	a.Run, a.Lineage = record.RunID(col.text()), record.LineageID(col.text())
	a.Principal = record.Principal{Issuer: col.text(), Subject: col.text()}
	a.Agent, a.Binding = record.AgentID(col.text()), col.digest()
	col.json(&a.Rule)
	a.Code, a.State, a.Version = record.Code(col.text()), record.ApprovalState(col.text()), col.int()
	a.Replaces = record.ApprovalID(col.text())
	a.Asked, a.Expires, a.Changed = col.time(), col.time(), col.time()
	if shown := col.text(); shown != "" {
		a.Preview = &record.Preview{}
		if json.Unmarshal([]byte(shown), a.Preview) != nil {
			a.Preview = &record.Preview{Code: record.CodeCannotDecide} // its digest stays in the rule: nobody is shown something else
		}
	}
	return a, col.err
}

func selectRun(conn *sqlite.Conn, k runKey) (r record.Run, ok bool, err error) {
	ok, err = row(conn, `SELECT `+runFields+` FROM runs WHERE tenant = ? AND id = ?`, func(s *sqlite.Stmt) { r = scanRun(s) }, k.tenant, k.id)
	return r, ok, err
}

func selectApproval(conn *sqlite.Conn, tenant record.TenantID, id record.ApprovalID) (*record.Approval, error) {
	var a record.Approval
	var scanErr error
	found, err := row(conn, `SELECT `+approvalFields+` FROM approvals WHERE tenant = ? AND id = ?`,
		func(s *sqlite.Stmt) { a, scanErr = scanApproval(s) }, tenant, id)
	switch {
	case err != nil:
		return nil, err
	case scanErr != nil:
		return nil, scanErr
	case !found:
		return nil, notFound("approval", string(id))
	}
	if a.Version == 1 {
		return &a, nil // as it was asked: every answer moves it
	}
	err = each(conn, selectAnswers, func(s *sqlite.Stmt) error {
		col := &columns{stmt: s}
		r := record.Reply{Person: record.Principal{Issuer: col.text(), Subject: col.text()}, Word: record.Word(col.text()), Note: col.text()}
		col.json(&r.Groups)
		r.Binding, r.At = col.digest(), col.time()
		if signed := col.blob(); len(signed) > 0 {
			r.Proof = &record.Proof{}
			if json.Unmarshal(signed, r.Proof) != nil {
				r.Proof = nil // what cannot be read proves nothing
			}
		}
		r.Session = col.text()
		a.Answers = append(a.Answers, r)
		return col.err
	}, tenant, id)
	return &a, err
}

// load reads a call with its run and its approval.
func load(conn *sqlite.Conn, tenant record.TenantID, id record.CallID) (dispatch.Loaded, error) {
	l, err := loadCall(conn, tenant, id)
	if err != nil {
		return l, err
	}
	run, ok, err := selectRun(conn, runKey{tenant, l.Call.Run})
	switch {
	case err != nil:
		return l, err
	case !ok:
		return l, notFound("run", string(l.Call.Run))
	}
	l.Run = run
	if l.Call.Approval != "" {
		l.Approval, err = selectApproval(conn, tenant, l.Call.Approval)
	}
	return l, err
}

// loadCall reads a call alone.
func loadCall(conn *sqlite.Conn, tenant record.TenantID, id record.CallID) (l dispatch.Loaded, err error) {
	var scanErr error
	found, err := row(conn, `SELECT `+callFields+` FROM calls WHERE tenant = ? AND id = ?`,
		func(s *sqlite.Stmt) { l.Call, scanErr = scanCall(s) }, tenant, id)
	switch {
	case err != nil:
		return l, err
	case scanErr != nil:
		return l, scanErr
	case !found:
		return l, notFound("call", string(id))
	}
	return l, nil
}

// Call implements dispatch.Store.
func (s *Store) Call(ctx context.Context, tenant record.TenantID, id record.CallID) (l dispatch.Loaded, err error) {
	err = s.read(ctx, func(conn *sqlite.Conn) error { l, err = load(conn, tenant, id); return err })
	return l, err
}

// Approval implements dispatch.Store.
func (s *Store) Approval(ctx context.Context, tenant record.TenantID, id record.ApprovalID) (l dispatch.Loaded, err error) {
	err = s.read(ctx, func(conn *sqlite.Conn) error {
		a, err := selectApproval(conn, tenant, id)
		if err != nil {
			return err
		}
		l, err = load(conn, tenant, a.Call)
		l.Approval = a // the question asked for, also when the call has a newer one
		return err
	})
	return l, err
}

// Run implements dispatch.Store.
func (s *Store) Run(ctx context.Context, tenant record.TenantID, id record.RunID) (r record.Run, err error) {
	k := runKey{tenant, id}
	if r, ok := s.runs.get(k); ok {
		return r, nil
	}
	err = s.read(ctx, func(conn *sqlite.Conn) error {
		var ok bool
		if r, ok, err = selectRun(conn, k); err != nil {
			return err
		}
		if !ok {
			return notFound("run", string(id))
		}
		return nil
	})
	return r, err
}

// LiveRun implements dispatch.Store.
func (s *Store) LiveRun(ctx context.Context, o record.Owner, label string) (r record.Run, err error) {
	if r, ok := s.runs.live(o, label); ok {
		return r, nil
	}
	err = s.read(ctx, func(conn *sqlite.Conn) error {
		found, err := row(conn, `SELECT `+runFields+` FROM runs WHERE tenant = ? AND issuer = ? AND subject = ? AND agent = ?
			AND label = ? AND state <> 'terminated' AND vouched = 0 AND parent = '' ORDER BY opened DESC, id DESC LIMIT 1`,
			func(stmt *sqlite.Stmt) { r = scanRun(stmt) }, o.Tenant, o.Principal.Issuer, o.Principal.Subject, o.Agent, label)
		if err != nil {
			return err
		}
		if !found {
			return notFound("run labelled", label)
		}
		return nil
	})
	return r, err
}

// Prior implements dispatch.Store.
func (s *Store) Prior(ctx context.Context, tenant record.TenantID, lineage record.LineageID, effect record.EffectKey, occurrence string) (p dispatch.Prior, err error) {
	err = s.read(ctx, func(conn *sqlite.Conn) error {
		see := func(key record.EffectKey) (seen record.Seen, err error) {
			seen.Key = key
			_, err = row(conn, selectEffect, func(s *sqlite.Stmt) { seen.Version = s.ColumnInt64(0) }, tenant, key[:])
			p.Seen = append(p.Seen, seen)
			return seen, err
		}
		asked, err := see(effect)
		if err != nil {
			return err
		}
		if p.Rejection, err = s.rejection(conn, tenant, lineage, effect); err != nil {
			return err
		}
		one := func(into **record.Call, query string, args ...any) error {
			return each(conn, query, func(s *sqlite.Stmt) error {
				c, err := scanCall(s)
				*into = &c
				return err
			}, args...)
		}
		if occurrence != "" {
			named, err := see(record.OccurrenceKey(lineage, occurrence))
			if err != nil {
				return err
			}
			if named.Version > 0 {
				if err := one(&p.Same, selectSame, tenant, lineage, occurrence); err != nil {
					return err
				}
			}
		}
		if asked.Version == 0 {
			return nil // nobody ever asked for this effect
		}
		if err := one(&p.Equal, selectEqual, tenant, lineage, effect[:], occurrence); err != nil {
			return err
		}
		if occurrence == "" && p.Equal == nil && s.writer.emitted.Load() {
			if err := one(&p.Equal, selectWitnessed, tenant, lineage, effect[:]); err != nil {
				return err
			}
		}
		if err := one(&p.Done, selectDone, tenant, effect[:]); err != nil {
			return err
		}
		return each(conn, selectUnsettled, func(s *sqlite.Stmt) error {
			c, err := scanCall(s)
			p.Unsettled = append(p.Unsettled, c)
			return err
		}, tenant, effect[:])
	})
	return p, err
}

// Rejected implements dispatch.Store.
func (s *Store) Rejected(ctx context.Context, tenant record.TenantID, lineage record.LineageID, effect record.EffectKey) (r *record.Rejection, err error) {
	if s.writer.rejections.Load() == 0 {
		return nil, nil
	}
	err = s.read(ctx, func(conn *sqlite.Conn) error { r, err = s.rejection(conn, tenant, lineage, effect); return err })
	return r, err
}

func (s *Store) rejection(conn *sqlite.Conn, tenant record.TenantID, lineage record.LineageID, effect record.EffectKey) (*record.Rejection, error) {
	if s.writer.rejections.Load() == 0 {
		return nil, nil // nobody ever rejected anything here, which is the usual case
	}
	var r *record.Rejection
	_, err := row(conn, selectRejection, func(s *sqlite.Stmt) {
		r = &record.Rejection{Tenant: tenant, Lineage: lineage, Effect: effect,
			Approval: record.ApprovalID(s.ColumnText(0)), Note: s.ColumnText(1), At: moment(s.ColumnInt64(2))}
	}, tenant, lineage, effect[:])
	return r, err
}

// Unused implements dispatch.Store.
func (s *Store) Unused(ctx context.Context, tenant record.TenantID, lineage record.LineageID, tool string, now time.Time) (c *record.Call, err error) {
	err = s.read(ctx, func(conn *sqlite.Conn) error {
		return each(conn, selectUnused, func(s *sqlite.Stmt) error {
			if c != nil {
				return nil
			}
			l, err := loadCall(conn, tenant, record.CallID(s.ColumnText(1)))
			if found := l.Call; err == nil && found.Tool.Name == tool && !found.Tool.ReadOnly &&
				found.State == record.ApprovalPending && found.Approval == record.ApprovalID(s.ColumnText(0)) {
				c = &found
			}
			return err
		}, tenant, lineage, micro(now))
	})
	return c, err
}

// OpenCalls implements dispatch.Store.
func (s *Store) OpenCalls(ctx context.Context, tenant record.TenantID, run record.RunID, n int) (out []record.Call, err error) {
	err = s.read(ctx, func(conn *sqlite.Conn) error {
		return each(conn, selectOpen, collect(&out, scanCall), tenant, run, int64(n))
	})
	return out, err
}

func collect[T any](into *[]T, scan func(*sqlite.Stmt) (T, error)) func(*sqlite.Stmt) error {
	return func(s *sqlite.Stmt) error {
		v, err := scan(s)
		*into = append(*into, v)
		return err
	}
}

// Due implements dispatch.Store.
func (s *Store) Due(ctx context.Context, now time.Time, n int) (out []dispatch.Loaded, next time.Time, err error) {
	err = s.read(ctx, func(conn *sqlite.Conn) error {
		refs, err := callRefs(conn, `SELECT tenant, id FROM calls WHERE due IS NOT NULL AND due <= ? ORDER BY due LIMIT ?`, micro(now), int64(n))
		if err != nil {
			return err
		}
		if out, err = loadAll(conn, refs); err != nil {
			return err
		}
		_, err = row(conn, `SELECT due FROM calls WHERE due IS NOT NULL AND due > ? ORDER BY due LIMIT 1`,
			func(s *sqlite.Stmt) { next = moment(s.ColumnInt64(0)) }, micro(now))
		return err
	})
	return out, next, err
}

// Ready implements dispatch.Store.
func (s *Store) Ready(ctx context.Context, tenant record.TenantID, after record.CallID, n int) (out []dispatch.Loaded, err error) {
	err = s.read(ctx, func(conn *sqlite.Conn) error {
		refs, err := callRefs(conn, selectReady, tenant, after, int64(n))
		if err != nil {
			return err
		}
		out, err = loadAll(conn, refs)
		return err
	})
	return out, err
}

// Answered implements dispatch.Store.
func (s *Store) Answered(ctx context.Context, tenant record.TenantID, login record.Principal, after record.ApprovalID, n int) (out []record.ApprovalID, err error) {
	err = s.read(ctx, func(conn *sqlite.Conn) error {
		return each(conn, selectAnswered, func(stmt *sqlite.Stmt) error {
			out = append(out, record.ApprovalID(stmt.ColumnText(0)))
			return nil
		}, tenant, after, login.Issuer, login.Subject, int64(n))
	})
	return out, err
}

// callRef names a call.
type callRef struct {
	tenant record.TenantID
	id     record.CallID
}

func callRefs(conn *sqlite.Conn, query string, args ...any) (refs []callRef, err error) {
	err = each(conn, query, func(s *sqlite.Stmt) error {
		refs = append(refs, callRef{record.TenantID(s.ColumnText(0)), record.CallID(s.ColumnText(1))})
		return nil
	}, args...)
	return refs, err
}

func loadAll(conn *sqlite.Conn, refs []callRef) (out []dispatch.Loaded, err error) {
	for _, r := range refs {
		l, err := load(conn, r.tenant, r.id)
		if err != nil {
			return nil, err
		}
		out = append(out, l)
	}
	return out, nil
}

// Levels implements dispatch.Store. The writer writes counters with each batch.
func (s *Store) Levels(ctx context.Context, tenant record.TenantID, counters []record.Counter) (out []record.Level, err error) {
	err = s.read(ctx, func(conn *sqlite.Conn) error {
		for _, c := range counters {
			var text string
			found, err := row(conn, selectCounter, func(stmt *sqlite.Stmt) { text = stmt.ColumnText(0) }, tenant, c)
			if err != nil {
				return err
			}
			var level record.Level
			if found {
				if level, err = record.ParseLevel(text); err != nil {
					return err
				}
			}
			out = append(out, level)
		}
		return nil
	})
	return out, err
}

// Counters implements dispatch.Reader.
func (s *Store) Counters(ctx context.Context, tenant record.TenantID, after record.Counter, n int) (out []dispatch.Counted, err error) {
	err = s.read(ctx, func(conn *sqlite.Conn) error {
		return each(conn, listCounters, collect(&out, func(stmt *sqlite.Stmt) (dispatch.Counted, error) {
			level, err := record.ParseLevel(stmt.ColumnText(1))
			return dispatch.Counted{Counter: record.Counter(stmt.ColumnText(0)), Level: level}, err
		}), tenant, after, int64(n))
	})
	return out, err
}

// Generation implements dispatch.Store.
func (s *Store) Generation(ctx context.Context) (g int64, digest string, err error) {
	err = s.read(ctx, func(conn *sqlite.Conn) error {
		_, err := row(conn, `SELECT generation, digest FROM activations ORDER BY generation DESC LIMIT 1`,
			func(s *sqlite.Stmt) { g, digest = s.ColumnInt64(0), s.ColumnText(1) })
		return err
	})
	return g, digest, err
}

// where builds the conditions of a list. Every list begins with its tenant.
type where struct {
	sql  strings.Builder
	args []any
}

func (w *where) and(cond string, args ...any) {
	if w.sql.Len() > 0 {
		w.sql.WriteString(" AND ")
	}
	w.sql.WriteString(cond)
	w.args = append(w.args, args...)
}

func (w *where) owner(o *record.Owner) {
	if o != nil {
		w.and("issuer = ? AND subject = ? AND agent = ?", o.Principal.Issuer, o.Principal.Subject, o.Agent)
	}
}

func in[T ~string](w *where, column string, values []T) {
	if len(values) == 0 {
		return
	}
	marks := strings.TrimSuffix(strings.Repeat("?,", len(values)), ",")
	args := make([]any, len(values))
	for i, v := range values {
		args[i] = string(v)
	}
	w.and(column+" IN ("+marks+")", args...)
}

func (w *where) limit(n int) int64 {
	if n <= 0 {
		return 50
	}
	return int64(min(n, 500))
}

// Calls implements dispatch.Reader.
func (s *Store) Calls(ctx context.Context, q dispatch.CallQuery) (out []record.Call, err error) {
	var w where
	from := "calls"
	w.and("tenant = ?", q.Tenant)
	w.owner(q.Owner)
	if q.Run != "" {
		from = "calls INDEXED BY calls_made"
		w.and("run = ?", q.Run)
	}
	if d := q.Denied; d != nil {
		from = "calls INDEXED BY calls_denied"
		w.and("lineage = ? AND effect = ? AND state = 'denied'", d.Lineage, d.Effect[:])
	}
	if q.Queued {
		from = "calls INDEXED BY calls_run"
		w.and(isOpen + " AND queued = 1 AND NOT (state = 'unknown' AND attempt >= attempts)")
	}
	if q.Dead {
		from = "calls INDEXED BY calls_dead"
		w.and(isDead)
	}
	in(&w, "state", q.States)
	if q.Before != "" {
		w.and("id < ?", q.Before)
	}
	err = s.read(ctx, func(conn *sqlite.Conn) error {
		return each(conn, `SELECT `+callFields+` FROM `+from+` WHERE `+w.sql.String()+` ORDER BY id DESC LIMIT ?`,
			collect(&out, scanCall), append(w.args, w.limit(q.Limit))...)
	})
	return out, err
}

// Approvals implements dispatch.Reader.
func (s *Store) Approvals(ctx context.Context, q dispatch.ApprovalQuery) (out []dispatch.Loaded, err error) {
	var w where
	w.and("tenant = ?", q.Tenant)
	w.owner(q.Owner)
	in(&w, "state", q.States)
	after, order := "id > ?", "id"
	if q.Newest {
		after, order = "id < ?", "id DESC"
	}
	if q.After != "" {
		w.and(after, q.After)
	}
	err = s.read(ctx, func(conn *sqlite.Conn) error {
		var ids []record.ApprovalID
		if err = each(conn, `SELECT id FROM approvals WHERE `+w.sql.String()+` ORDER BY `+order+` LIMIT ?`, func(s *sqlite.Stmt) error {
			ids = append(ids, record.ApprovalID(s.ColumnText(0)))
			return nil
		}, append(w.args, w.limit(q.Limit))...); err != nil {
			return err
		}
		out, err = loadQuestions(conn, q.Tenant, ids)
		return err
	})
	return out, err
}

// Runs implements dispatch.Reader.
func (s *Store) Runs(ctx context.Context, q dispatch.RunQuery) (out []record.Run, err error) {
	var w where
	w.and("tenant = ?", q.Tenant)
	w.owner(q.Owner)
	if q.Live {
		w.and("state <> 'terminated'")
	}
	if q.Before != "" {
		w.and("id < ?", q.Before)
	}
	err = s.read(ctx, func(conn *sqlite.Conn) error {
		return each(conn, `SELECT `+runFields+` FROM runs WHERE `+w.sql.String()+` ORDER BY id DESC LIMIT ?`,
			collect(&out, func(s *sqlite.Stmt) (record.Run, error) { return scanRun(s), nil }), append(w.args, w.limit(q.Limit))...)
	})
	return out, err
}

// Events implements dispatch.Reader.
func (s *Store) Events(ctx context.Context, q dispatch.EventQuery) (out []record.Event, err error) {
	var w where
	if q.Of == nil {
		w.and("seq > ?", q.After)
	} else {
		w.and("+seq > ?", q.After) // those it names are found by themselves, not by walking the log
	}
	switch {
	case q.All:
	case q.Server:
		w.and("tenant IN (?, '')", q.Tenant)
	default:
		w.and("tenant = ?", q.Tenant)
	}
	switch {
	case q.Run != "" && q.Of != nil:
		marks := strings.TrimSuffix(strings.Repeat("?,", len(q.Of)), ",")
		args := []any{q.Run}
		for _, id := range q.Of {
			args = append(args, id)
		}
		w.and(`seq IN (`+selectRunEvents+` UNION ALL SELECT seq FROM events INDEXED BY events_call WHERE call <> '' AND call IN (`+marks+`))`, args...)
	case q.Run != "":
		w.and("run = ?", q.Run)
	}
	if q.Call != "" {
		w.and("call = ? AND call <> ''", q.Call)
	}
	in(&w, "kind", q.Kinds)
	order := ""
	if q.Newest {
		order = " DESC"
	}
	err = s.read(ctx, func(conn *sqlite.Conn) error {
		return each(conn, `SELECT seq, at, tenant, kind, run, call, approval, who, body FROM events WHERE `+w.sql.String()+` ORDER BY seq`+order+` LIMIT ?`,
			collect(&out, scanEvent), append(w.args, w.limit(q.Limit))...)
	})
	return out, err
}

func scanEvent(stmt *sqlite.Stmt) (record.Event, error) {
	col := &columns{stmt: stmt}
	e := record.Event{Seq: col.int(), At: col.time(), Tenant: record.TenantID(col.text()), Kind: record.EventKind(col.text()),
		Run: record.RunID(col.text()), Call: record.CallID(col.text()), Approval: record.ApprovalID(col.text())}
	col.json(&e.Who)
	e.Body = col.blob()
	return e, col.err
}
