package registry

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/yamlfile"
)

func (b *builder) fileTools(f File, lock *Lock, folder string) {
	for _, e := range f.Tools {
		t := b.tool(e.Key, e.Place, e.Value, f.Defaults)
		if t == nil {
			continue
		}
		server := b.snapshot.servers[t.Server]
		if server == nil {
			b.fail(e.Place, "tools."+t.Name+".server", "there is no server %q%s", t.Server, meant(t.Server, sortedKeysOf(b.snapshot.servers)))
			continue
		}
		if !b.present(t) {
			continue
		}
		if t.Method != MethodTool && server.Kind != KindMCP {
			b.fail(e.Place, "tools."+t.Name, "is no tool, and only MCP servers (url, command) have resources and prompts")
			continue
		}
		if t.Method == MethodCompletion {
			b.completions = append(b.completions, completion{t, lock, e.Place})
			continue
		}
		switch path := "tools." + t.Name + ".max_rows"; {
		case t.MaxRows < 0 || t.MaxRows > maxRows:
			b.fail(e.Place, path, "must be at most %d", maxRows)
		case t.MaxRows > 0 && server.Kind != KindQueries:
			b.fail(e.Place, path, "is for tools of a server with queries")
		}
		b.lease(t, server, e.Value, folder, e.Place)
		b.later(t, server, e.Value, e.Place)
		b.bounded(t, server, e.Place, e.Value.Network)
		b.pinTool(t, lock)
		b.finish(t)
	}
}

// maxRows bounds what one call of a named query may return.
const maxRows = 10_000

// tool checks an entry and fills its gaps; nil means that it was refused.
func (b *builder) tool(name string, place yamlfile.Place, e Entry, d Defaults) *Tool {
	path := "tools." + name
	switch first, twice := b.tools[name]; {
	case !toolName.MatchString(name):
		b.fail(place, path, "a tool's name is at most 64 lower-case letters, digits and _ . -, and starts with a letter")
		return nil
	case strings.HasPrefix(name, "placet_"):
		b.fail(place, path, "names that start with placet_ are reserved")
		return nil
	case twice:
		b.fail(place, path, "is named twice, first at %s", first)
		return nil
	}
	b.tools[name] = string(place)
	if strings.Contains(name, ".") {
		b.warn(place, path, "has a dot, which model providers refuse in tool names")
	}
	before := len(b.problems)
	t := &Tool{
		Name: name, Place: string(place), Server: e.Server, Upstream: cmp.Or(e.Tool, name),
		Scope: e.Scope, Environments: e.Environments,
		Read: e.Read, Write: e.Write, Destructive: e.Destructive, Financial: e.Financial, Sink: e.Sink,
		PerMinute: or(e.PerMinute, d.PerMinute), PerRun: e.PerRun, Concurrent: or(e.Concurrent, d.Concurrent),
		PerTenant: e.PerTenant, Timeout: or(e.Timeout, d.Timeout), Targets: e.Targets, SameEffect: e.SameEffect,
		IdempotencyArgument: e.IdempotencyArgument, Retry: or(e.Retry, d.Retry), Errors: e.Errors,
		Observe: e.Mode == "observe", Instead: e.Instead, MaxRows: e.MaxRows, Compensate: e.Compensate.Tool,
		Repeat: Repeat{e.Repeat.Within, e.Repeat.Answer}, Retention: Retention{e.RecordArguments, e.Retention},
	}
	b.reach(t, e, place, path)
	b.marks(t, place, path)
	b.callers(t, e.Callers, place, path)
	b.sources(t, e, place, path)
	b.arguments(t, e, place, path)
	b.guards(t, e, path)
	b.origins(t, e, place, path)
	b.autonomous(t, e, place, path)
	b.cost(t, e, place, path)
	b.approval(t, e, place, path)
	b.reconcile(t, e.Reconcile, place, path)
	b.retry(t, e, place, path)
	b.dryRun(t, e.DryRun, place, path)
	switch {
	case e.Retention < 0:
		b.fail(place, path+".retention", "must be 0 or more")
	case e.Retention > 0 && !t.Read && e.Retention < t.Repeat.Within:
		b.fail(place, path+".retention", "must be at least repeat.within (%s): until then an equal call may be answered with the result", t.Repeat.Within)
	}
	if len(b.problems) > before {
		return nil
	}
	return t
}

func or[T any](p *T, otherwise T) T {
	if p != nil {
		return *p
	}
	return otherwise
}

// present reports whether the tool exists in this environment.
func (b *builder) present(t *Tool) bool {
	return len(t.Environments) == 0 || slices.Contains(t.Environments, b.options.Environment)
}

func (b *builder) marks(t *Tool, place yamlfile.Place, path string) {
	changes := t.Write || t.Destructive || t.Financial
	switch {
	case !t.Read && !changes && !t.Sink:
		b.fail(place, path, "is unmarked: set read, write, destructive, financial or sink: true")
	case t.Read && changes:
		b.fail(place, path, "cannot be read and write, destructive or financial at once")
	}
	if t.Timeout <= 0 || t.Timeout > time.Hour {
		b.fail(place, path+".timeout", "must be more than 0 and at most 1h")
	}
}

func (b *builder) callers(t *Tool, c CallersEntry, place yamlfile.Place, path string) {
	if t.Scope == "" && !c.names() {
		b.fail(place, path, "needs a scope, or callers who are named")
	}
	if strings.ContainsAny(t.Scope, " \t\"\\") {
		b.fail(place, path+".scope", "is one scope, without spaces or quotes")
	}
	for _, ref := range c.Principals {
		p, err := b.principal(ref)
		if err != nil {
			b.fail(place, path+".callers.principals", "%s", err)
		}
		t.Callers.Principals = append(t.Callers.Principals, p)
	}
	for _, ref := range c.Groups {
		g, err := b.group("group:" + strings.TrimPrefix(ref, "group:"))
		if err != nil {
			b.fail(place, path+".callers.groups", "%s", err)
		}
		t.Callers.Groups = append(t.Callers.Groups, g)
	}
	for _, id := range c.Tenants {
		t.Callers.Tenants = append(t.Callers.Tenants, record.TenantID(id))
	}
	for _, id := range c.Agents {
		t.Callers.Agents = append(t.Callers.Agents, record.AgentID(id))
	}
	slices.Sort(t.Callers.Tenants)
	slices.Sort(t.Callers.Agents)
}

// group and principal resolve a reference. A name alone is a different person or
// group at each issuer, so without a resolver it is refused (rule I1).
func (b *builder) group(ref string) (record.Group, error) {
	if b.options.Group != nil {
		return b.options.Group(ref)
	}
	name, issuer, ok := cutLast(strings.TrimPrefix(ref, "group:"))
	if !ok {
		return record.Group{}, fmt.Errorf("%q names no issuer; write NAME@ISSUER", ref)
	}
	return record.Group{Issuer: issuer, Name: name}, nil
}

func (b *builder) principal(ref string) (record.Principal, error) {
	if b.options.Principal != nil {
		return b.options.Principal(ref)
	}
	subject, issuer, ok := cutLast(ref)
	if !ok {
		return record.Principal{}, fmt.Errorf("%q names no issuer; write SUBJECT@ISSUER", ref)
	}
	return record.Principal{Issuer: issuer, Subject: subject}, nil
}

// cutLast splits at the last @, since subjects are often mail addresses.
func cutLast(ref string) (before, after string, ok bool) {
	i := strings.LastIndex(ref, "@")
	if i <= 0 || i == len(ref)-1 {
		return "", "", false
	}
	return ref[:i], ref[i+1:], true
}

func (b *builder) sources(t *Tool, e Entry, place yamlfile.Place, path string) {
	t.SourcesBelow = record.RequiresApproval
	if e.SourcesBelow == "deny" {
		t.SourcesBelow = record.Deny
	}
	for _, s := range e.Sources {
		if slices.Contains(t.Sources, record.Source(s)) {
			b.fail(place, path+".sources", "lists %s twice", s)
		}
		t.Sources = append(t.Sources, record.Source(s))
	}
	switch {
	case e.Sources != nil && len(e.Sources) == 0:
		b.fail(place, path+".sources", "is empty; list a source or remove the key")
	case e.Sources == nil && t.Read:
		t.Sources = []record.Source{record.Direct, record.Vouched, record.Witnessed}
	case e.Sources == nil:
		t.Sources = []record.Source{record.Vouched, record.Witnessed}
	}
	slices.Sort(t.Sources)
}

func (b *builder) approval(t *Tool, e Entry, place yamlfile.Place, path string) {
	a := e.Approval
	path += ".approval"
	switch {
	case a.When != "":
	case t.AutonomousLimit != nil:
		a.When = AboveLimit
	case t.Read:
		a.When = Asked
	default:
		a.When = Always
	}
	if (a.When == AboveLimit) != (t.AutonomousLimit != nil) {
		b.fail(place, path+".when", "above_limit and autonomous_limit go together; this entry has one without the other")
	}
	for i, ref := range a.Approvers {
		if !approverRef(ref) {
			b.fail(place, fmt.Sprintf("%s.approvers[%d]", path, i), "wants group:NAME, group:NAME@ISSUER, principal:SUBJECT@ISSUER or principal")
		}
	}
	switch {
	case len(a.Approvers) == 0 && a.Quorum > 0:
		b.fail(place, path+".quorum", "needs approvers; without them the configured default holds")
	case len(a.Approvers) > 0 && a.Quorum == 0:
		a.Quorum = 1
	}
	if slices.Contains(a.Approvers, "principal") && !a.Self {
		b.fail(place, path+".approvers", "names the call's own principal, which needs self: true")
	}
	if people := len(a.Approvers); people > 0 && a.Quorum > people && !slices.ContainsFunc(a.Approvers, func(r string) bool { return strings.HasPrefix(r, "group:") }) {
		b.fail(place, path+".quorum", "is more than the %d approvers there are", people)
	}
	t.Approval = Approval{When: a.When, Approvers: a.Approvers, Quorum: a.Quorum, Self: a.Self, Expires: a.Expires, Purpose: a.Purpose == "required",
		Reason: a.Reason == "required", Passkey: a.Passkey}
}

func approverRef(ref string) bool {
	if ref == "principal" {
		return true
	}
	kind, name, ok := strings.Cut(ref, ":")
	if kind == "principal" {
		_, _, ok = cutLast(name)
		return ok
	}
	return ok && kind == "group" && name != "" && !strings.HasPrefix(name, "@") && !strings.HasSuffix(name, "@")
}

func (b *builder) retry(t *Tool, e Entry, place yamlfile.Place, path string) {
	switch {
	case t.Retry == RetryReconcile && !t.Reconcile.provesNothing() && e.Retry != nil:
		b.fail(place, path+".retry", "reconcile needs a reconcile that can prove that nothing happened: records, or values of nothing")
	case t.Retry == RetryReconcile && !t.Reconcile.provesNothing():
		t.Retry = RetryNever // a file's default is meant for the tools that can
	case t.Retry == RetrySafe && !t.Read && e.Retry != nil:
		b.fail(place, path+".retry", "safe is for read tools; use idempotent if the server honours the idempotency key")
	case t.Retry == RetrySafe && !t.Read:
		t.Retry = RetryNever // a file's default of safe is meant for its reads
	}
}
