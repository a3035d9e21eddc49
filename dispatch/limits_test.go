package dispatch_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

const spendingYAML = `
version: 1
servers:
  desk: {url: "http://127.0.0.1:1/mcp"}
defaults: {per_minute: 0, concurrent: 0}
tools:
  look: {server: desk, scope: read, read: true}
  transfer:
    server: desk
    scope: refunds
    financial: true
    sources: [direct, vouched, witnessed]
    approval: {when: asked, approvers: ["group:leads"]}
    repeat: {within: 10m, answer: run}
    cost: {argument: amount, currency: "{order}"}
  search: {server: desk, scope: read, read: true, cost: {price: "0.25", currency: EUR}}
  model:
    server: desk
    scope: refunds
    write: true
    sources: [direct]
    approval: {when: asked}
    repeat: {within: 10m, answer: run}
    cost: {result: usage.cost, most: 4, currency: EUR}
  refund:
    server: desk
    scope: refunds
    financial: true
    sources: [direct, vouched, witnessed]
    targets: [order]
    repeat: {within: 10m, answer: run}
    autonomous_limit: {argument: amount, max: 200, per_target: 250, count: 4, within: 1h}
    approval: {when: above_limit, approvers: ["group:leads"], expires: 2h}
  shared: {server: desk, scope: refunds, write: true, sources: [direct], approval: {when: asked}, repeat: {within: 10m, answer: run}, per_tenant: {per_minute: 3}}
  single: {server: desk, scope: refunds, write: true, sources: [direct], approval: {when: asked}, per_tenant: {concurrent: 1}}
`

func spends(run, day dispatch.Money) func(*scene) {
	return func(s *scene) {
		s.yaml = spendingYAML
		s.limits = dispatch.Limits{MoneyPerRun: run, MoneyPerDay: day, CallsPerRun: 1 << 30}
	}
}

func euros(n int64) dispatch.Money { return dispatch.Money{"EUR": n * 1_000_000} }

// Money is counted in millionths of its currency, and a currency without a limit
// has none to spend.
func TestMoneyPerRunAndDay(t *testing.T) {
	s := newScene(t, spends(euros(100), euros(150)))
	pay := func(amount string, edits ...func(*dispatch.Proposal)) dispatch.Answer {
		return s.do(anna, "transfer", fmt.Sprintf(`{"order":"EUR","amount":%s}`, amount), edits...)
	}
	s.wants(pay("60"), record.Allow, record.CodeNone, record.Succeeded)
	s.wants(pay("40.000001"), record.Deny, record.CodeLimitReached, record.Proposed)
	s.wants(pay("40"), record.Allow, record.CodeNone, record.Succeeded) // exactly what is left
	s.wants(pay("0.000001"), record.Deny, record.CodeLimitReached, record.Proposed)
	s.ran(2)
	s.wants(s.do(anna, "transfer", `{"order":"USD","amount":1}`), record.Deny, record.CodeLimitReached, record.Proposed)
	s.wants(s.do(anna, "transfer", `{"order":"euros","amount":1}`), record.Deny, record.CodeInvalidArguments, record.Denied)
	s.wants(s.do(anna, "transfer", `{"order":"EUR"}`), record.Deny, record.CodeInvalidArguments, record.Denied)
	s.wants(s.do(anna, "transfer", `{"order":"EUR","amount":-5}`), record.Deny, record.CodeInvalidArguments, record.Denied)
	s.wants(s.do(anna, "search", `{"n":1}`), record.Deny, record.CodeLimitReached, record.Denied) // a price counts too

	// Another lineage has a run's money of its own, and the same day.
	orchestrated := anna
	orchestrated.vouch = true
	run, err := s.OpenRun(s.ctx, s.caller(orchestrated), "other")
	if err != nil {
		t.Fatal(err)
	}
	inOther := func(p *dispatch.Proposal) { p.Run = run.ID }
	s.wants(s.do(orchestrated, "transfer", `{"order":"EUR","amount":51}`, inOther), record.Deny, record.CodeLimitReached, record.Proposed)
	s.wants(s.do(orchestrated, "transfer", `{"order":"EUR","amount":50}`, inOther), record.Allow, record.CodeNone, record.Succeeded)
	// Another principal's day is untouched, and tomorrow is another one.
	bert := who{"acme", "bert", "bot", anna.scopes, false}
	s.wants(s.do(bert, "transfer", `{"order":"EUR","amount":100}`), record.Allow, record.CodeNone, record.Succeeded)
	s.clock.pass(25 * time.Hour)
	s.wants(pay("99"), record.Allow, record.CodeNone, record.Succeeded)
	s.ran(5)
}

// What may have been spent is held until it is proved that it was not (rule E4).
func TestRule_E4_MoneyIsHeldWhileUnknown(t *testing.T) {
	s := newScene(t, spends(euros(100), nil))
	lost := dispatch.Reached{Sent: true, Err: fmt.Errorf("the connection closed")}
	s.desk.on(func(context.Context, dispatch.Work) (dispatch.Reached, bool) { return lost, true })
	unknown := s.wants(s.do(anna, "transfer", `{"order":"EUR","amount":70}`), record.Allow, record.CodeOutcomeUnknown, record.Unknown)
	s.desk.on(nil)
	s.wants(s.do(anna, "transfer", `{"order":"EUR","amount":31}`), record.Deny, record.CodeLimitReached, record.Proposed)
	s.clock.pass(time.Minute) // its lease is over, and with it all that could still happen
	if _, err := s.Reconcile(s.ctx, s.operator(), "acme", unknown.Call.ID, record.Failed, "the bank's own list has no such transfer"); err != nil {
		t.Fatal(err)
	}
	s.wants(s.do(anna, "transfer", `{"order":"EUR","amount":100}`), record.Allow, record.CodeNone, record.Succeeded)
	s.ran(1)

	// Nothing left the process: that is proof too.
	other := newScene(t, spends(euros(100), nil))
	other.desk.on(func(context.Context, dispatch.Work) (dispatch.Reached, bool) {
		return dispatch.Reached{Err: fmt.Errorf("no connection")}, true
	})
	other.wants(other.do(anna, "transfer", `{"order":"EUR","amount":70}`), record.Allow, record.CodeFailed, record.Failed)
	other.desk.on(nil)
	other.wants(other.do(anna, "transfer", `{"order":"EUR","amount":100}`), record.Allow, record.CodeNone, record.Succeeded)
	other.ran(1)
}

// A cost that results report is held at its most, and then is what it was: less
// comes back, more counts although it passes the limit.
func TestMoneyThatResultsReport(t *testing.T) {
	s := newScene(t, spends(euros(10), nil))
	report := func(cost string) {
		s.desk.on(func(_ context.Context, w dispatch.Work) (dispatch.Reached, bool) {
			s.desk.act(w)
			return dispatch.Reached{Sent: true, Result: json.RawMessage(`{"content":[],"structuredContent":{"usage":{"cost":` + cost + `}}}`)}, true
		})
	}
	ask := func(n int) dispatch.Answer { return s.do(anna, "model", fmt.Sprintf(`{"n":%d}`, n)) }
	report(`"0.5"`)
	for n := range 13 { // 13 times a half, while at most four are held: 6.5 of 10
		s.wants(ask(n), record.Allow, record.CodeNone, record.Succeeded)
	}
	s.wants(s.do(anna, "transfer", `{"order":"EUR","amount":3.6}`), record.Deny, record.CodeLimitReached, record.Proposed)
	report(`"lots"`) // unreadable: the most stays
	s.wants(s.do(anna, "transfer", `{"order":"EUR","amount":3.5}`), record.Allow, record.CodeNone, record.Succeeded)
	s.wants(ask(20), record.Deny, record.CodeLimitReached, record.Proposed)

	more := newScene(t, spends(euros(10), nil))
	s = more
	report(`9`)
	s.wants(ask(1), record.Allow, record.CodeNone, record.Succeeded)
	s.wants(s.do(anna, "transfer", `{"order":"EUR","amount":1.000001}`), record.Deny, record.CodeLimitReached, record.Proposed)
	s.wants(s.do(anna, "transfer", `{"order":"EUR","amount":1}`), record.Allow, record.CodeNone, record.Succeeded)
	s.ran(2)
}

// Small amounts that add up ask: by their sum for one target, and by their number.
func TestAutonomousLimitAddsUp(t *testing.T) {
	s := newScene(t, spends(nil, nil))
	refund := func(order string, amount int) dispatch.Answer {
		return s.do(anna, "refund", fmt.Sprintf(`{"order":%q,"amount":%d}`, order, amount))
	}
	s.wants(refund("a", 150), record.Allow, record.CodeNone, record.Succeeded)
	held := s.wants(refund("a", 101), record.RequiresApproval, record.CodeAboveLimit, record.ApprovalPending)
	s.wants(refund("a", 100), record.Allow, record.CodeNone, record.Succeeded)
	s.wants(refund("b", 200), record.Allow, record.CodeNone, record.Succeeded)
	s.wants(refund("c", 1), record.Allow, record.CodeNone, record.Succeeded)
	s.ran(4)
	s.wants(refund("d", 1), record.RequiresApproval, record.CodeAboveLimit, record.ApprovalPending) // the fifth
	// A person's yes is for that call, and counts nothing that runs without one.
	s.reply(held, "lena", record.Yes, "leads")
	s.wants(refund("a", 101), record.Allow, record.CodeNone, record.Succeeded)
	s.ran(5)
	s.clock.pass(2 * time.Hour)
	s.wants(refund("a", 200), record.Allow, record.CodeNone, record.Succeeded)
	s.ran(6)
}

// 64 callers at once spend no more than there is, and no less.
func TestLimitsAreExactUnderConcurrency(t *testing.T) {
	s := newScene(t, spends(euros(50), nil))
	var wait sync.WaitGroup
	var allowed, asked, denied atomic.Int64
	caller := s.caller(anna)
	for n := range 64 {
		wait.Go(func() {
			for i := range 4 {
				tool, arguments := "transfer", fmt.Sprintf(`{"order":"EUR","amount":1,"n":%d}`, n*10+i)
				if i%2 == 1 {
					tool, arguments = "refund", fmt.Sprintf(`{"order":"x","amount":30,"n":%d}`, n*10+i)
				}
				a, err := s.Do(s.ctx, dispatch.Proposal{Caller: caller, Tool: tool, Arguments: json.RawMessage(arguments)})
				switch {
				case err != nil:
					t.Error(err)
				case a.Verdict == record.Allow:
					allowed.Add(1)
				case a.Verdict == record.RequiresApproval:
					asked.Add(1)
				default:
					denied.Add(1)
				}
			}
		})
	}
	wait.Wait()
	count := map[string]int{}
	for _, e := range s.desk.effects() {
		count[e.tool]++
	}
	// 50 euros, one at a time; four refunds by their number, of 30 each within 250.
	if count["transfer"] != 50 || count["refund"] != 4 {
		t.Errorf("ran %v; allowed %d, asked %d, denied %d", count, allowed.Load(), asked.Load(), denied.Load())
	}
}

// The history of 64 callers who spend at once is one that a single counter could
// have had: each allowed call found room, and each refused one did not.
func TestMoneyIsLinearizable(t *testing.T) {
	s := newScene(t, spends(euros(40), nil))
	caller := s.caller(anna)
	type out struct{ allowed bool }
	var mu sync.Mutex
	var history []porcupine.Operation
	var wait sync.WaitGroup
	began := time.Now()
	for n := range 64 {
		wait.Go(func() {
			amount := int64(1 + n%7)
			from := time.Since(began)
			a, err := s.Do(s.ctx, dispatch.Proposal{Caller: caller, Tool: "transfer", Arguments: json.RawMessage(fmt.Sprintf(`{"order":"EUR","amount":%d,"n":%d}`, amount, n))})
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			history = append(history, porcupine.Operation{ClientId: n, Input: amount, Call: int64(from), Output: out{a.Verdict == record.Allow}, Return: int64(time.Since(began))})
		})
	}
	wait.Wait()
	model := porcupine.Model{
		Init: func() any { return int64(0) },
		Step: func(state, in, got any) (bool, any) {
			spent, amount := state.(int64), in.(int64)
			fits := spent+amount <= 40
			if fits {
				spent += amount
			}
			return fits == got.(out).allowed, spent
		},
	}
	if verdict := porcupine.CheckOperationsTimeout(model, history, 20*time.Second); verdict != porcupine.Ok {
		t.Errorf("no order of these calls is that of one counter: %s", verdict)
	}
	var spent int64
	for _, o := range history {
		if o.Output.(out).allowed {
			spent += o.Input.(int64)
		}
	}
	if n := len(s.desk.effects()); spent > 40 || n == 0 {
		t.Errorf("%d effects spent %d of 40", n, spent)
	}
}

// What all principals of a tenant do together has limits too; another tenant's are
// its own.
func TestLimitsPerTenant(t *testing.T) {
	s := newScene(t, spends(nil, nil))
	for i, name := range []string{"anna", "bert", "cleo"} {
		s.wants(s.do(who{"acme", name, "bot", anna.scopes, false}, "shared", fmt.Sprintf(`{"n":%d}`, i)), record.Allow, record.CodeNone, record.Succeeded)
	}
	s.wants(s.do(who{"acme", "dora", "bot", anna.scopes, false}, "shared", `{"n":9}`), record.Deny, record.CodeRateLimited, record.Proposed)
	s.wants(s.do(who{"globex", "dora", "bot", anna.scopes, false}, "shared", `{"n":9}`), record.Allow, record.CodeNone, record.Succeeded)
	s.ran(4)

	started, finish := make(chan struct{}), make(chan struct{})
	s.desk.on(func(_ context.Context, w dispatch.Work) (dispatch.Reached, bool) {
		if strings.Contains(string(w.Arguments), "slow") {
			close(started)
			<-finish
		}
		return dispatch.Reached{}, false
	})
	done := make(chan dispatch.Answer)
	go func() { done <- s.do(anna, "single", `{"note":"slow"}`) }()
	<-started
	s.wants(s.do(who{"acme", "bert", "bot", anna.scopes, false}, "single", `{"n":1}`), record.Deny, record.CodeRateLimited, record.Proposed)
	close(finish)
	s.wants(<-done, record.Allow, record.CodeNone, record.Succeeded)
	s.wants(s.do(who{"acme", "bert", "bot", anna.scopes, false}, "single", `{"n":1}`), record.Allow, record.CodeNone, record.Succeeded)
	s.ran(6)
}

// A run has a number of turns; those after an approval are turns like any other.
func TestTurnsPerRun(t *testing.T) {
	s := newScene(t, func(s *scene) { s.limits.TurnsPerRun = 3 })
	orchestrated := anna
	orchestrated.vouch = true
	caller := s.caller(orchestrated)
	run, err := s.OpenRun(s.ctx, caller, "")
	if err != nil {
		t.Fatal(err)
	}
	in := func(p *dispatch.Proposal) { p.Run = run.ID }
	held := s.wants(s.do(orchestrated, "refund", `{"order":"o","amount":900}`, in), record.RequiresApproval, record.CodeAboveLimit, record.ApprovalPending)
	s.reply(held, "lena", record.Yes, "leads")
	for range 2 {
		if _, err := s.StartTurn(s.ctx, caller, run.ID, []record.CallID{held.Call.ID}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.StartTurn(s.ctx, caller, run.ID, nil); record.KindOf(err) != record.Limited {
		t.Fatalf("the fourth turn: %v", err)
	}
	// What was approved is not lost by it: the refused turn superseded nothing.
	a, err := s.Dispatch(s.ctx, caller, held.Call.ID, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.wants(a, record.Allow, record.CodeNone, record.Succeeded)
	s.ran(1)
}

// An agent that is held to reading is shown, and gets, nothing else; the same user's
// other agent does.
func TestAgentsThatOnlyRead(t *testing.T) {
	s := newScene(t, func(s *scene) { s.onlyRead = map[record.AgentID]bool{"reader": true} })
	reader := who{"acme", "anna", "reader", anna.scopes, false}
	s.wants(s.do(reader, "refund", `{"order":"o","amount":5}`), record.Deny, record.CodeNotAvailable, record.Denied)
	s.wants(s.do(reader, "look", `{}`), record.Allow, record.CodeNone, record.Succeeded)
	for _, tool := range s.Tools(s.ctx, s.caller(reader)) {
		if !tool.Read {
			t.Errorf("%s is listed", tool.Name)
		}
	}
	s.wants(s.do(anna, "refund", `{"order":"o","amount":5}`), record.Allow, record.CodeNone, record.Succeeded)
	s.ran(2)
}
