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
