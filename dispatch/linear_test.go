package dispatch_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/store/postgres"
	"github.com/placet-dev/placet/store/postgres/pgtest"
)

// What 64 callers see of several replicas on one database is what they could have seen
// of one that does one thing after the other. What a tool does is seen too: its own
// account is a part of the history.

// rivals are two replicas on one database: boundaries with a store each.
func rivals(t *testing.T, edit func(*scene)) [2]*scene {
	t.Helper()
	a := newScene(t, edit)
	b := *a
	b.open()
	return [2]*scene{a, &b}
}

// deaf is a store that takes the refusal of a reservation for a yes: what happens where
// the commit guards nothing.
type deaf struct{ dispatch.Store }

func (d deaf) Apply(ctx context.Context, c record.Change) error {
	err := d.Store.Apply(ctx, c)
	var no *record.Refusal
	if m := c.Facts().Call; errors.As(err, &no) && m != nil && m.After.State == record.Executing {
		return nil
	}
	return err
}

// asker marks a request, so that the tool can tell for which one it works.
type asker struct{}

// op is one operation of a history. of is what it is about: operations on different
// things have nothing to do with one another.
type op struct {
	of   string
	what string
	n    int64
}

// log collects a history.
type log struct {
	mu    sync.Mutex
	began time.Time
	ops   []porcupine.Operation
	asked map[int]int64 // when
	did   map[int]int64 // when the tool worked for it
	next  int
}

func newLog() *log {
	return &log{began: time.Now(), asked: map[int]int64{}, did: map[int]int64{}}
}

func (l *log) now() int64 { return int64(time.Since(l.began)) }

// ask begins a request.
func (l *log) ask(ctx context.Context) (context.Context, int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next++
	l.asked[l.next] = l.now()
	return context.WithValue(ctx, asker{}, l.next), l.next
}

// worked notes that the tool works for a request: what let it run was between then and now.
func (l *log) worked(ctx context.Context, o op) {
	n, _ := ctx.Value(asker{}).(int)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.did[n] = l.now()
	l.ops = append(l.ops, porcupine.Operation{ClientId: n, Input: o, Call: l.asked[n], Return: l.did[n]})
}

// answered notes what a request came to, after what the tool did for it, if it did.
func (l *log) answered(n int, o op) {
	l.mu.Lock()
	defer l.mu.Unlock()
	from := l.asked[n]
	if did, ok := l.did[n]; ok {
		from = did
	}
	l.ops = append(l.ops, porcupine.Operation{ClientId: n, Input: o, Call: from, Return: l.now()})
}

func (l *log) ran(n int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.did[n]
	return ok
}

// check says whether there is an order in which step allows every operation.
func (l *log) check(init func() any, step func(state any, o op) (bool, any)) porcupine.CheckResult {
	return porcupine.CheckOperationsTimeout(porcupine.Model{
		Init: init,
		Step: func(state, in, _ any) (bool, any) { return step(state, in.(op)) },
		Partition: func(all []porcupine.Operation) (parts [][]porcupine.Operation) {
			of := map[string][]porcupine.Operation{}
			for _, o := range all {
				name := o.Input.(op).of
				of[name] = append(of[name], o)
			}
			for _, part := range of {
				parts = append(parts, part)
			}
			return parts
		},
	}, l.ops, 10*time.Second)
}

// onReplicas runs f with a database, and then with a second replica whose commits guard
// nothing: of that one the history must be found to be none.
func onReplicas(t *testing.T, edit func(*scene), f func(t *testing.T, s [2]*scene) porcupine.CheckResult) {
	onPostgres = pgtest.Start(t)
	defer func() { onPostgres = nil }()
	onPostgres.Do(t, "postgres", "CREATE DATABASE "+emptyRecords)
	if err := postgres.Migrate(t.Context(), onPostgres.DSN("owner", emptyRecords), ""); err != nil {
		t.Fatal(err)
	}
	t.Run("guarded", func(t *testing.T) {
		for range 3 {
			if verdict := f(t, rivals(t, edit)); verdict != porcupine.Ok {
				t.Fatalf("no order of this is that of one replica: %s", verdict)
			}
		}
	})
	t.Run("a mutant is found", func(t *testing.T) {
		for range 10 {
			s := rivals(t, edit)
			s[1].store.Store = deaf{s[1].store.Store}
			if f(t, s) == porcupine.Illegal {
				return
			}
		}
		t.Error("a store that guards nothing was not found in 10 rounds")
	})
}

// One approval is used up once: by yes, by its agent's returns at both replicas, and by
// cancellations beside them.
func TestReplicasUseAnApprovalOnce(t *testing.T) {
	type question struct{ yes, ran, over bool }
	onReplicas(t, func(s *scene) { s.yaml = crowd }, func(t *testing.T, s [2]*scene) porcupine.CheckResult {
		l := newLog()
		s[0].desk.on(func(ctx context.Context, w dispatch.Work) (dispatch.Reached, bool) {
			l.worked(ctx, op{string(w.Call), "ran", 0})
			return dispatch.Reached{}, false
		})
		caller, lead := s[0].caller(anna), s[0].person("lena", "leads")
		var all []func()
		for n := range 8 {
			a := s[n%2].do(anna, "one", fmt.Sprintf(`{"n":%d}`, n))
			id := a.Call.ID
			all = append(all, func() {
				_, n := l.ask(t.Context())
				_, err := s[1].Reply(t.Context(), lead, a.Approval.ID, a.Approval.Binding, record.Yes, "")
				switch {
				case err == nil:
					l.answered(n, op{string(id), "yes", 0})
				case record.KindOf(err) == record.Conflict:
					l.answered(n, op{string(id), "over", 0})
				default:
					t.Error(err)
				}
			})
			saw := func(f func(context.Context) (dispatch.Answer, error)) func() {
				return func() {
					for range 4 {
						ctx, n := l.ask(t.Context())
						a, err := f(ctx)
						if err != nil {
							t.Error(err)
							return
						}
						what := map[record.State]string{record.Executing: "has run", record.Succeeded: "has run", record.ApprovalPending: "waits", record.Canceled: "over"}[a.State()]
						switch {
						case what != "":
							l.answered(n, op{string(id), what, 0})
						case a.Code != record.CodeOutcomeUnknown || !l.ran(n): // the mutant's: the record was not there
							t.Errorf("%s %s %s", a.Verdict, a.Code, a.State())
						}
						if what == "over" {
							return
						}
					}
				}
			}
			for i := range 6 {
				all = append(all, saw(func(ctx context.Context) (dispatch.Answer, error) { return s[i%2].Dispatch(ctx, caller, id, nil) }))
			}
			if n%2 == 1 {
				all = append(all, saw(func(ctx context.Context) (dispatch.Answer, error) { return s[0].Cancel(ctx, caller, id) }))
			}
		}
		race(all...)
		return l.check(func() any { return question{} }, func(state any, o op) (bool, any) {
			q := state.(question)
			switch o.what {
			case "yes":
				return !q.yes && !q.over, question{true, q.ran, q.over}
			case "ran":
				return q.yes && !q.ran && !q.over, question{q.yes, true, q.over}
			case "has run":
				return q.ran, q
			case "waits":
				return !q.yes && !q.over, q
			case "over":
				return !q.ran, question{q.yes, q.ran, true}
			}
			return false, q
		})
	})
}

// Whoever asks for the same again, at whichever replica, gets the first call and its
// answer, whether the caller names the occurrence or not.
func TestReplicasAnswerRepeats(t *testing.T) {
	type first struct {
		call string
		n    int64
	}
	onReplicas(t, func(*scene) {}, func(t *testing.T, s [2]*scene) porcupine.CheckResult {
		l := newLog()
		s[0].desk.on(func(ctx context.Context, w dispatch.Work) (dispatch.Reached, bool) {
			r := s[0].desk.act(w)
			l.worked(ctx, op{string(w.Arguments), "ran " + string(w.Call), effectOf(t, r.Result)})
			return r, true
		})
		caller := s[0].caller(anna)
		ask := func(ctx context.Context, s *scene, n int, occurrence string) dispatch.Answer {
			a, err := s.Do(ctx, dispatch.Proposal{Caller: caller, Tool: "pay", Arguments: json.RawMessage(fmt.Sprintf(`{"n":%d}`, n)), Occurrence: occurrence})
			if err != nil {
				t.Error(err)
			}
			return a
		}
		var all []func()
		for i := range 64 {
			thing, occurrence := i%8, ""
			if thing%2 == 1 {
				occurrence = fmt.Sprint("thing ", thing)
			}
			all = append(all, func() {
				for range 4 {
					ctx, n := l.ask(t.Context())
					switch a := ask(ctx, s[i/8%2], thing, occurrence); {
					case a.State() == record.Succeeded:
						l.answered(n, op{string(a.Call.Arguments), "told " + string(a.Call.ID), effectOf(t, a.Result)})
					case a.Code == record.CodeInProgress:
						l.answered(n, op{string(a.Call.Arguments), "waits for " + string(a.Call.ID), 0})
					case a.Code != record.CodeOutcomeUnknown || !l.ran(n): // the mutant's: the record was not there
						t.Errorf("%s %s %s", a.Verdict, a.Code, a.State())
					}
				}
			})
		}
		race(all...)
		verdict := l.check(func() any { return first{} }, func(state any, o op) (bool, any) {
			f := state.(first)
			what, call, _ := strings.Cut(o.what, " ")
			switch what {
			case "ran":
				return f.call == "", first{call, o.n}
			case "told":
				return f == first{call, o.n}, f
			}
			return call == "for "+f.call, f
		})
		if verdict == porcupine.Ok { // and another occurrence is another call
			s[0].ran(8)
			if a := ask(t.Context(), s[1], 1, "twice"); a.State() != record.Succeeded {
				t.Errorf("another occurrence: %s %s", a.Verdict, a.Code)
			}
			s[0].ran(9)
		}
		return verdict
	})
}

func effectOf(t *testing.T, result json.RawMessage) (n int64) {
	t.Helper()
	if _, err := fmt.Sscanf(string(result), `{"content":[{"type":"text","text":"effect %d"}]}`, &n); err != nil {
		t.Errorf("%s: %v", result, err)
	}
	return n
}

// What several spend at both replicas is what one purse could have paid, one after the
// other: nobody is paid for whom it is too little, nobody is refused for whom there is
// enough, and what proves to be unspent is there again.
func TestReplicasSpendOneBudget(t *testing.T) {
	const budget = 25
	edit := func(s *scene) {
		spends(nil, euros(budget))(s)
		s.limits.ProposalsOpen, s.limits.OpenInTurn, s.limits.OpenOfOne = 1<<30, 1<<30, 1<<30
	}
	onReplicas(t, edit, func(t *testing.T, s [2]*scene) porcupine.CheckResult {
		l := newLog()
		s[0].desk.on(func(ctx context.Context, w dispatch.Work) (dispatch.Reached, bool) {
			var spent struct{ Amount, N int64 }
			if err := json.Unmarshal(w.Arguments, &spent); err != nil {
				t.Error(err)
			}
			l.worked(ctx, op{w.Owner.Principal.Subject, "takes", spent.Amount})
			if spent.N%3 == 0 {
				return dispatch.Reached{Err: errors.New("no connection")}, true
			}
			return s[0].desk.act(w), true
		})
		var all []func()
		for i := range 64 {
			name := fmt.Sprint("person-", i%16) // four callers each: with more, the checker has too many orders to try
			person := who{"acme", name, "bot", anna.scopes, false}
			caller := s[0].caller(person)
			if i < 16 {
				s[0].do(person, "look", `{}`) // opens the run
			}
			all = append(all, func() {
				for round := range 4 {
					n, amount := int64(i*4+round), int64(1+(i/16+2*round)%7)
					ctx, asking := l.ask(t.Context())
					a, err := s[i/16%2].Do(ctx, dispatch.Proposal{Caller: caller, Tool: "transfer", Arguments: json.RawMessage(fmt.Sprintf(`{"order":"EUR","amount":%d,"n":%d}`, amount, n))})
					switch {
					case err != nil:
						t.Error(err)
					case a.Code == record.CodeLimitReached:
						l.answered(asking, op{name, "is refused", amount})
					case a.State() == record.Failed:
						l.answered(asking, op{name, "gives back", amount})
					case a.State() != record.Succeeded && (a.Code != record.CodeOutcomeUnknown || !l.ran(asking)): // the mutant's: the record was not there
						t.Errorf("%s %s %s", a.Verdict, a.Code, a.State())
					}
				}
			})
		}
		race(all...)
		return l.check(func() any { return int64(0) }, func(state any, o op) (bool, any) {
			spent := state.(int64)
			switch o.what {
			case "takes":
				return spent+o.n <= budget, spent + o.n
			case "gives back":
				return true, spent - o.n
			}
			return spent+o.n > budget, spent
		})
	})
}
