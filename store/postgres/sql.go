package postgres

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/record"
)

// query is one statement of several that are sent at once.
type query struct {
	sql  string
	args []any
	scan func(pgx.Rows) error
}

// ask is a query whose rows are read one by one.
func ask(scan func(*columns) error, sql string, args ...any) query {
	return query{sql, args, each(scan)}
}

func each(scan func(*columns) error) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		defer rows.Close()
		var c columns
		for rows.Next() {
			c = columns{raw: rows.RawValues()}
			for _, f := range rows.FieldDescriptions() {
				if f.Format != pgx.BinaryFormatCode && f.DataTypeOID != textOID {
					return errors.New("the database answers in another format than asked for")
				}
			}
			if err := scan(&c); err != nil {
				return err
			}
			if c.err != nil {
				return c.err
			}
		}
		return rows.Err()
	}
}

const textOID = 25

// columns reads a row in order. Its types are those of this package's own tables;
// any other is a defect.
type columns struct {
	raw [][]byte
	i   int
	err error
}

func (c *columns) next() []byte {
	if c.i >= len(c.raw) {
		c.err = errors.New("a row has fewer columns than are read")
		return nil
	}
	c.i++
	return c.raw[c.i-1]
}

func (c *columns) text() string { return string(c.next()) }

func (c *columns) int() int64 {
	b := c.next()
	if b == nil {
		return 0
	}
	if len(b) != 8 {
		c.err = errors.Join(c.err, fmt.Errorf("a number has %d bytes", len(b)))
		return 0
	}
	return int64(binary.BigEndian.Uint64(b))
}

func (c *columns) flag() bool {
	b := c.next()
	return len(b) == 1 && b[0] == 1
}

func (c *columns) time() time.Time { return moment(c.int()) }

func (c *columns) blob() []byte {
	b := c.next()
	if len(b) == 0 {
		return nil
	}
	return append([]byte(nil), b...)
}

func (c *columns) digest() (d canon.Digest) {
	b := c.next()
	if len(b) != len(d) {
		c.err = errors.Join(c.err, fmt.Errorf("a stored digest has %d bytes", len(b)))
		return d
	}
	copy(d[:], b)
	return d
}

// holder reads a digest that need not be there.
func (c *columns) holder() canon.Digest {
	if c.i < len(c.raw) && len(c.raw[c.i]) == 0 {
		c.i++
		return canon.Digest{}
	}
	return c.digest()
}

func (c *columns) json(into any) {
	if b := c.next(); len(b) > 0 {
		c.err = errors.Join(c.err, json.Unmarshal(b, into))
	}
}

func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return "null" // strings, numbers and digests only: it always marshals
	}
	return string(b)
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
func due(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	n := t.UnixMicro()
	return &n
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

const (
	isOpen    = `state IN ('proposed', 'approval_pending', 'dispatch_authorized', 'executing', 'unknown')`
	isWaiting = `state IN ('proposed', 'approval_pending', 'dispatch_authorized')`

	callFields = `tenant, id, run, lineage, turn, kept, issuer, subject, agent, tool, server, tool_version, pin, read_only,
		arguments, input, digest, effect, occurrence, source, route, purpose, details, state, version, decision, binding,
		approval, attempt, attempts, key, lease, holder, holds, outcome, result, proposed, changed, expires, due,
		queued, again, salt`
	runFields = `tenant, id, lineage, parent, issuer, subject, agent, label, vouched, turn, turns, state, version,
		opened, active, ended, why, delegation, replays, granted, until`
	approvalFields = `tenant, id, call, run, lineage, issuer, subject, agent, binding, rule, code, state, version, replaces,
		asked, expires, changed, preview`
	eventFields = `seq, at, tenant, kind, run, call, approval, who, body`
)

func callColumns(c *record.Call) []any {
	return []any{
		string(c.Tenant), string(c.ID), string(c.Run), string(c.Lineage), int64(c.Turn), int64(c.Kept), c.Principal.Issuer, c.Principal.Subject, string(c.Agent),
		c.Tool.Name, c.Tool.Server, c.Tool.Version[:], c.Tool.Pin[:], c.Tool.ReadOnly,
		string(c.Arguments), string(c.Input), c.Digest[:], c.Effect[:], c.Occurrence, string(c.Source), string(c.Route), c.Purpose,
		encodeDetails(c), string(c.State), c.Version, encode(c.Decision), c.Binding[:],
		string(c.Approval), int64(c.Attempt), int64(c.Attempts), c.Key, micro(c.Lease), holder(c), holds(c), outcome(c), result(c),
		micro(c.Proposed), micro(c.Changed), micro(c.Expires), due(c.Due), c.Queued, due(c.Again), salt(c),
	}
}

// updateColumns are a move's: what it changes, then what it expects to find.
func updateColumns(c *record.Call, m *record.CallMove) []any {
	return []any{
		string(c.Tenant), string(c.ID), string(m.From), m.FromVersion,
		string(c.State), c.Version, int64(c.Kept), encode(c.Decision), c.Binding[:], string(c.Approval), int64(c.Attempt), c.Key,
		micro(c.Lease), holder(c), holds(c), outcome(c), result(c), micro(c.Changed), micro(c.Expires), due(c.Due), due(c.Again), c.Tool.Version[:],
	}
}

// settleColumns leave the decision, the binding and the holder alone: they are those of the reservation.
func settleColumns(c *record.Call, m *record.CallMove) []any {
	return []any{
		string(c.Tenant), string(c.ID), string(m.From), m.FromVersion,
		string(c.State), c.Version, micro(c.Lease), holds(c), outcome(c), result(c), micro(c.Changed), due(c.Due), due(c.Again),
	}
}

// redactColumns are what is left of a redacted call.
func redactColumns(c *record.Call, m *record.CallMove) []any {
	return []any{
		string(c.Tenant), string(c.ID), string(m.From), m.FromVersion,
		c.Version, string(c.Arguments), string(c.Input), c.Purpose, encodeDetails(c), outcome(c), result(c), salt(c), due(c.Due),
	}
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

func encodeDetails(c *record.Call) string {
	d := details{c.Targets, c.Edits, c.Shown, c.EffectText, c.BlankArguments, c.Supports, c.Received, c.Emission, nil, c.Redacted}
	if c.Retention != (record.Retention{}) {
		d.Retention = &c.Retention
	}
	if len(d.Targets) == 0 && d.Edits == "" && d.Shown == "" && d.Effect == "" && !d.Blank && d.Supports == "" && d.Received.IsZero() && d.Emission == "" && d.Retention == nil && d.Redacted == nil {
		return "{}"
	}
	return encode(d)
}

func holds(c *record.Call) string {
	if len(c.Holds) == 0 {
		return "[]"
	}
	return encode(c.Holds)
}

// outcome is the outcome without the result, which has a column of its own: JSON
// inside JSON would not keep its bytes.
func outcome(c *record.Call) string {
	if c.Outcome == nil {
		return ""
	}
	o := *c.Outcome
	o.Result = nil
	return encode(o)
}

func result(c *record.Call) []byte {
	if c.Outcome == nil {
		return nil
	}
	return c.Outcome.Result
}

func scanCall(col *columns) (record.Call, error) {
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

func scanRun(col *columns) (record.Run, error) {
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
	return r, col.err
}

func runColumns(r record.Run) []any {
	delegation := ""
	if r.Delegation != nil {
		delegation = encode(r.Delegation)
	}
	return []any{string(r.Tenant), string(r.ID), string(r.Lineage), string(r.Parent), r.Principal.Issuer, r.Principal.Subject, string(r.Agent), r.Label,
		r.Vouched, int64(r.Turn), r.Turns, string(r.State), r.Version, micro(r.Opened), micro(r.Active), micro(r.Ended), r.Why, delegation, string(r.Replays), grantText(r.Grant), untilOf(r.Grant)}
}

func scanApproval(col *columns) (record.Approval, error) {
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

func scanAnswer(col *columns) (record.Reply, error) {
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
	return r, col.err
}

func scanEvent(col *columns) (record.Event, error) {
	e := record.Event{Seq: col.int(), At: col.time(), Tenant: record.TenantID(col.text()), Kind: record.EventKind(col.text()),
		Run: record.RunID(col.text()), Call: record.CallID(col.text()), Approval: record.ApprovalID(col.text())}
	col.json(&e.Who)
	e.Body = col.blob()
	return e, col.err
}

func collect[T any](into *[]T, scan func(*columns) (T, error)) func(*columns) error {
	return func(c *columns) error {
		v, err := scan(c)
		*into = append(*into, v)
		return err
	}
}

func one[T any](into **T, scan func(*columns) (T, error)) func(*columns) error {
	return func(c *columns) error {
		v, err := scan(c)
		*into = &v
		return err
	}
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
