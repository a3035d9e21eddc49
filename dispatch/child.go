package dispatch

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/label"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
)

// Child is what a run asks for another one below it (rule B4).
type Child struct {
	Agent record.AgentID // who acts in it, with a credential of its own; empty: the caller's own agent
	Label string
	Grant record.Grant // without scopes: those that its tools need
}

// OpenChild opens a run below one of the caller's, for an agent of the same principal,
// with a strict subset of what the caller has there now. Who acts in it comes with a
// verified credential of that agent for that principal: its ID is none (rule B2).
func (b *Boundary) OpenChild(ctx context.Context, c identity.Caller, parent record.RunID, want Child) (record.Run, error) {
	return b.openChild(ctx, c, want, func(time.Time) (record.Run, error) { return b.ownRun(ctx, c, parent) })
}

// OpenChildUnder is OpenChild for doors that know only labels: below the run that
// calls under the label belong to.
func (b *Boundary) OpenChildUnder(ctx context.Context, c identity.Caller, label string, want Child) (record.Run, error) {
	p := &Proposal{Caller: c, RunLabel: label}
	if err := p.labels(); err != nil {
		return record.Run{}, err
	}
	return b.openChild(ctx, c, want, func(now time.Time) (record.Run, error) { return b.runFor(ctx, p, now) })
}

func (b *Boundary) openChild(ctx context.Context, c identity.Caller, want Child, load func(time.Time) (record.Run, error)) (record.Run, error) {
	if !c.Valid() {
		return record.Run{}, record.Errorf(record.Unauthenticated, "no verified identity came with this request")
	}
	p := Proposal{RunLabel: want.Label}
	if err := p.labels(); err != nil {
		return record.Run{}, err
	}
	if p.RunLabel = string(want.Agent); p.labels() != nil {
		return record.Run{}, record.Errorf(record.Invalid, "an agent's name is at most %d bytes of printable text", maxLabel)
	}
	for range maxConflicts {
		now := b.clock()
		parent, err := load(now)
		if err != nil {
			return record.Run{}, err
		}
		change, err := b.childOf(ctx, c, parent, want, now)
		if err != nil {
			return record.Run{}, err
		}
		err = b.apply(ctx, change)
		r := refusal(err)
		switch {
		case err == nil:
			b.wakeClock() // it has an end
			return change.Facts().Run.After, nil
		case r == nil:
			return record.Run{}, err
		case r.Kind == record.RefusedLimit && !overQuota(err):
			return record.Run{}, record.Errorf(record.Limited, "%d child runs of this run are live, and more may not be at the same time; end one", b.limits.FanOut)
		case overQuota(err):
			return record.Run{}, record.Errorf(record.Limited, "the tenant's quota of events is used up; try again later")
		}
	}
	return record.Run{}, record.Errorf(record.Conflict, "the run kept changing; try again")
}

// childOf makes the change that opens a child run, and proves that it is given less
// than the run above has.
func (b *Boundary) childOf(ctx context.Context, c identity.Caller, parent record.Run, want Child, now time.Time) (record.Change, error) {
	a := b.now.Load()
	if a == nil {
		return record.Change{}, record.Errorf(record.Unavailable, "nothing is active")
	}
	if !parent.Live() || parent.Over(now) {
		return record.Change{}, record.Errorf(record.Conflict, "the run has ended")
	}
	above, err := b.above(ctx, parent)
	if err != nil {
		return record.Change{}, err
	}
	if len(above)+1 > min(b.limits.Depth, record.MaxDepth) {
		return record.Change{}, record.Errorf(record.Forbidden, "no run is opened below this one: runs lie at most %d deep below one another here", max(b.limits.Depth, 0))
	}
	have := a.has(b.limits, c, parent, above)
	grant, err := want.Grant.Normal()
	if err != nil {
		return record.Change{}, err
	}
	if len(want.Grant.Scopes) == 0 {
		grant.Scopes = a.needs(grant.Tools)
	}
	if !grant.Until.After(now) {
		return record.Change{}, record.Errorf(record.Invalid, "a child run ends after now")
	}
	if beyond := grant.Beyond(have); beyond != "" {
		return record.Change{}, record.Errorf(record.Forbidden, "a child run is given less than the run above it has, and this goes beyond it in %s", beyond)
	}
	if !grant.Within(have) {
		return record.Change{}, record.Errorf(record.Forbidden, "a child run is given less than the run above it has, and this is all of it; leave out a tool, a scope, a target, money or calls")
	}
	id, err := b.newRun(now)
	if err != nil {
		return record.Change{}, record.Because(record.Unavailable, err, "no run ID could be made")
	}
	owner := c.Owner()
	if want.Agent != "" {
		owner.Agent = want.Agent
	}
	return record.OpenChild(parent, record.Run{Owner: owner, ID: id, Label: want.Label, Grant: &grant, Opened: now, Active: now},
		b.limits.FanOut, a.generation, c.Owner().By())
}

// has is what a caller has in a run now, as far as the registry, their credential,
// the limits and what the run was given say.
func (a *active) has(l Limits, c identity.Caller, run record.Run, above []record.Run) record.Grant {
	g := record.Grant{Scopes: c.Scopes(), Calls: l.CallsPerRun, Money: l.MoneyPerRun, Unmetered: l.MoneyPerRun == nil, Endless: true}
	if run.Grant != nil {
		g = *run.Grant
		g.Scopes = slices.DeleteFunc(slices.Clone(g.Scopes), func(s string) bool { return !c.HasScope(s) })
		g.Tools = nil
	}
	for t := range a.Registry.Tools() {
		if _, ok := a.admits(t, c); ok && (run.Grant == nil || a.grants(t, c, append([]record.Run{run}, above...)) == "") {
			g.Tools = append(g.Tools, t.Name)
		}
	}
	slices.Sort(g.Tools)
	slices.Sort(g.Scopes)
	g.Scopes = slices.Compact(g.Scopes)
	return g
}

// needs are the scopes that tools ask for.
func (a *active) needs(tools []string) []string {
	scopes := map[string]bool{}
	for _, name := range tools {
		if t, ok := a.Registry.Tool(name); ok && t.Scope != "" {
			scopes[t.Scope] = true
		}
	}
	return slices.Sorted(maps.Keys(scopes))
}

// grants reports why a child run may not call a tool, whatever its arguments, or
// nothing. runs are the run and those above it.
func (a *active) grants(t *registry.Tool, c identity.Caller, runs []record.Run) string {
	for _, run := range runs {
		if _, ok := a.admitsAs(t, run.Owner, c); !ok {
			return "the agent " + string(run.Agent) + " of " + string(run.ID) + " may not call it"
		}
		if run.Parent == "" {
			return ""
		}
		g := run.Grant
		switch {
		case g == nil:
			return "what " + string(run.ID) + " was given cannot be read"
		case !g.Names(t.Name):
			return string(run.ID) + " was not given the tool"
		case t.Scope != "" && !slices.Contains(g.Scopes, t.Scope):
			return string(run.ID) + " was not given the scope " + t.Scope
		case t.Completes != nil:
			if why := a.grants(t.Completes, c, runs); why != "" {
				return why
			}
		}
	}
	return "the run at the top is missing"
}

// above loads the runs above one, the nearest first. Their grants never change.
func (b *Boundary) above(ctx context.Context, run record.Run) (out []record.Run, err error) {
	for run.Parent != "" {
		if len(out) > record.MaxDepth {
			return nil, record.Errorf(record.Internal, "the run %s lies too deep", run.ID)
		}
		if run, err = b.store.Run(ctx, run.Tenant, run.Parent); err != nil {
			return nil, record.Because(record.Unavailable, err, "the run above cannot be read")
		}
		out = append(out, run)
	}
	return out, nil
}

// climb loads the runs above the evaluation's.
func (e *evaluation) climb(ctx context.Context) (err error) {
	e.above, err = e.b.above(ctx, e.run)
	return err
}

// chain is the evaluation's run with those above it.
func (e *evaluation) chain() []record.Run { return append([]record.Run{e.run}, e.above...) }

// checkGrant is rule B4: a child run does what it was given, as long as every run
// above it could. From here on its caller has at most the scopes it was given.
func (e *evaluation) checkGrant(context.Context) bool {
	if e.run.Parent == "" {
		return true
	}
	deny := func(code record.Code, public, private string) bool {
		return e.say(record.Reason{Rule: "grant", Place: e.tool.Place, Verdict: record.Deny, Code: code, Public: public, Private: private})
	}
	for _, run := range e.chain() {
		if !run.Live() || run.Over(e.now) {
			return deny(record.CodeRunEnded, "", string(run.ID)+" has ended")
		}
		if run.Grant != nil {
			e.caller = e.caller.Within(run.Grant.Scopes)
		}
	}
	if e.call.Route == record.RouteSupport {
		return true // what Placet looks up itself; with the scopes that the run was given
	}
	if why := e.a.grants(e.tool, e.caller, e.chain()); why != "" {
		return deny(record.CodeNotGranted, "", why)
	}
	for _, run := range e.chain() {
		if run.Grant == nil {
			continue
		}
		if argument := e.outside(*run.Grant); argument != "" {
			return deny(record.CodeNotGranted, "the argument "+argument, string(run.ID)+" was given other values")
		}
	}
	return true
}

// outside names an argument with a value that a grant does not admit. An argument
// that is bound, and that the tool acts on, must be stated.
func (e *evaluation) outside(g record.Grant) string {
	for _, argument := range g.Bound() {
		value, ok := label.ValueAt(e.call.Arguments, argument)
		if ok && !g.Admits(argument, value) || !ok && slices.Contains(e.tool.Targets, argument) {
			return argument
		}
	}
	return ""
}

// mayBeKnown reports whether a proposal may be answered by an equal call: in a child
// run, only where it may make such a call itself.
func (e *evaluation) mayBeKnown(t *registry.Tool) bool {
	if e.run.Parent == "" {
		return true
	}
	probe := *e
	probe.tool, probe.reasons = t, nil
	return probe.checkGrant(context.Background())
}

// grantCharges are what the call takes of what its run, and each above it, was given.
func (e *evaluation) grantCharges() (out []record.Charge) {
	if e.run.Parent == "" {
		return nil
	}
	currency, micros, reported := "", int64(0), false
	if s := e.spends; s != nil {
		currency, micros, reported = s.currency, s.micros, len(s.result) > 0
	}
	for _, run := range e.chain() {
		out = append(out, run.GrantCharges(currency, micros, reported)...)
	}
	return out
}

// until is a time, or the end of the run's grant where that comes first.
func (e *evaluation) until(t time.Time) time.Time {
	if g := e.run.Grant; g != nil {
		return earliest(g.Until, t)
	}
	return t
}

// timeout is how long an attempt of the call may take: no longer than its run.
func (e *evaluation) timeout() time.Duration {
	if g := e.run.Grant; g != nil {
		return max(min(e.tool.Timeout, g.Until.Sub(e.now)), 0)
	}
	return e.tool.Timeout
}

// heldRun loads a run for its owner or the owner of one above it; for anybody else
// there is no such run.
func (b *Boundary) heldRun(ctx context.Context, c identity.Caller, id record.RunID) (record.Run, error) {
	if c.Valid() && record.ValidID("run", string(id)) {
		run, err := b.store.Run(ctx, c.Owner().Tenant, id)
		if err == nil && run.Owner != c.Owner() && run.Parent != "" {
			above, err := b.above(ctx, run)
			if err != nil {
				return record.Run{}, err
			}
			if slices.ContainsFunc(above, func(r record.Run) bool { return r.Owner == c.Owner() }) {
				return run, nil
			}
		}
	}
	return b.ownRun(ctx, c, id)
}

// Children returns the runs directly below a run, the newest first.
func (b *Boundary) Children(ctx context.Context, run record.Run) ([]record.Run, error) {
	return b.store.Children(ctx, run.Tenant, run.ID, maxChildren)
}

// maxChildren is how many are shown, and asked to stop.
const maxChildren = 500

// stopBelow asks the executing calls of the runs below one, which ended at a time, to
// stop.
func (b *Boundary) stopBelow(ctx context.Context, run record.Run, at time.Time) {
	children, err := b.store.Children(ctx, run.Tenant, run.ID, maxChildren)
	if err != nil {
		b.log.Error("dispatch: cannot list the runs below one that ended", "run", run.ID, "error", err)
		return
	}
	for _, child := range children {
		if child.Live() || child.Ended.Before(at) {
			continue
		}
		b.stopRunning(ctx, child)
		b.stopBelow(ctx, child, at)
	}
}

// endOver ends the runs whose time is over, with those below them, and returns when
// the next one's is.
func (b *Boundary) endOver(ctx context.Context) time.Time {
	now := b.clock()
	over, next, err := b.store.RunsOver(ctx, now, dueBatch)
	if err != nil {
		b.log.Error("dispatch: cannot read which runs are over", "error", err)
		return now.Add(time.Second)
	}
	for _, run := range over {
		load := func() (record.Run, error) { return b.store.Run(ctx, run.Tenant, run.ID) }
		if _, err := b.endRun(ctx, load, "its time is over", record.Who{System: "clock"}); err != nil {
			b.log.Error("dispatch: a run whose time is over could not be ended", "run", run.ID, "error", err)
			return now.Add(time.Second)
		}
	}
	if len(over) == dueBatch {
		return now
	}
	return next
}

// EntriesUnder is Entries for the run that calls under a label belong to: exactly what
// a call there would not be refused as not granted.
func (b *Boundary) EntriesUnder(ctx context.Context, c identity.Caller, runLabel string, m registry.Method) []*registry.Tool {
	runs, ok := b.childUnder(ctx, c, runLabel)
	switch {
	case !ok:
		return nil
	case runs == nil:
		return b.Entries(ctx, c, m)
	}
	for _, run := range runs {
		if run.Grant != nil {
			c = c.Within(run.Grant.Scopes)
		}
	}
	return b.entries(ctx, c, m, func(a *active, t *registry.Tool) bool { return a.grants(t, c, runs) == "" })
}

// childUnder returns the child run that a label names, with those above it; nil: it
// names none. Where that run does nothing any more, or cannot be read, it is not ok.
func (b *Boundary) childUnder(ctx context.Context, c identity.Caller, runLabel string) (runs []record.Run, ok bool) {
	if !c.Valid() || !record.ValidID("run", runLabel) {
		return nil, true
	}
	run, err := b.store.Run(ctx, c.Owner().Tenant, record.RunID(runLabel))
	switch {
	case err != nil && record.KindOf(err) != record.NotFound:
		return nil, false
	case err != nil || run.Owner != c.Owner() || run.Parent == "":
		return nil, true
	}
	above, err := b.above(ctx, run)
	if err != nil {
		return nil, false
	}
	runs = append([]record.Run{run}, above...)
	now := b.clock()
	return runs, !slices.ContainsFunc(runs, func(r record.Run) bool { return !r.Live() || r.Over(now) })
}

// Delegates reports whether runs may be opened below others here.
func (b *Boundary) Delegates() bool { return b.limits.Depth > 0 }
