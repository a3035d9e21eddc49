package storetest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/placet-dev/placet/record"
)

// child opens a run below another one, with calls to spend.
func (b *bench) child(t *testing.T, parent record.Run, agent record.AgentID, calls, fanOut int64) (record.Run, error) {
	t.Helper()
	o := parent.Owner
	o.Agent = agent
	g := record.Grant{Tools: []string{"refund"}, Scopes: []string{"refunds"}, Targets: map[string][]string{"order": {`"ord_1"`}},
		Money: map[string]int64{"EUR": 5}, Calls: calls, Until: b.at.Add(time.Hour)}
	c, err := record.OpenChild(parent, record.Run{Owner: o, ID: record.RunID(id(t, "run", b.at)), Grant: &g, Opened: b.at, Active: b.at}, fanOut, 0, parent.By())
	if err != nil {
		t.Fatal(err)
	}
	return c.Facts().Run.After, b.Apply(b.ctx, c)
}

func (b *bench) mustChild(t *testing.T, parent record.Run, agent record.AgentID, calls int64) record.Run {
	t.Helper()
	r, err := b.child(t, parent, agent, calls, 8)
	if err != nil {
		t.Fatalf("a child run: %v", err)
	}
	return r
}

// reserve starts an attempt in a run, with what its grants take.
func (b *bench) reserveIn(t *testing.T, arguments string, at time.Time, runs ...record.Run) (record.Call, error) {
	t.Helper()
	c := b.call(t, runs[0], arguments)
	step := b.step(runs[0], record.Allow)
	step.At = at
	for _, r := range runs {
		step.Charges = append(step.Charges, r.GrantCharges("EUR", 1, false)...)
	}
	change, err := record.Reserve(c, step, at.Add(time.Minute), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c, b.Apply(b.ctx, change)
}

// children: what a child run was given is in the store; it ends with the runs above it
// and with their turn, in the same transaction; places among a run's children are
// counted (rule B4).
func children(t *testing.T, b *bench) {
	root := b.openRun(t, owner("acme"), true)
	beside := b.openRun(t, owner("acme"), true)
	child := b.mustChild(t, root, "helper", 4)
	below := b.mustChild(t, child, "bot", 3)
	theirs := b.mustChild(t, beside, "helper", 4)
	got, err := b.Run(b.ctx, "acme", child.ID)
	if err != nil || cmp.Diff(child, got) != "" || got.Lineage != root.Lineage {
		t.Fatalf("it reads back otherwise: %v\n%s", err, cmp.Diff(child, got))
	}
	if list, err := b.Children(b.ctx, "acme", root.ID, 10); err != nil || len(list) != 1 || list[0].ID != child.ID {
		t.Fatalf("children: %+v %v", list, err)
	}
	if list, err := b.Children(b.ctx, "globex", root.ID, 10); err != nil || len(list) != 0 {
		t.Fatalf("another tenant's: %+v %v", list, err)
	}
	waiting, q := b.held(t, below, `{"amount":1}`, 1)
	other, _ := b.held(t, theirs, `{"amount":2}`, 1)
	running, err := b.reserveIn(t, `{"amount":3}`, b.at, below, child)
	if err != nil {
		t.Fatal(err)
	}
	turn, err := record.StartTurn(root, nil, root.By(), b.at)
	b.apply(t, turn, err)
	if l := b.load(t, "acme", waiting.ID); l.Call.State != record.Canceled || l.Approval.ID != q.ID || l.Approval.State != record.Void || l.Run.Live() {
		t.Fatalf("what waited below is %s, its question %s", l.Call.State, l.Approval.State)
	}
	if got := b.load(t, "acme", running.ID).Call.State; got != record.Executing {
		t.Fatalf("what executes below is %s; it finishes as it finishes", got)
	}
	if l := b.load(t, "acme", other.ID); l.Call.State != record.ApprovalPending || !l.Run.Live() {
		t.Fatalf("what lies below another run is %s", l.Call.State)
	}
	for _, r := range []record.Run{child, below} {
		if _, err := b.reserveIn(t, `{"amount":4}`, b.at, r); refused(err) != record.RefusedPremise {
			t.Fatalf("a run whose parent went on reserves: %v", err)
		}
	}
	if _, err := b.child(t, child, "bot", 3, 8); refused(err) != record.RefusedPremise {
		t.Fatalf("a child run below one that ended: %v", err)
	}
	if _, err := b.reserveIn(t, `{"amount":5}`, b.at, theirs); err != nil {
		t.Fatalf("its neighbour: %v", err)
	}
	late := theirs.Grant.Until
	if _, err := b.reserveIn(t, `{"amount":6}`, late, theirs); refused(err) != record.RefusedPremise {
		t.Fatalf("a run whose time is over reserves: %v", err)
	}
	over, next, err := b.RunsOver(b.ctx, b.at, 10)
	if err != nil || len(over) != 0 || !next.Equal(late) {
		t.Fatalf("over now: %+v, next %s: %v", over, next, err)
	}
	if over, _, err = b.RunsOver(b.ctx, late, 10); err != nil || len(over) != 1 || over[0].ID != theirs.ID {
		t.Fatalf("over then: %+v %v", over, err)
	}
	end, err := record.EndRun(beside, "done", beside.By(), b.at)
	b.apply(t, end, err)
	if l := b.load(t, "acme", other.ID); l.Call.State != record.Canceled || l.Run.Live() {
		t.Fatalf("below a run that ended: %s", l.Call.State)
	}
}

// childFresh: a child run belongs to the lineage of the run above it, whosever its
// agent is: it ends when that lineage does, and with no other one.
func childFresh(t *testing.T, b *bench) {
	o, helper := owner("acme"), owner("acme")
	helper.Agent = "helper"
	root := b.openRun(t, o, false)
	own, other := b.mustChild(t, root, o.Agent, 4), b.mustChild(t, root, helper.Agent, 4)
	if r, err := b.LiveRun(b.ctx, o, ""); err != nil || r.ID != root.ID {
		t.Fatalf("the owner's run without a name is %s, want the root: %v", r.ID, err)
	}
	if _, err := b.LiveRun(b.ctx, helper, ""); record.KindOf(err) != record.NotFound {
		t.Fatalf("a child run is found without its name: %v", err)
	}
	b.apply(t, record.StartFresh(helper, 0, b.at), nil)
	if r, err := b.Run(b.ctx, "acme", other.ID); err != nil || !r.Live() {
		t.Fatalf("it ended with another lineage: %v", err)
	}
	b.apply(t, record.StartFresh(o, 0, b.at), nil)
	for _, r := range []record.Run{root, own, other} {
		if got, err := b.Run(b.ctx, "acme", r.ID); err != nil || got.Live() {
			t.Fatalf("%s is live after its lineage: %v", r.ID, err)
		}
	}
}

// childRace: of many who open children at the same time as many succeed as may, and
// of many who spend what one was given, in it and below it, no more than was given. A
// run that ends beside them leaves nothing that lives below it.
func childRace(t *testing.T, b *bench) {
	b.linger()
	root := b.openRun(t, owner("acme"), true)
	var mu sync.Mutex
	var opened []record.Run
	for i, err := range together(24, func(int) error {
		r, err := b.child(t, root, "helper", 20, 8)
		if err == nil {
			mu.Lock()
			defer mu.Unlock()
			opened = append(opened, r)
		}
		return err
	}) {
		if err != nil && refused(err) != record.RefusedLimit {
			t.Fatalf("opening %d: %v", i, err)
		}
	}
	if len(opened) != 8 {
		t.Fatalf("%d children live, want 8", len(opened))
	}
	end, err := record.EndRun(opened[0], "done", root.By(), b.at)
	b.apply(t, end, err)
	if _, err := b.child(t, root, "helper", 4, 8); err != nil {
		t.Fatalf("the place that one left: %v", err)
	}
	child := opened[1]
	a, c := b.mustChild(t, child, "a", 9), b.mustChild(t, child, "c", 9)
	var spent int
	for i, err := range together(64, func(i int) error {
		r := []record.Run{a, c}[i%2]
		_, err := b.reserveIn(t, fmt.Sprintf(`{"amount":%d}`, i), b.at, r, child)
		return err
	}) {
		switch {
		case err == nil:
			spent++
		case refused(err) != record.RefusedLimit:
			t.Fatalf("spending %d: %v", i, err)
		}
	}
	if spent != 5 {
		t.Fatalf("%d calls of 1 EUR each ran below a run that was given 5 EUR", spent)
	}
	ends, racing := opened[2], opened[2]
	errs := together(32, func(i int) error {
		switch {
		case i == 16:
			end, err := record.EndRun(ends, "race", root.By(), b.at)
			if err != nil {
				return err
			}
			return b.Apply(b.ctx, end)
		case i%2 == 0:
			_, err := b.child(t, racing, "helper", 3, 100)
			return err
		}
		_, err := b.reserveIn(t, fmt.Sprintf(`{"amount":%d}`, 1000+i), b.at, racing)
		return err
	})
	for i, err := range errs {
		if err != nil && (i == 16 || refused(err) != record.RefusedPremise && refused(err) != record.RefusedLimit) {
			t.Fatalf("beside the end, %d: %v", i, err)
		}
	}
	below, err := b.Children(b.ctx, "acme", racing.ID, 100)
	for _, r := range below {
		if r.Live() {
			t.Fatalf("%s lives below a run that ended", r.ID)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}
