package api

import (
	"context"
	"net/http"
	"time"

	"github.com/placet-dev/placet/record"
)

func (d *door) registerHeld() {
	add(d, d.operation("list-held", http.MethodGet, "/v1/held", "List lineages that an alert holds", d.asReader, tag("operate"),
		describe("Needs the permission read or operate. Nothing in a held lineage changes anything until an operator lifts the hold; reads go on.")), d.listHeld)
	add(d, d.operation("lift", http.MethodPost, "/v1/runs/{id}/lift", "Lift the hold from a run's lineage", d.asOperator, tag("operate"),
		describe("Needs the permission operate. What waited kept its place and runs when its agent asks again. The reason is recorded.")), d.lift)
}

// HeldView is a hold on a lineage, with the alert that put it there.
type HeldView struct {
	Lineage record.LineageID `json:"lineage"`
	Run     record.RunID     `json:"run" doc:"Of the newest evidence; lifting names it."`
	Rule    alertRule        `json:"rule"`
	Text    string           `json:"text"`
	Events  []int64          `json:"events" nullable:"false" doc:"The evidence in the event log."`
	Calls   []record.CallID  `json:"calls" nullable:"false"`
	At      time.Time        `json:"at"`
}

func heldView(l record.Lineage) HeldView {
	h := l.Hold
	return HeldView{Lineage: l.ID, Run: h.Run, Rule: alertRule(h.Rule), Text: h.Text, Events: append([]int64{}, h.Events...),
		Calls: append([]record.CallID{}, h.Calls...), At: h.At}
}

type heldInput struct {
	After string `query:"after" maxLength:"128" doc:"The next of an earlier page."`
	Limit int    `query:"limit" minimum:"1" maximum:"500" default:"50"`
}

type heldOutput struct {
	Body struct {
		Held []HeldView       `json:"held" nullable:"false"`
		Next record.LineageID `json:"next,omitempty" doc:"Send it as after for the next page."`
	}
}

func (d *door) listHeld(ctx context.Context, in *heldInput) (*heldOutput, error) {
	list, err := d.reader.Held(ctx, watcher(ctx).tenant(), record.LineageID(in.After), in.Limit)
	if err != nil {
		return nil, err
	}
	out := &heldOutput{}
	out.Body.Held = []HeldView{}
	for _, l := range list {
		out.Body.Held = append(out.Body.Held, heldView(l))
	}
	if len(list) == in.Limit {
		out.Body.Next = list[len(list)-1].ID
	}
	return out, nil
}

type liftInput struct {
	RunPath
	Body struct {
		Reason string `json:"reason" minLength:"1" maxLength:"2000" doc:"Why; for the record."`
	}
}

type liftOutput struct{ Body HeldView }

func (d *door) lift(ctx context.Context, in *liftInput) (*liftOutput, error) {
	if !record.ValidID("run", in.ID) {
		return nil, absent("run")
	}
	l, err := d.boundary.Lift(ctx, operator(ctx), record.RunID(in.ID), in.Body.Reason)
	if err != nil {
		return nil, hidden(err, "run")
	}
	return &liftOutput{Body: heldView(l)}, nil
}
