package rego

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/placet-dev/placet/policy"
)

const inputVersion = policy.InputVersion

// build makes the input document as one term, as far as some layer of the engine
// can read it.
// The arguments and amounts always are: where they cannot be read, the answer is
// no, whatever the layers look at.
func (e *Engine) build(in *policy.Input) (any, error) {
	return e.document(in, need(e.needs.Load())|needArgs|needAmounts)
}

// document makes the members of the input that are needed. With everything it
// must equal what policy.Input's JSON form says; a test compares the two.
func (e *Engine) document(in *policy.Input, needs need) (*ast.Term, error) {
	n := &e.names
	var failed error
	pairs := make([][2]*ast.Term, 0, len(members))
	add := func(bit need, name *ast.Term, make func() (*ast.Term, error)) {
		if needs&bit == 0 || failed != nil {
			return
		}
		var v *ast.Term
		if v, failed = make(); failed == nil {
			pairs = append(pairs, pair(name, v))
		}
	}
	plain := func(t *ast.Term) (*ast.Term, error) { return t, nil }
	add(needVersion, n.version, func() (*ast.Term, error) { return plain(n.inputTag) })
	add(needTool, n.tool, func() (*ast.Term, error) { return e.tool(&in.Tool) })
	add(needArgs, n.args, func() (*ast.Term, error) { return e.object("args", in.Args) })
	add(needAmounts, n.amounts, func() (*ast.Term, error) { return e.amounts(in.Amounts) })
	add(needPrincipal, n.principal, func() (*ast.Term, error) { return e.principal(&in.Principal) })
	add(needAgent, n.agent, func() (*ast.Term, error) { return plain(object(pair(n.id, str(in.Agent.ID)))) })
	add(needRun, n.run, func() (*ast.Term, error) {
		return plain(object(
			pair(n.id, str(in.Run.ID)), pair(n.turn, integer(int64(in.Run.Turn))),
			pair(n.labels, e.list(in.Run.Labels)), pair(n.parent, str(in.Run.Parent))))
	})
	add(needCall, n.call, func() (*ast.Term, error) {
		return plain(object(
			pair(n.id, str(in.Call.ID)), pair(n.source, str(in.Call.Source)), pair(n.route, str(in.Call.Route)),
			pair(n.attempt, integer(int64(in.Call.Attempt))), pair(n.purpose, str(in.Call.Purpose))))
	})
	add(needTargets, n.targets, func() (*ast.Term, error) { return plain(e.targets(in.Targets)) })
	add(needOrigins, n.origins, func() (*ast.Term, error) { return plain(e.origins(in.Origins)) })
	add(needApproval, n.approval, func() (*ast.Term, error) { return plain(e.approval(in.Approval)) })
	add(needLimits, n.limits, func() (*ast.Term, error) { return e.limits(&in.Limits) })
	add(needEnv, n.env, func() (*ast.Term, error) { return plain(object(pair(n.name, str(in.Env)))) })
	add(needTime, n.time, func() (*ast.Term, error) {
		return plain(ast.StringTerm(in.Time.UTC().Format(time.RFC3339Nano)))
	})
	if failed != nil {
		return nil, failed
	}
	return object(pairs...), nil
}

// tool is cached: entries change only with the registry.
func (e *Engine) tool(t *policy.Tool) (*ast.Term, error) {
	var space [512]byte
	k := text(text(text(content(space[:0]), t.Name), t.Server), t.Version)
	k = text(k, t.Method)
	f := t.Flags
	k = text(k.flag(f.Read).flag(f.Write).flag(f.Destructive).flag(f.Financial).flag(f.Sink).flag(f.Privacy), t.Annotations)
	k = text(k, t.Network)
	if term, ok := e.tools.get(k); ok {
		return term, nil
	}
	annotations, err := e.object("tool.annotations", t.Annotations)
	if err != nil {
		return nil, err
	}
	n := &e.names
	term := object(
		pair(n.name, str(t.Name)), pair(n.server, str(t.Server)), pair(n.version, str(t.Version)), pair(n.method, str(t.Reached())),
		pair(n.flags, object(
			pair(n.read, boolean(f.Read)), pair(n.write, boolean(f.Write)), pair(n.destructive, boolean(f.Destructive)),
			pair(n.financial, boolean(f.Financial)), pair(n.sink, boolean(f.Sink)), pair(n.privacy, boolean(f.Privacy)))),
		pair(n.network, str(t.Network)), pair(n.annotations, annotations))
	e.tools.put(k, term)
	return term, nil
}

// principal is cached: it changes only with the token.
func (e *Engine) principal(p *policy.Principal) (*ast.Term, error) {
	var space [1024]byte
	k := text(text(text(content(space[:0]), p.Subject), p.Issuer), p.Tenant).flag(p.GroupsKnown)
	k = k.count(len(p.Scopes))
	for _, s := range p.Scopes {
		k = text(k, s)
	}
	k = k.count(len(p.Groups))
	for _, g := range p.Groups {
		k = text(text(k, g.Issuer), g.Name)
	}
	k = text(k, p.Claims)
	if term, ok := e.principals.get(k); ok {
		return term, nil
	}
	claims, err := e.object("principal.claims", p.Claims)
	if err != nil {
		return nil, err
	}
	n := &e.names
	var own, other []*ast.Term
	for _, g := range p.Groups {
		if g.Issuer == p.Issuer {
			own = append(own, str(g.Name))
		} else {
			other = append(other, object(pair(n.issuer, str(g.Issuer)), pair(n.name, str(g.Name))))
		}
	}
	term := object(
		pair(n.id, str(p.Subject)), pair(n.issuer, str(p.Issuer)), pair(n.tenant, str(p.Tenant)),
		pair(n.scopes, e.list(p.Scopes)), pair(n.groups, ast.ArrayTerm(own...)),
		pair(n.otherGroups, ast.ArrayTerm(other...)), pair(n.groupsKnown, boolean(p.GroupsKnown)),
		pair(n.claims, claims))
	e.principals.put(k, term)
	return term, nil
}

func (e *Engine) amounts(amounts map[string]string) (*ast.Term, error) {
	if len(amounts) == 0 {
		return e.empty.object, nil
	}
	pairs := make([][2]*ast.Term, 0, len(amounts))
	for name, amount := range amounts {
		v, err := decimal(amount)
		if err != nil {
			return nil, fmt.Errorf("amount %q: %w", name, err)
		}
		pairs = append(pairs, pair(str(name), v))
	}
	return object(pairs...), nil
}

func (e *Engine) limits(l *policy.Limits) (*ast.Term, error) {
	autonomous := e.empty.null
	if l.Autonomous != "" {
		var err error
		if autonomous, err = decimal(l.Autonomous); err != nil {
			return nil, fmt.Errorf("limits.autonomous: %w", err)
		}
	}
	n := &e.names
	return object(pair(n.callsInTurn, integer(l.CallsInTurn)), pair(n.callsInRun, integer(l.CallsInRun)),
		pair(n.autonomous, autonomous)), nil
}

func (e *Engine) targets(targets []policy.Target) *ast.Term {
	if len(targets) == 0 {
		return e.empty.array
	}
	n := &e.names
	out := make([]*ast.Term, len(targets))
	for i, t := range targets {
		out[i] = object(pair(n.argument, str(t.Argument)), pair(n.kind, str(t.Kind)), pair(n.value, str(t.Value)))
	}
	return ast.ArrayTerm(out...)
}

func (e *Engine) origins(origins map[string]string) *ast.Term {
	if len(origins) == 0 {
		return e.empty.object
	}
	pairs := make([][2]*ast.Term, 0, len(origins))
	for _, k := range slices.Sorted(maps.Keys(origins)) {
		pairs = append(pairs, pair(str(k), str(origins[k])))
	}
	return object(pairs...)
}

func (e *Engine) approval(a *policy.Approval) *ast.Term {
	if a == nil {
		return e.empty.null
	}
	n := &e.names
	return object(pair(n.id, str(a.ID)), pair(n.state, str(a.State)), pair(n.answers, integer(int64(a.Answers))))
}

func (e *Engine) list(items []string) *ast.Term {
	if len(items) == 0 {
		return e.empty.array
	}
	out := make([]*ast.Term, len(items))
	for i, s := range items {
		out[i] = str(s)
	}
	return ast.ArrayTerm(out...)
}
