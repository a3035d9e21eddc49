package postgres

import (
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/placet-dev/placet/record"
)

// What a batch writes. Rows that most calls have go as one statement for all, with
// an array for each column; each statement counts what it found and raises when that
// is not all (held).
var (
	insertCalls = `INSERT INTO calls (` + callFields + `) SELECT * FROM ` + rowsOf(callTypes)
	updateCalls = `WITH k AS (SELECT * FROM ` + rowsOf(updateTypes) + ` AS k (t, i, was, had, state, version, kept, decision, binding, approval,
			attempt, key, lease, holder, holds, outcome, result, changed, expires, due, again, tool_version)),
		u AS (UPDATE calls SET state = k.state, version = k.version, kept = k.kept, decision = k.decision, binding = k.binding, approval = k.approval,
			attempt = k.attempt, key = k.key, lease = k.lease, holder = k.holder, holds = k.holds, outcome = k.outcome, result = k.result, changed = k.changed,
			expires = k.expires, due = k.due, again = k.again, tool_version = k.tool_version
			FROM k WHERE calls.tenant = k.t AND calls.id = k.i AND calls.state = k.was AND calls.version = k.had RETURNING 1)
		SELECT held((SELECT count(*) FROM u), (SELECT count(*) FROM k))`
	settleCalls = `WITH k AS (SELECT * FROM ` + rowsOf(settleTypes) + ` AS k (t, i, was, had, state, version, lease, holds, outcome, result, changed, due, again)),
		u AS (UPDATE calls SET state = k.state, version = k.version, lease = k.lease, holds = k.holds, outcome = k.outcome, result = k.result,
			changed = k.changed, due = k.due, again = k.again
			FROM k WHERE calls.tenant = k.t AND calls.id = k.i AND calls.state = k.was AND calls.version = k.had RETURNING 1)
		SELECT held((SELECT count(*) FROM u), (SELECT count(*) FROM k))`
	upsertRuns = `WITH k AS (SELECT * FROM ` + rowsOf(runTypes) + `),
		u AS (INSERT INTO runs (` + runFields + `) SELECT * FROM k ON CONFLICT (tenant, id) DO UPDATE SET issuer = excluded.issuer, subject = excluded.subject,
			agent = excluded.agent, turn = excluded.turn, turns = excluded.turns, state = excluded.state, version = excluded.version, active = excluded.active,
			ended = excluded.ended, why = excluded.why, delegation = excluded.delegation WHERE runs.version = excluded.version - 1 RETURNING 1)
		SELECT held((SELECT count(*) FROM u), (SELECT count(*) FROM k))`
	insertEvents = `INSERT INTO events (at, tenant, kind, run, call, approval, who, body)
		SELECT at, tenant, kind, run, call, approval, who, body FROM ` + rowsOf(eventTypes) + ` WITH ORDINALITY AS k (at, tenant, kind, run, call, approval, who, body, n) ORDER BY n`
)

const (
	callTypes   = "ttttii" + "ttttt" + "bbf" + "ttbb" + "tttttt" + "itbt" + "iitibtt" + "biiin" + "fnb"
	updateTypes = "ttti" + "tiitbt" + "itibtt" + "biinnb"
	settleTypes = "ttti" + "tiittb" + "inn"
	eventTypes  = "itttttt" + "t"

	runTypes  = "ttttttttfiftiiiitttti"
	touchRuns = `UPDATE runs SET active = k.at FROM unnest($1::text[], $2::text[], $3::bigint[]) AS k (t, i, at) WHERE runs.tenant = k.t AND runs.id = k.i`

	redactCall = `WITH u AS (UPDATE calls SET version = $5, arguments = $6, input = $7, purpose = $8, details = $9, outcome = $10, result = $11, salt = $12, due = $13
			WHERE tenant = $1 AND id = $2 AND state = $3 AND version = $4 RETURNING 1)
		SELECT held((SELECT count(*) FROM u), 1)`
	// What approvers were shown of a call that is redacted; its digest stays in the rule.
	redactPreviews = `UPDATE approvals SET preview = '' WHERE tenant = $1 AND call = $2 AND preview <> ''`

	upsertCounters = `WITH k AS (SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[])),
		u AS (INSERT INTO counters (tenant, counter, level, version) SELECT * FROM k ON CONFLICT (tenant, counter) DO UPDATE
			SET level = excluded.level, version = excluded.version WHERE counters.version = excluded.version - 1 RETURNING 1)
		SELECT held((SELECT count(*) FROM u), (SELECT count(*) FROM k))`
	upsertEffects = `WITH k AS (SELECT * FROM unnest($1::text[], $2::bytea[], $3::bigint[])),
		u AS (INSERT INTO effects (tenant, effect, version) SELECT * FROM k ON CONFLICT (tenant, effect) DO UPDATE
			SET version = excluded.version WHERE effects.version < excluded.version RETURNING 1)
		SELECT held((SELECT count(*) FROM u), (SELECT count(*) FROM k))`
	upsertLineages = `WITH k AS (SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bytea[], $6::text[], $7::text[], $8::text[])),
		u AS (INSERT INTO lineages (tenant, id, version, seq, salt, marks, paid, hold) SELECT * FROM k ON CONFLICT (tenant, id) DO UPDATE
			SET version = excluded.version, seq = excluded.seq, salt = excluded.salt, marks = excluded.marks, paid = excluded.paid, hold = excluded.hold
			WHERE lineages.version <= excluded.version AND lineages.seq <= excluded.seq RETURNING 1)
		SELECT held((SELECT count(*) FROM u), (SELECT count(*) FROM k))`

	insertApproval = `INSERT INTO approvals (` + approvalFields + `, audience, tool) VALUES ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14,$15,$16,$17,$18,$19,$20)`
	updateApproval = `WITH u AS (UPDATE approvals SET state = $1, version = $2, changed = $3 WHERE tenant = $4 AND id = $5 AND state = $6 AND version = $7 RETURNING 1)
		SELECT held((SELECT count(*) FROM u), 1)`
	insertAnswer = `INSERT INTO answers (tenant, approval, issuer, subject, word, note, groups, binding, at, proof, session) VALUES ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11)`

	// The latest no stands for the effect.
	upsertRejection = `INSERT INTO rejections (tenant, lineage, effect, approval, note, at) VALUES ($1,$2,$3,$4,$5,$6)
		ON CONFLICT (tenant, lineage, effect) DO UPDATE SET approval = excluded.approval, note = excluded.note, at = excluded.at`
	upsertStanding = `INSERT INTO standing AS s (tenant, issuer, subject, agent, epoch, since, lineage) VALUES ($1,$2,$3,$4,$5,$6,$7)
		ON CONFLICT (tenant, issuer, subject, agent) DO UPDATE SET epoch = excluded.epoch, lineage = excluded.lineage,
		since = CASE WHEN s.since = 0 OR s.epoch <> excluded.epoch THEN excluded.since ELSE s.since END`
	insertMaterial = `INSERT INTO materials (tenant, lineage, seq, kind, at, call, body) VALUES ($1,$2,$3,$4,$5,$6,$7)`

	insertPasskey = `INSERT INTO passkeys (` + passkeyFields + `) VALUES ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11)`
	deletePasskey = `DELETE FROM passkeys WHERE tenant = $1 AND issuer = $2 AND subject = $3 AND id = $4`
	usePasskey    = `UPDATE passkeys SET count = $1, used = $2 WHERE tenant = $3 AND issuer = $4 AND subject = $5 AND id = $6`

	insertEmission = `INSERT INTO emissions (` + emissionFields + `) VALUES ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14,$15,$16,$17,$18,$19)`
	moveEmission   = `WITH u AS (UPDATE emissions SET state = $1, call = $2 WHERE tenant = $3 AND id = $4 AND call = '' RETURNING 1)
		SELECT held((SELECT count(*) FROM u), 1)`
	insertModelObject  = `INSERT INTO model_objects (tenant, provider, id, run) VALUES ($1,$2,$3,$4)`
	upsertModelRequest = `INSERT INTO model_requests (tenant, run, digest, id, provider, at) VALUES ($1,$2,$3,$4,$5,$6)
		ON CONFLICT (tenant, run, digest) DO UPDATE SET id = excluded.id, provider = excluded.provider, at = excluded.at`
)

// rowsOf is a FROM item of one array for each column. The letters are of types:
// t text, i bigint, n bigint or NULL, b bytea or NULL, f boolean.
func rowsOf(types string) string {
	names := map[rune]string{'t': "text", 'i': "bigint", 'n': "bigint", 'b': "bytea", 'f': "boolean"}
	var b strings.Builder
	b.WriteString("unnest(")
	for i, c := range types {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString("$" + strconv.Itoa(i+1) + "::" + names[c] + "[]")
	}
	b.WriteByte(')')
	return b.String()
}

// table collects rows, column by column.
type table struct {
	n    int
	cols []any
}

func newTable(types string) *table {
	t := &table{cols: make([]any, len(types))}
	for i, c := range types {
		switch c {
		case 't':
			t.cols[i] = []string(nil)
		case 'i':
			t.cols[i] = []int64(nil)
		case 'n':
			t.cols[i] = []*int64(nil)
		case 'b':
			t.cols[i] = [][]byte(nil)
		case 'f':
			t.cols[i] = []bool(nil)
		}
	}
	return t
}

func (t *table) add(row []any) {
	t.n++
	for i, v := range row {
		switch col := t.cols[i].(type) {
		case []string:
			t.cols[i] = append(col, v.(string))
		case []int64:
			t.cols[i] = append(col, v.(int64))
		case []*int64:
			t.cols[i] = append(col, v.(*int64))
		case [][]byte:
			t.cols[i] = append(col, v.([]byte))
		case []bool:
			t.cols[i] = append(col, v.(bool))
		}
	}
}

func (t *table) queue(b *pgx.Batch, sql string) {
	if t.n > 0 {
		b.Queue(sql, t.cols...)
	}
}

// writes is what the changes of a batch write.
type writes struct {
	inserts, updates, settles *table
	events                    *table
	runs                      map[runKey]record.Run
	touched                   map[runKey]int64 // when
	counters                  map[counterKey]counterAt
	effects                   map[effectKey]int64
	lineages                  map[lineageKey]record.Lineage
	rest                      []query         // in the order of the changes
	moved                     []record.CallID // what other processes are told
}

func newWrites() *writes {
	return &writes{newTable(callTypes), newTable(updateTypes), newTable(settleTypes), newTable(eventTypes),
		map[runKey]record.Run{}, map[runKey]int64{}, map[counterKey]counterAt{}, map[effectKey]int64{}, map[lineageKey]record.Lineage{}, nil, nil}
}

func (w *writes) queue(sql string, args ...any) { w.rest = append(w.rest, query{sql: sql, args: args}) }

func (w *writes) call(m *record.CallMove, row []any) {
	switch {
	case m.Redacts:
		w.queue(redactCall, row...)
		w.queue(redactPreviews, string(m.After.Tenant), string(m.After.ID))
	case m.From == record.None:
		w.inserts.add(row)
	case m.From == record.Executing:
		w.settles.add(row)
	default:
		w.updates.add(row)
	}
}

func (w *writes) empty() bool { return w.events.n == 0 && len(w.rest) == 0 && len(w.touched) == 0 }

// send queues everything, and COMMIT. What ends an open call comes before what opens
// one, and the log's lock, which all replicas want, as late as can be.
func (w *writes) send(b *pgx.Batch, origin string) {
	runs := newTable(runTypes)
	for _, r := range w.runs {
		runs.add(runColumns(r))
	}
	runs.queue(b, upsertRuns)
	touched := newTable("tti")
	for k, at := range w.touched {
		touched.add([]any{string(k.tenant), string(k.id), at})
	}
	touched.queue(b, touchRuns)
	w.settles.queue(b, settleCalls)
	w.updates.queue(b, updateCalls)
	w.inserts.queue(b, insertCalls)
	counters := newTable("ttti")
	for k, c := range w.counters {
		counters.add([]any{string(k.tenant), string(k.counter), c.level.Marshal(), c.version + 1})
	}
	counters.queue(b, upsertCounters)
	effects := newTable("tbi")
	for k, version := range w.effects {
		effects.add([]any{string(k.tenant), k.key[:], version})
	}
	effects.queue(b, upsertEffects)
	lineages := newTable("ttiibttt")
	for k, l := range w.lineages {
		salt, hold := l.Salt, ""
		if l.Hold != nil {
			hold = encode(l.Hold)
		}
		if salt == nil {
			salt = []byte{}
		}
		lineages.add([]any{string(k.tenant), string(k.id), l.Version, l.Seq, salt, encode(l.Marks), encode(l.Paid), hold})
	}
	lineages.queue(b, upsertLineages)
	for _, q := range w.rest {
		b.Queue(q.sql, q.args...)
	}
	w.notify(b, origin)
	b.Queue(takeLocks, []int64{lockOf(lockLog)}, []bool{true})
	w.events.queue(b, insertEvents)
	b.Queue("COMMIT").Exec(func(tag pgconn.CommandTag) error {
		if tag.String() != "COMMIT" {
			return errNotCommitted
		}
		return nil
	})
}
