package dispatch_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/dispatch"
	transcripts "github.com/placet-dev/placet/history"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
)

// ask sends a request to a model as the LLM edge would; body stands for its bytes.
func (s *scene) ask(w who, body string, edits ...func(*dispatch.Exchange)) dispatch.Sending {
	s.t.Helper()
	x := dispatch.Exchange{Caller: s.caller(w), Provider: "openai", Request: canon.Of("body", []byte(body))}
	for _, edit := range edits {
		edit(&x)
	}
	sending, err := s.Ask(s.ctx, x)
	if err != nil {
		s.t.Fatalf("ask %s: %v", body, err)
	}
	return sending
}

// emits says that the model answered with calls of one tool.
func (s *scene) emits(to dispatch.Sending, tool string, arguments ...string) {
	s.t.Helper()
	e := dispatch.Emitted{Response: "resp_1"}
	for i, a := range arguments {
		e.Calls = append(e.Calls, dispatch.EmittedCall{Label: fmt.Sprintf("call_%d", i), Tool: tool, Arguments: []byte(a), Position: i})
	}
	if err := s.Witness(s.ctx, to, e); err != nil {
		s.t.Fatal(err)
	}
}

func newInput(x *dispatch.Exchange) { x.NewInput = true }

func told(answered bool, tool string, arguments ...string) func(*dispatch.Exchange) {
	return func(x *dispatch.Exchange) {
		for i, a := range arguments {
			x.Told = append(x.Told, dispatch.Told{Label: fmt.Sprintf("call_%d", i), Tool: tool, Digest: record.ArgumentDigest([]byte(a), nil), Answered: answered})
		}
	}
}

// A write that a model was seen to make runs; the same one that nobody saw asks; and
// one emission is one call.
func TestRule_A2_WitnessedOnce(t *testing.T) {
	s := newScene(t)
	s.wants(s.do(anna, "guarded", `{"order":"ord_0"}`), record.RequiresApproval, record.CodeSourceNotShown, record.ApprovalPending)
	s.emits(s.ask(anna, "one", newInput), "guarded", `{ "order" : "ord_1" }`)

	a := s.wants(s.do(anna, "guarded", `{"order":"ord_1"}`), record.Allow, record.CodeNone, record.Succeeded)
	if a.Call.Source != record.Witnessed || a.Call.Route != record.RouteModel || a.Call.Emission == "" {
		t.Errorf("recorded as %s by %s, emission %q", a.Call.Source, a.Call.Route, a.Call.Emission)
	}
	// Sent again: the recorded result. Other arguments, or another tool: nobody saw them.
	s.wants(s.do(anna, "guarded", `{"order":"ord_1"}`), record.Allow, record.CodeAlreadyDone, record.Succeeded)
	s.wants(s.do(anna, "guarded", `{"order":"ord_2"}`), record.RequiresApproval, record.CodeSourceNotShown, record.ApprovalPending)
	if n := len(s.desk.effects()); n != 1 {
		t.Errorf("%d effects, want 1", n)
	}
}

// Two emissions of equal calls are two calls; a third proposal is the newest sent again.
func TestRule_G2_EqualCallsAreCounted(t *testing.T) {
	s := newScene(t)
	s.emits(s.ask(anna, "one", newInput), "guarded", `{"order":"ord_1"}`, `{"order":"ord_1"}`)
	first := s.wants(s.do(anna, "guarded", `{"order":"ord_1"}`), record.Allow, record.CodeNone, record.Succeeded)
	s.clock.pass(time.Second)
	second := s.wants(s.do(anna, "guarded", `{"order":"ord_1"}`), record.Allow, record.CodeNone, record.Succeeded)
	third := s.wants(s.do(anna, "guarded", `{"order":"ord_1"}`), record.Allow, record.CodeAlreadyDone, record.Succeeded)
	if first.Call.ID == second.Call.ID || third.Call.ID != second.Call.ID {
		t.Errorf("calls %s, %s and %s", first.Call.ID, second.Call.ID, third.Call.ID)
	}
	if n := len(s.desk.effects()); n != 2 {
		t.Errorf("%d effects, want 2", n)
	}
}

// The same request is asked again, and the model makes the same calls again: they are
// those that it made before, whether they ran meanwhile or wait.
func TestRule_G2_AnAnswerMadeAgain(t *testing.T) {
	s := newScene(t)
	s.emits(s.ask(anna, "one", newInput), "guarded", `{"order":"ord_1"}`, `{"order":"ord_1"}`)
	s.wants(s.do(anna, "guarded", `{"order":"ord_1"}`), record.Allow, record.CodeNone, record.Succeeded)
	s.emits(s.ask(anna, "one", newInput), "guarded", `{"order":"ord_1"}`, `{"order":"ord_1"}`)
	s.wants(s.do(anna, "guarded", `{"order":"ord_1"}`), record.Allow, record.CodeAlreadyDone, record.Succeeded)
	if n := len(s.desk.effects()); n != 1 {
		t.Errorf("%d effects of the same answer made again, want 1", n)
	}
	s.ask(anna, "two", told(true, "guarded", `{"order":"ord_1"}`))
	s.emits(s.ask(anna, "one", newInput), "guarded", `{"order":"ord_1"}`) // a turn later, from the start
	s.wants(s.do(anna, "guarded", `{"order":"ord_1"}`), record.Allow, record.CodeAlreadyDone, record.Succeeded)
	s.clock.pass(15 * time.Minute) // rule A7 does not look further back
	s.emits(s.ask(anna, "one", newInput), "guarded", `{"order":"ord_1"}`)
	s.wants(s.do(anna, "guarded", `{"order":"ord_1"}`), record.Allow, record.CodeNone, record.Succeeded)
	if n := len(s.desk.effects()); n != 2 {
		t.Errorf("%d effects after the window of repeats, want 2", n)
	}
	s.emits(s.ask(anna, "one, and more", told(true, "guarded", `{"order":"ord_1"}`)), "guarded", `{"order":"ord_1"}`)
	s.wants(s.do(anna, "guarded", `{"order":"ord_1"}`), record.Allow, record.CodeNone, record.Succeeded)
	if n := len(s.desk.effects()); n != 3 {
		t.Errorf("%d effects after an answer to something else, want 3", n)
	}
}

// A tool accepts what shows at least as much as a source in its list.
func TestRule_A3_MoreThanIsListed(t *testing.T) {
	s := newScene(t)
	s.emits(s.ask(anna, "one", newInput), "every", `{"n":1}`)
	a := s.wants(s.do(anna, "every", `{"n":1}`), record.Allow, record.CodeNone, record.Succeeded)
	if a.Call.Source != record.Witnessed || len(s.desk.effects()) != 1 {
		t.Errorf("a witnessed call of a tool that takes direct ones: %s, %d effects", a.Call.Source, len(s.desk.effects()))
	}
}

// Callers who race for one emission get one call.
func TestRule_G2_ConsumedOnceInARace(t *testing.T) {
	s := newScene(t)
	s.emits(s.ask(anna, "one", newInput), "guarded", `{"order":"ord_1"}`)
	caller := s.caller(anna)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			p := dispatch.Proposal{Caller: caller, Tool: "guarded", Arguments: []byte(`{"order":"ord_1"}`), RunLabel: fmt.Sprint("session ", i%3)}
			if a, err := s.Do(s.ctx, p); err != nil || a.State() != record.Succeeded && a.State() != record.Executing {
				t.Errorf("answer %s %q in state %q, %v", a.Verdict, a.Code, a.State(), err)
			}
		})
	}
	wg.Wait()
	if n := len(s.desk.effects()); n != 1 {
		t.Errorf("%d effects, want 1", n)
	}
}

// A held call that is sent again without a label is the held call, and its answer
// reaches it.
func TestRule_A6_WitnessedCallSentAgain(t *testing.T) {
	s := newScene(t)
	s.emits(s.ask(anna, "one", newInput), "wipe", `{"order":"ord_1"}`)
	held := s.wants(s.do(anna, "wipe", `{"order":"ord_1"}`), record.RequiresApproval, record.CodeAlwaysAsks, record.ApprovalPending)
	again := s.wants(s.do(anna, "wipe", `{"order":"ord_1"}`), record.RequiresApproval, record.CodeAlwaysAsks, record.ApprovalPending)
	if again.Call.ID != held.Call.ID {
		t.Fatalf("sent again it became %s, not %s", again.Call.ID, held.Call.ID)
	}
	s.reply(held, "lena", record.Yes, "leads")
	s.reply(held, "fred", record.Yes, "finance")
	s.wants(s.do(anna, "wipe", `{"order":"ord_1"}`), record.Allow, record.CodeNone, record.Succeeded)
	if n := len(s.desk.effects()); n != 1 {
		t.Errorf("%d effects, want 1", n)
	}
}

// What makes an emission count no longer: each time the write asks and nothing runs,
// and the neighbour, whose emission stands, runs.
func TestRule_G2_Retired(t *testing.T) {
	const arguments = `{"order":"ord_1"}`
	rows := map[string]func(*scene, dispatch.Sending){
		"asked again with an equal body":      func(s *scene, _ dispatch.Sending) { s.ask(anna, "one", newInput, told(false, "guarded", arguments)) },
		"the history answers it":              func(s *scene, _ dispatch.Sending) { s.ask(anna, "two", told(true, "guarded", arguments)) },
		"the history drops it":                func(s *scene, _ dispatch.Sending) { s.ask(anna, "two") },
		"the history has other arguments":     func(s *scene, _ dispatch.Sending) { s.ask(anna, "two", told(false, "guarded", `{"order":"ord_2"}`)) },
		"the history has another tool":        func(s *scene, _ dispatch.Sending) { s.ask(anna, "two", told(false, "again", arguments)) },
		"new input, whatever the history has": func(s *scene, _ dispatch.Sending) { s.ask(anna, "two", newInput, told(false, "guarded", arguments)) },
		"the run ended": func(s *scene, x dispatch.Sending) {
			if _, err := s.EndRun(s.ctx, s.caller(anna), x.Run.ID, "done"); err != nil {
				s.t.Fatal(err)
			}
		},
		"it is old": func(s *scene, _ dispatch.Sending) { s.clock.pass(2 * time.Hour) },
		"the person started fresh": func(s *scene, _ dispatch.Sending) {
			if err := s.StartFresh(s.ctx, s.person("anna"), "bot"); err != nil {
				s.t.Fatal(err)
			}
		},
	}
	for name, retire := range rows {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			x := s.ask(anna, "one", newInput)
			s.emits(x, "guarded", arguments)
			retire(s, x)
			s.wants(s.do(anna, "guarded", arguments), record.RequiresApproval, record.CodeSourceNotShown, record.ApprovalPending)
			if n := len(s.desk.effects()); n != 0 {
				t.Errorf("%d effects", n)
			}
		})
	}
	t.Run("neighbour: the history has it unanswered", func(t *testing.T) {
		s := newScene(t)
		s.emits(s.ask(anna, "one", newInput), "guarded", arguments)
		s.ask(anna, "two", told(false, "guarded", arguments))
		s.wants(s.do(anna, "guarded", arguments), record.Allow, record.CodeNone, record.Succeeded)
		if n := len(s.desk.effects()); n != 1 {
			t.Errorf("%d effects, want 1", n)
		}
	})
}

// Responses that show nothing, and a neighbour that does.
func TestRule_G2_ShowsNothing(t *testing.T) {
	const arguments = `{"order":"ord_1"}`
	one := dispatch.EmittedCall{Label: "c", Tool: "guarded", Arguments: []byte(arguments)}
	forced, broken, twice := one, one, one
	forced.Forced = true
	broken.Arguments = []byte(`{"order":"ord_1"`)
	twice.Arguments = []byte(`{"order":"ord_1","order":"ord_1"}`)
	for name, e := range map[string]dispatch.Emitted{
		"void":                {Calls: []dispatch.EmittedCall{one}, Void: "prefilled"},
		"forced":              {Calls: []dispatch.EmittedCall{forced}},
		"cut arguments":       {Calls: []dispatch.EmittedCall{broken}},
		"a name twice":        {Calls: []dispatch.EmittedCall{twice}},
		"no calls":            {},
		"a tool of no entry":  {Calls: []dispatch.EmittedCall{{Tool: "format_disk", Arguments: []byte(arguments)}}},
		"another tool's call": {Calls: []dispatch.EmittedCall{{Tool: "again", Arguments: []byte(arguments)}}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			if err := s.Witness(s.ctx, s.ask(anna, "one", newInput), e); err != nil {
				t.Fatal(err)
			}
			s.wants(s.do(anna, "guarded", arguments), record.RequiresApproval, record.CodeSourceNotShown, record.ApprovalPending)
			if n := len(s.desk.effects()); n != 0 {
				t.Errorf("%d effects", n)
			}
		})
	}
	for name, late := range map[string]func(*scene){
		"the request was sent again meanwhile": func(s *scene) { s.ask(anna, "one", newInput) },
		"a turn began meanwhile":               func(s *scene) { s.ask(anna, "two", newInput) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			x := s.ask(anna, "one", newInput)
			late(s)
			s.emits(x, "guarded", arguments)
			s.wants(s.do(anna, "guarded", arguments), record.RequiresApproval, record.CodeSourceNotShown, record.ApprovalPending)
			if n := len(s.desk.effects()); n != 0 {
				t.Errorf("%d effects", n)
			}
		})
	}
	t.Run("neighbour", func(t *testing.T) {
		s := newScene(t)
		if err := s.Witness(s.ctx, s.ask(anna, "one", newInput), dispatch.Emitted{Calls: []dispatch.EmittedCall{one}}); err != nil {
			t.Fatal(err)
		}
		s.wants(s.do(anna, "guarded", arguments), record.Allow, record.CodeNone, record.Succeeded)
		if n := len(s.desk.effects()); n != 1 {
			t.Errorf("%d effects, want 1", n)
		}
	})
}

// Nobody else can use an emission: not another principal, agent or tenant, and not
// another lineage of the same caller.
func TestPromise_P7_EmissionsAreTheirOwners(t *testing.T) {
	const arguments = `{"order":"ord_1"}`
	s := newScene(t)
	s.emits(s.ask(anna, "one", newInput), "guarded", arguments)
	lars, other, globex, vouching := anna, anna, anna, anna
	lars.subject, other.agent, globex.tenant, vouching.vouch = "lars", "other", "globex", true
	for name, w := range map[string]who{"principal": lars, "agent": other, "tenant": globex} {
		a := s.do(w, "guarded", arguments)
		if a.Verdict == record.Allow {
			t.Errorf("another %s used the emission", name)
		}
	}
	run, err := s.OpenRun(s.ctx, s.caller(vouching), "own")
	if err != nil {
		t.Fatal(err)
	}
	s.wants(s.do(anna, "guarded", arguments, func(p *dispatch.Proposal) { p.Run = run.ID }), record.RequiresApproval, record.CodeSourceNotShown, record.ApprovalPending)
	if n := len(s.desk.effects()); n != 0 {
		t.Fatalf("%d effects", n)
	}
	s.wants(s.do(anna, "guarded", arguments), record.Allow, record.CodeNone, record.Succeeded)
	if n := len(s.desk.effects()); n != 1 {
		t.Errorf("%d effects, want 1", n)
	}
}

// A provider's object is named by the run that it is kept for, and by no other.
func TestRule_G1_ObjectsAreTheirRuns(t *testing.T) {
	s := newScene(t)
	named := func(x *dispatch.Exchange) { x.Objects = []string{"resp_1"} }
	if err := s.Witness(s.ctx, s.ask(anna, "one", newInput), dispatch.Emitted{Response: "resp_1", Objects: []string{"resp_1"}}); err != nil {
		t.Fatal(err)
	}
	s.ask(anna, "two", named)
	lars, unknown := anna, dispatch.Exchange{Caller: s.caller(anna), Provider: "openai", Objects: []string{"resp_2"}}
	lars.subject = "lars"
	for name, x := range map[string]dispatch.Exchange{
		"another principal": {Caller: s.caller(lars), Provider: "openai", Objects: []string{"resp_1"}},
		"another run":       {Caller: s.caller(anna), RunLabel: "other", Provider: "openai", Objects: []string{"resp_1"}},
		"another provider":  {Caller: s.caller(anna), Provider: "else", Objects: []string{"resp_1"}},
		"never seen":        unknown,
	} {
		if _, err := s.Ask(s.ctx, x); record.KindOf(err) != record.NotFound {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// New input begins a turn: what waits is canceled, except what is kept; an equal
// request is the same turn.
func TestRule_B3_ModelRequestsBeginTurns(t *testing.T) {
	s := newScene(t)
	x := s.ask(anna, "one", newInput)
	if x.Run.Turn != 1 {
		t.Fatalf("the first input of a new run began turn %d", x.Run.Turn)
	}
	s.emits(x, "wipe", `{"order":"ord_1"}`, `{"order":"ord_2"}`)
	goes, stays := s.do(anna, "wipe", `{"order":"ord_1"}`), s.do(anna, "wipe", `{"order":"ord_2"}`)
	if again := s.ask(anna, "one", newInput); again.Run.Turn != 1 {
		t.Errorf("the same request again began turn %d", again.Run.Turn)
	}
	if next := s.ask(anna, "two"); next.Run.Turn != 1 {
		t.Errorf("results began turn %d", next.Run.Turn)
	}
	next := s.ask(anna, "three", newInput, func(x *dispatch.Exchange) { x.Keep = []record.CallID{stays.Call.ID} })
	if next.Run.Turn != 2 {
		t.Errorf("new input began turn %d", next.Run.Turn)
	}
	for _, want := range []struct {
		a     dispatch.Answer
		state record.State
	}{{goes, record.Canceled}, {stays, record.ApprovalPending}} {
		l, err := s.store.Call(s.ctx, "acme", want.a.Call.ID)
		if err != nil || l.Call.State != want.state {
			t.Errorf("%s is %s, want %s (%v)", want.a.Call.Arguments, l.Call.State, want.state, err)
		}
	}
	s.reply(stays, "lena", record.Yes, "leads")
	s.reply(stays, "fred", record.Yes, "finance")
	a, err := s.Dispatch(s.ctx, s.caller(anna), stays.Call.ID, nil)
	if err != nil || a.State() != record.Succeeded || len(s.desk.effects()) != 1 {
		t.Errorf("what was kept and approved is %s (%v), %d effects", a.State(), err, len(s.desk.effects()))
	}
}

// What the user typed counts only from whoever vouches.
func TestRule_B5_TypedThroughTheModelsDoor(t *testing.T) {
	s := newScene(t)
	typed := func(x *dispatch.Exchange) { x.NewInput, x.Typed = true, "refund ord_77 please" }
	vouched := func(run record.Run) bool {
		ok, err := s.Records(run).Vouched(s.ctx, transcripts.TextDigest("refund ord_77 please"))
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	x := s.ask(anna, "one", typed)
	if n := s.IgnoredVouches(); n != 1 || vouched(x.Run) {
		t.Errorf("stated without the permission: %d ignored, vouched %t", n, vouched(x.Run))
	}
	orchestrated := anna
	orchestrated.vouch = true
	if x = s.ask(orchestrated, "two", typed); !vouched(x.Run) {
		t.Error("stated by whoever vouches: it does not count")
	}
}

// Histories are compared with emissions and calls, by label and digest.
func TestRecordsOfAHistory(t *testing.T) {
	s := newScene(t)
	x := s.ask(anna, "one", newInput)
	s.emits(x, "guarded", `{"order":"ord_1"}`, `{"order":"ord_2"}`)
	done := s.do(anna, "guarded", `{"order":"ord_1"}`)
	labelled := func(caller identity.Caller, label string) []transcripts.Recorded {
		t.Helper()
		run := x.Run
		run.Owner = caller.Owner()
		out, err := s.Records(run).Labelled(s.ctx, label)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	caller := s.caller(anna)
	consumed, open := labelled(caller, "call_0"), labelled(caller, "call_1")
	if len(consumed) != 1 || consumed[0].Call != done.Call.ID || consumed[0].Witnessed || consumed[0].Answer != "effect 1" || consumed[0].Result != transcripts.TextDigest("effect 1") {
		t.Errorf("a call that ran: %+v", consumed)
	}
	if len(open) != 1 || open[0].Call != "" || !open[0].Witnessed || open[0].Digest != record.ArgumentDigest([]byte(`{"order":"ord_2"}`), nil) {
		t.Errorf("an open emission: %+v", open)
	}
	if byID := labelled(caller, string(done.Call.ID)); len(byID) != 1 || byID[0].Call != done.Call.ID {
		t.Errorf("by its own ID: %+v", byID)
	}
	lars := anna
	lars.subject = "lars"
	if others := labelled(s.caller(lars), "call_0"); len(others) != 0 {
		t.Errorf("somebody else's: %+v", others)
	}
}

// A restart forgets no emission and revives none.
func TestEmissionsSurviveARestart(t *testing.T) {
	s := newScene(t)
	s.emits(s.ask(anna, "one", newInput), "guarded", `{"order":"ord_1"}`, `{"order":"ord_2"}`)
	s.do(anna, "guarded", `{"order":"ord_1"}`)
	s.restart()
	s.wants(s.do(anna, "guarded", `{"order":"ord_2"}`), record.Allow, record.CodeNone, record.Succeeded)
	s.wants(s.do(anna, "guarded", `{"order":"ord_1"}`), record.Allow, record.CodeAlreadyDone, record.Succeeded)
	if n := len(s.desk.effects()); n != 2 {
		t.Errorf("%d effects, want 2", n)
	}
}
