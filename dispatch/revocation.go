package dispatch

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
)

// RevokeOrder is what an operator withdraws authority from.
type RevokeOrder struct {
	Kind       record.RevokedKind
	Name       string           // of the tool, server, profile, tenant, agent, run, schedule or session
	Version    canon.Digest     // with RevokedVersion
	Person     record.Principal // with RevokedPrincipal
	Tenant     record.TenantID  // where it holds; empty: in the operator's own
	Everywhere bool             // in every tenant
	For        time.Duration    // how long; 0: until it is undone
	Reason     string
}

// CaughtCall is an attempt that was running when its authority was withdrawn, as it is now.
type CaughtCall struct {
	record.CallRef
	Tool  string
	State record.State
}

// Revoke withdraws authority (rule C3). On return it is durable, what waited is ended
// with its questions, and no call starts on what was withdrawn, on any replica: a
// reservation that was not durable before is refused. What runs already is asked to
// stop and finishes as it finishes; the revocation lists it.
func (b *Boundary) Revoke(ctx context.Context, o identity.Operator, order RevokeOrder) (record.Revocation, error) {
	began := time.Now()
	r, run, err := b.revocation(ctx, o, order)
	if err != nil {
		return record.Revocation{}, err
	}
	change, err := record.Revoke(r)
	if err != nil {
		return record.Revocation{}, err
	}
	if err := b.apply(ctx, change); err != nil {
		return record.Revocation{}, err
	}
	b.stopRevoked(ctx)
	b.onRevoked(time.Since(began))
	b.withdraw(ctx, run.Delegation)
	made, err := b.store.Revocation(ctx, r.Tenant, r.ID)
	if err != nil {
		return r, nil // it is made; what it caught can be read later
	}
	return made, nil
}

// revocation makes an order ready, and finds the run that it names.
func (b *Boundary) revocation(ctx context.Context, o identity.Operator, order RevokeOrder) (record.Revocation, record.Run, error) {
	fail := func(err error) (record.Revocation, record.Run, error) { return record.Revocation{}, record.Run{}, err }
	now := b.clock()
	tenant, err := scopeOf(o, order)
	switch {
	case err != nil:
		return fail(err)
	case strings.TrimSpace(order.Reason) == "" || len(order.Reason) > maxNote:
		return fail(record.Errorf(record.Invalid, "state the reason, in at most %d bytes", maxNote))
	case order.For < 0:
		return fail(record.Errorf(record.Invalid, "a revocation lasts longer than nothing"))
	case len(order.Name) > 4*maxLabel:
		return fail(record.Errorf(record.Invalid, "the name is too long"))
	}
	id, err := record.NewID("rev", now, b.random)
	if err != nil {
		return fail(record.Because(record.Unavailable, err, "no ID could be made"))
	}
	r := record.Revocation{ID: record.RevocationID(id), Tenant: tenant, Kind: order.Kind, Name: order.Name, Reason: order.Reason,
		Who: record.Who{Workload: o.Name()}, At: now}
	if order.For > 0 {
		r.Expires = now.Add(order.For)
	}
	run, err := b.aim(ctx, &r, order)
	return r, run, err
}

// scopeOf is where a revocation holds. Beyond the operator's tenant it is the server's
// owners' to say.
func scopeOf(o identity.Operator, order RevokeOrder) (record.TenantID, error) {
	tenant := order.Tenant
	if order.Kind == record.RevokedTenant {
		tenant = record.TenantID(order.Name)
		if tenant == "" || order.Everywhere || order.Tenant != "" && order.Tenant != tenant {
			return "", record.Errorf(record.Invalid, "name one tenant")
		}
	}
	switch {
	case !o.Valid():
		return "", record.Errorf(record.Forbidden, "revoking needs the operate permission")
	case order.Everywhere && order.Tenant != "":
		return "", record.Errorf(record.Invalid, "name one tenant, or say everywhere")
	case (order.Everywhere || tenant != "" && tenant != o.Tenant()) && !o.Everywhere():
		return "", record.Errorf(record.Forbidden, "revoking beyond your own tenant needs the permission operate_all")
	case order.Everywhere:
		return "", nil
	case tenant == "":
		return o.Tenant(), nil
	}
	return tenant, nil
}

// aim fills in what a revocation names, and refuses what is not there: a name that is
// mistyped would stop nothing.
func (b *Boundary) aim(ctx context.Context, r *record.Revocation, order RevokeOrder) (record.Run, error) {
	none := record.Run{}
	a := b.now.Load()
	switch r.Kind {
	case record.RevokedTool, record.RevokedVersion:
		if !toolName(r.Name) {
			return none, record.Errorf(record.Invalid, "name a tool as the registry does")
		}
		if r.Kind == record.RevokedVersion {
			r.Version = order.Version
			return none, nil
		}
		if _, ok := lookUpTool(a, r.Name); !ok {
			return none, record.Errorf(record.Invalid, "the registry has no tool %q, so nothing calls it; placet tools lists them", r.Name)
		}
	case record.RevokedServer:
		if a == nil {
			break
		}
		if _, ok := a.Registry.Server(r.Name); !ok {
			return none, record.Errorf(record.Invalid, "the registry has no server %q, so nothing is called there", r.Name)
		}
	case record.RevokedCredential:
		if r.Tools = calledWith(a, r.Name); len(r.Tools) == 0 {
			return none, record.Errorf(record.Invalid, "no tool of the registry is called with the credential %q", r.Name)
		}
	case record.RevokedPrincipal:
		if order.Person.Issuer == "" || order.Person.Subject == "" {
			return none, record.Errorf(record.Invalid, "name the person by subject and issuer")
		}
		r.People, r.Name = b.people().Logins(order.Person), ""
	case record.RevokedRun:
		if order.Everywhere {
			return none, record.Errorf(record.Invalid, "a run is in one tenant")
		}
		if !record.ValidID("run", r.Name) {
			return none, record.Errorf(record.NotFound, "there is no such run here")
		}
		return b.store.Run(ctx, r.Tenant, record.RunID(r.Name))
	case record.RevokedAgent, record.RevokedSchedule, record.RevokedSession:
		if r.Name == "" {
			return none, record.Errorf(record.Invalid, "say which %s", r.Kind)
		}
	case record.RevokedTenant, record.RevokedAll:
		r.Name = string(r.Tenant)
	}
	return none, nil
}

func lookUpTool(a *active, name string) (*registry.Tool, bool) {
	if a == nil {
		return nil, true // nothing is active: nothing says that it is mistyped
	}
	return a.Registry.Tool(name)
}

// calledWith lists the tools whose servers are called with a credential's profile.
func calledWith(a *active, profile string) []string {
	var out []string
	if a == nil || profile == "" {
		return nil
	}
	for t := range a.Registry.Tools() {
		if s, ok := a.Registry.Server(t.Server); ok && s.Credential == profile {
			out = append(out, t.Name)
		}
	}
	return out
}

// UndoRevocation gives back what a revocation took. What it ended stays ended. tenant is
// where it holds; empty: in the operator's own, or everywhere.
func (b *Boundary) UndoRevocation(ctx context.Context, o identity.Operator, tenant record.TenantID, id record.RevocationID, why string) (record.Revocation, error) {
	switch {
	case !o.Valid():
		return record.Revocation{}, record.Errorf(record.Forbidden, "undoing needs the operate permission")
	case strings.TrimSpace(why) == "" || len(why) > maxNote:
		return record.Revocation{}, record.Errorf(record.Invalid, "state the reason, in at most %d bytes", maxNote)
	case tenant != "" && tenant != o.Tenant() && !o.Everywhere():
		return record.Revocation{}, noRevocation(id)
	}
	r, err := b.Revocation(ctx, cmp.Or(tenant, o.Tenant()), id)
	switch {
	case err != nil:
		return r, err
	case r.Tenant == "" && !o.Everywhere():
		return record.Revocation{}, record.Errorf(record.Forbidden, "this holds in every tenant; undoing it needs the permission operate_all")
	}
	change, err := record.Undo(r, record.Who{Workload: o.Name()}, why, b.clock())
	if err != nil {
		return r, err
	}
	if err := b.apply(ctx, change); err != nil {
		return r, err
	}
	return change.Facts().Revocation.After, nil
}

func noRevocation(id record.RevocationID) error {
	return record.Errorf(record.NotFound, "there is no revocation %q here", id)
}

// Revocation returns a revocation that holds in a tenant: its own, or one of all.
func (b *Boundary) Revocation(ctx context.Context, tenant record.TenantID, id record.RevocationID) (record.Revocation, error) {
	if !record.ValidID("rev", string(id)) {
		return record.Revocation{}, record.Errorf(record.NotFound, "there is no such revocation here")
	}
	r, err := b.store.Revocation(ctx, tenant, id)
	if err != nil && record.KindOf(err) == record.NotFound {
		r, err = b.store.Revocation(ctx, "", id)
	}
	if err != nil && record.KindOf(err) == record.NotFound {
		err = noRevocation(id)
	}
	return r, err
}

// Revocations lists what is revoked now in a tenant and everywhere.
func (b *Boundary) Revocations(ctx context.Context, tenant record.TenantID) ([]record.Revocation, error) {
	rs, err := b.store.Revocations(ctx, tenant)
	now := b.clock()
	return slices.DeleteFunc(slices.Clone(rs.List), func(r record.Revocation) bool { return !r.Live(now) }), err
}

// ListRevocations lists what was revoked in a tenant and everywhere, newest first, and
// where the next page begins, if there is one. Without q.Ended only what counts now.
func ListRevocations(ctx context.Context, r Reader, q RevocationQuery, now time.Time) (list []record.Revocation, next record.RevocationID, err error) {
	for _, of := range []record.TenantID{q.Tenant, ""} {
		q.Tenant = of
		some, err := r.ListRevocations(ctx, q)
		if err != nil {
			return nil, "", err
		}
		list = append(list, some...)
	}
	slices.SortFunc(list, func(a, b record.Revocation) int { return cmp.Compare(b.ID, a.ID) })
	if len(list) >= q.Size() {
		list = list[:q.Size()]
		next = list[len(list)-1].ID
	}
	return slices.DeleteFunc(list, func(r record.Revocation) bool { return !q.Ended && !r.Live(now) }), next, nil
}

// Caught says what became of the attempts that a revocation asked to stop: those of a
// tenant, or of all where that is empty.
func (b *Boundary) Caught(ctx context.Context, tenant record.TenantID, r record.Revocation) ([]CaughtCall, error) {
	var out []CaughtCall
	for _, ref := range r.Caught.Calls {
		if tenant != "" && ref.Tenant != tenant {
			continue
		}
		l, err := b.store.Call(ctx, ref.Tenant, ref.ID)
		if err != nil {
			return out, err
		}
		out = append(out, CaughtCall{ref, l.Call.Tool.Name, l.Call.State})
	}
	return out, nil
}

// checkRevoked is rule C3's cheap half: whoever lost their authority is told so before
// anything is asked of servers, limits and policies. The fence that it reads is what the
// commit holds it to.
func (e *evaluation) checkRevoked(ctx context.Context) bool {
	rs, err := e.b.store.Revocations(ctx, e.call.Tenant)
	if err != nil {
		return e.say(record.Reason{Rule: "revocations", Verdict: record.Deny, Code: record.CodeCannotDecide, Private: err.Error()})
	}
	e.revoked, e.fenced = rs, true
	if len(rs.List) == 0 {
		return true
	}
	names := e.call.Names()
	names.Tool.Name, names.Tool.Server, names.Tool.Version, names.Credential = e.tool.Name, e.tool.Server, e.tool.Digest, e.server.Credential
	if id, ok := strings.CutPrefix(e.run.Label, record.SchedulePrefix); ok && e.call.Route == record.RouteSchedule {
		names.Schedule = id // a read's occurrence does not say it
	}
	if rs.ByRun() {
		if names.Runs, err = e.b.lineOf(ctx, e.run); err != nil {
			return e.say(record.Reason{Rule: "revocations", Verdict: record.Deny, Code: record.CodeCannotDecide, Private: err.Error()})
		}
	}
	if r := rs.Stopped(names, e.now); r != nil {
		return e.say(revoked(*r))
	}
	return true
}

// revoked is why a call is denied. The operator's words are for operators; what an
// agent does with them is not known.
func revoked(r record.Revocation) record.Reason {
	until := "until an operator undoes it"
	if !r.Expires.IsZero() {
		until = "until " + r.Expires.Format(time.RFC3339)
	}
	return record.Reason{Rule: "revocation " + string(r.ID), Verdict: record.Deny, Code: record.CodeRevoked,
		Private: fmt.Sprintf("%s is revoked by %s %s: %s", r.What(), r.Who.Workload, until, r.Reason),
		Instead: "An operator has stopped this. Do not try it again or by other means; tell the user that it is stopped."}
}

// lineOf is a run with all above it.
func (b *Boundary) lineOf(ctx context.Context, run record.Run) ([]record.RunID, error) {
	out := []record.RunID{run.ID}
	for depth := 0; run.Parent != "" && depth < 64; depth++ {
		var err error
		if run, err = b.store.Run(ctx, run.Tenant, run.Parent); err != nil {
			return out, err
		}
		out = append(out, run.ID)
	}
	return out, nil
}

// stopped reports whether a call that exists has lost its authority. What cannot be
// read is not known to be so: the reservation's fence does not rest on it.
func (b *Boundary) stopped(ctx context.Context, c record.Call) bool {
	rs, err := b.store.Revocations(ctx, c.Tenant)
	if err != nil || len(rs.List) == 0 {
		return false
	}
	return rs.Stopped(b.names(ctx, c, rs), b.clock()) != nil
}

// names is what a call names, with the profile that its server is called with now and
// the runs above its own.
func (b *Boundary) names(ctx context.Context, c record.Call, rs record.Revocations) record.Named {
	n := c.Names()
	if a := b.now.Load(); a != nil {
		if s, ok := a.Registry.Server(c.Tool.Server); ok {
			n.Credential = s.Credential
		}
	}
	if rs.ByRun() {
		if run, err := b.store.Run(ctx, c.Tenant, c.Run); err == nil {
			n.Runs, _ = b.lineOf(ctx, run)
		}
	}
	return n
}

// counted are the answers of a question that no revocation takes back (rule D5).
func (e *evaluation) counted(q record.Approval) []record.Reply {
	var out []record.Reply
	for _, a := range q.Answers {
		if e.revoked.Silenced(q.Tenant, a, e.now) == nil {
			out = append(out, a)
		}
	}
	return out
}

// maySay refuses the answer of whoever is revoked, or whose login is.
func (b *Boundary) maySay(ctx context.Context, tenant record.TenantID, r record.Reply) error {
	rs, err := b.store.Revocations(ctx, tenant)
	if err != nil {
		return err
	}
	if by := rs.Silenced(tenant, r, r.At); by != nil {
		return record.Errorf(record.Forbidden, "your yes does not count: %s was revoked by an operator", by.Kind)
	}
	return nil
}

// lists reports whether a tool is not revoked for a caller.
func (rs revokedFor) lists(t *registry.Tool, s *registry.Server) bool {
	n := record.Named{Owner: rs.owner, Tool: record.ToolRef{Name: t.Name, Server: t.Server, Version: t.Digest}, Credential: s.Credential}
	return rs.Stopped(n, rs.now) == nil
}

// revokedFor is what is revoked, for one caller at one time.
type revokedFor struct {
	record.Revocations
	owner record.Owner
	now   time.Time
}

// attempt is a call that this process runs.
type attempt struct {
	call record.Call
	stop context.CancelFunc
}

// watchEvery is how often a process that runs calls looks whether another one revoked
// something.
const watchEvery = 250 * time.Millisecond

// watchRevoked asks attempts to stop whose authority was withdrawn elsewhere, until ctx
// ends. With nothing running it asks nothing of the store.
func (b *Boundary) watchRevoked(ctx context.Context) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	seen := int64(-1)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if !b.runs() {
			continue
		}
		moves, err := b.store.RevocationMoves(ctx)
		if err != nil || moves == seen {
			continue
		}
		b.stopRevoked(ctx)
		seen = moves
	}
}

func (b *Boundary) runs() (some bool) {
	b.running.Range(func(_, _ any) bool { some = true; return false })
	return some
}

// stopRevoked asks attempts of this process to stop whose authority was withdrawn.
func (b *Boundary) stopRevoked(ctx context.Context) {
	b.running.Range(func(_, v any) bool {
		if a := v.(attempt); b.stopped(ctx, a.call) {
			a.stop()
		}
		return true
	})
}
