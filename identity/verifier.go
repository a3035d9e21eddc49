package identity

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"net/http"
	"slices"
	"strings"
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
	issuers     map[string]*issuer
	addresses   map[string]*issuer // a development issuer by its other name
	programs    []*program         // the configured workloads
	authorities []*authority
	operate     []record.Group
	operateAll  []record.Group
	read        []record.Group
	clock       func() time.Time
	log         *slog.Logger
	results     *results
	fetch       fetch
	publicURL   string
	proofs      *proofs
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
	v := &Verifier{issuers: map[string]*issuer{}, addresses: map[string]*issuer{}, clock: d.Clock, log: d.Log, results: newResults(maxResults),
		fetch: fetcher(d.HTTP), publicURL: strings.TrimRight(c.PublicURL, "/"), proofs: &proofs{max: maxProofs}}
	for _, given := range c.Issuers {
		if given.Local && len(c.Issuers) > 1 {
			return nil, record.Errorf(record.Invalid, "issuer %q is a development issuer and must be the only one", given.Issuer)
		}
		if err := v.addIssuer(given, d); err != nil {
			return nil, err
		}
	}
	for _, a := range c.Authorities {
		if err := v.addAuthority(a); err != nil {
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
	if v.operateAll, err = v.resolveAll(c.OperateAll); err != nil {
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
// workload's credential beside it adds what the workload is permitted; alone it is
// the workload itself, if it may propose. A key or a certificate that is presented
// and not known is refused, whatever comes with it. Errors are Unauthenticated,
// Forbidden or Unavailable.
func (v *Verifier) Caller(ctx context.Context, c Credentials) (Caller, error) {
	w, odd, err := v.presented(ctx, c)
	switch {
	case err != nil:
		return Caller{}, err
	case c.Bearer == "" && odd != nil:
		return Caller{}, odd
	case c.Bearer == "" && w != nil:
		return w.caller()
	}
	r, err := v.verify(ctx, c.Bearer)
	if err != nil {
		return Caller{}, err
	}
	if err := r.mayPropose(); err != nil {
		return Caller{}, err
	}
	if err := v.checkBinding(c, r, odd); err != nil {
		return Caller{}, err
	}
	if err := w.beside(r); err != nil {
		return Caller{}, err
	}
	return Caller{v: r, workload: w, presented: present(c.Bearer, r)}, nil
}

// Person is Login for a token that nothing comes with.
func (v *Verifier) Person(ctx context.Context, bearer string) (Person, error) {
	return v.Login(ctx, Credentials{Bearer: bearer})
}

// Login says who answers or operates, from the token of an interactive login. With
// a workload's credential beside it the request is a program's, and refused.
func (v *Verifier) Login(ctx context.Context, c Credentials) (Person, error) {
	w, odd, err := v.presented(ctx, c)
	switch {
	case err != nil:
		return Person{}, err
	case w != nil:
		return Person{}, refuse(checkWorkload, record.Unauthenticated, "a workload's credential is not a person's; send the person's token alone")
	}
	r, err := v.verify(ctx, c.Bearer)
	if err != nil {
		return Person{}, err
	}
	if err := r.mayAnswer(); err != nil {
		return Person{}, err
	}
	if err := v.checkBinding(c, r, odd); err != nil {
		return Person{}, err
	}
	all := overlap(r.groups, v.operateAll)
	return Person{v: r, operates: all || overlap(r.groups, v.operate), all: all, reads: overlap(r.groups, v.read)}, nil
}

// Operator says who operates: a person of an operating group, or a workload that
// is permitted to. A request that presents both is refused, since it does not say
// which of them acts.
func (v *Verifier) Operator(ctx context.Context, c Credentials) (Operator, error) {
	r, err := v.staff(ctx, c, Operate)
	return Operator{r}, err
}

// Reader is as Operator, for those who only look.
func (v *Verifier) Reader(ctx context.Context, c Credentials) (Reader, error) {
	return v.staff(ctx, c, Read)
}

func (v *Verifier) staff(ctx context.Context, c Credentials, p Permission) (Reader, error) {
	w, odd, err := v.presented(ctx, c)
	switch {
	case err != nil:
		return Reader{}, err
	case w != nil && c.Bearer != "":
		return Reader{}, refuse(checkWorkload, record.Unauthenticated, "send either a person's token or a workload's credential, not both")
	case w != nil && odd != nil:
		return Reader{}, odd
	case w != nil && !w.May(p) && !w.May(Operate) && !w.May(OperateAll):
		return Reader{}, w.lacks(p, "")
	case w != nil:
		return Reader{tenant: w.tenant, name: "workload/" + w.name, principal: record.Principal{Issuer: WorkloadIssuer, Subject: w.name}, all: w.May(OperateAll)}, nil
	}
	person, err := v.Login(ctx, c)
	if err != nil {
		return Reader{}, err
	}
	if !person.Operates() && !(p == Read && person.Reads()) {
		return Reader{}, person.Lacks(p)
	}
	return Reader{tenant: person.Tenant(), name: person.Principal().String(), principal: person.Principal(), all: person.all}, nil
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
