package api

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
)

func (d *door) registerTools() {
	add(d, d.operation("list-tools", http.MethodGet, "/v1/tools", "List the tools this caller may be given", d.asCaller, tag("tools"),
		describe("Exactly those of which a call would not answer not_available or missing_scope.")), d.listTools)
	add(d, d.operation("explain", http.MethodPost, "/v1/explain", "Say what a call would get now", d.asCaller, tag("tools"),
		describe("Takes what POST /v1/calls takes, and changes nothing: no call, no event, no charge.")), d.explain)
}

// ToolView is a tool as its caller sees it.
type ToolView struct {
	Name         string          `json:"name"`
	Title        string          `json:"title,omitempty"`
	Description  string          `json:"description,omitempty"`
	Read         bool            `json:"read" doc:"Changes nothing."`
	Destructive  bool            `json:"destructive"`
	Financial    bool            `json:"financial"`
	Sink         bool            `json:"sink" doc:"Sends data out, or can."`
	Leased       bool            `json:"leased" doc:"You run it yourself, under a lease."`
	InputSchema  json.RawMessage `json:"input_schema,omitempty"`
	OutputSchema json.RawMessage `json:"output_schema,omitempty"`
}

type toolsOutput struct {
	Body struct {
		Tools []ToolView `json:"tools" nullable:"false" doc:"In the order of their names."`
	}
}

func (d *door) listTools(ctx context.Context, _ *struct{}) (*toolsOutput, error) {
	out := &toolsOutput{}
	out.Body.Tools = []ToolView{}
	for _, t := range d.boundary.Tools(ctx, caller(ctx)) {
		v := toolView(t)
		if now := d.boundary.Current(); now != nil {
			v.Leased = now.Registry.Leased(t)
		}
		out.Body.Tools = append(out.Body.Tools, v)
	}
	return out, nil
}

func toolView(t *registry.Tool) ToolView {
	v := ToolView{Name: t.Name, Read: t.Read, Destructive: t.Destructive, Financial: t.Financial, Sink: t.Sink}
	if p := t.Pin; p != nil {
		v.Title, v.Description, v.InputSchema, v.OutputSchema = p.Title, p.Description, p.InputSchema, p.OutputSchema
	}
	return v
}

// Explained is what a call would get now. Rules and places are operators' and are
// not in it: a caller could tell a tool that is not its own from one that is not there.
type Explained struct {
	Verdict    record.Verdict `json:"verdict"`
	Code       record.Code    `json:"code"`
	Text       string         `json:"text" doc:"What a model would be told."`
	Reasons    []ReasonView   `json:"reasons" nullable:"false"`
	RetryAfter *time.Time     `json:"retry_after,omitempty"`
	Existing   record.CallID  `json:"existing,omitempty" doc:"The open call that the proposal would get."`
	Repeat     record.CallID  `json:"repeat,omitempty" doc:"The call whose recorded result it would get."`
}

type explainOutput struct{ Body Explained }

func (d *door) explain(ctx context.Context, in *proposeInput) (*explainOutput, error) {
	p, err := d.proposal(ctx, in)
	if err != nil {
		return nil, err
	}
	e, err := d.boundary.Explain(ctx, p)
	if err != nil {
		return nil, hidden(err, "run")
	}
	out := Explained{Verdict: e.Answer.Verdict, Code: e.Answer.Code, Text: e.Answer.Text(),
		Reasons: reasonViews(e.Answer.Decision.Reasons, viewer{caller: p.Caller}), RetryAfter: later(e.Answer.Retry)}
	if e.Existing != nil {
		out.Existing = e.Existing.ID
	}
	if e.Repeat != nil {
		out.Repeat = e.Repeat.ID
	}
	return &explainOutput{Body: out}, nil
}
