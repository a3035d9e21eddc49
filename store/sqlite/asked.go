package sqlite

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"zombiezen.com/go/sqlite"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

const (
	selectAsked = `SELECT id, audience, issuer, subject, agent, tool FROM approvals INDEXED BY approvals_state
		WHERE tenant = ? AND state = ? AND id < ? ORDER BY id DESC`
	selectAskedOfRun = `SELECT id, audience, issuer, subject, agent, tool FROM approvals INDEXED BY approvals_run
		WHERE tenant = ? AND state = 'pending' AND run = ? AND id < ? ORDER BY id DESC`
	selectRule = `SELECT rule FROM approvals WHERE tenant = ? AND id = ?`
	// Of the newest 300 that people approved for an owner, the newest of a tool.
	selectApproved = `SELECT given.id, given.call FROM (SELECT tenant, id, call FROM approvals INDEXED BY approvals_given
			WHERE tenant = ? AND issuer = ? AND subject = ? AND agent = ? AND (state = 'approved' OR state = 'consumed') ORDER BY id DESC LIMIT 300) AS given
		CROSS JOIN calls ON calls.tenant = given.tenant AND calls.id = given.call WHERE calls.tool = ? AND calls.id < ?
		ORDER BY given.id DESC LIMIT 1`

	selectMade      = `SELECT id FROM calls INDEXED BY calls_made WHERE tenant = ? AND run = ? ORDER BY id DESC LIMIT ?`
	selectDenied    = `SELECT id FROM calls INDEXED BY calls_denied WHERE tenant = ? AND lineage = ? AND effect = ? AND state = 'denied' ORDER BY id DESC LIMIT ?`
	selectRunEvents = `SELECT seq FROM events INDEXED BY events_run WHERE run = ? AND call = '' AND run <> ''`
)

// askedWork is how many entries of an index one look walks: some milliseconds.
const askedWork = 20_000

// audienceOf is a rule's digest, never 0.
func audienceOf(rule []byte) int64 {
	d := sha256.Sum256(rule)
	return int64(binary.BigEndian.Uint64(d[:8]) | 1)
}

// errEnough ends a walk.
var errEnough = errors.New("enough")

// asking is one look for somebody's questions.
type asking struct {
	conn  *sqlite.Conn
	q     dispatch.AskedQuery
	reach map[int64]record.Reach // by audience
}

// Asked implements dispatch.Reader.
func (s *Store) Asked(ctx context.Context, q dispatch.AskedQuery) (out dispatch.Asked, err error) {
	limit := int((&where{}).limit(q.Limit))
	err = s.read(ctx, func(conn *sqlite.Conn) error {
		a := &asking{conn, q, map[int64]record.Reach{}}
		ids, next, err := a.find(limit)
		if err != nil {
			return err
		}
		out.Next = next
		out.Found, err = loadQuestions(conn, q.Tenant, ids)
		return err
	})
	return out, err
}

// find merges what each state has. What lies beyond where a walk was cut is another page.
func (a *asking) find(limit int) (ids []record.ApprovalID, next record.ApprovalID, err error) {
	after := string(cmp.Or(a.q.After, "b")) // beyond every ID: they begin with "apr_"
	states := a.q.States
	if a.q.Run != "" {
		states = []record.ApprovalState{record.Pending}
	}
	for _, state := range states {
		query, args := selectAsked, []any{a.q.Tenant, string(state), after}
		if a.q.Run != "" {
			query, args = selectAskedOfRun, []any{a.q.Tenant, a.q.Run, after}
		}
		found, cut, err := a.walk(query, args, limit+1, askedWork/len(states))
		if err != nil {
			return nil, "", err
		}
		ids, next = append(ids, found...), max(next, cut)
	}
	slices.SortFunc(ids, func(x, y record.ApprovalID) int { return cmp.Compare(y, x) })
	if next != "" {
		ids = slices.DeleteFunc(ids, func(id record.ApprovalID) bool { return id < next })
	}
	if len(ids) > limit {
		ids, next = ids[:limit], ids[limit-1]
	}
	return ids, next, nil
}

// walk collects at most n questions of one state, newest first, from an index alone.
// cut is the last one looked at, where there may be more.
func (a *asking) walk(query string, args []any, n, work int) (found []record.ApprovalID, cut record.ApprovalID, err error) {
	err = each(a.conn, query, func(s *sqlite.Stmt) error {
		id := record.ApprovalID(s.ColumnText(0))
		reach, err := a.reachOf(s.ColumnInt64(1), id)
		if err != nil {
			return err
		}
		if (reach.Own || reach.Others) && a.fits(reach, s) {
			found = append(found, id)
		}
		if work--; len(found) == n || work <= 0 {
			cut = id
			return errEnough
		}
		return nil
	}, args...)
	if errors.Is(err, errEnough) {
		return found, cut, nil
	}
	return found, "", err
}

func (a *asking) fits(reach record.Reach, s *sqlite.Stmt) bool {
	equal := func(want string, column int) bool { return want == "" || strings.EqualFold(want, s.ColumnText(column)) }
	return (reach.Own && reach.Others || reach.Of(a.q.Person == record.Principal{Issuer: s.ColumnText(2), Subject: s.ColumnText(3)})) &&
		equal(a.q.For, 3) && equal(a.q.Agent, 4) && equal(a.q.Tool, 5)
}

// reachOf reads a rule once for each audience.
func (a *asking) reachOf(audience int64, id record.ApprovalID) (record.Reach, error) {
	if r, ok := a.reach[audience]; ok && audience != 0 {
		return r, nil
	}
	var text string
	if _, err := row(a.conn, selectRule, func(s *sqlite.Stmt) { text = s.ColumnText(0) }, a.q.Tenant, id); err != nil {
		return record.Reach{}, err
	}
	var rule record.ApprovalRule
	if err := json.Unmarshal([]byte(text), &rule); err != nil {
		return record.Reach{}, err
	}
	a.reach[audience] = rule.Reach(a.q.Person, a.q.Groups)
	return a.reach[audience], nil
}

// loadQuestions loads questions with their calls; a run that several share, once.
func loadQuestions(conn *sqlite.Conn, tenant record.TenantID, ids []record.ApprovalID) ([]dispatch.Loaded, error) {
	var out []dispatch.Loaded
	runs := map[record.RunID]record.Run{}
	for _, id := range ids {
		a, err := selectApproval(conn, tenant, id)
		if err != nil {
			return nil, err
		}
		l, err := loadCall(conn, tenant, a.Call)
		if err != nil {
			return nil, err
		}
		run, ok := runs[l.Call.Run]
		if !ok {
			if run, ok, err = selectRun(conn, runKey{tenant, l.Call.Run}); err != nil {
				return nil, err
			}
			if !ok {
				return nil, notFound("run", string(l.Call.Run))
			}
			runs[run.ID] = run
		}
		l.Run, l.Approval = run, a
		out = append(out, l)
	}
	return out, nil
}

// Approved implements dispatch.Reader.
func (s *Store) Approved(ctx context.Context, q dispatch.ApprovedQuery) (found *dispatch.Loaded, err error) {
	err = s.read(ctx, func(conn *sqlite.Conn) error {
		var approval record.ApprovalID
		o := q.Owner
		ok, err := row(conn, selectApproved, func(s *sqlite.Stmt) { approval = record.ApprovalID(s.ColumnText(0)) },
			o.Tenant, o.Principal.Issuer, o.Principal.Subject, o.Agent, q.Tool, cmp.Or(q.Before, "d"))
		if err != nil || !ok {
			return err
		}
		list, err := loadQuestions(conn, o.Tenant, []record.ApprovalID{approval})
		if err == nil {
			found = &list[0]
		}
		return err
	})
	return found, err
}
