package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

// recorded is what the judge reads of a store when its servers have ended.
type recorded interface {
	dispatch.Reader
	Close() error
}

// log is a side's event log, as the judge needs it.
type log struct {
	events   int
	executed map[string]int           // attempts recorded by key
	called   map[string]record.CallID // by key
	last     map[record.CallID]record.State
	told     map[record.CallID][]string          // its events
	approval map[record.CallID]record.ApprovalID // consumed by
	consumed map[record.ApprovalID]int
	unknown  int // calls that were unknown at some time
	late     int
}

func newLog() *log {
	return &log{executed: map[string]int{}, called: map[string]record.CallID{}, last: map[record.CallID]record.State{}, told: map[record.CallID][]string{},
		approval: map[record.CallID]record.ApprovalID{}, consumed: map[record.ApprovalID]int{}}
}

// verdict collects what must not be.
type verdict struct{ violations []string }

func (v *verdict) add(format string, args ...any) {
	v.violations = append(v.violations, fmt.Sprintf(format, args...))
}

// moves are the states that events tell of.
var moves = map[record.EventKind]record.State{
	record.EventProposed: record.Proposed, record.EventAsked: record.ApprovalPending, record.EventAuthorized: record.DispatchAuthorized,
	record.EventExecuting: record.Executing, record.EventSucceeded: record.Succeeded, record.EventFailed: record.Failed,
	record.EventUnknown: record.Unknown, record.EventDenied: record.Denied, record.EventExpired: record.Expired,
	record.EventCanceled: record.Canceled, record.EventRevoked: record.Revoked,
}

// readLog reads all events, and judges what the log alone shows: its numbers rise,
// without a hole on SQLite, and nothing happened to a call after its end. PostgreSQL's
// numbers are a sequence's, which skips some when the database crashes.
func (v *verdict) readLog(ctx context.Context, side string, store recorded) (*log, error) {
	l := newLog()
	for after := int64(0); ; {
		page, err := store.Events(ctx, dispatch.EventQuery{All: true, After: after, Limit: 500})
		if err != nil {
			return nil, err
		}
		if len(page) == 0 {
			return l, nil
		}
		for _, e := range page {
			if e.Seq <= after || e.Seq != after+1 && side == "sqlite" {
				v.add("%s: the log goes from %d to %d", side, after, e.Seq)
			}
			after = e.Seq
			l.events++
			if err := v.read(side, l, e); err != nil {
				return nil, err
			}
		}
	}
}

func (v *verdict) read(side string, l *log, e record.Event) error {
	var b record.Body
	if err := json.Unmarshal(e.Body, &b); err != nil {
		return fmt.Errorf("event %d: %w", e.Seq, err)
	}
	to, moved := moves[e.Kind]
	if e.Kind == record.EventReconciled {
		to, moved = record.State(b.Detail), true
	}
	if moved && e.Call != "" {
		if was := l.last[e.Call]; was.Terminal() {
			v.add("%s: %s was %s, and then %s (event %d)", side, e.Call, was, e.Kind, e.Seq)
		}
		l.last[e.Call] = to
	}
	if e.Call != "" {
		l.told[e.Call] = append(l.told[e.Call], e.At.Format("15:04:05 ")+string(e.Kind))
	}
	switch e.Kind {
	case record.EventExecuting:
		l.executed[b.Key]++
		l.called[b.Key] = e.Call
	case record.EventUnknown:
		l.unknown++
	case record.EventLate:
		l.late++
	case record.EventApprovalConsumed:
		l.approval[e.Call] = e.Approval
		if l.consumed[e.Approval]++; l.consumed[e.Approval] > 1 {
			v.add("%s: %s was consumed %d times", side, e.Approval, l.consumed[e.Approval])
		}
	}
	return nil
}

// reads reports whether a tool of ours changes nothing.
func reads(tool string) bool { return tool == "look" }

// byKey counts effects of one side by key: what the world saw.
func byKey(all []effect, side string) map[string]int {
	n := map[string]int{}
	for _, e := range all {
		if e.Side == side && !e.Again && !reads(e.Tool) {
			n[e.Key]++
		}
	}
	return n
}

// effects judges the tool server's account against the log: no effect without an
// earlier record, no key twice, one approval one effect.
func (v *verdict) effects(side string, l *log, all []effect) {
	sent, approvals := map[string]int{}, map[record.ApprovalID]int{}
	for _, e := range all {
		if e.Side != side {
			continue
		}
		sent[e.Key]++
		call, ok := l.called[e.Key]
		if !ok {
			v.add("%s: %s %d with key %q has no executing record", side, e.Tool, e.N, e.Key)
			continue
		}
		if e.Tool == "wire" {
			q, ok := l.approval[call]
			if !ok {
				v.add("%s: %s had its effect, and no approval was consumed by it", side, call)
			} else if approvals[q]++; approvals[q] > 1 {
				v.add("%s: %s has %d effects", side, q, approvals[q])
			}
		}
	}
	for key, n := range sent {
		if l.called[key] != "" && n > l.executed[key] {
			v.add("%s: key %s was sent %d times, and %d attempts are recorded", side, key, n, l.executed[key])
		}
	}
	for key, n := range byKey(all, side) {
		if n > 1 {
			v.add("%s: key %s has %d effects", side, key, n)
		}
	}
}

// limits judges what was spent, by the account alone.
func (v *verdict) limits(side string, all []effect) (full int) {
	spent, stamped := map[string]int{}, map[string]int{}
	for _, e := range all {
		switch {
		case e.Side != side:
		case e.Tool == "draw":
			spent[e.Purse] += e.Amount
		case e.Tool == "stamp":
			stamped[e.Purse]++
		}
	}
	for p, n := range spent {
		if n > purse {
			v.add("%s: %s spent %d of %d", side, p, n, purse)
		}
		if n > purse-30 {
			full++
		}
	}
	for p, n := range stamped {
		if n > stamps {
			v.add("%s: %s has %d stamps of %d", side, p, n, stamps)
		}
	}
	return full
}

// ends judges that every call has ended, as the account says it did.
func (v *verdict) ends(ctx context.Context, side string, store recorded, l *log, effects map[string]int, whole bool) (map[record.State]int, error) {
	states := map[record.State]int{}
	for before := record.CallID(""); ; {
		page, err := store.Calls(ctx, dispatch.CallQuery{Tenant: "dev", Before: before, Limit: 500})
		if err != nil {
			return nil, err
		}
		if len(page) == 0 {
			return states, nil
		}
		for _, c := range page {
			before = c.ID
			states[c.State]++
			n := effects[c.Key]
			if c.Key == "" {
				n = 0
			}
			switch {
			case l.last[c.ID] != c.State:
				v.add("%s: %s is %s, and its events say %s", side, c.ID, c.State, l.last[c.ID])
			case !c.State.Terminal() && !whole:
			case !c.State.Terminal():
				v.add("%s: %s (%s) is %s after everything was settled: %s", side, c.ID, c.Tool.Name, c.State, strings.Join(l.told[c.ID], ", "))
			case reads(c.Tool.Name):
			case c.State == record.Succeeded && n != 1:
				v.add("%s: %s (%s) succeeded, and has %d effects", side, c.ID, c.Tool.Name, n)
			case c.State != record.Succeeded && n != 0:
				v.add("%s: %s (%s) is %s, and has %d effects", side, c.ID, c.Tool.Name, c.State, n)
			}
		}
	}
}

// answers judges what callers were told: a thing that was wanted once happened at most
// once, however often it was asked for, and it did where they were told so.
func (v *verdict) answers(side string, told []said, all []effect) (honest, ran int) {
	happened := map[string]map[int]int{}
	for _, e := range all {
		if e.Side != side || e.Again {
			continue
		}
		if happened[e.Tool] == nil {
			happened[e.Tool] = map[int]int{}
		}
		happened[e.Tool][e.N]++
	}
	for _, s := range told {
		n := happened[s.tool()][s.n]
		done := slices.Contains(s.states, record.Succeeded)
		switch {
		case reads(s.tool()):
			if done && n == 0 {
				v.add("%s: %s %d was told to have run, and did not", side, s.tool(), s.n)
			}
		case n > 1:
			v.add("%s: %s %d was wanted once and has %d effects", side, s.tool(), s.n, n)
		case done && n != 1:
			v.add("%s: %s %d was told to have succeeded and has %d effects", side, s.tool(), s.n, n)
		}
		if s.purse == "" && !slices.Contains(s.states, record.Denied) { // neither a limit nor a person was against it
			honest++
			if done {
				ran++
			}
		}
	}
	return honest, ran
}
