package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
)

func (d *door) registerOperate() {
	add(d, d.operation("reconcile", http.MethodPost, "/v1/calls/{id}/reconcile", "Settle a call whose outcome is not known", d.asOperator, tag("operate"),
		describe("Needs the permission operate. The evidence and who gave it are recorded with the outcome.")), d.reconcile)
	add(d, d.operation("look", http.MethodPost, "/v1/calls/{id}/look", "Ask the reconciling tool about a call whose outcome is not known", d.asOperator, tag("operate"),
		describe("Needs the permission operate, and an entry that lets operators ask. The tool is asked as the operator, never with a user's credential; proof settles the call, anything else leaves it as it is.")), d.look)
	add(d, d.operation("redact-call", http.MethodPost, "/v1/calls/{id}/redact", "Remove the content of a call that has ended for good", d.asOperator, tag("operate"),
		describe("Needs the permission operate. Arguments, targets, what approvers were shown, and the result go; digests and events stay, and an event says who did it, why, and what went.")), d.redactCall)
	add(d, d.operation("reload", http.MethodPost, "/v1/reload", "Read the registry and policy files again and activate them", d.asOperator, tag("operate"),
		describe("Needs the permission operate. On any error, and when the files are not the version asked for, the old version stays.")), d.reloadFiles)
	add(d, d.operation("void-answers", http.MethodPost, "/v1/approvals/void", "Take back a person's answers that no call has used", d.asOperator, tag("operate"),
		describe("Needs the permission operate. Each question that the person said yes to, by any of their logins, is void and asked anew. It stops no later answer.")), d.voidAnswers)
	add(d, d.operation("list-overrides", http.MethodGet, "/v1/overrides", "List every setting that weakens a default", d.asReader, tag("operate")), d.listOverrides)
}

// settledParam is what a reconciled call may become.
type settledParam string

// Schema is asked by huma.
func (settledParam) Schema(huma.Registry) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeString}
	for _, t := range record.Transitions() {
		if t.From == record.Unknown && record.May(t.From, t.To, record.ByReconcile) {
			s.Enum = append(s.Enum, string(t.To))
		}
	}
	return s
}

type reconcileInput struct {
	CallPath
	Body struct {
		Outcome  settledParam `json:"outcome" doc:"What happened."`
		Evidence string       `json:"evidence" minLength:"1" maxLength:"2000" doc:"What it rests on, such as the tool's own entry."`
	}
}

type callOutput struct{ Body CallView }

func (d *door) reconcile(ctx context.Context, in *reconcileInput) (*callOutput, error) {
	o := operator(ctx)
	if !record.ValidID("call", in.ID) {
		return nil, absent("call")
	}
	c, err := d.boundary.Reconcile(ctx, o, o.Tenant(), record.CallID(in.ID), record.State(in.Body.Outcome), in.Body.Evidence)
	if err != nil {
		return nil, hidden(err, "call")
	}
	return &callOutput{Body: d.callView(c, viewer{operator: o})}, nil
}

type redactCallInput struct {
	CallPath
	Body struct {
		Reason string `json:"reason" minLength:"1" maxLength:"2000" doc:"Why; for the record."`
	}
}

func (d *door) redactCall(ctx context.Context, in *redactCallInput) (*callOutput, error) {
	o := operator(ctx)
	if !record.ValidID("call", in.ID) {
		return nil, absent("call")
	}
	c, err := d.boundary.RedactCall(ctx, o, o.Tenant(), record.CallID(in.ID), in.Body.Reason)
	if err != nil {
		return nil, hidden(err, "call")
	}
	return &callOutput{Body: d.callView(c, viewer{operator: o})}, nil
}

// LookView is what the reconciling tool's answer came to.
type LookView struct {
	Call    CallView       `json:"call" doc:"The call as it is now."`
	Proof   registry.Proof `json:"proof" enum:"happened,nothing,cannot_say" doc:"What the answer shows of the effect."`
	Settled bool           `json:"settled" doc:"It settled the call."`
	Why     string         `json:"why" doc:"What decided that; never a value of the answer."`
	Tool    string         `json:"tool,omitempty" doc:"The tool that was asked."`
	Asked   record.CallID  `json:"asked,omitempty" doc:"The call that asked it; none: it could not be asked."`
	Counts  time.Time      `json:"counts_from" doc:"From when on an answer may prove that nothing happened."`
}

type lookOutput struct{ Body LookView }

func (d *door) look(ctx context.Context, in *CallPath) (*lookOutput, error) {
	if !record.ValidID("call", in.ID) {
		return nil, absent("call")
	}
	o := operator(ctx)
	c, l, err := d.boundary.Look(ctx, o, record.CallID(in.ID))
	if err != nil {
		return nil, hidden(err, "call")
	}
	return &lookOutput{Body: LookView{Call: d.callView(c, viewer{operator: o}), Proof: l.Proof, Settled: l.Proves(), Why: l.Why,
		Tool: l.Tool, Asked: l.Call, Counts: l.From}}, nil
}

type voidInput struct {
	Body struct {
		Issuer  string `json:"issuer" minLength:"1" maxLength:"2000" doc:"The issuer of one of the person's logins."`
		Subject string `json:"subject" minLength:"1" maxLength:"512" doc:"The subject of that login."`
		Reason  string `json:"reason" minLength:"1" maxLength:"2000" doc:"Why; for the record."`
	}
}

// Voided is what came of taking answers back.
type Voided struct {
	Voided int `json:"voided" doc:"How many questions are asked anew."`
}

type voidOutput struct{ Body Voided }

func (d *door) voidAnswers(ctx context.Context, in *voidInput) (*voidOutput, error) {
	n, err := d.boundary.VoidAnswers(ctx, operator(ctx), record.Principal{Issuer: in.Body.Issuer, Subject: in.Body.Subject}, in.Body.Reason)
	if err != nil {
		return nil, err
	}
	return &voidOutput{Body: Voided{n}}, nil
}

type reloadOutput struct{ Body Reloaded }

type reloadInput struct {
	Plan    bool   `query:"plan" doc:"Only say what activating the files would change."`
	Version string `query:"version" maxLength:"80" doc:"Activate the files only if they are still the version that a plan showed."`
}

func (d *door) reloadFiles(ctx context.Context, in *reloadInput) (*reloadOutput, error) {
	if d.reload == nil {
		return nil, record.Errorf(record.Unsupported, "this server's registry and policy are not read from files")
	}
	r, err := d.reload(ctx, operator(ctx).Name(), ReloadOrder{Plan: in.Plan, Version: in.Version})
	if err != nil {
		return nil, err
	}
	if r.Plan == nil {
		r.Plan = []string{}
	}
	return &reloadOutput{Body: r}, nil
}

type overridesOutput struct {
	Body struct {
		Overrides []registry.Override `json:"overrides" nullable:"false"`
	}
}

func (d *door) listOverrides(context.Context, *struct{}) (*overridesOutput, error) {
	if d.overrides == nil {
		return nil, record.Errorf(record.Unsupported, "this server does not list its overrides")
	}
	out := &overridesOutput{}
	out.Body.Overrides = append([]registry.Override{}, d.overrides()...)
	return out, nil
}
