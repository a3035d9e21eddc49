package storetest

import (
	"testing"
	"time"

	"github.com/placet-dev/placet/record"
)

// recovery: one change ends what a restored state only believes, of every tenant.
func recovery(t *testing.T, b *bench) {
	acme, globex := b.openRun(t, owner("acme"), false), b.openRun(t, owner("globex"), false)
	running := b.call(t, acme, `{"amount":1}`)
	change, err := record.Reserve(running, b.step(acme, record.Allow), b.at.Add(time.Minute), nil, nil)
	b.apply(t, change, err)
	waiting, q := b.held(t, globex, `{"amount":2}`, 1)
	yes, err := record.Answer(q, waiting, b.reply("lena", q, record.Yes), b.decision(record.Allow), nil)
	b.apply(t, yes, err)
	d := record.Delegation{Issuer: "https://idp", Sealed: []byte{1}, Granted: b.at, Until: b.at.Add(time.Hour)}
	change, err = record.Delegate(acme, d, false, acme.By(), b.at)
	b.apply(t, change, err)
	if epoch, err := b.StoreEpoch(b.ctx); err != nil || epoch != 1 {
		t.Fatal(epoch, err)
	}

	r := record.Recovery{From: 1, To: 2, Why: "restored", Who: record.Who{System: "recovery"}, At: b.at}
	change, err = record.Recover(r, "ten events")
	b.apply(t, change, err)
	if epoch, err := b.StoreEpoch(b.ctx); err != nil || epoch != 2 {
		t.Fatal(epoch, err)
	}
	if c := b.load(t, "acme", running.ID).Call; c.State != record.Unknown {
		t.Fatalf("what may have been sent is %s", c.State)
	}
	l := b.load(t, "globex", waiting.ID)
	if l.Call.State != record.Canceled || l.Approval == nil || l.Approval.State != record.Void {
		t.Fatalf("what waited is %s, its question %+v", l.Call.State, l.Approval)
	}
	if run, err := b.Run(b.ctx, "acme", acme.ID); err != nil || run.Delegation != nil {
		t.Fatalf("the delegation: %+v %v", run.Delegation, err)
	}
	// The approval cannot be used, and the same recovery not be made again.
	again, err := record.Reserve(waiting, b.step(globex, record.Allow), b.at.Add(time.Minute), l.Approval, nil)
	if err == nil {
		err = b.Apply(b.ctx, again)
	}
	if err == nil {
		t.Fatal("a call that was canceled runs")
	}
	if err := b.Apply(b.ctx, change); refused(err) != record.RefusedConflict {
		t.Fatalf("the second recovery: %v", err)
	}
	// The neighbour: what is asked anew runs.
	c := b.call(t, globex, `{"amount":3}`)
	change, err = record.Reserve(c, b.step(globex, record.Allow), b.at.Add(time.Minute), nil, nil)
	b.apply(t, change, err)
}
