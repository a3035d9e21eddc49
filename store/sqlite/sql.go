package sqlite

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/record"
)

const (
	// The conditions of the partial indexes, word for word, or a leading part of
	// them: that is how SQLite knows that it may use one. They are OR chains,
	// because an IN opens a table of its own on every write.
	isWaiting   = `(state = 'proposed' OR state = 'approval_pending' OR state = 'dispatch_authorized')`
	isOpen      = `(state = 'proposed' OR state = 'approval_pending' OR state = 'dispatch_authorized' OR state = 'executing' OR state = 'unknown')`
	isOpenCall  = `(calls.state = 'proposed' OR calls.state = 'approval_pending' OR calls.state = 'dispatch_authorized' OR calls.state = 'executing' OR calls.state = 'unknown')`
	isUnsettled = `(state = 'executing' OR state = 'unknown')`

	callFields = `tenant, id, run, lineage, turn, kept, issuer, subject, agent, tool, server, tool_version, pin, read_only,
		arguments, input, digest, effect, occurrence, source, route, purpose, details, state, version, decision, binding,
		approval, attempt, attempts, key, lease, holder, holds, outcome, result, proposed, changed, expires, due,
		queued, again, salt`
	runFields = `tenant, id, lineage, parent, issuer, subject, agent, label, vouched, turn, turns, state, version,
		opened, active, ended, why, delegation, replays, granted, until`
	approvalFields = `tenant, id, call, run, lineage, issuer, subject, agent, binding, rule, code, state, version, replaces,
		asked, expires, changed, preview`

	insertCall = `INSERT INTO calls (` + callFields + `) VALUES
		(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`
	updateCall = `UPDATE calls SET state = ?, version = ?, kept = ?, decision = ?, binding = ?, approval = ?, attempt = ?, key = ?,
		lease = ?, holder = ?, holds = ?, outcome = ?, result = ?, changed = ?, expires = ?, due = ?, again = ?, tool_version = ?
		WHERE tenant = ? AND id = ? AND state = ? AND version = ?`
	// settleCall leaves the decision, the binding and the holder alone: they are those of the reservation.
	settleCall = `UPDATE calls SET state = ?, version = ?, lease = ?, holds = ?, outcome = ?, result = ?, changed = ?, due = ?, again = ?
		WHERE tenant = ? AND id = ? AND state = ? AND version = ?`

	redactCall = `UPDATE calls SET version = ?, arguments = ?, input = ?, purpose = ?, details = ?, outcome = ?, result = ?, salt = ?, due = ?
		WHERE tenant = ? AND id = ? AND state = ? AND version = ?`
	// What approvers were shown of a call that is redacted; its digest stays in the rule.
	redactPreviews = `UPDATE approvals INDEXED BY approvals_previewed SET preview = '' WHERE tenant = ? AND call = ? AND preview <> ''`

	upsertRun = `INSERT INTO runs (` + runFields + `) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)
		ON CONFLICT (tenant, id) DO UPDATE SET issuer = excluded.issuer, subject = excluded.subject, agent = excluded.agent, turn = excluded.turn, turns = excluded.turns, state = excluded.state,
		version = excluded.version, active = excluded.active, ended = excluded.ended, why = excluded.why,
		delegation = excluded.delegation`
	touchRun = `UPDATE runs SET active = ? WHERE tenant = ? AND id = ?`

	insertApproval      = `INSERT INTO approvals (` + approvalFields + `, audience, tool) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`
	updateApproval      = `UPDATE approvals SET state = ?, version = ?, changed = ? WHERE tenant = ? AND id = ?`
	selectApprovalState = `SELECT state, version FROM approvals WHERE tenant = ? AND id = ?`
	insertAnswer        = `INSERT INTO answers (tenant, approval, issuer, subject, word, note, groups, binding, at, proof, session) VALUES (?,?,?,?,?,?,?,?,?,?,?)`
	selectAnswer        = `SELECT 1 FROM answers WHERE tenant = ? AND approval = ? AND issuer = ? AND subject = ?`
	selectAnswers       = `SELECT issuer, subject, word, note, groups, binding, at, proof, session FROM answers WHERE tenant = ? AND approval = ? ORDER BY at, issuer, subject`

	// The latest no stands for the effect.
	insertRejection = `INSERT INTO rejections (tenant, lineage, effect, approval, note, at) VALUES (?,?,?,?,?,?)
		ON CONFLICT (tenant, lineage, effect) DO UPDATE SET approval = excluded.approval, note = excluded.note, at = excluded.at`
	selectRejection = `SELECT approval, note, at FROM rejections WHERE tenant = ? AND lineage = ? AND effect = ?`

	insertEvent = `INSERT INTO events (at, tenant, kind, run, call, approval, who, body) VALUES (?,?,?,?,?,?,?,?)`

	selectCounter = `SELECT level FROM counters WHERE tenant = ? AND counter = ?`
	listCounters  = `SELECT counter, level FROM counters WHERE tenant = ? AND counter > ? ORDER BY counter LIMIT ?`
	upsertCounter = `INSERT INTO counters (tenant, counter, level) VALUES (?,?,?) ON CONFLICT (tenant, counter) DO UPDATE SET level = excluded.level`

	selectEffect = `SELECT version FROM effects WHERE tenant = ? AND effect = ?`
	upsertEffect = `INSERT INTO effects (tenant, effect, version) VALUES (?,?,1) ON CONFLICT (tenant, effect) DO UPDATE SET version = version + 1`

	// Without statistics SQLite would rather walk a tenant's calls than use a partial
	// index, so each query names the one it is for.
	selectWaiting = `SELECT id FROM calls INDEXED BY calls_run WHERE tenant = ? AND run = ? AND ` + isWaiting + ` ORDER BY id`
	selectOpen    = `SELECT ` + callFields + ` FROM calls INDEXED BY calls_run WHERE tenant = ? AND run = ? AND ` + isOpen + ` ORDER BY id LIMIT ?`
	selectSame    = `SELECT ` + callFields + ` FROM calls INDEXED BY calls_occurrence WHERE tenant = ? AND lineage = ? AND occurrence = ?
		AND occurrence <> '' AND read_only = 0 ORDER BY id DESC LIMIT 1`
	selectEqual = `SELECT ` + callFields + ` FROM calls INDEXED BY calls_equal WHERE tenant = ? AND lineage = ? AND effect = ? AND occurrence = ?
		AND read_only = 0 AND ` + isOpen
	// A witnessed call that was sent once and comes again without a label.
	selectWitnessed = `SELECT ` + callFields + ` FROM calls INDEXED BY calls_witnessed WHERE tenant = ? AND lineage = ? AND effect = ?
		AND read_only = 0 AND source = 'witnessed' AND ` + isOpen + ` ORDER BY id DESC LIMIT 1`
	selectDone = `SELECT ` + callFields + ` FROM calls INDEXED BY calls_effect WHERE tenant = ? AND effect = ?
		AND read_only = 0 AND state = 'succeeded' ORDER BY changed DESC, id DESC LIMIT 1`
	selectUnsettled = `SELECT ` + callFields + ` FROM calls INDEXED BY calls_effect WHERE tenant = ? AND effect = ?
		AND read_only = 0 AND ` + isUnsettled + ` ORDER BY id LIMIT 20`
	selectUnused = `SELECT id, call FROM approvals INDEXED BY approvals_unused WHERE tenant = ? AND lineage = ? AND state = 'approved' AND expires > ? ORDER BY id DESC LIMIT 100`
	// Few questions are open, so those are walked.
	selectAnswered = `SELECT id FROM approvals INDEXED BY approvals_state WHERE tenant = ? AND (state = 'pending' OR state = 'approved') AND id > ?
		AND EXISTS (SELECT 1 FROM answers WHERE answers.tenant = approvals.tenant AND answers.approval = approvals.id
			AND answers.issuer = ? AND answers.subject = ? AND answers.word = 'approved') ORDER BY id LIMIT ?`
	// Few runs hold a delegation, so those are walked first.
	selectReady = `SELECT calls.tenant, calls.id FROM runs INDEXED BY runs_delegated
		CROSS JOIN calls INDEXED BY calls_run ON calls.tenant = runs.tenant AND calls.run = runs.id AND ` + isOpenCall + `
		LEFT JOIN approvals ON approvals.tenant = calls.tenant AND approvals.id = calls.approval
		WHERE runs.delegation <> '' AND (calls.state = 'unknown' OR calls.state = 'approval_pending' AND approvals.state = 'approved') AND (calls.tenant, calls.id) > (?, ?) ORDER BY calls.tenant, calls.id LIMIT ?`
)

// run executes a statement that returns no rows.
func (w *writer) run(sql string, args ...any) error {
	stmt, err := w.conn.Prepare(sql)
	if err != nil {
		return err
	}
	if err := bind(stmt, args); err != nil {
		return err
	}
	_, err = stmt.Step()
	return errors.Join(err, stmt.Reset())
}

// row reads at most one row.
func (w *writer) row(sql string, scan func(*sqlite.Stmt), args ...any) (found bool, err error) {
	return row(w.conn, sql, scan, args...)
}

func row(conn *sqlite.Conn, sql string, scan func(*sqlite.Stmt), args ...any) (found bool, err error) {
	stmt, err := conn.Prepare(sql)
	if err != nil {
		return false, err
	}
	if err := bind(stmt, args); err != nil {
		return false, err
	}
	found, err = stmt.Step()
	if err == nil && found {
		scan(stmt)
	}
	return found && err == nil, errors.Join(err, stmt.Reset())
}

// each reads every row.
func each(conn *sqlite.Conn, sql string, scan func(*sqlite.Stmt) error, args ...any) (err error) {
	stmt, err := conn.Prepare(sql)
	if err != nil {
		return err
	}
	if err := bind(stmt, args); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stmt.Reset()) }()
	for {
		more, err := stmt.Step()
		if err != nil || !more {
			return err
		}
		if err := scan(stmt); err != nil {
			return err
		}
	}
}

// bind gives a statement its arguments. The types are those of this package's
// own statements; any other is a defect.
func bind(stmt *sqlite.Stmt, args []any) error {
	for i, a := range args {
		p := i + 1
		switch v := a.(type) {
		case nil:
			stmt.BindNull(p)
		case int64:
			stmt.BindInt64(p, v)
		case string:
			stmt.BindText(p, v)
		case text:
			stmt.BindText(p, string(v))
		case []byte:
			stmt.BindBytes(p, v)
		case record.TenantID:
			stmt.BindText(p, string(v))
		case record.CallID:
			stmt.BindText(p, string(v))
		case record.RunID:
			stmt.BindText(p, string(v))
		case record.ApprovalID:
			stmt.BindText(p, string(v))
		case record.TranscriptID:
			stmt.BindText(p, string(v))
		case record.ScheduleID:
			stmt.BindText(p, string(v))
		case record.ShareID:
			stmt.BindText(p, string(v))
		case record.LineageID:
			stmt.BindText(p, string(v))
		case record.AgentID:
			stmt.BindText(p, string(v))
		case record.Counter:
			stmt.BindText(p, string(v))
		case record.State:
			stmt.BindText(p, string(v))
		default:
			return fmt.Errorf("bind argument %d: type %T", p, a)
		}
	}
	return nil
}

// text is JSON stored as TEXT, so that it can be read with any SQLite tool.
type text []byte

func encode(v any) text {
	b, err := json.Marshal(v)
	if err != nil {
		return text("null") // strings, numbers and digests only: it always marshals
	}
	return b
}

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func micro(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func moment(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.UnixMicro(n).UTC()
}

// due is NULL when the clock has nothing to do.
func due(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMicro()
}

// details are the parts of a call that no query looks at.
type details struct {
	Targets []record.Target `json:"targets,omitempty"`
	Edits   record.CallID   `json:"edits,omitempty"`
	Shown   record.CallID   `json:"shown,omitempty"`
	Effect  string          `json:"effect,omitempty"`
	Blank   bool            `json:"blank,omitempty"`

	Supports record.CallID `json:"supports,omitempty"`
	Received canon.Digest  `json:"received,omitzero"`

	Emission record.EmissionID `json:"emission,omitempty"`

	Retention *record.Retention `json:"retention,omitempty"`
	Redacted  *record.Redaction `json:"redacted,omitempty"`
}

func callColumns(c *record.Call) []any {
	return []any{
		c.Tenant, c.ID, c.Run, c.Lineage, int64(c.Turn), int64(c.Kept), c.Principal.Issuer, c.Principal.Subject, c.Agent,
		c.Tool.Name, c.Tool.Server, c.Tool.Version[:], c.Tool.Pin[:], flag(c.Tool.ReadOnly),
		text(c.Arguments), text(c.Input), c.Digest[:], c.Effect[:], c.Occurrence, string(c.Source), string(c.Route), c.Purpose,
		encodeDetails(c), c.State, c.Version, encode(c.Decision), c.Binding[:],
		c.Approval, int64(c.Attempt), int64(c.Attempts), c.Key, micro(c.Lease), holder(c), holds(c), outcome(c), result(c),
		micro(c.Proposed), micro(c.Changed), micro(c.Expires), due(c.Due), flag(c.Queued), due(c.Again), salt(c),
	}
}

func encodeDetails(c *record.Call) text {
	d := details{c.Targets, c.Edits, c.Shown, c.EffectText, c.BlankArguments, c.Supports, c.Received, c.Emission, nil, c.Redacted}
	if c.Retention != (record.Retention{}) {
		d.Retention = &c.Retention
	}
	if len(d.Targets) == 0 && d.Edits == "" && d.Shown == "" && d.Effect == "" && !d.Blank && d.Supports == "" && d.Received.IsZero() && d.Emission == "" && d.Retention == nil && d.Redacted == nil {
		return text("{}")
	}
	return encode(d)
}

// salt is empty in a call that has none; the column is never NULL.
func salt(c *record.Call) []byte { return append([]byte{}, c.Salt...) }

// holder is empty where the last attempt was not handed out.
func holder(c *record.Call) []byte {
	if c.Holder.IsZero() {
		return []byte{}
	}
	return c.Holder[:]
}

func holds(c *record.Call) text {
	if len(c.Holds) == 0 {
		return text("[]")
	}
	return encode(c.Holds)
}

// outcome is the outcome without the result, which has a column of its own: JSON
// inside JSON would not keep its bytes.
func outcome(c *record.Call) text {
	if c.Outcome == nil {
		return text("")
	}
	o := *c.Outcome
	o.Result = nil
	return encode(o)
}

func result(c *record.Call) any {
	if c.Outcome == nil || c.Outcome.Result == nil {
		return nil
	}
	return []byte(c.Outcome.Result)
}

func updateColumns(c *record.Call, m *record.CallMove) []any {
	return []any{
		c.State, c.Version, int64(c.Kept), encode(c.Decision), c.Binding[:], c.Approval, int64(c.Attempt), c.Key,
		micro(c.Lease), holder(c), holds(c), outcome(c), result(c), micro(c.Changed), micro(c.Expires), due(c.Due), due(c.Again),
		c.Tool.Version[:], c.Tenant, c.ID, m.From, m.FromVersion,
	}
}

func settleColumns(c *record.Call, m *record.CallMove) []any {
	return []any{
		c.State, c.Version, micro(c.Lease), holds(c), outcome(c), result(c), micro(c.Changed), due(c.Due), due(c.Again),
		c.Tenant, c.ID, m.From, m.FromVersion,
	}
}

func redactColumns(c *record.Call, m *record.CallMove) []any {
	return []any{
		c.Version, text(c.Arguments), text(c.Input), c.Purpose, encodeDetails(c), outcome(c), result(c), salt(c), due(c.Due),
		c.Tenant, c.ID, m.From, m.FromVersion,
	}
}

// columns reads a row in order.
type columns struct {
	stmt *sqlite.Stmt
	i    int
	err  error
}

func (c *columns) text() string { c.i++; return c.stmt.ColumnText(c.i - 1) }
func (c *columns) int() int64   { c.i++; return c.stmt.ColumnInt64(c.i - 1) }
func (c *columns) flag() bool   { return c.int() != 0 }
func (c *columns) time() time.Time {
	return moment(c.int())
}

func (c *columns) blob() []byte {
	c.i++
	n := c.stmt.ColumnLen(c.i - 1)
	if n == 0 {
		return nil
	}
	b := make([]byte, n)
	c.stmt.ColumnBytes(c.i-1, b)
	return b
}

func (c *columns) digest() (d canon.Digest) {
	b := c.blob()
	if len(b) != len(d) {
		c.err = errors.Join(c.err, fmt.Errorf("a stored digest has %d bytes", len(b)))
		return d
	}
	copy(d[:], b)
	return d
}

// holder reads a digest that need not be there.
func (c *columns) holder() canon.Digest {
	if c.stmt.ColumnLen(c.i) == 0 {
		c.i++
		return canon.Digest{}
	}
	return c.digest()
}

func (c *columns) json(into any) {
	b := c.blob()
	if len(b) == 0 {
		return
	}
	c.err = errors.Join(c.err, json.Unmarshal(b, into))
}
