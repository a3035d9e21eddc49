package dispatch_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
)

// crowd has tools that one, three and a hundred persons approve.
const crowd = `
version: 1
servers:
  desk: {url: "http://127.0.0.1:1/mcp"}
defaults: {per_minute: 0, concurrent: 0}
tools:
  one: {server: desk, scope: refunds, write: true, sources: [direct, vouched], approval: {when: always, approvers: ["group:leads"], expires: 2h}}
  three: {server: desk, scope: refunds, write: true, sources: [direct, vouched], approval: {when: always, approvers: ["group:leads"], quorum: 3, expires: 2h}}
  all: {server: desk, scope: refunds, write: true, sources: [direct, vouched], approval: {when: always, approvers: ["group:leads"], quorum: 100, expires: 2h}}
  free: {server: desk, scope: refunds, write: true, sources: [direct, vouched], approval: {when: asked}}
`

// leads are n persons of the group leads.
func (s *scene) leads(n int) (out []identity.Person) {
	for i := range n {
		out = append(out, s.person(fmt.Sprint("lead-", i), "leads"))
	}
	return out
}

// history is what the log says of one call, against which every race is checked.
type history struct {
	executed, succeeded int
	results             map[record.ApprovalID][]record.EventKind // what ended each question
	completed           map[record.ApprovalID]int                // how often it became approved
	answers             map[record.ApprovalID]map[record.Principal]record.Word
	ends                []record.EventKind // of the call
}

// consistent reads a call's history and the tool's ledger, and checks what must hold
// whatever came first: a question has one result; it is approved by its quorum and
// used up once; a person has one answer; a call that ended does not run; an effect
// is one that was recorded before.
func (s *scene) consistent(id record.CallID, quorum int) history {
	s.t.Helper()
	l, err := s.store.Call(s.ctx, "acme", id)
	if err != nil {
		s.t.Fatal(err)
	}
	events, err := s.store.Events(s.ctx, dispatch.EventQuery{Tenant: "acme", Call: id, Limit: 500})
	if err != nil {
		s.t.Fatal(err)
	}
	h := history{results: map[record.ApprovalID][]record.EventKind{}, completed: map[record.ApprovalID]int{}, answers: map[record.ApprovalID]map[record.Principal]record.Word{}}
	wrong := func(format string, args ...any) {
		s.t.Helper()
		var text strings.Builder
		for _, e := range events {
			fmt.Fprintf(&text, "\n%d %s %s %+v %s", e.Seq, e.Kind, e.Approval, e.Who, e.Body)
		}
		s.t.Fatalf(format+"%s", append(args, text.String())...)
	}
	for _, e := range events {
		a := e.Approval
		if a != "" && len(h.results[a]) > 0 && e.Kind != record.EventExecuting && e.Kind != record.EventApprovalConsumed {
			wrong("%s after the question had its result", e.Kind)
		}
		switch e.Kind {
		case record.EventAnswered:
			var b record.Body
			if err := json.Unmarshal(e.Body, &b); err != nil {
				wrong("%v", err)
			}
			if h.answers[a] == nil {
				h.answers[a] = map[record.Principal]record.Word{}
			}
			if _, twice := h.answers[a][*e.Who.Principal]; twice {
				wrong("%s answered twice", e.Who.Principal)
			}
			h.answers[a][*e.Who.Principal] = b.Word
		case record.EventApproved:
			h.completed[a]++
			yes := 0
			for _, w := range h.answers[a] {
				if w == record.Yes {
					yes++
				}
			}
			if h.completed[a] > 1 || yes != quorum {
				wrong("approved %d times, with %d of %d", h.completed[a], yes, quorum)
			}
		case record.EventApprovalConsumed:
			if h.completed[a] != 1 || h.executed != 1 {
				wrong("used up without being approved, or for nothing")
			}
			h.results[a] = append(h.results[a], e.Kind)
		case record.EventRejected, record.EventApprovalVoided, record.EventApprovalExpired:
			h.results[a] = append(h.results[a], e.Kind)
		case record.EventExecuting:
			if h.executed++; h.executed > 1 || len(h.ends) > 0 || len(h.results[a]) > 0 {
				wrong("it ran twice, or after it had ended")
			}
		case record.EventSucceeded:
			h.succeeded++
		case record.EventDenied, record.EventCanceled, record.EventExpired, record.EventRevoked:
			h.ends = append(h.ends, e.Kind)
		}
	}
	for a, r := range h.results {
		if len(r) > 1 {
			wrong("the question %s has several results: %v", a, r)
		}
	}
	effects := 0
	for _, e := range s.desk.effects() {
		if e.key == l.Call.Key && l.Call.Key != "" {
			effects++
		}
	}
	if effects > 1 || effects != h.executed || len(h.ends)+h.succeeded > 1 || (l.Call.State == record.Succeeded) != (effects == 1) {
		wrong("%d effects of a call that is %s", effects, l.Call.State)
	}
	return h
}

// TestRule_D6_AHundredApproversAtOnce answer one question while its agent asks again
// and again: it has one result, from as many as the rule wants, and one effect.
func TestRule_D6_AHundredApproversAtOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		tool   string
		quorum int
		no     int // how many of the hundred say no
		twice  bool
	}{
		"one is enough":               {"one", 1, 0, false},
		"three of them":               {"three", 3, 0, false},
		"all of them":                 {"all", 100, 0, false},
		"each sends it twice":         {"three", 3, 0, true},
		"half of them say no":         {"three", 3, 50, false},
		"one says no among a hundred": {"all", 100, 1, false},
		"half of them, one is enough": {"one", 1, 50, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, func(s *scene) { s.yaml = crowd })
			a := s.do(anna, tc.tool, `{"n":1}`)
			caller := s.caller(anna)
			var mu sync.Mutex
			accepted := map[record.Principal]int{}
			var all []func()
			for i, p := range s.leads(100) {
				word := record.Yes
				if i < tc.no {
					word = record.No
				}
				answer := func() {
					_, err := s.Reply(s.ctx, p, a.Approval.ID, a.Approval.Binding, word, "")
					switch {
					case err == nil:
						mu.Lock()
						accepted[p.Principal()]++
						mu.Unlock()
					case record.KindOf(err) != record.Conflict || strings.Contains(err.Error(), "kept changing"):
						t.Errorf("%s: %v", p.Principal(), err)
					}
				}
				all = append(all, answer)
				if tc.twice {
					all = append(all, answer)
				}
			}
			for range 4 {
				all = append(all, func() {
					if _, err := s.Dispatch(s.ctx, caller, a.Call.ID, nil); err != nil {
						t.Error(err)
					}
				})
			}
			rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			race(all...)
			if _, err := s.Dispatch(s.ctx, caller, a.Call.ID, nil); err != nil {
				t.Fatal(err)
			}
			h := s.consistent(a.Call.ID, tc.quorum)
			if result := h.completed[a.Approval.ID] + len(h.ends); result != 1 {
				t.Fatalf("%d results: %+v", result, h)
			}
			if h.executed == 1 && tc.no == 1 && tc.quorum == 100 {
				t.Fatal("it ran without everybody's yes")
			}
			// Who was told that their answer counts is who is on record, and nobody else.
			if len(accepted) != len(h.answers[a.Approval.ID]) {
				t.Fatalf("%d persons were told that they answered, and %d have", len(accepted), len(h.answers[a.Approval.ID]))
			}
			s.recorded()
			s.wants(s.do(anna, "free", `{"n":1}`), record.Allow, record.CodeNone, record.Succeeded) // a neighbour runs
			s.ran(h.executed + 1)
		})
	}
}

// opponent is what races with the answers: it must end the question, or leave the
// call to run once.
type opponent struct {
	name string
	run  func(s *scene, r *contest)
	// survives: a yes may still run the call after it.
	survives bool
	// turns: the call is of a run of its own, which an orchestrator opened.
	turns bool
}

// contest is one round of a race.
type contest struct {
	call  dispatch.Answer
	w     who
	round int
}

var opponents = []opponent{
	{name: "cancellation", run: func(s *scene, r *contest) {
		if _, err := s.Cancel(s.ctx, s.caller(r.w), r.call.Call.ID); err != nil {
			s.t.Error(err)
		}
	}},
	{name: "the end of its run", run: func(s *scene, r *contest) {
		for {
			_, err := s.EndRun(s.ctx, s.caller(r.w), r.call.Call.Run, "over")
			if record.KindOf(err) != record.Conflict {
				if err != nil {
					s.t.Error(err)
				}
				return
			}
		}
	}},
	{name: "a new turn", turns: true, run: startTurn(false)},
	{name: "a new turn that keeps it", turns: true, survives: true, run: startTurn(true)},
	{name: "its expiry by the clock", run: func(s *scene, r *contest) {
		s.clock.pass(3 * time.Hour)
		ctx, stop := context.WithCancel(s.ctx)
		var work sync.WaitGroup
		work.Go(func() { s.Work(ctx) })
		for { // the clock ends it, or it had ended
			l, err := s.store.Call(s.ctx, "acme", r.call.Call.ID)
			if err != nil || l.Call.State.Terminal() {
				break
			}
			runtime.Gosched()
		}
		stop()
		work.Wait()
	}},
	{name: "its expiry at its agent's return", run: func(s *scene, r *contest) {
		s.clock.pass(3 * time.Hour)
		if _, err := s.Dispatch(s.ctx, s.caller(r.w), r.call.Call.ID, nil); err != nil {
			s.t.Error(err)
		}
	}},
	{name: "a no of another", run: func(s *scene, r *contest) {
		_, err := s.Reply(s.ctx, s.person("nora", "leads"), r.call.Approval.ID, r.call.Approval.Binding, record.No, "no")
		if err != nil && record.KindOf(err) != record.Conflict {
			s.t.Error(err)
		}
	}},
	{name: "a no to all of the run", run: func(s *scene, r *contest) {
		_, err := s.RejectRun(s.ctx, s.person("nora", "leads"), r.call.Call.Run, []dispatch.Shown{{ID: r.call.Approval.ID, Binding: r.call.Approval.Binding}}, "no")
		if err != nil && record.KindOf(err) != record.Conflict {
			s.t.Error(err)
		}
	}},
	{name: "an activation that changes the rule", run: func(s *scene, r *contest) {
		s.yaml = strings.ReplaceAll(crowd, "expires: 2h", fmt.Sprintf("expires: %dm", 200+r.round))
		s.activate()
	}},
	{name: "an activation of something else", survives: true, run: func(s *scene, r *contest) {
		s.yaml = strings.Replace(crowd, "approval: {when: asked}", fmt.Sprintf("per_run: %d, approval: {when: asked}", 1000+r.round), 1)
		s.activate()
	}},
	{name: "taking back the answers", run: func(s *scene, r *contest) {
		for i := range 3 {
			s.void(login(fmt.Sprint("lead-", i), "urn:test"))
		}
	}},
}

func startTurn(keep bool) func(*scene, *contest) {
	return func(s *scene, r *contest) {
		var kept []record.CallID
		if keep {
			kept = append(kept, r.call.Call.ID)
		}
		for {
			_, err := s.StartTurn(s.ctx, s.caller(r.w), r.call.Call.Run, kept)
			if record.KindOf(err) != record.Conflict {
				if err != nil {
					s.t.Error(err)
				}
				return
			}
		}
	}
}

// TestAnswersRace: answers and the agent's return against everything else that may
// happen to a question. Both sides have read before either writes, in every order of
// the writes; and freely, with pauses dealt by chance.
func TestAnswersRace(t *testing.T) {
	for _, o := range opponents {
		t.Run(o.name, func(t *testing.T) {
			s := newScene(t, func(s *scene) { s.yaml = crowd })
			seen := map[string]int{}
			for round := range 24 {
				tool, quorum := "one", 1
				if round/4%2 == 1 {
					tool, quorum = "three", 3
				}
				r := &contest{w: anna, round: round}
				var edits []func(*dispatch.Proposal)
				if o.turns {
					r.w.vouch = true
					run, err := s.OpenRun(s.ctx, s.caller(r.w), "")
					if err != nil {
						t.Fatal(err)
					}
					edits = append(edits, in(run.ID))
				}
				arguments := fmt.Sprintf(`{"n":%d}`, round)
				r.call = s.do(r.w, tool, arguments, edits...)
				if r.call.Approval == nil {
					t.Fatalf("no question: %s %s", r.call.Verdict, r.call.Code)
				}
				before := len(s.desk.effects())
				s.contend(o, r, s.leads(quorum), round%4)
				again, err := s.Dispatch(s.ctx, s.caller(r.w), r.call.Call.ID, nil)
				if err != nil {
					t.Fatal(err)
				}
				h := s.consistent(r.call.Call.ID, quorum)
				if got := len(s.desk.effects()) - before; got != h.executed {
					t.Fatalf("%d effects of %d that are recorded", got, h.executed)
				}
				if o.survives && h.executed != 1 {
					t.Fatalf("the yes was lost: %s %s %+v", again.Verdict, again.Code, h)
				}
				if again.Verdict == record.RequiresApproval { // asked anew: the new question's yes runs it once
					for _, p := range s.leads(quorum + 3)[3:] {
						if _, err := s.Reply(s.ctx, p, again.Approval.ID, again.Approval.Binding, record.Yes, ""); err != nil {
							t.Fatal(err)
						}
					}
					if again, err = s.Dispatch(s.ctx, s.caller(r.w), r.call.Call.ID, nil); err != nil || again.Verdict != record.Allow {
						t.Fatalf("the new question's yes: %s %s %v", again.Verdict, again.Code, err)
					}
					if got := len(s.desk.effects()) - before; got != 1 {
						t.Fatalf("%d effects", got)
					}
				}
				seen[fmt.Sprintf("ran %d in the race, then %s %s", h.executed, again.Code, again.State())]++
			}
			t.Logf("%v", seen)
			s.recorded()
			effects := len(s.desk.effects())
			s.wants(s.do(anna, "free", `{"n":1}`), record.Allow, record.CodeNone, record.Succeeded) // a neighbour runs
			s.ran(effects + 1)
		})
	}
}

// paced is a store whose writes wait for their turn.
type paced struct {
	dispatch.Store
	turn func(context.Context)
}

func (p paced) Apply(ctx context.Context, c record.Change) error {
	p.turn(ctx)
	return p.Store.Apply(ctx, c)
}

// answering marks the requests of approvers.
type answering struct{}

// contend plays one round. order 0 lets all go with pauses by chance. Order 1 holds
// the answers' writes back until the opponent is through, order 2 the opponent's
// until the answers are: each writes on what it read before. Order 3 is order 2, with
// the agent's return against the opponent.
func (s *scene) contend(o opponent, r *contest, people []identity.Person, order int) {
	answered, played := make(chan struct{}), make(chan struct{})
	chance := rand.New(rand.NewPCG(uint64(r.round), 7))
	var mu sync.Mutex
	inner := s.store.Store
	s.store.Store = paced{inner, func(ctx context.Context) {
		pause := func(most int) {
			mu.Lock()
			n := chance.IntN(most)
			mu.Unlock()
			for range n {
				runtime.Gosched()
			}
		}
		pause(200)
		switch answer := ctx.Value(answering{}) != nil; {
		case order == 1 && answer:
			<-played
		case order >= 2 && !answer:
			<-answered
			pause(20000) // about as long as a decision takes
		}
	}}
	defer func() { s.store.Store = inner }()
	caller, ctx := s.caller(r.w), context.WithValue(s.ctx, answering{}, true)
	all := []func(){
		func() {
			defer close(played)
			o.run(s, r)
		},
		func() {
			defer close(answered)
			var each sync.WaitGroup
			for _, p := range people {
				each.Go(func() {
					_, err := s.Reply(ctx, p, r.call.Approval.ID, r.call.Approval.Binding, record.Yes, "")
					if err != nil && record.KindOf(err) != record.Conflict && record.KindOf(err) != record.NotFound {
						s.t.Error(err)
					}
				})
			}
			each.Wait()
		},
	}
	if order == 0 || order == 3 { // the agent is back while all of it happens
		for range 2 {
			all = append(all, func() {
				if order == 3 {
					<-answered
				}
				if _, err := s.Dispatch(s.ctx, caller, r.call.Call.ID, nil); err != nil {
					s.t.Error(err)
				}
			})
		}
	}
	race(all...)
}
