package api

import (
	"context"
	"net/http"
	"time"

	"github.com/placet-dev/placet/record"
)

func (d *door) registerMe() {
	add(d, d.operation("show-me", http.MethodGet, "/v1/me", "Say whose credential this is", d.asViewer, tag("identity")), d.me)
}

// Me is who a credential is for.
type Me struct {
	Kind      string            `json:"kind" enum:"caller,person,reader" doc:"caller: may propose. person: may answer. reader: may see the tenant."`
	Tenant    record.TenantID   `json:"tenant"`
	Principal *record.Principal `json:"principal,omitempty" doc:"Absent for a program's key."`
	Agent     record.AgentID    `json:"agent,omitempty"`
	Name      string            `json:"name,omitempty" doc:"Of a reader, for records."`
	Expires   *time.Time        `json:"expires_at,omitempty"`
}

type meOutput struct{ Body Me }

func (d *door) me(ctx context.Context, _ *struct{}) (*meOutput, error) {
	v := watcher(ctx)
	out := &meOutput{Body: Me{Kind: "person", Tenant: v.tenant(), Expires: later(v.expires())}}
	b := &out.Body
	switch {
	case v.caller.Valid():
		o := v.caller.Owner()
		b.Kind, b.Principal, b.Agent = "caller", &o.Principal, o.Agent
	case v.reader.Valid():
		b.Kind, b.Name = "reader", v.reader.Name()
	default:
		who := v.person.Principal()
		b.Principal = &who
	}
	return out, nil
}
