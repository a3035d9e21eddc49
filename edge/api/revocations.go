package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

func (d *door) registerRevocations() {
	add(d, d.operation("revoke", http.MethodPost, "/v1/revocations", "Revoke a tool, a server, a credential, a principal, an agent, a run, a login, a tenant or everything", d.asOperator, tag("operate"),
		describe("Needs the permission operate, and beyond one's own tenant operate_all. When it answers, what waited is ended with its questions, and nothing more starts on any replica; what runs was asked to stop and is listed.")), d.revoke)
	add(d, d.operation("list-revocations", http.MethodGet, "/v1/revocations", "List what is revoked", d.asReader, tag("operate"),
		describe("Needs the permission read or operate. Those of the tenant and those of every tenant, newest first.")), d.listRevocations)
	add(d, d.operation("show-revocation", http.MethodGet, "/v1/revocations/{id}", "Show a revocation and what became of the calls that ran when it was made", d.asReader, tag("operate"),
		describe("Needs the permission read or operate.")), d.showRevocation)
	add(d, d.operation("undo-revocation", http.MethodPost, "/v1/revocations/{id}/undo", "Undo a revocation", d.asOperator, tag("operate"),
		describe("Needs the permission operate, and beyond one's own tenant operate_all. What it ended stays ended.")), d.undoRevocation)
}

type revokedKind record.RevokedKind

// Schema is asked by huma.
func (revokedKind) Schema(huma.Registry) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeString}
	for _, k := range record.RevokedKinds() {
		s.Enum = append(s.Enum, string(k))
	}
	return s
}

// RevocationView is a revocation as its readers see it.
type RevocationView struct {
	ID         record.RevocationID `json:"id"`
	Target     string              `json:"target" doc:"As the order named it."`
	Kind       revokedKind         `json:"kind"`
	Tenant     record.TenantID     `json:"tenant,omitempty" doc:"Where it holds."`
	Everywhere bool                `json:"everywhere" doc:"It holds in every tenant."`
	Live       bool                `json:"live" doc:"It counts now: it was not undone and has not expired."`
	Reason     string              `json:"reason"`
	By         string              `json:"by"`
	At         time.Time           `json:"at"`
	Expires    *time.Time          `json:"expires_at,omitempty" doc:"Without it: until it is undone."`
	Undone     *time.Time          `json:"undone_at,omitempty"`
	UndoneBy   string              `json:"undone_by,omitempty"`
	Why        string              `json:"undone_why,omitempty"`

	Ended     int `json:"ended" doc:"Calls that waited and are revoked."`
	Runs      int `json:"runs" doc:"Runs that ended."`
	Questions int `json:"questions" doc:"Questions whose answers are void, asked anew."`
	Running   int `json:"running" doc:"Calls that ran when it was made, and were asked to stop."`

	Calls []CaughtView `json:"calls,omitempty" doc:"Those that ran, as they are now; of the first thousand, those of the tenant. Only where one revocation is shown."`
}

// CaughtView is a call that ran when its authority was withdrawn.
type CaughtView struct {
	Call   record.CallID   `json:"call"`
	Tenant record.TenantID `json:"tenant"`
	Tool   string          `json:"tool"`
	State  record.State    `json:"state" doc:"Now: executing while it still runs."`
}

func (d *door) revocationView(r record.Revocation) RevocationView {
	v := RevocationView{ID: r.ID, Target: r.What(), Kind: revokedKind(r.Kind), Tenant: r.Tenant, Everywhere: r.Tenant == "", Live: r.Live(d.now()),
		Reason: r.Reason, By: r.Who.Workload, At: r.At, Expires: later(r.Expires), Undone: later(r.Undone), Why: r.Why,
		Ended: r.Caught.Ended, Runs: r.Caught.Runs, Questions: r.Caught.Questions, Running: r.Caught.Running}
	if r.UndoneBy != nil {
		v.UndoneBy = r.UndoneBy.Workload
	}
	return v
}

// caught is a view with the calls that ran: to whoever owns the server, those of every tenant.
func (d *door) caught(ctx context.Context, r record.Revocation, tenant record.TenantID, everywhere bool) (*revocationOutput, error) {
	v := d.revocationView(r)
	if everywhere {
		tenant = ""
	}
	calls, err := d.boundary.Caught(ctx, tenant, r)
	for _, c := range calls {
		v.Calls = append(v.Calls, CaughtView{c.ID, c.Tenant, c.Tool, c.State})
	}
	return &revocationOutput{Body: v}, err
}

type revokeInput struct {
	Body struct {
		Target     string `json:"target" minLength:"1" maxLength:"2000" doc:"tool:NAME, tool:NAME@VERSION, server:NAME, credential:NAME, tenant:NAME, principal:SUBJECT@ISSUER, agent:NAME, run:ID, schedule:ID, session:ID, or all."`
		Reason     string `json:"reason" minLength:"1" maxLength:"2000" doc:"Why; for people."`
		For        string `json:"for,omitempty" maxLength:"32" doc:"How long, such as 1h30m; without it, until it is undone."`
		Tenant     string `json:"tenant,omitempty" maxLength:"512" doc:"Where it holds; without it, in one's own tenant."`
		Everywhere bool   `json:"everywhere,omitempty" doc:"It holds in every tenant."`
	}
}

type revocationOutput struct{ Body RevocationView }

func (d *door) revoke(ctx context.Context, in *revokeInput) (*revocationOutput, error) {
	order, err := dispatch.ParseTarget(in.Body.Target)
	if err != nil {
		return nil, err
	}
	if err := order.Lasts(in.Body.For); err != nil {
		return nil, err
	}
	order.Reason, order.Tenant, order.Everywhere = in.Body.Reason, record.TenantID(in.Body.Tenant), in.Body.Everywhere
	o := operator(ctx)
	r, err := d.boundary.Revoke(ctx, o, order)
	if err != nil {
		return nil, hidden(err, "run")
	}
	return d.caught(ctx, r, o.Tenant(), o.Everywhere())
}

// RevocationPath names a revocation.
type RevocationPath struct {
	ID string `path:"id" maxLength:"64"`
}

type undoInput struct {
	RevocationPath
	Body struct {
		Reason string `json:"reason" minLength:"1" maxLength:"2000" doc:"Why; for the record."`
		Tenant string `json:"tenant,omitempty" maxLength:"512" doc:"Where it holds; without it, in one's own tenant or everywhere."`
	}
}

func (d *door) undoRevocation(ctx context.Context, in *undoInput) (*revocationOutput, error) {
	o := operator(ctx)
	r, err := d.boundary.UndoRevocation(ctx, o, record.TenantID(in.Body.Tenant), record.RevocationID(in.ID), in.Body.Reason)
	if err != nil {
		return nil, hidden(err, "revocation")
	}
	return d.caught(ctx, r, o.Tenant(), o.Everywhere())
}

type showRevocationInput struct {
	RevocationPath
	Tenant string `query:"tenant" maxLength:"512" doc:"Where it holds, for whoever holds operate_all."`
}

func (d *door) showRevocation(ctx context.Context, in *showRevocationInput) (*revocationOutput, error) {
	v := watcher(ctx)
	tenant, err := v.reach(in.Tenant)
	if err != nil {
		return nil, absent("revocation")
	}
	r, err := d.boundary.Revocation(ctx, tenant, record.RevocationID(in.ID))
	if err != nil {
		return nil, hidden(err, "revocation")
	}
	return d.caught(ctx, r, tenant, v.reader.Everywhere())
}

// reach is the tenant that a reader asks about: another than their own only for whoever
// owns the server.
func (v viewer) reach(tenant string) (record.TenantID, error) {
	switch t := record.TenantID(tenant); {
	case t == "" || t == v.tenant():
		return v.tenant(), nil
	case v.reader.Everywhere():
		return t, nil
	}
	return "", record.Errorf(record.Forbidden, "another tenant's needs the permission operate_all")
}

type revocationsInput struct {
	Tenant string `query:"tenant" maxLength:"512" doc:"Where they hold, for whoever holds operate_all."`
	Ended  bool   `query:"ended" doc:"Those that were undone or have expired, too."`
	Before string `query:"before" maxLength:"64" doc:"The next of an earlier page."`
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"50"`
}

type revocationsOutput struct {
	Body struct {
		Revocations []RevocationView    `json:"revocations" nullable:"false"`
		Next        record.RevocationID `json:"next,omitempty" doc:"Send it as before for the next page."`
	}
}

func (d *door) listRevocations(ctx context.Context, in *revocationsInput) (*revocationsOutput, error) {
	tenant, err := watcher(ctx).reach(in.Tenant)
	if err != nil {
		return nil, err
	}
	list, next, err := dispatch.ListRevocations(ctx, d.reader, dispatch.RevocationQuery{Tenant: tenant, Ended: in.Ended, Before: record.RevocationID(in.Before), Limit: in.Limit}, d.now())
	if err != nil {
		return nil, err
	}
	out := &revocationsOutput{}
	out.Body.Revocations, out.Body.Next = []RevocationView{}, next
	for _, r := range list {
		out.Body.Revocations = append(out.Body.Revocations, d.revocationView(r))
	}
	return out, nil
}
