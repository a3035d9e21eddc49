package registry

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/placet-dev/placet/record"
)

// Direction says which way a change goes.
type Direction string

const (
	Added     Direction = "added"     // more can be called than before
	Removed   Direction = "removed"   // no longer there, or no longer callable
	Weakened  Direction = "weakened"  // less is checked or asked than before
	Tightened Direction = "tightened" // more is checked or asked than before
	Changed   Direction = "changed"   // neither can be said
)

// Change is one difference between two snapshots, for people.
type Change struct {
	Direction Direction `json:"direction"`
	Subject   string    `json:"subject"` // "tool issue_refund", "server files"
	Detail    string    `json:"detail"`
	Place     string    `json:"place,omitempty"`
}

// Plan says what activating the new snapshot in place of the old one changes.
// A nil old one stands for an empty registry.
func Plan(old, new *Snapshot) []Change {
	if old == nil {
		old = newSnapshot("")
	}
	p := &planner{}
	p.servers(old, new)
	for _, name := range sortedKeysOf(new.all) {
		b := new.all[name]
		_, had := old.Tool(name)
		_, has := new.Tool(name)
		a := old.all[name]
		switch {
		case !had && has:
			p.add(Added, b, "can be called: "+strings.Join(marksOf(b), ", "))
		case had && !has:
			p.add(Removed, b, "is quarantined: "+new.quarantined[name])
		case !has && a == nil:
			p.add(Changed, b, "is named and quarantined: "+new.quarantined[name])
		case a != nil && a.Digest != b.Digest:
			p.compare(a, b)
		}
	}
	for _, name := range sortedKeysOf(old.all) {
		if new.all[name] == nil {
			p.add(Removed, old.all[name], "is no longer there")
		}
	}
	return p.changes
}

type planner struct{ changes []Change }

func (p *planner) add(d Direction, t *Tool, detail string) {
	p.changes = append(p.changes, Change{d, "tool " + t.Name, detail, t.Place})
}

func (p *planner) servers(old, new *Snapshot) {
	for _, name := range sortedKeysOf(new.servers) {
		a, b := old.servers[name], new.servers[name]
		switch {
		case a == nil:
			p.addServer(Added, b, "is new")
		case a.Digest != b.Digest:
			p.compareServers(a, b)
		}
	}
	for _, name := range sortedKeysOf(old.servers) {
		if new.servers[name] == nil {
			p.changes = append(p.changes, Change{Removed, "server " + name, "is no longer there", old.servers[name].Place})
		}
	}
}

func (p *planner) addServer(d Direction, s *Server, detail string) {
	p.changes = append(p.changes, Change{d, "server " + s.Name, detail, s.Place})
}

// compareServers names every setting that lets more through, and the rest as one.
func (p *planner) compareServers(a, b *Server) {
	if b.Stateless && !a.Stateless {
		p.addServer(Weakened, b, "sessions may be shared between principals")
	}
	if b.InputRequired && !a.InputRequired {
		p.addServer(Weakened, b, "may ask back during a call")
	}
	if b.Sampling && !a.Sampling {
		p.addServer(Weakened, b, "may ask the client's model during a call")
	}
	switch {
	case a.DispatchToken && !b.DispatchToken:
		p.addServer(Weakened, b, "calls carry no dispatch token any more")
	case b.DispatchToken && !a.DispatchToken:
		p.addServer(Tightened, b, "calls carry a dispatch token")
	}
	rest := *a // with what was named above as it is now
	rest.DispatchToken, rest.Stateless, rest.InputRequired = b.DispatchToken, a.Stateless || b.Stateless, a.InputRequired || b.InputRequired
	rest.Sampling = a.Sampling || b.Sampling
	if serverDigest(&rest) != b.Digest {
		p.addServer(Changed, b, "is reached in another way")
	}
}

// compare tells how a tool that stays callable changed. What it cannot weigh it
// still names, so that no change is silent.
func (p *planner) compare(a, b *Tool) {
	before := len(p.changes)
	p.flags(a, b)
	p.callers(a, b)
	p.limits(a, b)
	p.asking(a, b)
	p.repeats(a, b)
	p.retention(a, b)
	p.guards(a, b)
	p.labels(a, b)
	if pinChanged(a, b) {
		p.add(Changed, b, "the pinned description changed: "+strings.Join(changedParts(pinned(a), pinned(b)), ", "))
	}
	if a.Server != b.Server || a.Offered() != b.Offered() {
		p.add(Changed, b, fmt.Sprintf("runs as %s of %s, was %s of %s", b.Offered(), b.Server, a.Offered(), a.Server))
	}
	if len(p.changes) == before {
		p.add(Changed, b, "its server, wording or targets changed")
	}
}

func pinned(t *Tool) Offer {
	if t.Pin == nil {
		return Offer{}
	}
	return t.Pin.Offer
}

func pinChanged(a, b *Tool) bool {
	return (a.Pin == nil) != (b.Pin == nil) || a.Pin != nil && a.Pin.Digest != b.Pin.Digest
}

func marksOf(t *Tool) []string {
	var out []string
	for _, m := range []struct {
		set  bool
		name string
	}{{t.Read, "read"}, {t.Write, "write"}, {t.Destructive, "destructive"}, {t.Financial, "financial"}, {t.Sink, "sink"}} {
		if m.set {
			out = append(out, m.name)
		}
	}
	return out
}

func (p *planner) flags(a, b *Tool) {
	for _, f := range []struct {
		name     string
		was, now bool
		weakens  bool // whether setting it weakens
	}{
		{"read", a.Read, b.Read, true}, {"write", a.Write, b.Write, false},
		{"destructive", a.Destructive, b.Destructive, false}, {"financial", a.Financial, b.Financial, false},
		{"sink", a.Sink, b.Sink, false}, {"mode: observe", a.Observe, b.Observe, true},
		{"approval.self", a.Approval.Self, b.Approval.Self, true}, {"approval.purpose: required", a.Approval.Purpose, b.Approval.Purpose, false},
		{"approval.reason: required", a.Approval.Reason, b.Approval.Reason, false},
		{"approval.passkey", a.Approval.Passkey, b.Approval.Passkey, false},
		{"errors: no_effect", a.Errors == NoEffect, b.Errors == NoEffect, true}, {"unverified_lease", a.Unverified, b.Unverified, true},
		{"dispatch: queued", a.Queued, b.Queued, true}, {"schedules: allowed", a.Scheduled, b.Scheduled, true},
	} {
		if f.was == f.now {
			continue
		}
		verb := "is no longer set"
		if f.now {
			verb = "is set"
		}
		p.add(direction(f.now == f.weakens), b, f.name+" "+verb)
	}
}

func direction(weaker bool) Direction {
	if weaker {
		return Weakened
	}
	return Tightened
}

func (p *planner) callers(a, b *Tool) {
	if a.Scope != b.Scope {
		p.add(scopeDirection(a.Scope, b.Scope), b, fmt.Sprintf("scope %s, was %s", orNone(b.Scope), orNone(a.Scope)))
	}
	set(p, b, "callers.principals", a.Callers.Principals, b.Callers.Principals, true)
	set(p, b, "callers.tenants", a.Callers.Tenants, b.Callers.Tenants, true)
	set(p, b, "callers.agents", a.Callers.Agents, b.Callers.Agents, true)
	set(p, b, "callers.groups", a.Callers.Groups, b.Callers.Groups, true)
	set(p, b, "environments", a.Environments, b.Environments, true)
	set(p, b, "sources", a.Sources, b.Sources, false)
	if a.SourcesBelow != b.SourcesBelow {
		p.add(direction(a.SourcesBelow == record.Deny), b, "sources_below is "+string(b.SourcesBelow))
	}
}

func scopeDirection(was, now string) Direction {
	switch {
	case now == "":
		return Weakened
	case was == "":
		return Tightened
	}
	return Changed
}

func orNone(s string) string { return cmp.Or(s, "none") }

// set compares two lists of which membership lets something through. With
// nilIsAll no list at all lets everything through.
func set[T comparable](p *planner, t *Tool, what string, was, now []T, nilIsAll bool) {
	more := slices.ContainsFunc(now, func(v T) bool { return !slices.Contains(was, v) })
	fewer := slices.ContainsFunc(was, func(v T) bool { return !slices.Contains(now, v) })
	if nilIsAll && was == nil && now != nil {
		more, fewer = false, true
	} else if nilIsAll && was != nil && now == nil {
		more, fewer = true, false
	}
	switch {
	case more && fewer:
		p.add(Weakened, t, what+" names others, and not all that it did")
	case more:
		p.add(Weakened, t, what+" lets more through")
	case fewer:
		p.add(Tightened, t, what+" lets less through")
	}
}

func (p *planner) limits(a, b *Tool) {
	for _, l := range []struct {
		name     string
		was, now int
	}{{"per_minute", a.PerMinute, b.PerMinute}, {"per_run", a.PerRun, b.PerRun}, {"concurrent", a.Concurrent, b.Concurrent},
		{"per_tenant.per_minute", a.PerTenant.PerMinute, b.PerTenant.PerMinute}, {"per_tenant.concurrent", a.PerTenant.Concurrent, b.PerTenant.Concurrent}} {
		if l.was != l.now {
			// 0 is no limit, which is more than any.
			p.add(direction(l.now == 0 || l.was != 0 && l.now > l.was), b, fmt.Sprintf("%s is %d, was %d", l.name, l.now, l.was))
		}
	}
	if a.Timeout != b.Timeout {
		p.add(Changed, b, fmt.Sprintf("timeout is %s, was %s", b.Timeout, a.Timeout))
	}
	switch la, lb := a.AutonomousLimit, b.AutonomousLimit; {
	case la == nil && lb == nil:
	case la == nil:
		p.add(Weakened, b, "up to "+lb.Max.String()+" needs no question")
	case lb == nil:
		p.add(direction(b.Approval.When == Asked), b, "autonomous_limit is gone")
	case la.Argument != lb.Argument:
		p.add(Weakened, b, "autonomous_limit looks at "+lb.Argument+", was "+la.Argument)
	default:
		if c := lb.Max.Rat().Cmp(la.Max.Rat()); c != 0 {
			p.add(direction(c > 0), b, "autonomous_limit is "+lb.Max.String()+", was "+la.Max.String())
		}
		p.alone(la, lb, b)
	}
	if was, now := a.Cost.String(), b.Cost.String(); was != now {
		p.add(direction(b.Cost == nil), b, "cost is "+now+", was "+was)
	}
}

// alone compares how much needs no question in all.
func (p *planner) alone(was, now *Limit, t *Tool) {
	bound := func(name, a, b string, more bool) {
		if a != b {
			p.add(direction(more), t, fmt.Sprintf("autonomous_limit.%s is %s, was %s", name, cmp.Or(b, "without limit"), cmp.Or(a, "without limit")))
		}
	}
	x, y := was.PerTarget, now.PerTarget
	bound("per_target", x.String(), y.String(), !y.Given() || x.Given() && y.Rat().Cmp(x.Rat()) > 0)
	count := func(n int) string {
		if n == 0 {
			return ""
		}
		return strconv.Itoa(n)
	}
	bound("count", count(was.Count), count(now.Count), now.Count == 0 || was.Count != 0 && now.Count > was.Count)
	bound("within", was.Within.String(), now.Within.String(), now.Within < was.Within)
}

func strictness(w When) int {
	return slices.Index([]When{Asked, AboveLimit, Always}, w)
}

func (p *planner) asking(a, b *Tool) {
	x, y := a.Approval, b.Approval
	if x.When != y.When {
		p.add(direction(strictness(y.When) < strictness(x.When)), b, fmt.Sprintf("approval.when is %s, was %s", y.When, x.When))
	}
	if x.Quorum != y.Quorum {
		p.add(direction(y.Quorum < x.Quorum), b, fmt.Sprintf("approval.quorum is %d, was %d", y.Quorum, x.Quorum))
	}
	switch {
	case len(x.Approvers) > 0 && len(y.Approvers) == 0:
		p.add(Changed, b, "approval.approvers is the configured default, was "+strings.Join(x.Approvers, ", "))
	case len(x.Approvers) == 0 && len(y.Approvers) > 0:
		p.add(Changed, b, "approval.approvers is "+strings.Join(y.Approvers, ", ")+", was the configured default")
	default:
		set(p, b, "approval.approvers", x.Approvers, y.Approvers, false)
	}
	if x.Expires != y.Expires {
		p.add(direction(x.Expires != 0 && y.Expires > x.Expires), b, fmt.Sprintf("approval.expires is %s, was %s", orDefault(y.Expires), orDefault(x.Expires)))
	}
}

// guards compares what is asked of arguments. Two patterns cannot be weighed.
func (p *planner) guards(a, b *Tool) {
	for i := range b.Guards {
		g := &b.Guards[i]
		switch was := a.Guard(g.Argument); {
		case was == nil:
			p.add(Tightened, b, "guards "+g.Argument)
		case was.Lookup != nil && g.Lookup == nil:
			p.add(Weakened, b, g.Argument+" is not looked up any more")
		case was.Lookup == nil && g.Lookup != nil:
			p.add(Tightened, b, g.Argument+" is looked up with "+g.Lookup.Tool)
		case !reflect.DeepEqual(was.Spec, g.Spec) || was.Resource != g.Resource || was.Lookup != nil && *was.Lookup != *g.Lookup:
			p.add(Changed, b, "the guard of "+g.Argument+" is another")
		}
	}
	for _, g := range a.Guards {
		if b.Guard(g.Argument) == nil {
			p.add(Weakened, b, g.Argument+" is not guarded any more")
		}
	}
}

func orDefault(d time.Duration) string {
	if d == 0 {
		return "the default"
	}
	return d.String()
}

// retention changes what is kept of calls, and nothing that is checked.
func (p *planner) retention(a, b *Tool) {
	if a.Retention.Arguments != b.Retention.Arguments {
		p.add(Changed, b, fmt.Sprintf("record_arguments is %s, was %s", orNone(string(b.Retention.Arguments)), orNone(string(a.Retention.Arguments))))
	}
	if a.Retention.For != b.Retention.For {
		p.add(Changed, b, fmt.Sprintf("retention is %s, was %s", orDefault(b.Retention.For), orDefault(a.Retention.For)))
	}
}

func (p *planner) repeats(a, b *Tool) {
	if a.Repeat != b.Repeat {
		weaker := b.Repeat.Answer == RepeatRun || b.Repeat.Within < a.Repeat.Within
		p.add(direction(weaker), b, fmt.Sprintf("repeat is %s within %s, was %s within %s", b.Repeat.Answer, b.Repeat.Within, a.Repeat.Answer, a.Repeat.Within))
	}
	if a.Retry != b.Retry {
		weaker := a.Retry == RetryNever || a.Retry == RetryManual
		p.add(direction(weaker), b, fmt.Sprintf("retry is %s, was %s", b.Retry, a.Retry))
	}
	if a.IdempotencyArgument != b.IdempotencyArgument {
		p.add(direction(b.IdempotencyArgument == ""), b, "idempotency_argument is "+orNone(b.IdempotencyArgument))
	}
	if !slices.Equal(a.SameEffect, b.SameEffect) {
		// Fewer arguments make more calls equal, which protects more.
		weaker := b.SameEffect == nil || a.SameEffect != nil && len(b.SameEffect) > len(a.SameEffect)
		p.add(direction(weaker), b, "same_effect names other arguments")
	}
}
