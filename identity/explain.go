package identity

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/record"
)

// Explanation tells an operator what is wrong with credentials, or who they are.
// It holds no secret: of the claims it has the names, and values only of those
// that identify.
type Explanation struct {
	As      string   `json:"as"`      // caller, person or "": accepted for nothing
	Checks  []Check  `json:"checks"`  // in the order in which they are made, up to the one that failed
	Problem string   `json:"problem"` // what is wrong and what to do; "" if accepted
	Kind    string   `json:"kind,omitempty"`
	Header  Header   `json:"header"`
	Claims  []string `json:"claims"` // names; nobody vouches for them if the signature check was not passed

	Issuer   string           `json:"issuer"` // as the token states it
	Tenant   record.TenantID  `json:"tenant"`
	Subject  record.Principal `json:"principal"`
	Agent    record.AgentID   `json:"agent"`
	Scopes   []string         `json:"scopes"`
	Groups   []record.Group   `json:"groups"`
	Actors   []string         `json:"actors,omitempty"` // who acts for the principal, the current one first
	Audience []string         `json:"audience"`
	Expires  time.Time        `json:"expires,omitzero"`
	Workload string           `json:"workload,omitempty"`
	Vouches  bool             `json:"vouches"`
	Operates bool             `json:"operates"`
	Reads    bool             `json:"reads"`

	// Caller is valid if As is caller; for asking what it may do.
	Caller Caller `json:"-"`
}

// Check is one check and how it went.
type Check struct {
	Name   string `json:"name"`
	Passed bool   `json:"passed"`
}

// Header is what a token's header states.
type Header struct {
	Algorithm string `json:"alg"`
	Type      string `json:"typ"`
	Key       string `json:"kid"`
}

// order is that in which a token is examined for a role; a test holds it to that.
func order(last string) []string {
	return []string{checkFormat, checkIssuer, checkAlgorithm, checkType, checkKey, checkSignature, checkLifetime,
		checkSubject, checkTenant, checkScopes, checkOverage, checkGroups, checkActors, checkAudience, last, checkBinding}
}

// Explain makes the same checks as Caller and Person, and says how they went. A
// token for the answering audience is explained as a person's.
func (v *Verifier) Explain(ctx context.Context, c Credentials) Explanation {
	var e Explanation
	if c.Bearer != "" {
		e.state(c.Bearer)
	}
	caller, err := v.Caller(ctx, c)
	if err == nil {
		e.accept("caller", caller.v, checksOf(c, checkAgent))
		e.Caller, e.Vouches = caller, caller.Vouches()
		if w := caller.Workload(); w != nil {
			e.Workload, e.Operates, e.Reads = w.Name(), w.May(Operate) || w.May(OperateAll), w.May(Operate) || w.May(OperateAll) || w.May(Read)
		}
		return e
	}
	if r, failed := v.verify(ctx, c.Bearer); failed == nil && c.WorkloadKey == "" {
		e.identify(r)
		if _, answering := r.madeFor(); answering {
			return v.explainPerson(ctx, c, e)
		}
	}
	e.reject(err, checksOf(c, checkAgent))
	return e
}

func (v *Verifier) explainPerson(ctx context.Context, c Credentials, e Explanation) Explanation {
	p, err := v.Login(ctx, c)
	if err != nil {
		e.reject(err, order(checkPerson))
		return e
	}
	e.accept("person", p.v, order(checkPerson))
	e.Operates, e.Reads = p.Operates(), p.Reads()
	return e
}

func checksOf(c Credentials, last string) []string {
	switch {
	case c.WorkloadKey == "":
		return order(last)
	case c.Bearer == "":
		return []string{checkWorkload}
	default:
		return append([]string{checkWorkload}, order(last)...)
	}
}

// state notes what the token says of itself, verified or not.
func (e *Explanation) state(bearer string) {
	t, err := parseToken(bearer)
	if err != nil {
		return
	}
	e.Header = Header{shorten(t.algorithm), shorten(t.kind), shorten(t.key)}
	e.Issuer = shorten(t.issuer)
	for name := range canon.Members(t.claims) {
		e.Claims = append(e.Claims, shorten(name))
	}
}

func (e *Explanation) identify(r *verified) {
	e.Tenant, e.Subject, e.Agent, e.Expires = r.tenant, r.principal, r.agent, r.expires
	e.Scopes, e.Groups, e.Actors, e.Audience = slices.Clone(r.scopes), slices.Clone(r.groups), slices.Clone(r.actors), slices.Clone(r.audience)
}

func (e *Explanation) accept(as string, r *verified, checks []string) {
	e.As = as
	e.identify(r)
	for _, name := range checks {
		e.Checks = append(e.Checks, Check{name, true})
	}
}

func (e *Explanation) reject(err error, checks []string) {
	e.Problem, e.Kind = record.PublicMessage(err), string(record.KindOf(err))
	var r *refusal
	if !errors.As(err, &r) {
		return
	}
	for _, name := range checks {
		if name == r.check {
			break
		}
		e.Checks = append(e.Checks, Check{name, true})
	}
	e.Checks = append(e.Checks, Check{r.check, false})
}

// shorten makes what a stranger wrote fit to be shown.
func shorten(s string) string {
	const most = 128
	out := make([]rune, 0, min(len(s), most))
	for _, r := range s {
		if len(out) == most {
			return string(out) + "…"
		}
		if !printable(string(r)) {
			r = '\uFFFD'
		}
		out = append(out, r)
	}
	return string(out)
}
