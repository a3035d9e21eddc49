package storetest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/record"
)

// emissions: one is kept whole, found by tool and digest while it counts, and
// consumed by one call; a change that consumes what counts no longer leaves no trace.
func emissions(t *testing.T, b *bench) {
	r := b.openRun(t, owner("acme"), true)
	who := r.By()
	request := canon.Of("request")
	premise := func() *record.Premise {
		return &record.Premise{Tenant: r.Tenant, Run: r.ID, Owner: r.Owner, Turn: r.Turn}
	}
	ask := func(id string, turn bool, retire ...record.EmissionID) {
		t.Helper()
		c, err := record.AskModel(r, record.Asking{Turn: turn, Retire: retire,
			Request: record.ModelRequest{ID: id, Tenant: r.Tenant, Run: r.ID, Provider: "openai", Digest: request, At: b.at}}, premise(), who)
		b.apply(t, c, err)
		if m := c.Facts().Run; m != nil {
			r = m.After
		}
	}
	emit := func(label, arguments string) record.Emission {
		t.Helper()
		e := record.Emission{Owner: r.Owner, ID: record.EmissionID(id(t, "emi", b.at)), Run: r.ID, Lineage: r.Lineage, Turn: r.Turn, Provider: "openai",
			Request: request, Response: "resp", Position: 2, Label: label, Tool: "refund", Digest: record.ArgumentDigest([]byte(arguments), nil), Occurrence: "emission:" + label,
			State: record.EmissionOpen, At: b.at}
		c, err := record.Witness(r, record.Answered{Response: "resp", Emissions: []record.Emission{e}}, premise(), who, b.at)
		b.apply(t, c, err)
		return e
	}
	find := func(arguments string, since time.Time) *record.Emission {
		t.Helper()
		e, err := b.Emission(b.ctx, r.Tenant, r.Lineage, "refund", record.ArgumentDigest([]byte(arguments), nil), since)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	consume := func(e record.Emission, arguments, occurrence string) (record.Call, error) {
		t.Helper()
		c := b.call(t, r, arguments)
		c.Emission, c.Source, c.Occurrence = e.ID, record.Witnessed, occurrence
		change, err := record.Authorize(c, b.step(r, record.Allow))
		if err != nil {
			t.Fatal(err)
		}
		return c, b.Apply(b.ctx, change)
	}
	past := b.at.Add(-time.Minute)

	ask("req_1", false)
	one := emit("call_1", `{"n":1}`)
	if diff := cmp.Diff(&one, find(`{"n":1}`, past)); diff != "" {
		t.Errorf("another emission came back: %s", diff)
	}
	if find(`{"n":2}`, past) != nil || find(`{"n":1}`, b.at) != nil {
		t.Error("found by other arguments, or though it is too old")
	}
	first, err := consume(one, `{"n":1}`, "a")
	if err != nil {
		t.Fatal(err)
	}
	if l := b.load(t, "acme", first.ID); l.Call.Emission != one.ID || l.Call.Source != record.Witnessed {
		t.Errorf("the call is recorded as %s of emission %q", l.Call.Source, l.Call.Emission)
	}
	second, err := consume(one, `{"n":1}`, "b")
	if refused(err) != record.RefusedConflict {
		t.Fatalf("consumed twice: %v", err)
	}
	if _, err := b.Call(b.ctx, "acme", second.ID); record.KindOf(err) != record.NotFound {
		t.Error("a refused change left a call")
	}
	if find(`{"n":1}`, past) != nil {
		t.Error("a consumed emission is found")
	}
	labelled, err := b.Labelled(b.ctx, "acme", r.Lineage, "call_1", 10)
	if err != nil || len(labelled) != 1 || labelled[0].Emission == nil || labelled[0].Call == nil || labelled[0].Call.ID != first.ID || labelled[0].Run.ID != r.ID {
		t.Errorf("under its label: %+v (%v)", labelled, err)
	}
	if byOccurrence, err := b.Labelled(b.ctx, "acme", r.Lineage, "a", 0); err != nil || len(byOccurrence) != 1 || byOccurrence[0].Call.ID != first.ID {
		t.Errorf("under its occurrence: %+v (%v)", byOccurrence, err)
	}
	if others, err := b.Labelled(b.ctx, "globex", r.Lineage, "call_1", 10); err != nil || len(others) != 0 {
		t.Errorf("in another tenant: %+v (%v)", others, err)
	}

	gone, stays := emit("call_2", `{"n":2}`), emit("call_3", `{"n":3}`)
	ask("req_2", false, gone.ID, one.ID)
	if open, err := b.OpenEmissions(b.ctx, "acme", r.ID, 10); err != nil || len(open) != 1 || open[0].ID != stays.ID {
		t.Errorf("open after one was retired: %+v (%v)", open, err)
	}
	if l, err := b.Labelled(b.ctx, "acme", r.Lineage, "call_1", 10); err != nil || l[0].Emission.State != record.EmissionConsumed {
		t.Errorf("a consumed one was retired: %+v (%v)", l, err)
	}
	if _, err := consume(gone, `{"n":2}`, "c"); refused(err) != record.RefusedConflict {
		t.Errorf("a retired one was consumed: %v", err)
	}
	newest, equal, err := b.Requests(b.ctx, "acme", r.ID, request)
	if err != nil || newest.ID != "req_2" || equal.ID != "req_2" {
		t.Errorf("the newest request is %q, of equal ones %q (%v)", newest.ID, equal.ID, err)
	}

	ask("req_3", true) // a turn begins
	if find(`{"n":3}`, past) != nil {
		t.Error("an emission of an earlier turn is found")
	}
	if _, err := consume(stays, `{"n":3}`, "d"); refused(err) != record.RefusedConflict {
		t.Errorf("one of an earlier turn was consumed: %v", err)
	}
	if _, err := consume(emit("call_4", `{"n":4}`), `{"n":4}`, "e"); err != nil {
		t.Errorf("one of this turn: %v", err)
	}

	other := b.openRun(t, owner("acme"), true)
	keep := func(r record.Run) error {
		c, err := record.Witness(r, record.Answered{Objects: []record.ModelObject{{Tenant: r.Tenant, Provider: "openai", ID: "resp_1", Run: r.ID}}}, nil, who, b.at)
		if err != nil {
			t.Fatal(err)
		}
		return b.Apply(b.ctx, c)
	}
	if err := keep(r); err != nil {
		t.Fatal(err)
	}
	if err := keep(r); err != nil {
		t.Errorf("kept twice for one run: %v", err)
	}
	if err := keep(other); refused(err) != record.RefusedConflict {
		t.Errorf("kept for another run: %v", err)
	}
	if run, err := b.KeptFor(b.ctx, "acme", "openai", "resp_1"); err != nil || run != r.ID {
		t.Errorf("kept for %q (%v)", run, err)
	}
	if run, err := b.KeptFor(b.ctx, "globex", "openai", "resp_1"); err != nil || run != "" {
		t.Errorf("in another tenant kept for %q (%v)", run, err)
	}
}
