package api

import (
	"context"
	"net/http"
	"time"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
)

type runOutput struct{ Body RunView }

// RunPath is the path of a run.
type RunPath struct {
	ID string `path:"id" maxLength:"64" doc:"The run."`
}

func (d *door) registerRuns() {
	add(d, d.operation("open-run", http.MethodPost, "/v1/runs", "Open a run", d.asCaller, tag("runs"), status(http.StatusCreated),
		describe("Runs opened without vouch by one tenant, principal and agent are one lineage, whatever their labels.")), d.openRun)
	add(d, d.operation("list-runs", http.MethodGet, "/v1/runs", "List runs", d.asViewer, tag("runs")), d.listRuns)
	add(d, d.operation("show-run", http.MethodGet, "/v1/runs/{id}", "Show a run", d.asViewer, tag("runs")), d.showRun)
	add(d, d.operation("open-child", http.MethodPost, "/v1/runs/{id}/children", "Open a run below one", d.asCaller, tag("runs"), status(http.StatusCreated),
		describe("For an agent of the same user, with less than the run above has. Who acts in it comes with that agent's own token; it ends with the run above, and with its turn.")), d.openChild)
	add(d, d.operation("start-turn", http.MethodPost, "/v1/runs/{id}/turns", "Start a turn", d.asCaller, tag("runs"),
		describe("Only for a caller whose workload vouches. Waiting calls of earlier turns are canceled, except those kept.")), d.startTurn)
	add(d, d.operation("end-run", http.MethodPost, "/v1/runs/{id}/end", "End a run", d.asCaller, tag("runs"),
		describe("Cancels its waiting calls and voids their questions.")), d.endRun)
	add(d, d.operation("transfer-run", http.MethodPost, "/v1/runs/{id}/transfer", "Transfer a run", d.asCaller, tag("runs"),
		describe("To another principal or agent of the same tenant. Only runs opened with vouch; what waits in it is canceled, and a new turn begins.")), d.transferRun)
	add(d, d.operation("delegate-run", http.MethodPost, "/v1/runs/{id}/delegation", "Let a run act while its caller is away", d.asCaller, tag("runs"),
		describe("What people approve in it is then dispatched without its caller, as long as the issuer's live source says at each dispatch that the caller may.")), d.delegateRun)
	add(d, d.operation("withdraw-delegation", http.MethodDelete, "/v1/runs/{id}/delegation", "End a run's delegation", d.asCaller, tag("runs")), d.withdrawDelegation)
}

type transferRunInput struct {
	RunPath
	Body struct {
		Issuer  string `json:"issuer" minLength:"1" maxLength:"512" doc:"Issuer of the new principal."`
		Subject string `json:"subject" minLength:"1" maxLength:"512" doc:"The new principal, as the issuer names them."`
		Agent   string `json:"agent" minLength:"1" maxLength:"512" doc:"The new agent."`
	}
}

func (d *door) transferRun(ctx context.Context, in *transferRunInput) (*runOutput, error) {
	if !record.ValidID("run", in.ID) {
		return nil, d.refusal(absent("run"))
	}
	for name, text := range map[string]string{"issuer": in.Body.Issuer, "subject": in.Body.Subject, "agent": in.Body.Agent} {
		if !printable(text) {
			return nil, invalid("body."+name, "it holds a control character")
		}
	}
	r, err := d.boundary.TransferRun(ctx, caller(ctx), record.RunID(in.ID), record.Owner{
		Principal: record.Principal{Issuer: in.Body.Issuer, Subject: in.Body.Subject}, Agent: record.AgentID(in.Body.Agent)})
	return d.run(r, "", err)
}

type delegateRunInput struct {
	RunPath
	Body struct {
		Until time.Time `json:"until" doc:"When it ends, at the latest; at most 30 days from now, and no later than the issuer's own bound."`
	}
}

func (d *door) delegateRun(ctx context.Context, in *delegateRunInput) (*runOutput, error) {
	if !record.ValidID("run", in.ID) {
		return nil, d.refusal(absent("run"))
	}
	r, err := d.boundary.DelegateRun(ctx, caller(ctx), record.RunID(in.ID), in.Body.Until)
	return d.run(r, "", err)
}

func (d *door) withdrawDelegation(ctx context.Context, in *RunPath) (*runOutput, error) {
	if !record.ValidID("run", in.ID) {
		return nil, d.refusal(absent("run"))
	}
	r, err := d.boundary.WithdrawDelegation(ctx, caller(ctx), record.RunID(in.ID))
	return d.run(r, "", err)
}

type openRunInput struct {
	Body struct {
		Label string `json:"label,omitempty" maxLength:"200" doc:"Your own name for the run; no credential."`
		Input string `json:"user_input,omitempty" maxLength:"65536" doc:"What the user typed in its first turn, and nothing that was attached, quoted or retrieved. Only from a caller whose workload vouches."`
	}
}

func (d *door) openRun(ctx context.Context, in *openRunInput) (*runOutput, error) {
	if !printable(in.Body.Label) {
		return nil, invalid("body.label", "it holds a control character")
	}
	if c := caller(ctx); in.Body.Input != "" && !c.Vouches() {
		return nil, d.refusal(c.Lacks(identity.Vouch)) // before there is a run
	}
	r, err := d.boundary.OpenRun(ctx, caller(ctx), in.Body.Label)
	if err == nil && in.Body.Input != "" {
		err = d.boundary.StateInput(ctx, caller(ctx), r.ID, in.Body.Input)
	}
	return d.run(r, "", err)
}

func (d *door) run(r record.Run, shown string, err error) (*runOutput, error) {
	if err != nil {
		return nil, d.refusal(hidden(err, "run"))
	}
	return &runOutput{Body: runView(r, shown)}, nil
}

type listRunsInput struct {
	Live   bool   `query:"live" doc:"Only runs that may hold calls."`
	Before string `query:"before" maxLength:"64" doc:"The next of an earlier page."`
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"50"`
}

type runsOutput struct {
	Body struct {
		Runs []RunView    `json:"runs" nullable:"false" doc:"Newest first."`
		Next record.RunID `json:"next,omitempty" doc:"Send it as before for the next page."`
	}
}

func (d *door) listRuns(ctx context.Context, in *listRunsInput) (*runsOutput, error) {
	v := watcher(ctx)
	if v.person.Valid() {
		return nil, d.refusal(approversOnly())
	}
	runs, err := d.reader.Runs(ctx, dispatch.RunQuery{Tenant: v.tenant(), Owner: v.owner(), Live: in.Live,
		Before: record.RunID(in.Before), Limit: in.Limit})
	if err != nil {
		return nil, d.refusal(err)
	}
	out := &runsOutput{}
	out.Body.Runs = []RunView{}
	for _, r := range runs {
		out.Body.Runs = append(out.Body.Runs, runView(r, ""))
	}
	if len(runs) == in.Limit {
		out.Body.Next = runs[len(runs)-1].ID
	}
	return out, nil
}

func (d *door) showRun(ctx context.Context, in *RunPath) (*runOutput, error) {
	v, id := watcher(ctx), record.RunID(in.ID)
	if !record.ValidID("run", in.ID) || v.person.Valid() {
		return nil, d.refusal(absent("run"))
	}
	if v.caller.Valid() {
		r, shown, err := d.boundary.Run(ctx, v.caller, id)
		return d.withChildren(ctx, r, shown, err)
	}
	r, err := d.reader.Run(ctx, v.tenant(), id)
	if err == nil && r.Tenant != v.tenant() {
		err = absent("run")
	}
	return d.withChildren(ctx, r, "", err)
}

type startTurnInput struct {
	RunPath
	Body struct {
		Keep  []record.CallID `json:"keep,omitempty" maxItems:"200" nullable:"false" doc:"Calls of earlier turns that stay alive in the new one."`
		Input string          `json:"user_input,omitempty" maxLength:"65536" doc:"What the user typed in this turn, and nothing that was attached, quoted or retrieved."`
	}
}

func (d *door) startTurn(ctx context.Context, in *startTurnInput) (*runOutput, error) {
	if !record.ValidID("run", in.ID) {
		return nil, d.refusal(absent("run"))
	}
	for _, id := range in.Body.Keep {
		if !record.ValidID("call", string(id)) {
			return nil, invalid("body.keep", "not the ID of a call")
		}
	}
	r, err := d.boundary.StartTurn(ctx, caller(ctx), record.RunID(in.ID), in.Body.Keep)
	if err == nil && in.Body.Input != "" {
		err = d.boundary.StateInput(ctx, caller(ctx), r.ID, in.Body.Input)
	}
	return d.run(r, "", err)
}

type endRunInput struct {
	RunPath
	Body struct {
		Why string `json:"why,omitempty" maxLength:"500" doc:"For the record."`
	}
}

func (d *door) endRun(ctx context.Context, in *endRunInput) (*runOutput, error) {
	if !record.ValidID("run", in.ID) {
		return nil, d.refusal(absent("run"))
	}
	r, err := d.boundary.EndRun(ctx, caller(ctx), record.RunID(in.ID), in.Body.Why)
	return d.run(r, "", err)
}

func approversOnly() error {
	return record.Errorf(record.Forbidden, "an approver sees the questions put to them; list /v1/approvals, or ask for the permission read")
}

// printable reports whether a label is text of one line.
func printable(s string) bool {
	for _, r := range s {
		if r < 0x20 || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return false
		}
	}
	return true
}
