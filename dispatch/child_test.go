package dispatch_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
)

const childYAML = `
version: 1
servers:
  desk: {url: "http://127.0.0.1:1/mcp"}
defaults: {per_minute: 0, concurrent: 0}
tools:
  look: {server: desk, scope: read, read: true}
  send: {server: desk, scope: refunds, write: true, sources: [direct, vouched], targets: [order], approval: {when: asked, approvers: ["group:leads"]}, repeat: {within: 1h, answer: run}}
  held: {server: desk, scope: refunds, write: true, sources: [direct, vouched], targets: [order], approval: {when: always, approvers: ["group:leads"], expires: 2h}}
  buy:
    server: desk
    scope: refunds
    financial: true
    sources: [direct, vouched]
    cost: {argument: amount, currency: EUR}
    approval: {when: asked, approvers: ["group:leads"]}
    repeat: {within: 1h, answer: run}
  bots: {server: desk, scope: refunds, write: true, callers: {agents: [bot]}, sources: [direct, vouched], approval: {when: asked}}
  helpers: {server: desk, scope: refunds, write: true, callers: {agents: [helper]}, sources: [direct, vouched], approval: {when: asked}}
`

var helper = who{"acme", "anna", "helper", anna.scopes, false}

// family is a scene with a run of anna's bot and a child run below it for her helper.
type family struct {
	*scene
	root, child record.Run
}

func newFamily(t testing.TB, edits ...func(*scene)) *family {
	t.Helper()
	f := &family{scene: newScene(t, append([]func(*scene){func(s *scene) { s.yaml = childYAML }}, edits...)...)}
	f.root = f.top(anna)
	f.child = f.below(anna, f.root.ID, "helper", f.grant("look", "send", "held", "buy"))
	return f
}

func (f *family) top(w who) record.Run {
	f.t.Helper()
	run, err := f.OpenRun(f.ctx, f.caller(w), "")
	if err != nil {
		f.t.Fatal(err)
	}
	return run
}

func (f *family) grant(tools ...string) record.Grant {
	return record.Grant{Tools: tools, Money: map[string]int64{"EUR": 50_000_000}, Calls: 100, Until: f.clock.Now().Add(time.Hour)}
}

func (f *family) open(w who, parent record.RunID, agent record.AgentID, g record.Grant) (record.Run, error) {
	f.t.Helper()
	return f.OpenChild(f.ctx, f.caller(w), parent, dispatch.Child{Agent: agent, Grant: g})
}

func (f *family) below(w who, parent record.RunID, agent record.AgentID, g record.Grant) record.Run {
	f.t.Helper()
	run, err := f.open(w, parent, agent, g)
	if err != nil {
		f.t.Fatal(err)
	}
	return run
}

// nothing asks for effects in a run by every way there is, and wants none.
func (f *family) nothing(w who, run record.RunID, calls ...dispatch.Answer) {
	f.t.Helper()
	before := len(f.desk.effects())
	c := f.caller(w)
	for _, p := range []dispatch.Proposal{
		{Caller: c, Run: run, Tool: "send", Arguments: []byte(`{"order":"late"}`)},
		{Caller: c, RunLabel: string(run), Tool: "send", Arguments: []byte(`{"order":"late"}`)},
		{Caller: c, Run: run, Tool: "look", Arguments: []byte(`{}`)},
		{Caller: c, RunLabel: string(run), Tool: "look", Arguments: []byte(`{}`)},
	} {
		if a, err := f.Do(f.ctx, p); err == nil && a.Verdict != record.Deny {
			f.t.Errorf("in %s: %s", run, a.Verdict)
		}
	}
	for _, a := range calls {
		if got, err := f.Dispatch(f.ctx, c, a.Call.ID, nil); err == nil && got.Verdict != record.Deny {
			f.t.Errorf("its call: %s %s", got.Verdict, got.State())
		}
	}
	if tools := f.EntriesUnder(f.ctx, c, string(run), registry.MethodTool); len(tools) != 0 {
		f.t.Errorf("it lists %d tools", len(tools))
	}
	if now := len(f.desk.effects()); now != before {
		f.t.Fatalf("%d effects in a run that does nothing any more: %v", now-before, f.desk.effects()[before:])
	}
}

// works asks for one effect in a run and wants it, once.
func (f *family) works(w who, run record.RunID, order string) {
	f.t.Helper()
	before := len(f.desk.effects())
	f.wants(f.do(w, "send", fmt.Sprintf(`{"order":%q}`, order), in(run)), record.Allow, record.CodeNone, record.Succeeded)
	if now := len(f.desk.effects()); now != before+1 {
		f.t.Fatalf("%d effects, want one", now-before)
	}
}

// approved is a call of a run that people said yes to, and that has not run.
func (f *family) approved(w who, run record.RunID, order string) dispatch.Answer {
	f.t.Helper()
	a := f.wants(f.do(w, "held", fmt.Sprintf(`{"order":%q}`, order), in(run)), record.RequiresApproval, record.CodeAlwaysAsks, record.ApprovalPending)
	f.reply(a, "lena", record.Yes, "leads")
	return a
}

// A child run of a run that ended, or whose agent is denied, does nothing; its
// neighbour, below another run, does.
func TestRule_B4_AChildOfAnEndedRunDoesNothing(t *testing.T) {
	for name, end := range map[string]func(*family) error{
		"ended by its owner": func(f *family) error { _, err := f.EndRun(f.ctx, f.caller(anna), f.root.ID, "done"); return err },
		"ended itself":       func(f *family) error { _, err := f.EndRun(f.ctx, f.caller(helper), f.child.ID, "done"); return err },
		"ended by its parent's owner": func(f *family) error {
			_, err := f.EndRun(f.ctx, f.caller(anna), f.child.ID, "done")
			return err
		},
		"replayed":         func(f *family) error { _, err := f.ReplayRun(f.ctx, f.operator(), f.root.ID); return err },
		"started fresh":    func(f *family) error { return f.StartFresh(f.ctx, f.person("anna"), "bot") },
		"its time is over": func(f *family) error { f.clock.pass(time.Hour); return nil },
		"its parent's agent": func(f *family) error {
			f.onlyRead = map[record.AgentID]bool{"bot": true, "helper": true}
			f.activateAs("x")
			return nil
		},
		"after a new process": func(f *family) error {
			_, err := f.EndRun(f.ctx, f.caller(anna), f.root.ID, "")
			f.restart()
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFamily(t)
			f.works(helper, f.child.ID, "before")
			yes := f.approved(helper, f.child.ID, "approved")
			beside := f.top(who{"acme", "bert", "bot", anna.scopes, false})
			if err := end(f); err != nil {
				t.Fatal(err)
			}
			if name == "its parent's agent" {
				a := f.do(helper, "send", `{"order":"late"}`, in(f.child.ID))
				if a.Verdict != record.Deny {
					t.Fatalf("its agent and its parent's are denied: %s", a.Verdict)
				}
				f.onlyRead = map[record.AgentID]bool{"bot": true}
				f.activateAs("y")
				f.wants(f.do(helper, "send", `{"order":"later"}`, in(f.child.ID)), record.Deny, record.CodeNotGranted, record.Denied)
				f.wants(must(f.Dispatch(f.ctx, f.caller(helper), yes.Call.ID, nil)), record.Deny, record.CodeNotGranted, record.Denied)
				f.ran(1)
				return
			}
			f.nothing(helper, f.child.ID, yes)
			f.ran(1)
			if name != "its time is over" {
				if l := f.state(yes); l.Call.State != record.Canceled || l.Approval.State != record.Void {
					t.Errorf("what was approved is %s, its approval %s", l.Call.State, l.Approval.State)
				}
			}
			f.works(who{"acme", "bert", "bot", anna.scopes, false}, beside.ID, "neighbour")
		})
	}
}

// activateAs makes the scene's settings the ones that decide, under a digest of their own.
func (s *scene) activateAs(rego string) {
	s.t.Helper()
	was := s.rego
	s.rego = "package agent.call\n\n# " + rego + "\ndecision := {\"decision\": \"allow\"}\n"
	s.activate()
	s.rego = was
}

// A child run is of the turn that opened it.
func TestRule_B4_ATurnEndsWhatItOpened(t *testing.T) {
	f := newFamily(t)
	orchestrated := anna
	orchestrated.vouch = true
	c := f.caller(orchestrated)
	run, err := f.OpenRun(f.ctx, c, "")
	if err != nil {
		t.Fatal(err)
	}
	child := f.below(orchestrated, run.ID, "helper", f.grant("send", "held"))
	if !child.Vouched || child.Lineage != run.Lineage {
		t.Fatalf("it is of another lineage: %+v", child)
	}
	yes := f.approved(helper, child.ID, "one")
	if _, err := f.StartTurn(f.ctx, f.caller(helper), child.ID, nil); record.KindOf(err) != record.Forbidden {
		t.Fatalf("a turn was started without vouch: %v", err)
	}
	vouching := helper
	vouching.vouch = true
	if r, err := f.StartTurn(f.ctx, f.caller(vouching), child.ID, []record.CallID{yes.Call.ID}); err != nil || r.Turn != 2 {
		t.Fatalf("a turn of the child run: %v", err)
	}
	if _, err := f.StartTurn(f.ctx, c, run.ID, nil); err != nil {
		t.Fatal(err)
	}
	f.nothing(helper, child.ID, yes)
	next := f.below(orchestrated, run.ID, "helper", f.grant("send"))
	f.works(helper, next.ID, "two")
	f.ran(1)
	if _, err := f.TransferRun(f.ctx, f.caller(vouching), next.ID, f.caller(who{"acme", "bert", "helper", nil, false}).Owner()); record.KindOf(err) != record.Conflict {
		t.Fatalf("a child run was given away: %v", err)
	}
	if _, err := f.TransferRun(f.ctx, c, run.ID, f.caller(who{"acme", "bert", "bot", nil, false}).Owner()); err != nil {
		t.Fatal(err)
	}
	f.nothing(helper, next.ID)
}

// What goes beyond the run above is not opened, in whatever dimension; nor is all of it.
func TestRule_B4_NothingIsWidened(t *testing.T) {
	f := newFamily(t, func(s *scene) { s.limits = dispatch.Limits{Depth: 5, MoneyPerRun: dispatch.Money{"EUR": 60_000_000}} })
	f.grantsAre(anna, f.root.ID, map[string]func(*record.Grant){
		"a tool of nobody":     func(g *record.Grant) { g.Tools = []string{"nothing"} },
		"a tool of the helper": func(g *record.Grant) { g.Tools = []string{"helpers"} },
		"a scope":              func(g *record.Grant) { g.Scopes = []string{"admin"} },
		"money":                func(g *record.Grant) { g.Money = map[string]int64{"EUR": 60_000_001} },
		"a currency":           func(g *record.Grant) { g.Money = map[string]int64{"USD": 1} },
		"calls":                func(g *record.Grant) { g.Calls = 401 },
		"all of it": func(g *record.Grant) {
			g.Tools, g.Scopes = []string{"look", "send", "held", "buy", "bots"}, []string{"read", "refunds"}
			g.Calls, g.Money = 400, map[string]int64{"EUR": 60_000_000}
		},
	})
	g := f.grant("look", "send", "buy")
	g.Targets = map[string][]string{"order": {`"a"`, `"b"`}}
	child := f.below(anna, f.root.ID, "helper", g)
	more := func(edit func(*record.Grant)) func(*record.Grant) {
		return func(h *record.Grant) { *h = g; h.Tools = []string{"send"}; edit(h) }
	}
	f.grantsAre(helper, child.ID, map[string]func(*record.Grant){
		"a tool":         more(func(h *record.Grant) { h.Tools = []string{"held"} }),
		"a target":       more(func(h *record.Grant) { h.Targets = map[string][]string{"order": {`"c"`}} }),
		"every target":   more(func(h *record.Grant) { h.Targets = nil }),
		"money":          more(func(h *record.Grant) { h.Money = map[string]int64{"EUR": 50_000_001} }),
		"calls":          more(func(h *record.Grant) { h.Calls = 101 }),
		"its end":        more(func(h *record.Grant) { h.Until = g.Until.Add(time.Second) }),
		"all of it":      func(h *record.Grant) { *h = g },
		"an earlier end": func(h *record.Grant) { *h = g; h.Until = g.Until.Add(-time.Minute) },
	})
	for _, w := range []who{{"acme", "anna", "helper", []string{"read"}, false}} {
		if _, err := f.open(w, child.ID, "", g); record.KindOf(err) != record.Forbidden {
			t.Errorf("with a token that holds less: %v", err)
		}
	}
	g.Targets = map[string][]string{"order": {`"b"`}}
	deep := f.below(helper, child.ID, "third", g)
	third := who{"acme", "anna", "third", anna.scopes, false}
	f.works(third, deep.ID, "b")
	f.wants(f.do(third, "send", `{"order":"a"}`, in(deep.ID)), record.Deny, record.CodeNotGranted, record.Denied)
	f.wants(f.do(third, "send", `{}`, in(deep.ID)), record.Deny, record.CodeNotGranted, record.Denied)
	f.wants(f.do(third, "send", `{"order":"b","note":"and another"}`, in(deep.ID)), record.Allow, record.CodeNone, record.Succeeded)
	f.ran(2)
}

func (f *family) grantsAre(w who, parent record.RunID, refused map[string]func(*record.Grant)) {
	f.t.Helper()
	for name, edit := range refused {
		g := f.grant("send")
		edit(&g)
		if run, err := f.open(w, parent, "helper", g); record.KindOf(err) != record.Forbidden {
			f.t.Errorf("%s was given: %+v %v", name, run.Grant, err)
		}
	}
}

// In a child run a call is what it was given allows, however it comes; the list of
// tools says the same.
func TestRule_B4_AChildRunDoesWhatItWasGiven(t *testing.T) {
	f := newFamily(t)
	g := f.grant("look", "send")
	g.Targets = map[string][]string{"order": {`"a"`, `"b"`}}
	child := f.below(anna, f.root.ID, "helper", g)
	var names []string
	for _, tool := range f.EntriesUnder(f.ctx, f.caller(helper), string(child.ID), registry.MethodTool) {
		names = append(names, tool.Name)
	}
	if !slices.Equal(names, []string{"look", "send"}) {
		t.Fatalf("it lists %v", names)
	}
	for _, tool := range []string{"held", "buy", "helpers"} {
		f.wants(f.do(helper, tool, `{"order":"a","amount":1}`, in(child.ID)), record.Deny, record.CodeNotGranted, record.Denied)
	}
	f.wants(f.do(helper, "bots", `{}`, in(child.ID)), record.Deny, record.CodeNotAvailable, record.Denied)
	f.wants(f.do(helper, "send", `{"order":"c"}`, in(child.ID)), record.Deny, record.CodeNotGranted, record.Denied)
	f.ran(0)
	f.wants(f.do(helper, "look", `{}`, in(child.ID)), record.Allow, record.CodeNone, record.Succeeded)
	f.works(helper, child.ID, "a")
	f.wants(f.do(helper, "send", `{"order":"c"}`), record.Allow, record.CodeNone, record.Succeeded) // in a run of the helper's own
	f.ran(3)

	g = f.grant("look", "send")
	g.Scopes = []string{"read"}
	reads := f.below(anna, f.root.ID, "helper", g)
	f.wants(f.do(helper, "send", `{"order":"a"}`, in(reads.ID)), record.Deny, record.CodeNotGranted, record.Denied)
	if tools := f.EntriesUnder(f.ctx, f.caller(helper), string(reads.ID), registry.MethodTool); len(tools) != 1 || tools[0].Name != "look" {
		t.Fatalf("without the scope it lists %d tools", len(tools))
	}
	f.wants(f.do(helper, "look", `{}`, in(reads.ID)), record.Allow, record.CodeNone, record.Succeeded)
	f.ran(4)
}

// What an equal call of the lineage has is not had through it: a child run gets no call
// that it could not make itself, and nobody gets another agent's.
func TestRule_B4_EqualCallsWidenNothing(t *testing.T) {
	f := newFamily(t)
	same := f.below(anna, f.root.ID, "", f.grant("send"))
	yes := f.approved(anna, f.root.ID, "one")
	f.wants(f.do(anna, "held", `{"order":"one"}`, in(same.ID)), record.Deny, record.CodeNotGranted, record.Denied)
	f.ran(0)
	theirs := f.wants(f.do(helper, "held", `{"order":"one"}`, in(f.child.ID)), record.RequiresApproval, record.CodeNewQuestion, record.ApprovalPending)
	if theirs.Call.ID == yes.Call.ID {
		t.Fatal("another agent got the call")
	}
	named := func(p *dispatch.Proposal) { p.Run, p.Occurrence = f.root.ID, "first" }
	f.wants(f.do(anna, "send", `{"order":"x"}`, named), record.Allow, record.CodeNone, record.Succeeded)
	f.wants(f.do(helper, "send", `{"order":"x"}`, named, in(f.child.ID)), record.Deny, record.CodeInvalidArguments, record.None)
	f.ran(1)
	f.wants(must(f.Dispatch(f.ctx, f.caller(anna), yes.Call.ID, nil)), record.Allow, record.CodeNone, record.Succeeded)
	f.ran(2)
}

// A child run's ID is no credential, not for its siblings, and not for the run above;
// nobody in it answers its questions.
func TestRule_B4_AChildRunIsItsAgentsAlone(t *testing.T) {
	f := newFamily(t)
	yes := f.approved(helper, f.child.ID, "one")
	sibling := f.below(anna, f.root.ID, "sibling", f.grant("look"))
	for name, w := range map[string]who{
		"the agent above":           anna,
		"a sibling":                 {"acme", "anna", "sibling", anna.scopes, false},
		"another principal":         {"acme", "bert", "helper", anna.scopes, false},
		"another tenant's":          {"globex", "anna", "helper", anna.scopes, false},
		"the agent above, vouching": {"acme", "anna", "bot", anna.scopes, true},
	} {
		c := f.caller(w)
		_, err := f.Do(f.ctx, dispatch.Proposal{Caller: c, Run: f.child.ID, Tool: "send", Arguments: []byte(`{"order":"b"}`)})
		_, err2 := f.Dispatch(f.ctx, c, yes.Call.ID, nil)
		_, err3 := f.open(w, f.child.ID, "", f.grant("send"))
		_, err4 := f.Cancel(f.ctx, c, yes.Call.ID)
		_, err5 := f.StartTurn(f.ctx, c, f.child.ID, nil)
		for i, err := range []error{err, err2, err3, err4, err5} {
			if record.KindOf(err) != record.NotFound {
				t.Errorf("%s, operation %d: %v", name, i, err)
			}
		}
		if w.agent != "bot" || w.tenant != "acme" {
			if _, err := f.EndRun(f.ctx, c, f.child.ID, ""); record.KindOf(err) != record.NotFound {
				t.Errorf("%s ended it: %v", name, err)
			}
		}
	}
	if _, err := f.EndRun(f.ctx, f.caller(helper), f.root.ID, ""); record.KindOf(err) != record.NotFound {
		t.Errorf("a child run ended the one above it: %v", err)
	}
	if _, err := f.Do(f.ctx, dispatch.Proposal{Caller: f.caller(helper), Run: sibling.ID, Tool: "look"}); record.KindOf(err) != record.NotFound {
		t.Errorf("it acts in its sibling: %v", err)
	}
	waits := f.wants(f.do(helper, "held", `{"order":"two"}`, in(f.child.ID)), record.RequiresApproval, record.CodeNewQuestion, record.ApprovalPending)
	l := f.state(waits)
	if _, err := f.Reply(f.ctx, f.person("anna", "leads"), l.Approval.ID, l.Approval.Binding, record.Yes, ""); err == nil {
		t.Error("its principal answered for herself")
	}
	token, err := f.issuer.Sign(identity.TokenSpec{Audience: "placet", Subject: "lena", Tenant: "acme", Agent: "helper", Groups: []string{"leads"}})
	if err != nil {
		t.Fatal(err)
	}
	if p, err := f.verifier.Person(f.ctx, token); err == nil {
		t.Errorf("what proposes in it may answer as %v", p.Principal())
	}
	f.ran(0)
	f.wants(must(f.Dispatch(f.ctx, f.caller(helper), yes.Call.ID, nil)), record.Allow, record.CodeNone, record.Succeeded)
	f.ran(1)
}

// Runs lie only so deep, and only so many live below one.
func TestRule_B4_DepthAndFanOut(t *testing.T) {
	f := newFamily(t, func(s *scene) { s.limits = dispatch.Limits{Depth: 2, FanOut: 3} })
	g := f.grant("look")
	deep := f.below(helper, f.child.ID, "", g)
	g.Calls = 3
	if _, err := f.open(helper, deep.ID, "", g); record.KindOf(err) != record.Forbidden {
		t.Fatalf("a third level: %v", err)
	}
	f.wants(f.do(helper, "look", `{}`, in(deep.ID)), record.Allow, record.CodeNone, record.Succeeded)
	second, _ := f.below(anna, f.root.ID, "helper", g), f.below(anna, f.root.ID, "helper", g)
	if _, err := f.open(anna, f.root.ID, "helper", g); record.KindOf(err) != record.Limited {
		t.Fatalf("a fourth child: %v", err)
	}
	if _, err := f.EndRun(f.ctx, f.caller(anna), second.ID, ""); err != nil {
		t.Fatal(err)
	}
	third := f.below(anna, f.root.ID, "helper", g)
	f.wants(f.do(helper, "look", `{}`, in(third.ID)), record.Allow, record.CodeNone, record.Succeeded)
	f.ran(2)
	none := newFamilyless(t)
	if _, err := none.open(anna, none.root.ID, "helper", g); record.KindOf(err) != record.Forbidden || none.Delegates() {
		t.Fatalf("where there are no child runs: %v", err)
	}
}

// newFamilyless is a scene where no run has children.
func newFamilyless(t testing.TB) *family {
	f := &family{scene: newScene(t, func(s *scene) { s.yaml, s.limits = childYAML, dispatch.Limits{Depth: -1} })}
	f.root = f.top(anna)
	return f
}

// What child runs spend is their parent's: under load neither is over-spent, and what
// was proved not to have happened comes back at every level.
func TestRule_B4_ChildRunsSpendTheirParentsBudget(t *testing.T) {
	f := newFamily(t, func(s *scene) {
		s.limits = dispatch.Limits{Depth: 3, MoneyPerRun: dispatch.Money{"EUR": 60_000_000}, CallsPerRun: 1000}
	})
	g := f.grant("buy")
	g.Money = map[string]int64{"EUR": 40_000_000}
	callers := []who{{"acme", "anna", "a", anna.scopes, false}, {"acme", "anna", "b", anna.scopes, false}}
	runs := []record.Run{f.below(helper, f.child.ID, "a", g), f.below(helper, f.child.ID, "b", g)}
	// Four calls leave without an effect; what they took is given back.
	f.desk.on(func(_ context.Context, w dispatch.Work) (dispatch.Reached, bool) {
		return dispatch.Reached{Err: fmt.Errorf("nothing left")}, true
	})
	for i := range 4 {
		f.wants(f.do(callers[0], "buy", fmt.Sprintf(`{"amount":10,"n":%d}`, -1-i), in(runs[0].ID)), record.Allow, record.CodeFailed, record.Failed)
	}
	f.desk.on(nil)
	all := make([]func() (dispatch.Answer, error), 64)
	for i := range all {
		p := dispatch.Proposal{Caller: f.caller(callers[i%2]), Run: runs[i%2].ID, Tool: "buy", Arguments: fmt.Appendf(nil, `{"amount":2,"n":%d}`, i)}
		all[i] = func() (dispatch.Answer, error) { return f.Do(f.ctx, p) }
	}
	var wg sync.WaitGroup
	for _, do := range all {
		wg.Go(func() {
			if _, err := do(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	spent := map[string]int{}
	for _, e := range f.desk.effects() {
		spent[e.tool]++
	}
	if spent["buy"] != 25 {
		t.Fatalf("%d effects of 2 EUR below a run that was given 50 EUR", spent["buy"])
	}
	f.wants(f.do(helper, "buy", `{"amount":1,"n":100}`, in(f.child.ID)), record.Deny, record.CodeLimitReached, record.Proposed)
	// The run above has what is left of its lineage's money, and no more.
	f.wants(f.do(anna, "buy", `{"amount":11,"n":101}`, in(f.root.ID)), record.Deny, record.CodeLimitReached, record.Proposed)
	f.wants(f.do(anna, "buy", `{"amount":10,"n":102}`, in(f.root.ID)), record.Allow, record.CodeNone, record.Succeeded)
	f.ran(26)

	few := f.grant("look")
	few.Calls = 2
	child := f.below(anna, f.root.ID, "helper", few)
	for range 2 {
		f.wants(f.do(helper, "look", `{}`, in(child.ID)), record.Allow, record.CodeNone, record.Succeeded)
	}
	f.wants(f.do(helper, "look", `{}`, in(child.ID)), record.Deny, record.CodeLimitReached, record.Denied)
	f.ran(28)
}

// The clock ends a run whose time is over, and with it what waits there; what executes
// is asked to stop.
func TestRule_B4_AChildRunDoesNotOutliveItsTime(t *testing.T) {
	f := newFamily(t)
	started, stopped := make(chan struct{}), make(chan struct{})
	f.desk.on(func(ctx context.Context, w dispatch.Work) (dispatch.Reached, bool) {
		close(started)
		<-ctx.Done()
		close(stopped)
		return dispatch.Reached{Sent: true, Err: ctx.Err()}, true
	})
	held := f.do(helper, "held", `{"order":"one"}`, in(f.child.ID))
	if l := f.state(held); l.Call.Expires.After(f.child.Grant.Until) || l.Approval.Expires.After(f.child.Grant.Until) {
		t.Fatalf("it waits until %s, and its question until %s", l.Call.Expires, l.Approval.Expires)
	}
	f.clock.pass(time.Hour - time.Second)
	go f.Do(f.ctx, dispatch.Proposal{Caller: f.caller(helper), Run: f.child.ID, Tool: "send", Arguments: []byte(`{"order":"slow"}`)})
	<-started
	f.clock.pass(time.Second) // the attempt's own lease goes on
	work, stop := context.WithCancel(f.ctx)
	done := make(chan struct{})
	go func() { f.Work(work); close(done) }()
	select {
	case <-stopped:
	case <-time.After(10 * time.Second): // the tool's own time is 20 s
		t.Fatal("it was not asked to stop")
	}
	stop()
	<-done
	run, _, err := f.Run(f.ctx, f.caller(anna), f.child.ID)
	if err != nil || run.Live() || run.Why != "its time is over" {
		t.Fatalf("the run: %+v %v", run, err)
	}
	f.nothing(helper, f.child.ID, held)
	f.desk.on(nil)
	f.works(anna, f.root.ID, "neighbour")
}
