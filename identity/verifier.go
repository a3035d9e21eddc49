package identity

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/placet-dev/placet/record"
)

// Deps is what a verifier needs of the world.
type Deps struct {
	Clock func() time.Time
	HTTP  *http.Client // fetches key sets; redirects are never followed
	Log   *slog.Logger
}

// Verifier turns credentials into identities. It may be used concurrently.
type Verifier struct {
	issuers   map[string]*issuer
	addresses map[string]*issuer // a development issuer by its other name
	workloads []workloadKey
	operate   []record.Group
	read      []record.Group
	clock     func() time.Time
	log       *slog.Logger
	results   *results
	fetch     fetch
}

// issuer is one configured issuer with its keys.
type issuer struct {
	Issuer
	algorithms []jose.SignatureAlgorithm
	keys       *keyring
}

// New checks the configuration and reads the key files it names. Keys behind a
// URL are fetched when they are first needed, so that an issuer that is down
// does not keep the server from starting.
func New(c Config, d Deps) (*Verifier, error) {
	d = d.withDefaults()
	v := &Verifier{issuers: map[string]*issuer{}, addresses: map[string]*issuer{}, clock: d.Clock, log: d.Log, results: newResults(maxResults), fetch: fetcher(d.HTTP)}
	for _, given := range c.Issuers {
		if given.Local && len(c.Issuers) > 1 {
			return nil, record.Errorf(record.Invalid, "issuer %q is a development issuer and must be the only one", given.Issuer)
		}
		if err := v.addIssuer(given, d); err != nil {
			return nil, err
		}
	}
	for _, w := range c.Workloads {
		if err := v.addWorkload(w, c.Issuers); err != nil {
			return nil, err
		}
	}
	var err error
	if v.operate, err = v.resolveAll(c.Operate); err != nil {
		return nil, err
	}
	if v.read, err = v.resolveAll(c.Read); err != nil {
		return nil, err
	}
	return v, nil
}

func (d Deps) withDefaults() Deps {
	if d.Clock == nil {
		d.Clock = time.Now
	}
	if d.HTTP == nil {
		d.HTTP = &http.Client{}
	}
	if d.Log == nil {
		d.Log = slog.New(slog.DiscardHandler)
	}
	return d
}

func (v *Verifier) addIssuer(given Issuer, d Deps) error {
	i, err := given.withDefaults()
	if err != nil {
		return err
	}
	if _, twice := v.issuers[i.Issuer]; twice {
		return record.Errorf(record.Invalid, "issuer %q is configured twice", i.Issuer)
	}
	keys, err := newKeyring(i, d)
	if err != nil {
		return err
	}
	v.issuers[i.Issuer] = &issuer{Issuer: i, algorithms: i.signatureAlgorithms(), keys: keys}
	if i.Address != "" {
		// Two names, one key, one principal. It stands alone, so no other can be meant.
		v.addresses[i.Address] = v.issuers[i.Issuer]
	}
	return nil
}

// Caller says who proposes. A token alone is a user's call through an agent; a
// key beside it adds what the key permits; a key alone is the workload itself,
// if it may propose. A key that is presented and not known is refused, whatever
// comes with it. Errors are Unauthenticated, Forbidden or Unavailable.
func (v *Verifier) Caller(ctx context.Context, c Credentials) (Caller, error) {
	var w *Workload
	if c.WorkloadKey != "" {
		var err error
		if w, err = v.workload(c.WorkloadKey); err != nil {
			return Caller{}, err
		}
		if c.Bearer == "" {
			return w.caller()
		}
	}
	r, err := v.verify(ctx, c.Bearer)
	if err != nil {
		return Caller{}, err
	}
	if err := r.mayPropose(); err != nil {
		return Caller{}, err
	}
	if w != nil && w.tenant != "" && w.tenant != r.tenant {
		return Caller{}, refuse(checkWorkload, record.Forbidden, "workload %s belongs to another tenant than the token", w.name)
	}
	return Caller{v: r, workload: w}, nil
}

// Person says who answers or operates, from the token of an interactive login.
func (v *Verifier) Person(ctx context.Context, bearer string) (Person, error) {
	r, err := v.verify(ctx, bearer)
	if err != nil {
		return Person{}, err
	}
	if err := r.mayAnswer(); err != nil {
		return Person{}, err
	}
	return Person{v: r, operates: overlap(r.groups, v.operate), reads: overlap(r.groups, v.read)}, nil
}

// Operator says who operates: a person of an operating group, or a workload whose
// key permits it. A request that presents both a token and a key is refused,
// since it does not say which of them acts.
func (v *Verifier) Operator(ctx context.Context, c Credentials) (Operator, error) {
	r, err := v.staff(ctx, c, Operate)
	return Operator{r}, err
}

// Reader is as Operator, for those who only look.
func (v *Verifier) Reader(ctx context.Context, c Credentials) (Reader, error) {
	return v.staff(ctx, c, Read)
}

func (v *Verifier) staff(ctx context.Context, c Credentials, p Permission) (Reader, error) {
	if c.Bearer != "" && c.WorkloadKey != "" {
		return Reader{}, refuse(checkWorkload, record.Unauthenticated, "send either a person's token or a workload's key, not both")
	}
	if c.WorkloadKey != "" {
		w, err := v.workload(c.WorkloadKey)
		if err != nil {
			return Reader{}, err
		}
		if !w.May(p) && !w.May(Operate) {
			return Reader{}, w.lacks(p, "")
		}
		return Reader{tenant: w.tenant, name: "workload/" + w.name}, nil
	}
	person, err := v.Person(ctx, c.Bearer)
	if err != nil {
		return Reader{}, err
	}
	if !person.Operates() && !(p == Read && person.Reads()) {
		return Reader{}, person.Lacks(p)
	}
	return Reader{tenant: person.Tenant(), name: person.Principal().String()}, nil
}

// verify returns what a token says, from memory if it was verified within the
// last minute. Memory holds nothing that has expired by now.
func (v *Verifier) verify(ctx context.Context, bearer string) (*verified, error) {
	now := v.clock()
	name := sha256.Sum256([]byte(bearer))
	if r := v.results.get(name, now); r != nil {
		return r, nil
	}
	r, err := v.examine(ctx, bearer, now)
	if err != nil {
		return nil, err
	}
	v.results.put(name, r, now)
	return r, nil
}

func overlap(a, b []record.Group) bool {
	return slices.ContainsFunc(a, func(g record.Group) bool { return slices.Contains(b, g) })
}
