package identity

import (
	"encoding/json"
	"log/slog"
	"slices"
	"time"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/record"
)

// WorkloadIssuer qualifies the principal of a workload that calls as itself.
const WorkloadIssuer = record.WorkloadIssuer

// Caller is who proposes and dispatches: a tenant, a principal and an agent, with
// what their issuer says of them. The zero value is nobody.
type Caller struct {
	v         *verified  // nil: nobody
	workload  *Workload  // the program that presented a key beside or instead of the token
	presented *Presented // nil: no token
}

// Valid reports whether there is somebody. Whoever takes a Caller refuses one that is not valid.
func (c Caller) Valid() bool { return c.v != nil }

// Owner is who the caller's runs and calls belong to.
func (c Caller) Owner() record.Owner {
	if c.v == nil {
		return record.Owner{}
	}
	return record.Owner{Tenant: c.v.tenant, Principal: c.v.principal, Agent: c.v.agent}
}

func (c Caller) Scopes() []string {
	if c.v == nil {
		return nil
	}
	return slices.Clone(c.v.scopes)
}

// Within is the caller with at most the scopes stated, for a run that was given no
// more. Their token is the same.
func (c Caller) Within(scopes []string) Caller {
	if c.v == nil {
		return c
	}
	less := *c.v
	less.scopes = slices.DeleteFunc(slices.Clone(c.v.scopes), func(s string) bool { return !slices.Contains(scopes, s) })
	c.v = &less
	return c
}

func (c Caller) HasScope(name string) bool { return c.v != nil && slices.Contains(c.v.scopes, name) }

func (c Caller) Groups() []record.Group {
	if c.v == nil {
		return nil
	}
	return slices.Clone(c.v.groups)
}

func (c Caller) InGroup(g record.Group) bool { return c.v != nil && slices.Contains(c.v.groups, g) }

// Claims is a canonical object with the token's claims, without those that differ
// from token to token of one session. It must not be changed.
func (c Caller) Claims() json.RawMessage {
	if c.v == nil {
		return json.RawMessage("{}")
	}
	return c.v.public
}

// Expires is when the first of the credentials ceases to count; zero for a
// workload's own that does not expire.
func (c Caller) Expires() time.Time {
	switch {
	case c.v == nil:
		return time.Time{}
	case c.workload == nil:
		return c.v.expires
	}
	return earlier(c.v.expires, c.workload.expires)
}

// SessionID tells callers apart that must not share a protocol session: it is a
// digest of tenant, issuer, subject and agent. It is empty for nobody.
func (c Caller) SessionID() string {
	if c.v == nil {
		return ""
	}
	return c.v.session
}

// Workload is the program that presented its own key, or nil.
func (c Caller) Workload() *Workload { return c.workload }

// Vouches reports whether statements about turns and emissions count from this caller.
func (c Caller) Vouches() bool { return c.v != nil && c.workload.May(Vouch) }

// LogValue names the caller, for logs.
func (c Caller) LogValue() slog.Value {
	o := c.Owner()
	return slog.GroupValue(slog.String("tenant", string(o.Tenant)), slog.String("principal", o.Principal.String()), slog.String("agent", string(o.Agent)))
}

// Workload is a program that proved who it is.
type Workload struct {
	name        string
	expires     time.Time       // when it, or what it proved itself by, ceases to count; zero: never
	agent       record.AgentID  // the agent that it is; "" if it is none, such as an orchestrator that vouches
	tenant      record.TenantID // "" if the configuration leaves it open
	permissions []Permission
}

func (w *Workload) Name() string { return w.name }

// Tenant is the workload's own; "" if the configuration leaves it open.
func (w *Workload) Tenant() record.TenantID { return w.tenant }

// May reports whether the workload holds a permission; nil holds none.
func (w *Workload) May(p Permission) bool { return w != nil && slices.Contains(w.permissions, p) }

// Person is a human after an interactive login, who answers approvals or
// operates. It never comes from what may propose. The zero value is nobody.
type Person struct {
	v                    *verified
	operates, all, reads bool
}

func (p Person) Valid() bool { return p.v != nil }

func (p Person) Tenant() record.TenantID {
	if p.v == nil {
		return ""
	}
	return p.v.tenant
}

func (p Person) Principal() record.Principal {
	if p.v == nil {
		return record.Principal{}
	}
	return p.v.principal
}

func (p Person) Groups() []record.Group {
	if p.v == nil {
		return nil
	}
	return slices.Clone(p.v.groups)
}

func (p Person) InGroup(g record.Group) bool { return p.v != nil && slices.Contains(p.v.groups, g) }

func (p Person) Expires() time.Time {
	if p.v == nil {
		return time.Time{}
	}
	return p.v.expires
}

// Session names the login that the person signed in with, as records call it; empty
// where the issuer names none.
func (p Person) Session() string {
	if p.v == nil {
		return ""
	}
	return record.SessionName(p.v.principal.Issuer, p.v.login)
}

// Operates reports whether the person may change what is enforced.
func (p Person) Operates() bool { return p.v != nil && p.operates }

// Operator is the person in that role; nobody, if they have not the permission.
func (p Person) Operator() Operator {
	if !p.Operates() {
		return Operator{}
	}
	return Operator{Reader{tenant: p.Tenant(), name: p.Principal().String(), principal: p.Principal(), all: p.all}}
}

// Reads reports whether the person may see what operators see.
func (p Person) Reads() bool { return p.v != nil && (p.reads || p.operates) }

// Operator is who may activate, revoke and reconcile within a tenant: a person
// with the permission, or a workload with it. The zero value is nobody.
type Operator struct{ reader Reader }

func (o Operator) Valid() bool             { return o.reader.Valid() }
func (o Operator) Tenant() record.TenantID { return o.reader.tenant }
func (o Operator) Name() string            { return o.reader.name }

// Everywhere reports whether they own the server: what they revoke may hold in every tenant.
func (o Operator) Everywhere() bool { return o.Valid() && o.reader.all }

// OperatorAgent is the agent in the records of what operators ask tools.
const OperatorAgent record.AgentID = "placet.operator"

// Reconciler is the operator as the caller of support calls (rule C5): without scopes,
// groups and claims, and without a token that anything could be exchanged for. It is
// made for looking into unknown outcomes and proposes nothing.
func (o Operator) Reconciler() Caller {
	if !o.Valid() || o.reader.principal.Subject == "" {
		return Caller{}
	}
	owner := record.Owner{Tenant: o.reader.tenant, Principal: o.reader.principal, Agent: OperatorAgent}
	return Caller{v: &verified{tenant: owner.Tenant, principal: owner.Principal, agent: owner.Agent, public: []byte("{}"), session: sessionOf(owner)}}
}

// Operates is Valid, by the name that its users look for.
func (o Operator) Operates() bool { return o.Valid() }

// Reader is who may see what operators see within a tenant. The zero value is nobody.
type Reader struct {
	tenant    record.TenantID
	name      string
	principal record.Principal
	all       bool
}

func (r Reader) Valid() bool             { return r.tenant != "" && r.name != "" }
func (r Reader) Tenant() record.TenantID { return r.tenant }

// Everywhere reports whether they own the server, and see what was revoked in every tenant.
func (r Reader) Everywhere() bool { return r.Valid() && r.all }

// Name is subject@issuer, or workload/NAME; for records.
func (r Reader) Name() string { return r.name }

func sessionOf(o record.Owner) string {
	return canon.Of("placet/session/1", []byte(o.Tenant), []byte(o.Principal.Issuer), []byte(o.Principal.Subject), []byte(o.Agent)).String()
}
