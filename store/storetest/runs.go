package storetest

import (
	"bytes"
	"sync"
	"testing"
	"time"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

// transfer: a run's new owner is in the file, what waited is over, and a
// reservation by the old owner that comes at the same time finds the run gone (rule B2).
func transfer(t *testing.T, b *bench) {
	b.linger()
	from, to := owner("acme"), owner("acme")
	to.Principal.Subject = "bert"
	r := b.openRun(t, from, true)
	waiting, q := b.held(t, r, `{"amount":1}`, 1)
	racing := b.call(t, r, `{"amount":2}`)
	change, err := record.Transfer(r, to, from.By(), b.at)
	if err != nil {
		t.Fatal(err)
	}
	reserve, err := record.Reserve(racing, b.step(r, record.Allow), b.at.Add(time.Minute), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var moved, reserved error
	var both sync.WaitGroup
	both.Go(func() { moved = b.Apply(b.ctx, change) })
	both.Go(func() { reserved = b.Apply(b.ctx, reserve) })
	both.Wait()
	if moved != nil {
		t.Fatalf("transfer: %v", moved)
	}
	if reserved != nil && refused(reserved) != record.RefusedPremise {
		t.Fatalf("a reservation beside the transfer: %v", reserved)
	}
	got, err := b.Run(b.ctx, "acme", r.ID)
	if err != nil || got.Owner != to || got.Turn != 2 {
		t.Fatalf("the run is %+v's, in turn %d: %v", got.Owner, got.Turn, err)
	}
	if l := b.load(t, "acme", waiting.ID); l.Call.State != record.Canceled || l.Approval.ID != q.ID || l.Approval.State != record.Void {
		t.Fatalf("what waited is %s, its approval %s", l.Call.State, l.Approval.State)
	}
	late := b.call(t, r, `{"amount":3}`)
	change, err = record.Reserve(late, b.step(r, record.Allow), b.at.Add(time.Minute), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Apply(b.ctx, change); refused(err) != record.RefusedPremise {
		t.Fatalf("the old owner reserves: %v", err)
	}
	own := b.call(t, got, `{"amount":4}`)
	change, err = record.Reserve(own, b.step(got, record.Allow), b.at.Add(time.Minute), nil, nil)
	b.apply(t, change, err)
	mine, err := b.Runs(b.ctx, dispatch.RunQuery{Tenant: "acme", Owner: &to, Limit: 10})
	if err != nil || len(mine) != 1 || mine[0].ID != r.ID {
		t.Fatalf("the new owner's runs: %+v %v", mine, err)
	}
}

// delegation: kept with the run, found by what people approved, and part of the
// premise of whoever acts under it (rule C2).
func delegation(t *testing.T, b *bench) {
	r := b.openRun(t, owner("acme"), false)
	bare := b.openRun(t, owner("globex"), false)
	d := record.Delegation{Issuer: "https://idp", Sealed: []byte{0, 255, 1}, Scopes: []string{"a", "b"}, Granted: b.at, Until: b.at.Add(time.Hour)}
	change, err := record.Delegate(r, d, false, r.By(), b.at)
	b.apply(t, change, err)
	got, err := b.Run(b.ctx, "acme", r.ID)
	if err != nil || got.Delegation == nil || !bytes.Equal(got.Delegation.Sealed, d.Sealed) || !got.Delegation.Until.Equal(d.Until) || len(got.Delegation.Scopes) != 2 {
		t.Fatalf("the delegation reads back as %+v: %v", got.Delegation, err)
	}
	ready := func() (out []record.CallID) {
		t.Helper()
		for last := (record.Call{}); ; {
			page, err := b.Ready(b.ctx, last.Tenant, last.ID, 1)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) == 0 {
				return out
			}
			last = page[0].Call
			out = append(out, last.ID)
		}
	}
	for _, run := range []record.Run{got, bare} {
		c, q := b.held(t, run, `{"amount":1}`, 1)
		if now := ready(); len(now) != 0 && run.ID != bare.ID {
			t.Fatalf("a question without an answer is ready: %v", now)
		}
		yes, err := record.Answer(q, c, b.reply("lena", q, record.Yes), b.decision(record.Allow), nil)
		b.apply(t, yes, err)
		if now := ready(); len(now) != 1 || b.load(t, "acme", now[0]).Run.ID != r.ID {
			t.Fatalf("ready are %v, want the one call of the run that holds a delegation", now)
		}
	}
	second, q := b.held(t, got, `{"amount":7}`, 1)
	yes, err := record.Answer(q, second, b.reply("lena", q, record.Yes), b.decision(record.Allow), nil)
	b.apply(t, yes, err)
	if now := ready(); len(now) != 2 || now[0] == now[1] {
		t.Fatalf("ready are %v, want both calls, page by page", now)
	}
	c := b.call(t, got, `{"amount":2}`)
	step := b.step(got, record.Allow)
	step.Premise.Delegated = true
	reserve := func() error {
		t.Helper()
		change, err := record.Reserve(c, step, b.at.Add(time.Minute), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return b.Apply(b.ctx, change)
	}
	step.At = d.Until
	if err := reserve(); refused(err) != record.RefusedPremise {
		t.Fatalf("reserved under a delegation that has ended: %v", err)
	}
	step.At = b.at
	if err := reserve(); err != nil {
		t.Fatalf("reserved under a delegation: %v", err)
	}
	b.apply(t, record.Withdraw(got, "test", r.By(), b.at), nil)
	c = b.call(t, got, `{"amount":3}`)
	if err := reserve(); refused(err) != record.RefusedPremise {
		t.Fatalf("reserved under a delegation that was withdrawn: %v", err)
	}
	if now := ready(); len(now) != 0 {
		t.Fatalf("ready without a delegation: %v", now)
	}
	if l, err := b.Run(b.ctx, "acme", r.ID); err != nil || l.Delegation != nil {
		t.Fatalf("the delegation is still there: %+v %v", l.Delegation, err)
	}
}

// fresh: what an owner's runs without vouch left waiting is over, their next run is of
// another lineage, and nobody else's is touched (rule B1). Opening a run of the old
// lineage at the same time comes before it, and ends with it, or is refused.
func fresh(t *testing.T, b *bench) {
	b.linger()
	o, other := owner("acme"), owner("acme")
	other.Agent = "another"
	r, theirs, vouched := b.openRun(t, o, false), b.openRun(t, other, false), b.openRun(t, o, true)
	waiting, _ := b.held(t, r, `{"amount":1}`, 1)
	kept, _ := b.held(t, theirs, `{"amount":1}`, 1)
	own, _ := b.held(t, vouched, `{"amount":2}`, 1)
	rejected, q := b.held(t, r, `{"amount":3}`, 1)
	no, err := record.Answer(q, rejected, b.reply("lena", q, record.No), b.decision(record.Deny), nil)
	b.apply(t, no, err)

	racing := record.OpenRun(record.Run{Owner: o, ID: record.RunID(id(t, "run", b.at)), Lineage: record.UnvouchedLineage(o, 0), Label: "racing", Turn: 1, Opened: b.at, Active: b.at}, o.By())
	var done, opened error
	var both sync.WaitGroup
	both.Go(func() { done = b.Apply(b.ctx, record.StartFresh(o, 0, b.at)) })
	both.Go(func() { opened = b.Apply(b.ctx, racing) })
	both.Wait()
	if done != nil || opened != nil && refused(opened) != record.RefusedPremise {
		t.Fatalf("started fresh: %v; a run opened beside it: %v", done, opened)
	}
	if live, err := b.LiveRuns(b.ctx, o); err != nil || len(live) != 0 {
		t.Fatalf("still live: %+v %v", live, err)
	}
	if l := b.load(t, "acme", waiting.ID); l.Call.State != record.Canceled || l.Approval.State != record.Void || l.Run.Live() {
		t.Fatalf("what waited is %s, its question %s", l.Call.State, l.Approval.State)
	}
	for _, c := range []record.Call{kept, own} {
		if l := b.load(t, "acme", c.ID); l.Call.State != record.ApprovalPending || !l.Run.Live() {
			t.Fatalf("what is not of the lineage is %s", l.Call.State)
		}
	}
	if err := b.Apply(b.ctx, record.StartFresh(o, 0, b.at)); refused(err) != record.RefusedConflict {
		t.Fatalf("twice from one epoch: %v", err)
	}
	late := record.OpenRun(record.Run{Owner: o, ID: record.RunID(id(t, "run", b.at)), Lineage: record.UnvouchedLineage(o, 0), Turn: 1, Opened: b.at, Active: b.at}, o.By())
	if err := b.Apply(b.ctx, late); refused(err) != record.RefusedPremise {
		t.Fatalf("a run of the old lineage: %v", err)
	}
	epoch, err := b.Epoch(b.ctx, o)
	if err != nil || epoch != 1 {
		t.Fatalf("epoch %d: %v", epoch, err)
	}
	next := record.OpenRun(record.Run{Owner: o, ID: record.RunID(id(t, "run", b.at)), Lineage: record.UnvouchedLineage(o, 1), Turn: 1, Opened: b.at, Active: b.at}, o.By())
	b.apply(t, next, nil)
	standing, err := b.Standing(b.ctx, "acme", o.Principal)
	if err != nil || len(standing) != 2 || standing[0].Agent != "another" || standing[0].Epoch != 0 || standing[1].Epoch != 1 || standing[1].Runs != 1 || standing[1].Rejections != 0 || !standing[1].Since.Equal(b.at) {
		t.Fatalf("standing: %+v %v", standing, err)
	}
	if none, err := b.Standing(b.ctx, "globex", o.Principal); err != nil || len(none) != 0 {
		t.Fatalf("another tenant's: %+v %v", none, err)
	}
	events := b.events(t, "acme")
	found := 0
	for _, e := range events {
		if e.Kind == record.EventFresh && e.Who.Principal != nil && e.Who.Agent == "" {
			found++
		}
	}
	if found != 1 {
		t.Fatalf("%d events of it", found)
	}
}
