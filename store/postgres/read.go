package postgres

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

const (
	selectCall     = `SELECT ` + callFields + ` FROM calls WHERE tenant = $1 AND id = $2`
	selectRun      = `SELECT ` + runFields + ` FROM runs WHERE tenant = $1 AND id = $2`
	selectApproval = `SELECT ` + approvalFields + ` FROM approvals WHERE tenant = $1 AND id = $2`
	answerFields   = `issuer, subject, word, note, groups, binding, at, proof, session`
	selectAnswers  = `SELECT ` + answerFields + ` FROM answers WHERE tenant = $1 AND approval = $2 ORDER BY at, issuer, subject`

	selectRunOf      = `SELECT ` + runFields + ` FROM runs WHERE tenant = $1 AND id = (SELECT run FROM calls WHERE tenant = $1 AND id = $2)`
	selectApprovalOf = `SELECT ` + approvalFields + ` FROM approvals WHERE tenant = $1 AND id = (SELECT approval FROM calls WHERE tenant = $1 AND id = $2)`
	selectAnswersOf  = `SELECT ` + answerFields + ` FROM answers WHERE tenant = $1 AND approval = (SELECT approval FROM calls WHERE tenant = $1 AND id = $2) ORDER BY at, issuer, subject`

	selectWaiting = `SELECT id FROM calls WHERE tenant = $1 AND run = $2 AND ` + isWaiting
	selectOpen    = `SELECT ` + callFields + ` FROM calls WHERE tenant = $1 AND run = $2 AND ` + isOpen + ` ORDER BY id LIMIT $3`
	selectSame    = `SELECT ` + callFields + ` FROM calls WHERE tenant = $1 AND lineage = $2 AND occurrence = $3
		AND occurrence <> '' AND NOT read_only ORDER BY id DESC LIMIT 1`
	selectEqual = `SELECT ` + callFields + ` FROM calls WHERE tenant = $1 AND lineage = $2 AND effect = $3 AND occurrence = $4 AND NOT read_only AND ` + isOpen
	// A witnessed call that was sent once and comes again without a label.
	selectWitnessed = `SELECT ` + callFields + ` FROM calls WHERE tenant = $1 AND lineage = $2 AND effect = $3
		AND NOT read_only AND source = 'witnessed' AND ` + isOpen + ` ORDER BY id DESC LIMIT 1`
	selectDone = `SELECT ` + callFields + ` FROM calls WHERE tenant = $1 AND effect = $2
		AND NOT read_only AND state = 'succeeded' ORDER BY changed DESC, id DESC LIMIT 1`
	selectUnsettled = `SELECT ` + callFields + ` FROM calls WHERE tenant = $1 AND effect = $2
		AND NOT read_only AND state IN ('executing', 'unknown') ORDER BY id LIMIT 20`
	selectEffect    = `SELECT version FROM effects WHERE tenant = $1 AND effect = $2`
	selectRejection = `SELECT approval, note, at FROM rejections WHERE tenant = $1 AND lineage = $2 AND effect = $3`
	selectUnused    = `SELECT id, call FROM approvals WHERE tenant = $1 AND lineage = $2 AND state = 'approved' AND expires > $3 ORDER BY id DESC LIMIT 100`
	selectAnswered  = `SELECT id FROM approvals WHERE tenant = $1 AND state IN ('pending', 'approved') AND id > $2
		AND EXISTS (SELECT 1 FROM answers WHERE answers.tenant = approvals.tenant AND answers.approval = approvals.id
			AND answers.issuer = $3 AND answers.subject = $4 AND answers.word = 'approved') ORDER BY id LIMIT $5`
	selectReady = `SELECT calls.tenant, calls.id FROM runs
		JOIN calls ON calls.tenant = runs.tenant AND calls.run = runs.id AND calls.state IN ('approval_pending', 'unknown')
		LEFT JOIN approvals ON approvals.tenant = calls.tenant AND approvals.id = calls.approval
		WHERE runs.delegation <> '' AND (calls.state = 'unknown' OR approvals.state = 'approved') AND (calls.tenant, calls.id) > ($1, $2) ORDER BY calls.tenant, calls.id LIMIT $3`
	selectDue     = `SELECT tenant, id FROM calls WHERE due IS NOT NULL AND due <= $1 ORDER BY due LIMIT $2`
	selectNextDue = `SELECT due FROM calls WHERE due IS NOT NULL AND due > $1 ORDER BY due LIMIT 1`
	selectLabel   = `SELECT ` + runFields + ` FROM runs WHERE tenant = $1 AND issuer = $2 AND subject = $3 AND agent = $4
		AND label = $5 AND state <> 'terminated' AND NOT vouched AND parent = '' ORDER BY opened DESC, id DESC LIMIT 1`
	selectCounter    = `SELECT counter, level FROM counters WHERE tenant = $1 AND counter = ANY ($2::text[])`
	listCounters     = `SELECT counter, level FROM counters WHERE tenant = $1 AND counter > $2 ORDER BY counter LIMIT $3`
	selectGeneration = `SELECT generation, digest FROM activations ORDER BY generation DESC LIMIT 1`
)

// loading is a call with what belongs to it, as the answers come in.
type loading struct {
	call    *record.Call
	run     *record.Run
	asked   *record.Approval
	answers []record.Reply
}

// queries read a call, its run, its question and that one's answers at once.
func (l *loading) queries(tenant record.TenantID, id record.CallID) []query {
	t, i := string(tenant), string(id)
	return []query{
		ask(one(&l.call, scanCall), selectCall, t, i),
		ask(one(&l.run, scanRun), selectRunOf, t, i),
		ask(one(&l.asked, scanApproval), selectApprovalOf, t, i),
		ask(collect(&l.answers, scanAnswer), selectAnswersOf, t, i),
	}
}

func (l *loading) loaded(id record.CallID) (out dispatch.Loaded, err error) {
	switch {
	case l.call == nil:
		return out, notFound("call", string(id))
	case l.run == nil:
		return out, notFound("run", string(l.call.Run))
	case l.asked == nil && l.call.Approval != "":
		return out, notFound("approval", string(l.call.Approval))
	}
	if l.asked != nil {
		l.asked.Answers = l.answers
	}
	return dispatch.Loaded{Call: *l.call, Run: *l.run, Approval: l.asked}, nil
}

// loadAs reads a call within a transaction.
func loadAs(ctx context.Context, conn interface {
	SendBatch(context.Context, *pgx.Batch) pgx.BatchResults
}, tenant record.TenantID, id record.CallID) (dispatch.Loaded, error) {
	var l loading
	b := &pgx.Batch{}
	for _, q := range l.queries(tenant, id) {
		b.Queue(q.sql, q.args...).Query(q.scan)
	}
	if err := conn.SendBatch(ctx, b).Close(); err != nil {
		return dispatch.Loaded{}, err
	}
	return l.loaded(id)
}

func (v *view) load(tenant record.TenantID, id record.CallID) (dispatch.Loaded, error) {
	return loadAs(v.ctx, v.tx, tenant, id)
}

// loadCall reads a call alone.
func (v *view) loadCall(tenant record.TenantID, id record.CallID) (record.Call, error) {
	var c *record.Call
	if err := v.each(selectCall, one(&c, scanCall), string(tenant), string(id)); err != nil {
		return record.Call{}, err
	}
	if c == nil {
		return record.Call{}, notFound("call", string(id))
	}
	return *c, nil
}

func (v *view) run(k runKey) (r *record.Run, err error) {
	err = v.each(selectRun, one(&r, scanRun), string(k.tenant), string(k.id))
	return r, err
}

func (v *view) approval(tenant record.TenantID, id record.ApprovalID) (*record.Approval, error) {
	var a *record.Approval
	var answers []record.Reply
	err := v.all(ask(one(&a, scanApproval), selectApproval, string(tenant), string(id)),
		ask(collect(&answers, scanAnswer), selectAnswers, string(tenant), string(id)))
	if err != nil {
		return nil, err
	}
	if a == nil {
		return nil, notFound("approval", string(id))
	}
	a.Answers = answers
	return a, nil
}

// Call implements dispatch.Store.
func (s *Store) Call(ctx context.Context, tenant record.TenantID, id record.CallID) (dispatch.Loaded, error) {
	var l loading
	if err := s.read(ctx, only(tenant), l.queries(tenant, id)...); err != nil {
		return dispatch.Loaded{}, err
	}
	return l.loaded(id)
}

// Approval implements dispatch.Store.
func (s *Store) Approval(ctx context.Context, tenant record.TenantID, id record.ApprovalID) (l dispatch.Loaded, err error) {
	err = s.look(ctx, only(tenant), func(v *view) error {
		a, err := v.approval(tenant, id)
		if err != nil {
			return err
		}
		l, err = v.load(tenant, a.Call)
		l.Approval = a // the question asked for, also when the call has a newer one
		return err
	})
	return l, err
}

// Run implements dispatch.Store.
func (s *Store) Run(ctx context.Context, tenant record.TenantID, id record.RunID) (record.Run, error) {
	var r *record.Run
	err := s.read(ctx, only(tenant), ask(one(&r, scanRun), selectRun, string(tenant), string(id)))
	if err == nil && r == nil {
		err = notFound("run", string(id))
	}
	if err != nil {
		return record.Run{}, err
	}
	return *r, nil
}

// LiveRun implements dispatch.Store.
func (s *Store) LiveRun(ctx context.Context, o record.Owner, label string) (record.Run, error) {
	var r *record.Run
	err := s.read(ctx, only(o.Tenant), ask(one(&r, scanRun), selectLabel, string(o.Tenant), o.Principal.Issuer, o.Principal.Subject, string(o.Agent), label))
	if err == nil && r == nil {
		err = notFound("run labelled", label)
	}
	if err != nil {
		return record.Run{}, err
	}
	return *r, nil
}

// Prior implements dispatch.Store.
func (s *Store) Prior(ctx context.Context, tenant record.TenantID, lineage record.LineageID, effect record.EffectKey, occurrence string) (p dispatch.Prior, err error) {
	t, l := string(tenant), string(lineage)
	p.Seen = []record.Seen{{Key: effect}}
	raised := func(i int) query {
		key := p.Seen[i].Key
		return ask(func(c *columns) error { p.Seen[i].Version = c.int(); return nil }, selectEffect, t, key[:])
	}
	var witnessed *record.Call
	queries := []query{
		raised(0),
		rejected(&p.Rejection, tenant, lineage, effect),
		ask(one(&p.Equal, scanCall), selectEqual, t, l, effect[:], occurrence),
		ask(one(&p.Done, scanCall), selectDone, t, effect[:]),
		ask(collect(&p.Unsettled, scanCall), selectUnsettled, t, effect[:]),
	}
	if occurrence != "" {
		p.Seen = append(p.Seen, record.Seen{Key: record.OccurrenceKey(lineage, occurrence)})
		queries = append(queries, raised(1), ask(one(&p.Same, scanCall), selectSame, t, l, occurrence))
	} else {
		queries = append(queries, ask(one(&witnessed, scanCall), selectWitnessed, t, l, effect[:]))
	}
	err = s.read(ctx, only(tenant), queries...)
	if p.Equal == nil {
		p.Equal = witnessed
	}
	return p, err
}

func rejected(into **record.Rejection, tenant record.TenantID, lineage record.LineageID, effect record.EffectKey) query {
	return ask(func(c *columns) error {
		*into = &record.Rejection{Tenant: tenant, Lineage: lineage, Effect: effect, Approval: record.ApprovalID(c.text()), Note: c.text(), At: c.time()}
		return nil
	}, selectRejection, string(tenant), string(lineage), effect[:])
}

// Rejected implements dispatch.Store.
func (s *Store) Rejected(ctx context.Context, tenant record.TenantID, lineage record.LineageID, effect record.EffectKey) (r *record.Rejection, err error) {
	err = s.read(ctx, only(tenant), rejected(&r, tenant, lineage, effect))
	return r, err
}

// Unused implements dispatch.Store.
func (s *Store) Unused(ctx context.Context, tenant record.TenantID, lineage record.LineageID, tool string, now time.Time) (c *record.Call, err error) {
	type given struct {
		approval record.ApprovalID
		call     record.CallID
	}
	err = s.look(ctx, only(tenant), func(v *view) error {
		var list []given
		if err := v.each(selectUnused, collect(&list, func(c *columns) (given, error) {
			return given{record.ApprovalID(c.text()), record.CallID(c.text())}, nil
		}), string(tenant), string(lineage), micro(now)); err != nil {
			return err
		}
		for _, g := range list {
			found, err := v.loadCall(tenant, g.call)
			if err != nil {
				return err
			}
			if found.Tool.Name == tool && !found.Tool.ReadOnly && found.State == record.ApprovalPending && found.Approval == g.approval {
				c = &found
				return nil
			}
		}
		return nil
	})
	return c, err
}

// OpenCalls implements dispatch.Store.
func (s *Store) OpenCalls(ctx context.Context, tenant record.TenantID, run record.RunID, n int) (out []record.Call, err error) {
	err = s.read(ctx, only(tenant), ask(collect(&out, scanCall), selectOpen, string(tenant), string(run), int64(n)))
	return out, err
}

func scanRef(c *columns) (callKey, error) {
	return callKey{record.TenantID(c.text()), record.CallID(c.text())}, nil
}

func (v *view) loadAll(refs []callKey) (out []dispatch.Loaded, err error) {
	for _, r := range refs {
		l, err := v.load(r.tenant, r.id)
		if err != nil {
			return nil, err
		}
		out = append(out, l)
	}
	return out, nil
}

// Due implements dispatch.Store.
func (s *Store) Due(ctx context.Context, now time.Time, n int) (out []dispatch.Loaded, next time.Time, err error) {
	err = s.look(ctx, everyone, func(v *view) error {
		var refs []callKey
		if err := v.all(ask(collect(&refs, scanRef), selectDue, micro(now), int64(n)),
			ask(func(c *columns) error { next = c.time(); return nil }, selectNextDue, micro(now))); err != nil {
			return err
		}
		out, err = v.loadAll(refs)
		return err
	})
	return out, next, err
}

// Ready implements dispatch.Store.
func (s *Store) Ready(ctx context.Context, tenant record.TenantID, after record.CallID, n int) (out []dispatch.Loaded, err error) {
	err = s.look(ctx, everyone, func(v *view) error {
		var refs []callKey
		if err := v.each(selectReady, collect(&refs, scanRef), string(tenant), string(after), int64(n)); err != nil {
			return err
		}
		out, err = v.loadAll(refs)
		return err
	})
	return out, err
}

// Answered implements dispatch.Store.
func (s *Store) Answered(ctx context.Context, tenant record.TenantID, login record.Principal, after record.ApprovalID, n int) (out []record.ApprovalID, err error) {
	err = s.read(ctx, only(tenant), ask(collect(&out, scanApprovalID), selectAnswered, string(tenant), string(after), login.Issuer, login.Subject, int64(n)))
	return out, err
}

func scanApprovalID(c *columns) (record.ApprovalID, error) { return record.ApprovalID(c.text()), nil }

// Levels implements dispatch.Store.
func (s *Store) Levels(ctx context.Context, tenant record.TenantID, counters []record.Counter) ([]record.Level, error) {
	found := map[record.Counter]record.Level{}
	err := s.read(ctx, only(tenant), ask(func(c *columns) error {
		name := record.Counter(c.text())
		level, err := record.ParseLevel(c.text())
		found[name] = level
		return err
	}, selectCounter, string(tenant), texts(counters, func(c record.Counter) string { return string(c) })))
	if err != nil {
		return nil, err
	}
	out := make([]record.Level, len(counters))
	for i, c := range counters {
		out[i] = found[c]
	}
	return out, nil
}

// Counters implements dispatch.Reader.
func (s *Store) Counters(ctx context.Context, tenant record.TenantID, after record.Counter, n int) (out []dispatch.Counted, err error) {
	err = s.read(ctx, only(tenant), ask(collect(&out, func(c *columns) (dispatch.Counted, error) {
		name := record.Counter(c.text())
		level, err := record.ParseLevel(c.text())
		return dispatch.Counted{Counter: name, Level: level}, err
	}), listCounters, string(tenant), string(after), int64(n)))
	return out, err
}

// Generation implements dispatch.Store.
func (s *Store) Generation(ctx context.Context) (g int64, digest string, err error) {
	err = s.read(ctx, only(), ask(func(c *columns) error { g, digest = c.int(), c.text(); return nil }, selectGeneration))
	return g, digest, err
}

// where builds the conditions of a list. Every list begins with its tenant.
type where struct {
	sql  strings.Builder
	args []any
}

// and adds a condition; each ? of it is the next argument.
func (w *where) and(cond string, args ...any) {
	if w.sql.Len() > 0 {
		w.sql.WriteString(" AND ")
	}
	for _, a := range args {
		w.args = append(w.args, a)
		cond = strings.Replace(cond, "?", "$"+strconv.Itoa(len(w.args)), 1)
	}
	w.sql.WriteString(cond)
}

func (w *where) owner(o *record.Owner) {
	if o != nil {
		w.and("issuer = ? AND subject = ? AND agent = ?", o.Principal.Issuer, o.Principal.Subject, string(o.Agent))
	}
}

func in[T ~string](w *where, column string, values []T) {
	if len(values) > 0 {
		w.and(column+" = ANY (?::text[])", texts(values, func(v T) string { return string(v) }))
	}
}

// end adds the order and the limit.
func (w *where) end(order string, n int) string {
	w.args = append(w.args, int64(limit(n)))
	return w.sql.String() + " ORDER BY " + order + " LIMIT $" + strconv.Itoa(len(w.args))
}

func limit(n int) int {
	if n <= 0 {
		return 50
	}
	return min(n, 500)
}

// Calls implements dispatch.Reader.
func (s *Store) Calls(ctx context.Context, q dispatch.CallQuery) (out []record.Call, err error) {
	var w where
	w.and("tenant = ?", string(q.Tenant))
	w.owner(q.Owner)
	if q.Run != "" {
		w.and("run = ?", string(q.Run))
	}
	if d := q.Denied; d != nil {
		w.and("lineage = ? AND effect = ? AND state = 'denied'", string(d.Lineage), d.Effect[:])
	}
	if q.Queued {
		w.and(isOpen + " AND queued AND NOT (state = 'unknown' AND attempt >= attempts)")
	}
	if q.Dead {
		w.and(isDead)
	}
	in(&w, "state", q.States)
	if q.Before != "" {
		w.and("id < ?", string(q.Before))
	}
	sql := `SELECT ` + callFields + ` FROM calls WHERE ` + w.end("id DESC", q.Limit)
	err = s.read(ctx, only(q.Tenant), ask(collect(&out, scanCall), sql, w.args...))
	return out, err
}

// Approvals implements dispatch.Reader.
func (s *Store) Approvals(ctx context.Context, q dispatch.ApprovalQuery) (out []dispatch.Loaded, err error) {
	var w where
	w.and("tenant = ?", string(q.Tenant))
	w.owner(q.Owner)
	in(&w, "state", q.States)
	after, order := "id > ?", "id"
	if q.Newest {
		after, order = "id < ?", "id DESC"
	}
	if q.After != "" {
		w.and(after, string(q.After))
	}
	sql := `SELECT id FROM approvals WHERE ` + w.end(order, q.Limit)
	err = s.look(ctx, only(q.Tenant), func(v *view) error {
		var ids []record.ApprovalID
		if err := v.each(sql, collect(&ids, scanApprovalID), w.args...); err != nil {
			return err
		}
		out, err = v.questions(q.Tenant, ids)
		return err
	})
	return out, err
}

// Runs implements dispatch.Reader.
func (s *Store) Runs(ctx context.Context, q dispatch.RunQuery) (out []record.Run, err error) {
	var w where
	w.and("tenant = ?", string(q.Tenant))
	w.owner(q.Owner)
	if q.Live {
		w.and("state <> 'terminated'")
	}
	if q.Before != "" {
		w.and("id < ?", string(q.Before))
	}
	sql := `SELECT ` + runFields + ` FROM runs WHERE ` + w.end("id DESC", q.Limit)
	err = s.read(ctx, only(q.Tenant), ask(collect(&out, scanRun), sql, w.args...))
	return out, err
}

// Events implements dispatch.Reader.
func (s *Store) Events(ctx context.Context, q dispatch.EventQuery) (out []record.Event, err error) {
	var w where
	whose := only(q.Tenant)
	w.and("seq > ?", q.After)
	switch {
	case q.All:
		whose = everyone
	case q.Server:
		whose = only(q.Tenant, "")
		w.and("tenant IN (?, '')", string(q.Tenant))
	default:
		w.and("tenant = ?", string(q.Tenant))
	}
	switch {
	case q.Run != "" && q.Of != nil:
		w.and(`(run = ? AND call = '' AND run <> '' OR call <> '' AND call = ANY (?::text[]))`, string(q.Run), texts(q.Of, func(id record.CallID) string { return string(id) }))
	case q.Run != "":
		w.and("run = ?", string(q.Run))
	}
	if q.Call != "" {
		w.and("call = ? AND call <> ''", string(q.Call))
	}
	in(&w, "kind", q.Kinds)
	order := "seq"
	if q.Newest {
		order = "seq DESC"
	}
	sql := `SELECT ` + eventFields + ` FROM events WHERE ` + w.end(order, q.Limit)
	err = s.read(ctx, whose, ask(collect(&out, scanEvent), sql, w.args...))
	return out, err
}
