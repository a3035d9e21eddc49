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

func (d *door) registerLeases() {
	add(d, d.operation("heartbeat", http.MethodPost, "/v1/calls/{id}/heartbeat", "Extend a lease", d.asCaller, tag("calls"),
		describe("For whoever holds the lease and still runs the tool. A lease lasts at most an hour.")), d.heartbeat)
	add(d, d.operation("report", http.MethodPost, "/v1/calls/{id}/report", "Report what came of a leased call", d.asCaller, tag("calls"),
		describe("For whoever holds the lease, once. The same report again gets the first answer; another one, or one after the lease's end, is evidence and answers conflict.")), d.report)
}

// LeaseView is what its caller runs, and what it shows to report. It is in one answer
// and nowhere else.
type LeaseView struct {
	Attempt   int             `json:"attempt" doc:"Send it back with every heartbeat and report."`
	Secret    string          `json:"secret" doc:"Shows who holds the lease; send it back too, and to nobody else."`
	Tool      string          `json:"tool" doc:"The tool's name where it runs, as the token states it."`
	Arguments json.RawMessage `json:"arguments" doc:"What may run: these and no others. Guards may have changed what was proposed."`
	Key       string          `json:"idempotency_key" doc:"One for all attempts of the call."`
	Ends      time.Time       `json:"ends_at" doc:"Report or extend before."`
	Token     string          `json:"dispatch_token,omitempty" doc:"For the tool, which verifies it (docs/dispatch-token.md). It lasts a minute at most."`
}

func leaseView(l *dispatch.Lease) *LeaseView {
	if l == nil {
		return nil
	}
	return &LeaseView{Attempt: l.Attempt, Secret: l.Secret, Tool: l.Tool, Arguments: l.Arguments, Key: l.Key, Ends: l.Ends, Token: l.Token}
}

// HolderBody is what the holder of a lease shows. It is exported for huma, which
// reads no other embedded struct.
type HolderBody struct {
	Attempt int    `json:"attempt" minimum:"1" maximum:"1000" doc:"The lease's attempt."`
	Secret  string `json:"secret" minLength:"1" maxLength:"128" doc:"The lease's secret."`
}

type heartbeatInput struct {
	CallPath
	Body HolderBody
}

// Beat is what a heartbeat came to.
type Beat struct {
	Call    record.CallID `json:"call"`
	Attempt int           `json:"attempt"`
	Ends    time.Time     `json:"ends_at" doc:"The lease's end now."`
	Stop    bool          `json:"stop" doc:"Stop if you can, and report: the run has ended, or the tool is not yours any more. The lease is not extended."`
}

type beatOutput struct{ Body Beat }

func (d *door) heartbeat(ctx context.Context, in *heartbeatInput) (*beatOutput, error) {
	if !record.ValidID("call", in.ID) {
		return nil, absent("call")
	}
	b, err := d.boundary.Heartbeat(ctx, caller(ctx), record.CallID(in.ID), in.Body.Attempt, in.Body.Secret)
	if err != nil {
		return nil, hidden(err, "call")
	}
	return &beatOutput{Body: Beat{Call: b.Call, Attempt: b.Attempt, Ends: b.Ends, Stop: b.Stop}}, nil
}

type reportInput struct {
	CallPath
	Body struct {
		HolderBody
		Outcome saidParam       `json:"outcome" doc:"What came of it. not_started: nothing of it left you; believed when lease and token have ended."`
		Result  json.RawMessage `json:"result,omitempty" doc:"What the tool returned, any JSON."`
		Error   string          `json:"error,omitempty" maxLength:"20000" doc:"With failed: what the tool said."`
	}
}

func (d *door) report(ctx context.Context, in *reportInput) (*answerOutput, error) {
	if !record.ValidID("call", in.ID) {
		return nil, absent("call")
	}
	r := dispatch.Report{Attempt: in.Body.Attempt, Secret: in.Body.Secret, Said: dispatch.Said(in.Body.Outcome)}
	failed := r.Said == dispatch.SaidFailed
	switch {
	case in.Body.Error != "" && !failed:
		return nil, invalid("body.error", "it goes with the outcome failed")
	case failed && in.Body.Result != nil:
		return nil, invalid("body.result", "it does not go with the outcome failed; say it in error")
	case failed && in.Body.Error == "":
		in.Body.Error = "the tool failed"
	}
	if r.Said != dispatch.SaidNotStarted || in.Body.Result != nil {
		var err error
		if r.Result, err = d.reported(in.Body.Result, in.Body.Error); err != nil {
			return nil, err
		}
	}
	a, err := d.boundary.Report(unhurried(ctx), caller(ctx), record.CallID(in.ID), r)
	if err != nil {
		return nil, hidden(err, "call")
	}
	return &answerOutput{Status: http.StatusOK, Body: d.describe(a)}, nil
}

// saidParam is what a holder may say; its list is dispatch's.
type saidParam string

// Schema is asked by huma.
func (saidParam) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Enum: []any{string(dispatch.SaidSucceeded), string(dispatch.SaidFailed), string(dispatch.SaidNotStarted)}}
}
