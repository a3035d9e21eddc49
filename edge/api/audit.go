package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/placet-dev/placet/audit"
	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

func (d *door) registerAudit() {
	add(d, d.operation("show-checkpoint", http.MethodGet, "/v1/audit/checkpoint", "Show the newest checkpoint of the log", d.asReader, tag("audit"),
		describe("Needs the permission read or operate. Whoever keeps it can tell later whether the log still holds what it held.")), d.showCheckpoint)
	export := d.operation("export-audit", http.MethodGet, "/v1/audit/export", "Export the sealed log", d.asReader, tag("audit"),
		describe("Needs the permission read or operate. Lines of JSON that placet audit verify checks without a server. Events of other tenants are hashes."))
	export.Responses["200"] = &huma.Response{Description: "A header, and a line for each event and each checkpoint.",
		Content: map[string]*huma.MediaType{"application/jsonl": {Schema: &huma.Schema{Type: huma.TypeString}}}}
	add(d, export, d.export)
	add(d, d.operation("event-receipt", http.MethodGet, "/v1/events/{id}/receipt", "Prove an event", d.asReader, tag("audit"),
		describe("Needs the permission read or operate. The event, the newest checkpoint, and the proof that the one is under the other.")), d.eventReceipt)
	add(d, d.operation("call-receipt", http.MethodGet, "/v1/calls/{id}/receipt", "Prove the events of a call", d.asReader, tag("audit"),
		describe("Needs the permission read or operate. A receipt for all events of the call.")), d.callReceipt)
}

// CheckpointView is a checkpoint with what verifies it.
type CheckpointView struct {
	Checkpoint string `json:"checkpoint" doc:"The signed text."`
	Key        string `json:"key" doc:"The public key of the log. Get it once, and keep it elsewhere."`
}

type checkpointOutput struct{ Body CheckpointView }

func (d *door) ledger() (audit.Log, error) {
	if d.sealed == nil {
		return nil, record.Errorf(record.Unsupported, "this server does not seal its log")
	}
	return d.sealed, nil
}

func (d *door) showCheckpoint(ctx context.Context, _ *struct{}) (*checkpointOutput, error) {
	log, err := d.ledger()
	if err != nil {
		return nil, err
	}
	head, err := log.Head(ctx)
	if err == nil && head.Size == 0 {
		err = record.Errorf(record.NotFound, "nothing is sealed yet; ask again in a moment")
	}
	return &checkpointOutput{CheckpointView{head.Note, d.logKey}}, err
}

type exportInput struct {
	After int64 `query:"after" minimum:"0" doc:"Go on from the checkpoint of this size; 0: from the first event."`
}

// exporting sends the head of the answer with the first bytes of the body: what goes
// wrong before is still a problem.
type exporting struct {
	http.ResponseWriter
	began bool
}

func (e *exporting) Write(b []byte) (int, error) {
	if !e.began {
		e.began = true
		e.Header().Set("Content-Type", "application/jsonl")
		e.WriteHeader(http.StatusOK)
	}
	return e.ResponseWriter.Write(b)
}

func (d *door) export(ctx context.Context, in *exportInput) (*huma.StreamResponse, error) {
	log, err := d.ledger()
	if err != nil {
		return nil, err
	}
	v := watcher(ctx)
	return &huma.StreamResponse{Body: func(hctx huma.Context) {
		leave, err := d.streams.enter(v.name())
		if err != nil {
			d.refuse(hctx, err)
			return
		}
		defer leave()
		r, w := humago.Unwrap(hctx)
		out := &exporting{ResponseWriter: w}
		tenant := v.tenant()
		err = audit.Export{Tenant: &tenant, After: in.After}.WriteTo(r.Context(), out, log, d.logKey)
		switch {
		case err != nil && !out.began:
			d.refuse(hctx, d.refusal(err))
		case err != nil:
			d.log.Error("an export ended before its end", "error", err)
			panic(http.ErrAbortHandler) // so that it does not look whole
		}
	}}, nil
}

type eventReceiptInput struct {
	Seq int64 `path:"id" minimum:"1" doc:"The event's number."`
}

type receiptOutput struct{ Body audit.Receipt }

func (d *door) eventReceipt(ctx context.Context, in *eventReceiptInput) (*receiptOutput, error) {
	log, err := d.ledger()
	if err != nil {
		return nil, err
	}
	events, err := log.Logged(ctx, in.Seq-1, in.Seq, 1)
	if err != nil {
		return nil, err
	}
	if len(events) == 0 || events[0].Tenant != watcher(ctx).tenant() && events[0].Tenant != "" {
		return nil, absent("event")
	}
	receipt, err := audit.Receipts(ctx, log, d.logKey, events)
	return &receiptOutput{receipt}, err
}

type callReceiptInput struct {
	ID string `path:"id" maxLength:"64"`
}

func (d *door) callReceipt(ctx context.Context, in *callReceiptInput) (*receiptOutput, error) {
	log, err := d.ledger()
	if err != nil {
		return nil, err
	}
	if !record.ValidID("call", in.ID) {
		return nil, absent("call")
	}
	events, err := d.reader.Events(ctx, dispatch.EventQuery{Tenant: watcher(ctx).tenant(), Call: record.CallID(in.ID), Limit: 500})
	if err == nil && len(events) == 0 {
		err = absent("call")
	}
	if err != nil {
		return nil, err
	}
	receipt, err := audit.Receipts(ctx, log, d.logKey, events)
	return &receiptOutput{receipt}, err
}
