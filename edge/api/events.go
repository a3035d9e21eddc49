package api

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

func (d *door) registerEvents() {
	add(d, d.operation("list-events", http.MethodGet, "/v1/events", "Read the event log", d.asViewer, tag("events"),
		describe("A caller names one of its own runs or calls; an approver a call they are asked about; a reader sees the tenant. No event holds an argument's value.")), d.listEvents)
	d.registerStream()
}

// EventView is an event. A reader sees its whole body, others what the agent may learn.
type EventView struct {
	Seq      int64             `json:"seq"`
	At       time.Time         `json:"at"`
	Kind     record.EventKind  `json:"kind"`
	Run      record.RunID      `json:"run,omitempty"`
	Call     record.CallID     `json:"call,omitempty"`
	Approval record.ApprovalID `json:"approval,omitempty"`
	Who      *record.Who       `json:"who,omitempty" doc:"Absent where it is not yours to know."`
	Body     json.RawMessage   `json:"body"`
}

func eventView(e record.Event, v viewer) (EventView, error) {
	view := EventView{Seq: e.Seq, At: e.At, Kind: e.Kind, Run: e.Run, Call: e.Call, Approval: e.Approval}
	if v.all() {
		view.Who, view.Body = &e.Who, e.Body
		return view, nil
	}
	var b record.Body
	if err := json.Unmarshal(e.Body, &b); err != nil {
		return view, record.Because(record.Internal, err, "an event cannot be read")
	}
	text, err := encode(publicBody(b, v))
	if err != nil {
		return view, record.Because(record.Internal, err, "an event cannot be shown")
	}
	view.Body = text
	if v.caller.Valid() && e.Who.Principal != nil && e.Who.Agent != "" && *e.Who.Principal == v.caller.Owner().Principal {
		view.Who = &e.Who
	}
	return view, nil
}

// publicBody keeps what may leave towards a caller. It is a list of what stays:
// a member that is new to the log is not shown until somebody puts it here.
func publicBody(b record.Body, v viewer) any {
	type public struct {
		Tool      string          `json:"tool,omitempty"`
		Verdict   record.Verdict  `json:"verdict,omitempty"`
		Code      record.Code     `json:"code,omitempty"`
		Reasons   []ReasonView    `json:"reasons,omitempty"`
		Source    record.Source   `json:"source,omitempty"`
		Route     record.Route    `json:"route,omitempty"`
		Arguments string          `json:"argument_commitment,omitempty"`
		Attempt   int             `json:"attempt,omitempty"`
		Retry     *time.Time      `json:"retry_after,omitempty"`
		Turn      record.Turn     `json:"turn,omitempty"`
		Kept      []record.CallID `json:"kept,omitempty"`
		Word      record.Word     `json:"word,omitempty"`
		Redacted  []string        `json:"redacted,omitempty"`
	}
	return public{Tool: b.Tool, Verdict: b.Verdict, Code: b.Code, Reasons: reasonViews(b.Reasons, v), Source: b.Source,
		Route: b.Route, Arguments: b.Arguments.String(), Attempt: b.Attempt, Retry: later(b.Retry), Turn: b.Turn,
		Kept: b.Kept, Word: b.Word, Redacted: b.Redacted}
}

// EventsInput selects events.
type EventsInput struct {
	After int64  `query:"after" minimum:"0" doc:"The next of an earlier page: only later events."`
	Run   string `query:"run" maxLength:"64" doc:"Only events of this run."`
	Call  string `query:"call" maxLength:"64" doc:"Only events of this call."`
	Limit int    `query:"limit" minimum:"1" maximum:"500" default:"50"`
}

type eventsOutput struct {
	Body struct {
		Events []EventView `json:"events" nullable:"false" doc:"In the order of the log."`
		Next   int64       `json:"next" doc:"Send it as after for what follows, also later on."`
	}
}

func (d *door) listEvents(ctx context.Context, in *EventsInput) (*eventsOutput, error) {
	v := watcher(ctx)
	q, err := d.eventQuery(ctx, v, in)
	if err != nil {
		return nil, err
	}
	out := &eventsOutput{}
	out.Body.Events, out.Body.Next, err = d.eventsAfter(ctx, v, q)
	return out, err
}

// eventQuery checks that the run or the call named is the viewer's to see. Only a
// reader may name none.
func (d *door) eventQuery(ctx context.Context, v viewer, in *EventsInput) (dispatch.EventQuery, error) {
	q := dispatch.EventQuery{Tenant: v.tenant(), After: in.After, Run: record.RunID(in.Run), Call: record.CallID(in.Call), Limit: in.Limit}
	switch {
	case in.Run != "" && !record.ValidID("run", in.Run):
		return q, absent("run")
	case in.Call != "" && !record.ValidID("call", in.Call):
		return q, absent("call")
	case v.all():
		q.Server = in.Run == "" && in.Call == ""
		return q, nil
	case v.caller.Valid():
		return q, d.ownEvents(ctx, v, in)
	case in.Call == "" || in.Run != "":
		return q, record.Errorf(record.Forbidden, "name the call you are asked about, and no run; or ask for the permission read")
	}
	l, err := d.reader.Call(ctx, v.tenant(), q.Call)
	if err == nil && !v.sees(l) {
		err = absent("call")
	}
	return q, hidden(err, "call")
}

func (d *door) ownEvents(ctx context.Context, v viewer, in *EventsInput) error {
	if in.Run == "" && in.Call == "" {
		return record.Errorf(record.Forbidden, "name one of your own runs or calls; all events need the permission read")
	}
	if in.Run != "" {
		if _, _, err := d.boundary.Run(ctx, v.caller, record.RunID(in.Run)); err != nil {
			return hidden(err, "run")
		}
	}
	if in.Call != "" {
		if _, err := d.boundary.Show(ctx, v.caller, record.CallID(in.Call)); err != nil {
			return hidden(err, "call")
		}
	}
	return nil
}

func (d *door) eventsAfter(ctx context.Context, v viewer, q dispatch.EventQuery) ([]EventView, int64, error) {
	events, err := d.reader.Events(ctx, q)
	if err != nil {
		return nil, q.After, err
	}
	views, next := make([]EventView, 0, len(events)), q.After
	for _, e := range events {
		next = e.Seq
		if e.Tenant != v.tenant() || e.Kind.Internal() && !v.all() {
			continue
		}
		view, err := eventView(e, v)
		if err != nil {
			return nil, q.After, err
		}
		views = append(views, view)
	}
	return views, next, nil
}
