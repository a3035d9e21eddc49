package identity

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
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
}

func (v *Verifier) addWorkload(w WorkloadKey, issuers []Issuer) error {
	p := &program{workload: Workload{name: w.Name, permissions: slices.Clone(w.Permissions), expires: w.Expires}}
	for _, may := range w.Permissions {
		if !slices.Contains([]Permission{Propose, Vouch, Operate, Read}, may) {
			return record.Errorf(record.Invalid, "workload %q: unknown permission %q; there are propose, vouch, operate and read", w.Name, may)
		}
	}
	if err := v.addKeys(p, w); err != nil {
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
	p.keys = &keyfile{name: w.Name, read: read, log: v.log}
	now := v.clock()
	keys, err := p.keys.current(now)
	if err != nil {
		return record.Errorf(record.Invalid, "workload %q: its keys: %w", w.Name, err)
	}
	for _, other := range v.programs {
		if other.workload.name == w.Name {
			return record.Errorf(record.Invalid, "workload %q: its name is another's too", w.Name)
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
	case slices.ContainsFunc(w.Permissions, func(p Permission) bool { return p == Operate || p == Read }):
		return "", record.Errorf(record.Invalid, "workload %q: state its tenant; the issuers speak for %d", w.Name, len(known))
	}
	return "", nil
}

// caller is a workload that calls as itself: principal and agent in one, without
// scopes and groups, since no issuer asserted any.
func (w *Workload) caller() (Caller, error) {
	if !w.May(Propose) {
		return Caller{}, lacks(w, Propose, "workload %s does not hold the permission propose; send the user's token beside its own credential", w.name)
	}
	if w.tenant == "" {
		return Caller{}, refuse(checkWorkload, record.Forbidden, "workload %s has no tenant of its own; send the user's token beside the key, or state its tenant", w.name)
	}
	owner := record.Owner{Tenant: w.tenant, Principal: record.Principal{Issuer: WorkloadIssuer, Subject: w.name}, Agent: record.AgentID(w.name)}
	return Caller{workload: w, v: &verified{
		tenant: owner.Tenant, principal: owner.Principal, agent: owner.Agent, public: []byte("{}"), program: true, session: sessionOf(owner),
	}}, nil
}
