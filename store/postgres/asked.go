package postgres

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

const (
	selectAsked      = `SELECT id, audience, issuer, subject, agent, tool FROM approvals WHERE tenant = $1 AND state = $2 AND id < $3 ORDER BY id DESC LIMIT $4`
	selectAskedOfRun = `SELECT id, audience, issuer, subject, agent, tool FROM approvals WHERE tenant = $1 AND run = $2 AND state = 'pending' AND id < $3 ORDER BY id DESC LIMIT $4`
	selectRule       = `SELECT rule FROM approvals WHERE tenant = $1 AND id = $2`
	// Of the newest 300 that people approved for an owner, the newest of a tool.
	selectApproved = `SELECT given.id, given.call FROM (SELECT tenant, id, call FROM approvals
			WHERE tenant = $1 AND issuer = $2 AND subject = $3 AND agent = $4 AND state IN ('approved', 'consumed') ORDER BY id DESC LIMIT 300) AS given
		JOIN calls ON calls.tenant = given.tenant AND calls.id = given.call WHERE calls.tool = $5 AND calls.id < $6
		ORDER BY given.id DESC LIMIT 1`
)

// askedWork is how many entries of an index one look walks: some milliseconds.
const askedWork = 20_000

// askedPage is how many of them are fetched at once.
const askedPage = 500

// audienceOf is a rule's digest, never 0.
func audienceOf(rule []byte) int64 {
	d := sha256.Sum256(rule)
	return int64(binary.BigEndian.Uint64(d[:8]) | 1)
}

// asking is one look for somebody's questions.
type asking struct {
	v     *view
	q     dispatch.AskedQuery
	reach map[int64]record.Reach // by audience
}

// Asked implements dispatch.Reader.
func (s *Store) Asked(ctx context.Context, q dispatch.AskedQuery) (out dispatch.Asked, err error) {
	err = s.look(ctx, only(q.Tenant), func(v *view) error {
		a := &asking{v, q, map[int64]record.Reach{}}
		ids, next, err := a.find(limit(q.Limit))
		if err != nil {
			return err
		}
		out.Next = next
		out.Found, err = v.questions(q.Tenant, ids)
		return err
	})
	return out, err
}

// find merges what each state has. What lies beyond where a walk was cut is another page.
func (a *asking) find(limit int) (ids []record.ApprovalID, next record.ApprovalID, err error) {
	after := cmp.Or(a.q.After, "b") // beyond every ID: they begin with "apr_"
	states := a.q.States
	if a.q.Run != "" {
		states = []record.ApprovalState{record.Pending}
	}
	for _, state := range states {
		query, by := selectAsked, string(state)
		if a.q.Run != "" {
			query, by = selectAskedOfRun, string(a.q.Run)
		}
		found, cut, err := a.walk(query, by, after, limit+1, askedWork/len(states))
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

// askedRow is what the index says of a question.
type askedRow struct {
	id          record.ApprovalID
	audience    int64
	person      record.Principal
	agent, tool string
}

// walk collects at most n questions of one state, newest first, from an index alone.
// cut is the last one looked at, where there may be more.
func (a *asking) walk(query, by string, after record.ApprovalID, n, work int) (found []record.ApprovalID, cut record.ApprovalID, err error) {
	for {
		var page []askedRow
		err := a.v.each(query, collect(&page, func(c *columns) (askedRow, error) {
			return askedRow{record.ApprovalID(c.text()), c.int(), record.Principal{Issuer: c.text(), Subject: c.text()}, c.text(), c.text()}, nil
		}), string(a.q.Tenant), by, string(after), int64(askedPage))
		if err != nil {
			return nil, "", err
		}
		for _, r := range page {
			reach, err := a.reachOf(r)
			if err != nil {
				return nil, "", err
			}
			if (reach.Own || reach.Others) && a.fits(reach, r) {
				found = append(found, r.id)
			}
			if work--; len(found) == n || work <= 0 {
				return found, r.id, nil
			}
			after = r.id
		}
		if len(page) < askedPage {
			return found, "", nil
		}
	}
}

func (a *asking) fits(reach record.Reach, r askedRow) bool {
	equal := func(want, have string) bool { return want == "" || strings.EqualFold(want, have) }
	return (reach.Own && reach.Others || reach.Of(a.q.Person == r.person)) &&
		equal(a.q.For, r.person.Subject) && equal(a.q.Agent, r.agent) && equal(a.q.Tool, r.tool)
}

// reachOf reads a rule once for each audience.
func (a *asking) reachOf(r askedRow) (record.Reach, error) {
	if reach, ok := a.reach[r.audience]; ok && r.audience != 0 {
		return reach, nil
	}
	var text string
	found, err := a.v.row(selectRule, func(c *columns) { text = c.text() }, string(a.q.Tenant), string(r.id))
	if err != nil {
		return record.Reach{}, err
	}
	if !found {
		return record.Reach{}, errors.New("a question without a rule")
	}
	var rule record.ApprovalRule
	if err := json.Unmarshal([]byte(text), &rule); err != nil {
		return record.Reach{}, err
	}
	a.reach[r.audience] = rule.Reach(a.q.Person, a.q.Groups)
	return a.reach[r.audience], nil
}

const (
	selectQuestions = `SELECT ` + approvalFields + ` FROM approvals WHERE tenant = $1 AND id = ANY ($2::text[])`
	selectReplies   = `SELECT approval, ` + answerFields + ` FROM answers WHERE tenant = $1 AND approval = ANY ($2::text[]) ORDER BY at, issuer, subject`
	selectCalls     = `SELECT ` + callFields + ` FROM calls WHERE tenant = $1 AND id IN (SELECT call FROM approvals WHERE tenant = $1 AND id = ANY ($2::text[]))`
	selectTheirRuns = `SELECT ` + runFields + ` FROM runs WHERE tenant = $1 AND id IN (SELECT run FROM approvals WHERE tenant = $1 AND id = ANY ($2::text[]))`
)

// questions loads questions with their calls and runs, in the order given.
func (v *view) questions(tenant record.TenantID, ids []record.ApprovalID) ([]dispatch.Loaded, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	asked := map[record.ApprovalID]*record.Approval{}
	calls := map[record.CallID]record.Call{}
	runs := map[record.RunID]record.Run{}
	answers := map[record.ApprovalID][]record.Reply{}
	t, names := string(tenant), texts(ids, func(id record.ApprovalID) string { return string(id) })
	err := v.all(
		ask(func(c *columns) error { a, err := scanApproval(c); asked[a.ID] = &a; return err }, selectQuestions, t, names),
		ask(func(c *columns) error {
			id := record.ApprovalID(c.text())
			r, err := scanAnswer(c)
			answers[id] = append(answers[id], r)
			return err
		}, selectReplies, t, names),
		ask(func(c *columns) error { call, err := scanCall(c); calls[call.ID] = call; return err }, selectCalls, t, names),
		ask(func(c *columns) error { r, err := scanRun(c); runs[r.ID] = r; return err }, selectTheirRuns, t, names),
	)
	if err != nil {
		return nil, err
	}
	out := make([]dispatch.Loaded, 0, len(ids))
	for _, id := range ids {
		a := asked[id]
		if a == nil {
			return nil, notFound("approval", string(id))
		}
		call, ok := calls[a.Call]
		if !ok {
			return nil, notFound("call", string(a.Call))
		}
		run, ok := runs[call.Run]
		if !ok {
			return nil, notFound("run", string(call.Run))
		}
		a.Answers = answers[id]
		out = append(out, dispatch.Loaded{Call: call, Run: run, Approval: a})
	}
	return out, nil
}

// Approved implements dispatch.Reader.
func (s *Store) Approved(ctx context.Context, q dispatch.ApprovedQuery) (found *dispatch.Loaded, err error) {
	o := q.Owner
	err = s.look(ctx, only(o.Tenant), func(v *view) error {
		var approval record.ApprovalID
		ok, err := v.row(selectApproved, func(c *columns) { approval = record.ApprovalID(c.text()) },
			string(o.Tenant), o.Principal.Issuer, o.Principal.Subject, string(o.Agent), q.Tool, string(cmp.Or(q.Before, "d")))
		if err != nil || !ok {
			return err
		}
		list, err := v.questions(o.Tenant, []record.ApprovalID{approval})
		if err == nil {
			found = &list[0]
		}
		return err
	})
	return found, err
}
