package identity

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/placet-dev/placet/record"
)

const (
	keyPrefix = "plk_"
	keyBytes  = 32
)

// NewKey makes a workload's key. It fails only if the source of randomness does.
func NewKey(random io.Reader) (string, error) {
	var b [keyBytes]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return "", fmt.Errorf("read randomness for a key: %w", err)
	}
	return keyPrefix + base64.RawURLEncoding.EncodeToString(b[:]), nil
}

// HashKey is what the configuration holds of a key. A plain hash is right: a key
// has 256 bits, so nobody can try them out.
func HashKey(key string) string {
	sum := sha256.Sum256([]byte(key))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// program is a configured workload with what it can prove itself by.
type program struct {
	workload Workload
	keys     *keyfile // nil: it has no key

	spiffe      string          // the SPIFFE ID of its certificate, or
	certificate CertificateName // what its certificate of a plain authority states
}

func (v *Verifier) addWorkload(w WorkloadKey, issuers []Issuer) error {
	p := &program{workload: Workload{name: w.Name, agent: record.AgentID(w.Agent), permissions: slices.Clone(w.Permissions), expires: w.Expires}}
	for _, may := range w.Permissions {
		if !slices.Contains([]Permission{Propose, Vouch, Operate, OperateAll, Read}, may) {
			return record.Errorf(record.Invalid, "workload %q: unknown permission %q; there are propose, vouch, operate, operate_all and read", w.Name, may)
		}
	}
	if w.Agent != "" && !printable(w.Agent) {
		return record.Errorf(record.Invalid, "workload %q: its agent's name is too long or holds control characters", w.Name)
	}
	if err := v.addKeys(p, w); err != nil {
		return err
	}
	if err := v.addCertificate(p, w); err != nil {
		return err
	}
	tenant, err := w.tenant(issuers)
	if err != nil {
		return err
	}
	p.workload.tenant = tenant
	v.programs = append(v.programs, p)
	return nil
}

// addKeys reads a workload's keys for the first time. None of them may be another's.
func (v *Verifier) addKeys(p *program, w WorkloadKey) error {
	read := w.Keys
	if read == nil {
		read = func() (string, error) { return w.KeyHash, nil }
	}
	now := v.clock()
	var keys []HeldKey
	if w.KeyHash != "" || w.Keys != nil || w.SPIFFE == "" && w.Certificate == (CertificateName{}) {
		p.keys = &keyfile{name: w.Name, read: read, log: v.log}
		var err error
		if keys, err = p.keys.current(now); err != nil {
			return record.Errorf(record.Invalid, "workload %q: its keys: %w", w.Name, err)
		}
	}
	for _, other := range v.programs {
		if other.workload.name == w.Name {
			return record.Errorf(record.Invalid, "workload %q: its name is another's too", w.Name)
		}
		if other.keys == nil {
			continue
		}
		theirs, _ := other.keys.current(now)
		for _, k := range keys {
			if slices.ContainsFunc(theirs, func(t HeldKey) bool { return t.Hash == k.Hash }) {
				return record.Errorf(record.Invalid, "workload %q: its key is another's too", w.Name)
			}
		}
	}
	return nil
}

// tenant finds a workload's tenant. One that only vouches may do without: the
// token beside its key says for whom it speaks.
func (w WorkloadKey) tenant(issuers []Issuer) (record.TenantID, error) {
	var known []string
	for _, i := range issuers {
		known = append(known, i.tenants()...)
	}
	slices.Sort(known)
	known = slices.Compact(known)
	switch {
	case !printable(w.Name):
		return "", record.Errorf(record.Invalid, "a workload needs a name without control characters")
	case w.Tenant != "" && !printable(w.Tenant):
		return "", record.Errorf(record.Invalid, "workload %q: its tenant's name is too long or holds control characters", w.Name)
	case w.Tenant != "":
		return record.TenantID(w.Tenant), nil
	case len(known) == 1:
		return record.TenantID(known[0]), nil
	case slices.ContainsFunc(w.Permissions, func(p Permission) bool { return p == Operate || p == OperateAll || p == Read }):
		return "", record.Errorf(record.Invalid, "workload %q: state its tenant; the issuers speak for %d", w.Name, len(known))
	}
	return "", nil
}

// presented finds the workload whose key, certificate or both a request presents;
// nil if it presents none. odd is why the certificate is nobody's here: whoever
// takes a token that is bound to it decides.
func (v *Verifier) presented(ctx context.Context, c Credentials) (w *Workload, odd, err error) {
	if c.WorkloadKey != "" {
		if w, err = v.key(c.WorkloadKey); err != nil {
			return nil, nil, err
		}
	}
	if c.certificate() == nil {
		return w, nil, nil
	}
	certified, err := v.certificate(ctx, c.request.certificates)
	var s *stranger
	switch {
	case errors.As(err, &s):
		return w, err, nil
	case err != nil:
		return nil, nil, err
	case w == nil:
		return certified, nil, nil
	case w.name != certified.name:
		return nil, nil, refuse(checkWorkload, record.Unauthenticated, "the key is that of workload %s, and the certificate that of %s", w.name, certified.name)
	}
	w.expires = earlier(w.expires, certified.expires)
	return w, nil, nil
}

// beside is the refusal of a workload's credential that does not go with the token
// beside it: of another tenant, or of another agent (rule I1). A workload that is
// no agent, such as an orchestrator that vouches, goes with any.
func (w *Workload) beside(r *verified) error {
	switch {
	case w == nil:
		return nil
	case w.tenant != "" && w.tenant != r.tenant:
		return refuse(checkWorkload, record.Forbidden, "workload %s belongs to another tenant than the token", w.name)
	case w.agent != "" && w.agent != r.agent:
		return refuse(checkWorkload, record.Forbidden, "workload %s is the agent %s, and the token names another", w.name, w.agent)
	}
	return nil
}

// caller is a workload that calls as itself: principal and agent in one, without
// scopes and groups, since no issuer asserted any.
func (w *Workload) caller() (Caller, error) {
	if !w.May(Propose) {
		return Caller{}, w.lacks(Propose, "; send the user's token beside its own credential")
	}
	if w.tenant == "" {
		return Caller{}, refuse(checkWorkload, record.Forbidden, "workload %s has no tenant of its own; send the user's token beside the key, or state its tenant", w.name)
	}
	owner := record.Owner{Tenant: w.tenant, Principal: record.Principal{Issuer: WorkloadIssuer, Subject: w.name},
		Agent: cmp.Or(w.agent, record.AgentID(w.name))}
	return Caller{workload: w, v: &verified{
		tenant: owner.Tenant, principal: owner.Principal, agent: owner.Agent, public: []byte("{}"), program: true, session: sessionOf(owner),
	}}, nil
}
