package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/placet-dev/placet/record"
)

// lineages: labels, payments and material are durable with the change that brings
// them, and a decision that did not see them does not stand (rules C4 and F1).
func lineages(t *testing.T, b *bench) {
	r := b.openRun(t, owner("acme"), true)
	other := b.openRun(t, owner("globex"), true)
	read := func(r record.Run) record.Lineage {
		t.Helper()
		l, err := b.Lineage(b.ctx, r.Tenant, r.Lineage)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	if l := read(r); l.Version != 0 || l.Seq != 0 || len(l.Marks) != 0 {
		t.Fatalf("a lineage that read nothing: %+v", l)
	}
	reserve := func(arguments string, labels int64, m *record.LineageMove) (record.Call, error) {
		t.Helper()
		c := b.call(t, r, arguments)
		step := b.step(r, record.Allow)
		step.Premise.Lineage, step.Premise.Labels, step.Lineage = r.Lineage, labels, m
		change, err := record.Reserve(c, step, b.at.Add(time.Minute), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return change.Facts().Call.After, b.Apply(b.ctx, change)
	}
	move := func(m record.LineageMove) *record.LineageMove {
		m.Tenant, m.ID = r.Tenant, r.Lineage
		return &m
	}
	executing, err := reserve(`{"n":1}`, 0, move(record.LineageMove{Salt: []byte("0123456789abcdef"),
		Marks: []record.Mark{{Label: "untrusted", At: b.at, Tool: "read"}}, Pays: []string{"a"}}))
	if err != nil {
		t.Fatal(err)
	}
	l := read(r)
	if l.Version == 0 || !slices.Equal(l.Labels(b.at, 0), []string{"untrusted"}) || l.Paid["a"] != 1 || string(l.Salt) != "0123456789abcdef" {
		t.Fatalf("after the reservation: %+v", l)
	}
	// A decision from before is refused, and leaves no trace.
	if _, err := reserve(`{"n":2}`, 0, move(record.LineageMove{Pays: []string{"a"}})); refused(err) != record.RefusedPremise {
		t.Fatalf("a decision that did not see the label: %v", err)
	}
	if got := read(r); got.Version != l.Version || got.Paid["a"] != 1 {
		t.Fatalf("a refused change left a trace: %+v", got)
	}
	if _, err := reserve(`{"n":3}`, l.Version, move(record.LineageMove{Pays: []string{"a"}, Salt: []byte("another")})); err != nil {
		t.Fatal(err)
	}
	if got := read(r); got.Paid["a"] != 2 || string(got.Salt) != "0123456789abcdef" {
		t.Fatalf("after the second: %+v", got)
	}
	// Material comes with the outcome, in order.
	change, err := record.Settle(executing, record.Succeeded, record.Outcome{Sent: true, Result: []byte(`{}`)}, record.Step{At: b.at, Who: r.By(), Labels: []string{"sensitive"},
		Lineage: move(record.LineageMove{Marks: []record.Mark{{Label: "sensitive", At: b.at}}, Material: []record.Material{
			{Kind: "result", At: b.at, Call: executing.ID, Body: []byte(`{"n":1}`)}, {Kind: "sent", At: b.at, Body: []byte(`["x"]`)}}})}, record.ByBoundary)
	b.apply(t, change, err)
	if got := read(r); got.Seq != 2 || len(got.Marks) != 2 {
		t.Fatalf("after the outcome: %+v", got)
	}
	list, err := b.Materials(b.ctx, r.Tenant, r.Lineage, 0, time.Time{}, 10)
	if err != nil || len(list) != 2 || list[0].Seq != 1 || list[0].Kind != "result" || string(list[0].Body) != `{"n":1}` || list[0].Call != executing.ID || list[1].Seq != 2 {
		t.Fatalf("material: %+v %v", list, err)
	}
	if list, err := b.Materials(b.ctx, r.Tenant, r.Lineage, 1, time.Time{}, 10); err != nil || len(list) != 1 || list[0].Seq != 2 {
		t.Fatalf("material after the first: %+v %v", list, err)
	}
	if list, err := b.Materials(b.ctx, r.Tenant, r.Lineage, 0, b.at.Add(time.Second), 10); err != nil || len(list) != 0 {
		t.Fatalf("material since later: %+v %v", list, err)
	}
	// Another tenant's lineage is its own, also under the same name.
	if l, err := b.Lineage(b.ctx, other.Tenant, r.Lineage); err != nil || l.Version != 0 {
		t.Fatalf("another tenant sees %+v %v", l, err)
	}
	if list, err := b.Materials(b.ctx, other.Tenant, r.Lineage, 0, time.Time{}, 10); err != nil || len(list) != 0 {
		t.Fatalf("another tenant reads %+v %v", list, err)
	}
}

// heldLineages: a hold is durable with its alert, a decision that did not see it does not
// stand, the first one stays until it is lifted, and whoever lifts looked at that one.
func heldLineages(t *testing.T, b *bench) {
	r := b.openRun(t, owner("acme"), true)
	other := b.openRun(t, owner("globex"), true)
	read := func() record.Lineage {
		t.Helper()
		l, err := b.Lineage(b.ctx, r.Tenant, r.Lineage)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	reserve := func(arguments string, labels int64) error {
		t.Helper()
		step := b.step(r, record.Allow)
		step.Premise.Lineage, step.Premise.Labels = r.Lineage, labels
		change, err := record.Reserve(b.call(t, r, arguments), step, b.at.Add(time.Minute), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return b.Apply(b.ctx, change)
	}
	lift := func(l record.Lineage) error {
		t.Helper()
		change, err := record.Lift(l, &record.Premise{Tenant: r.Tenant, Lineage: r.Lineage, Labels: l.Version}, record.Who{Workload: "ops"}, "looked at it", b.at)
		if err != nil {
			t.Fatal(err)
		}
		return b.Apply(b.ctx, change)
	}
	held := func(tenant record.TenantID, want ...record.LineageID) {
		t.Helper()
		list, err := b.Held(b.ctx, tenant, "", 10)
		var got []record.LineageID
		for _, l := range list {
			got = append(got, l.ID)
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("held in %s are %v %v, want %v", tenant, got, err, want)
		}
	}
	before := read()
	first := record.Alert{Rule: record.AlertTriedAgain, Subject: "x", Text: "the first", Count: 2, Events: []int64{1, 2}}
	b.apply(t, record.RaiseHeld(first, r.Tenant, r.Lineage, r.ID, "", b.at), nil)
	put := read()
	if put.Hold == nil || put.Hold.Text != first.Text || put.Hold.Run != r.ID || !slices.Equal(put.Hold.Events, first.Events) || put.Version == before.Version {
		t.Fatalf("after the alert: %+v", put)
	}
	if err := reserve(`{"n":1}`, before.Version); refused(err) != record.RefusedPremise {
		t.Errorf("a decision that did not see the hold: %v", err)
	}
	held(r.Tenant, r.Lineage)
	held(other.Tenant)
	if l, err := b.Lineage(b.ctx, other.Tenant, r.Lineage); err != nil || l.Hold != nil {
		t.Errorf("another tenant's lineage of that name is held: %+v %v", l.Hold, err)
	}
	second := first
	second.Text = "the second"
	b.apply(t, record.RaiseHeld(second, r.Tenant, r.Lineage, r.ID, "", b.at.Add(time.Second)), nil)
	if got := read(); got.Hold == nil || got.Hold.Text != first.Text {
		t.Errorf("a second alert replaced the hold: %+v", got.Hold)
	}
	stale := put
	stale.Version = before.Version
	if err := lift(stale); refused(err) != record.RefusedPremise {
		t.Errorf("who looked at it before it was held lifts it: %v", err)
	}
	held(r.Tenant, r.Lineage)
	if err := lift(read()); err != nil {
		t.Fatal(err)
	}
	over := read()
	if over.Hold != nil {
		t.Errorf("after it was lifted: %+v", over.Hold)
	}
	held(r.Tenant)
	if err := reserve(`{"n":2}`, put.Version); refused(err) != record.RefusedPremise {
		t.Errorf("a decision on the held lineage: %v", err)
	}
	if err := reserve(`{"n":3}`, over.Version); err != nil {
		t.Errorf("a decision on what is there: %v", err)
	}
	var kinds []record.EventKind
	for _, e := range b.events(t, r.Tenant) {
		if e.Kind == record.EventHeld || e.Kind == record.EventLifted {
			kinds = append(kinds, e.Kind)
		}
	}
	if !slices.Equal(kinds, []record.EventKind{record.EventHeld, record.EventHeld, record.EventLifted}) {
		t.Errorf("the log tells of %v", kinds)
	}
}
