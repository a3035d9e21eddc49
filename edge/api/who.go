package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
)

// key is a context key of this package.
type key int

const (
	keyCaller key = iota
	keyPerson
	keyOperator
	keyViewer
	keyCredentials
)

// check is a middleware that admits a kind of identity before the body is read.
type check func(context.Context, identity.Credentials) (context.Context, error)

// admits makes the middleware. The credentials are those of this very request.
func (d *door) admits(c check) huma.Middlewares {
	return huma.Middlewares{func(ctx huma.Context, next func(huma.Context)) {
		r, _ := humago.Unwrap(ctx)
		creds, err := identity.CredentialsOf(r)
		var with context.Context
		if err == nil {
			with, err = c(ctx.Context(), creds)
		}
		if err != nil {
			d.refuse(ctx, d.turnedAway(ctx, r, err))
			return
		}
		next(huma.WithContext(ctx, context.WithValue(with, keyCredentials, creds)))
	}}
}

// turnedAway makes the problem of a request that does not get in. A permission that
// somebody known lacks is recorded and named, like a missing scope.
func (d *door) turnedAway(ctx huma.Context, r *http.Request, err error) error {
	p, _ := d.refusal(err).(*Problem)
	if lack, ok := identity.LackOf(err); ok {
		if err := d.boundary.Lacks(ctx.Context(), lack, ctx.Operation().OperationID); err != nil {
			d.log.Error("an event was not recorded", "error", err)
		}
	}
	if p.Status == http.StatusUnauthorized && r.Header.Get("Authorization") == "" && r.Header.Get("Placet-Workload") == "" {
		p.header("WWW-Authenticate", d.oauth.Unauthenticated(doorName, false))
	}
	return p
}

// asCaller admits who may propose.
func (d *door) asCaller(ctx context.Context, creds identity.Credentials) (context.Context, error) {
	c, err := d.verifier.Caller(ctx, creds)
	if err != nil {
		return nil, err
	}
	if !c.Valid() {
		return nil, nobody()
	}
	if err := d.admit(ctx, c); err != nil {
		return nil, err
	}
	return context.WithValue(ctx, keyCaller, c), nil
}

func (d *door) admit(ctx context.Context, c identity.Caller) error {
	if d.ingress == nil {
		return nil
	}
	return d.ingress.Admit(ctx, c)
}

// asPerson admits who may answer. A program's key beside the token makes the
// request a program's, and a token that may propose is never a person's: both are
// refused, and the try is an event (rule D4).
func (d *door) asPerson(ctx context.Context, creds identity.Credentials) (context.Context, error) {
	p, err := d.verifier.Login(ctx, creds)
	if err == nil && p.Valid() {
		return context.WithValue(ctx, keyPerson, p), nil
	}
	if err != nil && record.KindOf(err) == record.Unavailable {
		return nil, err
	}
	c, err := d.verifier.Caller(ctx, creds)
	if err == nil && c.Valid() {
		if _, err := d.boundary.Refuse(ctx, c, "", record.CodeNone, "tried to answer an approval with a credential that may propose"); err != nil {
			d.log.Error("an event was not recorded", "error", err)
		}
		return nil, record.Errorf(record.Forbidden, "a credential that may propose cannot answer approvals; sign in to the console and use its token")
	}
	if lack, ok := identity.LackOf(err); ok {
		if err := d.boundary.Lacks(ctx, lack, "tried to answer an approval with a workload's credential"); err != nil {
			d.log.Error("an event was not recorded", "error", err)
		}
		return nil, record.Errorf(record.Forbidden, "a program's credential cannot answer approvals; a person must")
	}
	return nil, nobody()
}

// asOperator admits who may reconcile and activate.
func (d *door) asOperator(ctx context.Context, creds identity.Credentials) (context.Context, error) {
	o, err := d.verifier.Operator(ctx, creds)
	if err == nil && o.Valid() {
		return context.WithValue(ctx, keyOperator, o), nil
	}
	if err == nil {
		err = record.Errorf(record.Forbidden, "this key belongs to no tenant; name one for its workload in the configuration")
	}
	// Somebody known without the permission is forbidden, not unknown.
	if record.KindOf(err) == record.Unauthenticated {
		if c, cerr := d.verifier.Caller(ctx, creds); cerr == nil && c.Valid() {
			err = c.Lacks(identity.Operate)
		}
	}
	return nil, err
}

// viewer is who reads: a caller sees its own, an approver what they may answer,
// a reader the tenant.
type viewer struct {
	caller   identity.Caller
	person   identity.Person
	reader   identity.Reader
	operator identity.Operator // in place of reader, where an operation needs one
}

// all reports whether the viewer sees the whole tenant, and operators' texts.
func (v viewer) all() bool { return v.reader.Valid() || v.operator.Valid() }

func (d *door) asViewer(ctx context.Context, creds identity.Credentials) (context.Context, error) {
	v, err := d.viewer(ctx, creds)
	if err != nil {
		return nil, err
	}
	return context.WithValue(ctx, keyViewer, v), nil
}

// viewer finds out who a credential is for reading. The audiences are disjoint, so
// a token fits a caller or a person, never both; a program's key alone may be a
// reader's and a caller's, and then reads what readers do. The error told is the
// first one, unless a source of truth did not answer.
func (d *door) viewer(ctx context.Context, creds identity.Credentials) (viewer, error) {
	r, rerr := d.verifier.Reader(ctx, creds)
	if rerr == nil && r.Valid() {
		return viewer{reader: r}, nil
	}
	c, first := d.verifier.Caller(ctx, creds)
	if first == nil && c.Valid() {
		return viewer{caller: c}, d.admit(ctx, c)
	}
	p, perr := d.verifier.Login(ctx, creds)
	if perr == nil && p.Valid() {
		return viewer{person: p}, nil
	}
	for _, err := range []error{first, rerr, perr} {
		if err != nil && record.KindOf(err) == record.Unavailable {
			return viewer{}, err
		}
	}
	if _, known := identity.LackOf(rerr); known {
		return viewer{}, rerr
	}
	if first == nil {
		first = nobody()
	}
	return viewer{}, first
}

// asReader admits who may see the whole tenant.
func (d *door) asReader(ctx context.Context, creds identity.Credentials) (context.Context, error) {
	if _, err := d.verifier.Reader(ctx, creds); err != nil {
		if _, ok := identity.LackOf(err); ok {
			return nil, err
		}
	}
	v, err := d.viewer(ctx, creds)
	if err != nil {
		return nil, err
	}
	if !v.reader.Valid() {
		if v.caller.Valid() {
			return nil, v.caller.Lacks(identity.Read)
		}
		return nil, v.person.Lacks(identity.Read)
	}
	return context.WithValue(ctx, keyViewer, v), nil
}

func nobody() error {
	return record.Errorf(record.Unauthenticated, "the token is not one that this server accepts here")
}

func (v viewer) tenant() record.TenantID {
	switch {
	case v.caller.Valid():
		return v.caller.Owner().Tenant
	case v.reader.Valid():
		return v.reader.Tenant()
	default:
		return v.person.Tenant()
	}
}

// owner is the filter for lists: a caller's own, else none.
func (v viewer) owner() *record.Owner {
	if !v.caller.Valid() {
		return nil
	}
	o := v.caller.Owner()
	return &o
}

// sees reports whether a loaded call may be shown. Its tenant is compared too,
// although the query named it: two locks for the line between tenants.
func (v viewer) sees(l dispatch.Loaded) bool {
	if l.Call.Tenant == "" || l.Call.Tenant != v.tenant() {
		return false
	}
	switch {
	case v.caller.Valid():
		return l.Call.Owner == v.caller.Owner()
	case v.reader.Valid():
		return true
	default:
		return v.person.Valid() && l.Approval != nil &&
			l.Approval.Rule.Eligible(v.person.Principal(), v.person.Groups(), l.Call.Principal)
	}
}

// clear of a claim that outlives its credential: a stream asks again and again.
func (d *door) still(ctx context.Context, creds identity.Credentials, was viewer) (viewer, bool) {
	now, err := d.viewer(ctx, creds)
	if err != nil || now.tenant() != was.tenant() || now.reader.Valid() != was.reader.Valid() {
		return viewer{}, false
	}
	a, b := was.owner(), now.owner()
	return now, (a == nil) == (b == nil) && (a == nil || *a == *b)
}

func caller(ctx context.Context) identity.Caller {
	c, _ := ctx.Value(keyCaller).(identity.Caller)
	return c
}

func person(ctx context.Context) identity.Person {
	p, _ := ctx.Value(keyPerson).(identity.Person)
	return p
}

func operator(ctx context.Context) identity.Operator {
	o, _ := ctx.Value(keyOperator).(identity.Operator)
	return o
}

func watcher(ctx context.Context) viewer {
	v, _ := ctx.Value(keyViewer).(viewer)
	return v
}

func credentials(ctx context.Context) identity.Credentials {
	c, _ := ctx.Value(keyCredentials).(identity.Credentials)
	return c
}

func later(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// challenge says how to come back after a 401: with a proof where the token is
// bound to a key, else with a token.
func (d *door) challenge(err error) string {
	if dpop := identity.DPoPChallenge(err); dpop != "" {
		return d.oauth.Beside(doorName, dpop)
	}
	return d.oauth.Unauthenticated(doorName, true)
}
