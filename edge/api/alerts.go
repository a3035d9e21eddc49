package api

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

func (d *door) registerAlerts() {
	add(d, d.operation("list-alerts", http.MethodGet, "/v1/alerts", "List alerts", d.asReader, tag("operate"),
		describe("Needs the permission read or operate. An alert names its evidence in the event log and holds no argument's value; see docs/alerts.md.")), d.listAlerts)
}

// alertRule is the name of a rule, so that the document lists them.
type alertRule record.AlertRule

// Schema is asked by huma.
func (alertRule) Schema(huma.Registry) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeString}
	for _, r := range record.AlertRules() {
		s.Enum = append(s.Enum, string(r))
	}
	return s
}

// AlertView is an alert with its place in the event log.
type AlertView struct {
	Seq     int64           `json:"seq" doc:"Its own event in the log."`
	At      time.Time       `json:"at"`
	Rule    alertRule       `json:"rule"`
	Subject string          `json:"subject" doc:"About whom or what."`
	Text    string          `json:"text"`
	Count   int             `json:"count" doc:"How much evidence there was."`
	Events  []int64         `json:"events" nullable:"false" doc:"The evidence in the event log, the newest of it."`
	Calls   []record.CallID `json:"calls" nullable:"false"`
	Run     record.RunID    `json:"run,omitempty" doc:"Of the newest evidence."`
}

type alertsInput struct {
	Before int64 `query:"before" minimum:"0" doc:"The next of an earlier page: only earlier alerts."`
	Limit  int   `query:"limit" minimum:"1" maximum:"500" default:"50"`
}

type alertsOutput struct {
	Body struct {
		Alerts []AlertView `json:"alerts" nullable:"false" doc:"Newest first."`
		Next   int64       `json:"next,omitempty" doc:"Send it as before for the next page."`
	}
}

func (d *door) listAlerts(ctx context.Context, in *alertsInput) (*alertsOutput, error) {
	v := watcher(ctx)
	events, err := d.reader.Alerts(ctx, dispatch.AlertQuery{Tenant: v.tenant(), Before: in.Before, Limit: in.Limit})
	if err != nil {
		return nil, err
	}
	out := &alertsOutput{}
	out.Body.Alerts = []AlertView{}
	for _, e := range events {
		var b record.Body
		if err := json.Unmarshal(e.Body, &b); err != nil || b.Alert == nil || e.Tenant != v.tenant() {
			return nil, record.Errorf(record.Internal, "an alert cannot be read")
		}
		a := b.Alert
		out.Body.Alerts = append(out.Body.Alerts, AlertView{Seq: e.Seq, At: e.At, Rule: alertRule(a.Rule), Subject: a.Subject, Text: a.Text,
			Count: a.Count, Events: append([]int64{}, a.Events...), Calls: append([]record.CallID{}, a.Calls...), Run: e.Run})
	}
	if len(events) == in.Limit {
		out.Body.Next = events[len(events)-1].Seq
	}
	return out, nil
}
