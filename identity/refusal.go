package identity

import (
	"errors"

	"github.com/placet-dev/placet/record"
)

// The checks of a token, in the order in which they are made.
const (
	checkFormat    = "format"
	checkIssuer    = "issuer"
	checkAlgorithm = "algorithm"
	checkType      = "type"
	checkKey       = "key"
	checkSignature = "signature"
	checkLifetime  = "lifetime"
	checkSubject   = "subject"
	checkTenant    = "tenant"
	checkScopes    = "scopes"
	checkOverage   = "groups_overage"
	checkGroups    = "groups"
	checkActors    = "actors"
	checkAudience  = "audience"
	checkAgent     = "agent"
	checkPerson    = "person"
	checkWorkload  = "workload"
	checkBinding   = "binding" // last: whoever sends the token is whom it is bound to
)

// refusal is an error that knows which check it comes from.
type refusal struct {
	check string
	err   *record.Error
	lack  *Lack
}

func (r *refusal) Error() string { return r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

func refuse(check string, k record.Kind, format string, args ...any) error {
	return &refusal{check: check, err: record.Errorf(k, format, args...)}
}

func refuseBecause(check string, k record.Kind, cause error, format string, args ...any) error {
	return &refusal{check: check, err: record.Because(k, cause, format, args...)}
}

// Lack is which permission somebody known does not hold. Doors record it and name
// it to the client.
type Lack struct {
	Permission Permission
	Tenant     record.TenantID // "" if a workload has none: there is nowhere to record it
	Who        record.Who
}

// LackOf returns what an error says somebody lacks.
func LackOf(err error) (Lack, bool) {
	var r *refusal
	if !errors.As(err, &r) || r.lack == nil {
		return Lack{}, false
	}
	return *r.lack, true
}

// Lacks is the refusal of a caller for want of a permission: no token that
// proposes carries one, and the workload beside it, if there is one, does not hold it.
func (c Caller) Lacks(p Permission) error {
	o := c.Owner()
	if w := c.workload; w != nil && p == Vouch {
		return lacking(checkWorkload, Lack{p, o.Tenant, o.By()}, "workload %s does not hold the permission %s", w.name, p)
	}
	if p == Vouch {
		return lacking(checkWorkload, Lack{p, o.Tenant, o.By()}, "this needs a workload's own credential with the permission %s, beside the user's token", p)
	}
	return lacking(checkPerson, Lack{p, o.Tenant, o.By()}, "this needs the permission %s, which a credential that proposes does not carry", p)
}

// Lacks is the refusal of a person for want of a permission.
func (p Person) Lacks(want Permission) error {
	who := p.Principal()
	return lacking(checkPerson, Lack{want, p.Tenant(), record.Who{Principal: &who}}, "this login is in no group that has the permission %s", want)
}

// lacks is the refusal of a workload for want of a permission.
func (w *Workload) lacks(p Permission, hint string) error {
	return lacking(checkWorkload, Lack{p, w.tenant, record.Who{Workload: w.name}}, "workload %s does not hold the permission %s%s", w.name, p, hint)
}

func lacking(check string, l Lack, format string, args ...any) error {
	return &refusal{check: check, err: record.Errorf(record.Forbidden, format, args...), lack: &l}
}
