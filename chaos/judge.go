package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
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
	attempts map[string][]int64       // numbers of the events that tell of them, by key
	called   map[string]record.CallID // by key
	last     map[record.CallID]record.State
	told     map[record.CallID][]string          // its events
	approval map[record.CallID]record.ApprovalID // consumed by
	consumed map[record.ApprovalID][]int64
	stopped  map[string]int // revocations that count, by what they name
	unknown  int            // calls that were unknown at some time
	late     int
	revoked  int   // revocations
	fired    int   // firings of schedules
	epochs   int   // that were opened over an earlier state
	epoch    int64 // number of the event that tells of the last one
	before   int   // events before it
}

func newLog() *log {
	return &log{attempts: map[string][]int64{}, called: map[string]record.CallID{}, last: map[record.CallID]record.State{}, told: map[record.CallID][]string{},
		approval: map[record.CallID]record.ApprovalID{}, consumed: map[record.ApprovalID][]int64{}, stopped: map[string]int{}}
}

// with is what a log and the one that it took the place of tell together: all of the lost
// one, and of this one what came in its new epoch. What was before is in both.
func (v *verdict) with(side string, l, lost *log) *log {
	if lost == nil {
		return l
	}
	both := newLog()
	add := func(l *log, from int64) {
		for key, all := range l.attempts {
			for _, seq := range all {
				if seq >= from {
					both.attempts[key] = append(both.attempts[key], seq)
				}
			}
		}
		for a, all := range l.consumed {
			for _, seq := range all {
				if seq >= from {
					both.consumed[a] = append(both.consumed[a], seq)
				}
			}
		}
		maps.Copy(both.called, l.called)
		maps.Copy(both.approval, l.approval)
	}
	add(lost, 0)
	for key, call := range l.called {
		if was, ok := both.called[key]; ok && was != call {
			v.add("%s: key %s is that of %s in the lost store, and of %s after it", side, key, was, call)
		}
	}
	add(l, l.epoch)
	return both
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
		if was, ok := l.called[b.Key]; ok && was != e.Call {
			v.add("%s: key %s is that of %s and of %s", side, b.Key, was, e.Call)
		}
		if l.stopped["tool:"+b.Tool] > 0 {
			v.add("%s: %s was reserved (event %d) while its tool %s was revoked", side, e.Call, e.Seq, b.Tool)
		}
		l.attempts[b.Key] = append(l.attempts[b.Key], e.Seq)
		l.called[b.Key] = e.Call
	case record.EventRevocation:
		l.stopped[b.Detail]++
		l.revoked++
	case record.EventRevocationUndone:
		l.stopped[b.Detail]--
	case record.EventFired:
		l.fired++
	case record.EventRecovered:
		l.epochs++
		l.epoch, l.before = e.Seq, l.events-1
	case record.EventUnknown:
		l.unknown++
	case record.EventLate:
		l.late++
	case record.EventApprovalConsumed:
		l.approval[e.Call] = e.Approval
		l.consumed[e.Approval] = append(l.consumed[e.Approval], e.Seq)
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
		if l.called[key] != "" && n > len(l.attempts[key]) {
			v.add("%s: key %s was sent %d times, and %d attempts are recorded", side, key, n, len(l.attempts[key]))
		}
	}
	for q, all := range l.consumed {
		if len(all) > 1 {
			v.add("%s: %s was consumed %d times", side, q, len(all))
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

// reckoning is what is judged of the calls of a store.
type reckoning struct {
	log     *log
	other   *log           // of the store that this one took the place of, or that took its place; or nil
	effects map[string]int // by key
	whole   bool           // everything was settled
	dead    map[record.CallID]bool
}

// elsewhere reports whether a key has an attempt in the other log that this one does not
// have: then the call may have had its effect there, and this store does not know.
func (r reckoning) elsewhere(key string) bool {
	return r.other != nil && slices.ContainsFunc(r.other.attempts[key], func(seq int64) bool { return !slices.Contains(r.log.attempts[key], seq) })
}

// ends judges that every call has ended, as the account says it did, that queued calls
// which came to nothing are listed, and that each firing of a schedule opened one call.
func (v *verdict) ends(ctx context.Context, side string, store recorded, r reckoning) (map[record.State]int, error) {
	l, effects, whole := r.log, r.effects, r.whole
	states, firings := map[record.State]int{}, map[string]record.CallID{}
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
			if c.Dead() != r.dead[c.ID] && whole {
				v.add("%s: %s (%s) is %s and queued: %t, and among the dead calls: %t", side, c.ID, c.Tool.Name, c.State, c.Queued, r.dead[c.ID])
			}
			if c.Route == record.RouteSchedule {
				if was, ok := firings[c.Occurrence]; ok {
					v.add("%s: one firing opened %s and %s", side, was, c.ID)
				}
				firings[c.Occurrence] = c.ID
			}
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
			case c.State != record.Succeeded && r.elsewhere(c.Key):
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
		// Neither a limit nor an operator or another person was against it, and its tool takes it.
		if s.purse == "" && !s.abandoned && !nowhere(s.tool(), s.n) && !slices.Contains(s.states, record.Denied) && !slices.Contains(s.states, record.Revoked) {
			honest++
			if done {
				ran++
			}
		}
	}
	return honest, ran
}
