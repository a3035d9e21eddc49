package identity

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"

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

// workloadKey is a configured workload with the hash of its key.
type workloadKey struct {
	workload Workload
	hash     string
}

func (v *Verifier) addWorkload(w WorkloadKey, issuers []Issuer) error {
	digits, ok := strings.CutPrefix(strings.TrimSpace(w.KeyHash), "sha256:")
	if b, err := hex.DecodeString(digits); !ok || err != nil || len(b) != sha256.Size {
		return record.Errorf(record.Invalid, "workload %q: its key must be a hash, sha256: and 64 hexadecimal digits, and not the key itself", w.Name)
	}
	key := workloadKey{workload: Workload{name: w.Name, permissions: slices.Clone(w.Permissions)}, hash: "sha256:" + strings.ToLower(digits)}
	for _, p := range w.Permissions {
		if !slices.Contains([]Permission{Propose, Vouch, Operate, Read}, p) {
			return record.Errorf(record.Invalid, "workload %q: unknown permission %q; there are propose, vouch, operate and read", w.Name, p)
		}
	}
	for _, other := range v.workloads {
		if other.workload.name == w.Name || other.hash == key.hash {
			return record.Errorf(record.Invalid, "workload %q: its name or key is another's too", w.Name)
		}
	}
	tenant, err := w.tenant(issuers)
	if err != nil {
		return err
	}
	key.workload.tenant = tenant
	v.workloads = append(v.workloads, key)
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

// workload finds whose key it is. All hashes are compared, in constant time each.
func (v *Verifier) workload(key string) (*Workload, error) {
	hash := []byte(HashKey(key))
	var found *Workload
	for n := range v.workloads {
		if subtle.ConstantTimeCompare(hash, []byte(v.workloads[n].hash)) == 1 {
			found = &v.workloads[n].workload
		}
	}
	if found == nil || !strings.HasPrefix(key, keyPrefix) {
		return nil, refuse(checkWorkload, record.Unauthenticated, "the workload key is not known here; create one, and put its hash under workloads")
	}
	return found, nil
}

// caller is a workload that calls as itself: principal and agent in one, without
// scopes and groups, since no issuer asserted any.
func (w *Workload) caller() (Caller, error) {
	if !w.May(Propose) {
		return Caller{}, w.lacks(Propose, "; send the user's token beside the key")
	}
	if w.tenant == "" {
		return Caller{}, refuse(checkWorkload, record.Forbidden, "workload %s has no tenant of its own; send the user's token beside the key, or state its tenant", w.name)
	}
	owner := record.Owner{Tenant: w.tenant, Principal: record.Principal{Issuer: WorkloadIssuer, Subject: w.name}, Agent: record.AgentID(w.name)}
	return Caller{workload: w, v: &verified{
		tenant: owner.Tenant, principal: owner.Principal, agent: owner.Agent, public: []byte("{}"), program: true, session: sessionOf(owner),
	}}, nil
}
