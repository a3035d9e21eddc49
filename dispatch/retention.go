package dispatch

import (
	"cmp"
	"context"

	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
)

// retention is what stays of a tool's calls once they have ended. A result that a repeat
// may be answered with is there as long as one may (rule A7).
func (b *Boundary) retention(t *registry.Tool) record.Retention {
	r := record.Retention{Arguments: cmp.Or(t.Retention.Arguments, b.limits.Retention.Arguments),
		For: cmp.Or(t.Retention.For, b.limits.Retention.For)}
	if r.Arguments == record.RecordFull {
		r.Arguments = ""
	}
	if r.For > 0 && !t.Read {
		r.For = max(r.For, t.Repeat.Within)
	}
	return r
}

// RedactCall removes the content of a call that has ended, for good, by an operator of
// its tenant. Its events stay, and the log says who did it, why, and what went.
func (b *Boundary) RedactCall(ctx context.Context, o identity.Operator, tenant record.TenantID, id record.CallID, why string) (record.Call, error) {
	switch {
	case !o.Valid():
		return record.Call{}, record.Errorf(record.Forbidden, "redacting needs the operate permission")
	case o.Tenant() != tenant:
		return record.Call{}, record.Errorf(record.NotFound, "there is no call %q here", id)
	case why == "" || len(why) > maxNote:
		return record.Call{}, record.Errorf(record.Invalid, "say why, in at most %d bytes", maxNote)
	}
	l, err := b.store.Call(ctx, tenant, id)
	if err != nil {
		return record.Call{}, err
	}
	change, err := record.RedactCall(l.Call, l.Approval, why, record.Who{Workload: o.Name()}, o.Name(), b.clock())
	if err == nil {
		err = b.apply(ctx, change)
	}
	if err != nil {
		return record.Call{}, err
	}
	return change.Facts().Call.After, nil
}
