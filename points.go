package placet

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/config"
	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/policy"
	"github.com/placet-dev/placet/policy/authzen"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
)

// point asks one AuthZEN decision point about the calls that it is for.
type point struct {
	config  config.DecisionPoint
	client  *authzen.Client
	fits    policy.For
	version string
}

var _ dispatch.DecisionPoint = (*point)(nil)

// points makes the configured decision points. It connects nowhere.
func (p *Placet) points(tools *registry.Snapshot) ([]dispatch.DecisionPoint, error) {
	var out []dispatch.DecisionPoint
	for _, c := range p.o.Config.Points {
		made, err := p.point(c)
		if err != nil {
			return nil, fmt.Errorf("decision point %q: %w", c.Name, err)
		}
		out = append(out, made)
	}
	if len(out) == 0 {
		return nil, nil
	}
	for t := range tools.Tools() {
		for _, g := range t.Guards {
			if g.Resource == kindTool {
				return nil, record.Errorf(record.Invalid, "%s: guards.%s.resource: %q is how decision points know tools themselves; name the kind otherwise", t.Place, g.Argument, kindTool)
			}
		}
	}
	return out, nil
}

func (p *Placet) point(c config.DecisionPoint) (*point, error) {
	out := &point{config: c}
	var err error
	if out.fits, err = p.fits(c.For); err != nil {
		return nil, err
	}
	token := ""
	if !c.Token.IsZero() {
		if token, err = c.Token.Read(p.o.LookupEnv, p.o.ReadFile); err != nil {
			return nil, record.Errorf(record.Invalid, "token: %w", err)
		}
	}
	out.client, err = authzen.New(authzen.Options{URL: c.URL, Discover: c.Discover, Batch: c.Batch, Semantic: authzen.Semantic(c.Semantic),
		Timeout: c.Timeout, Token: token, HTTP: p.o.HTTP, Random: p.o.Random, Clock: p.o.Clock})
	if err != nil {
		return nil, err
	}
	// The reference to the token is written redacted.
	text, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	out.version = canon.Of("placet/point/1", text, fmt.Appendf(nil, "%v", out.fits)).String()
	return out, nil
}

// observed reports whether the answer is recorded and not applied (rule H3).
func (p *point) observed() bool { return p.config.Mode == config.Observe }

// Judge implements dispatch.DecisionPoint.
func (p *point) Judge(ctx context.Context, a dispatch.Access) (dispatch.Judgement, bool, error) {
	owner := a.Caller.Owner()
	fits, err := p.fits.Fits(&policy.Input{
		Tool:      policy.Tool{Name: a.Tool.Name, Server: a.Tool.Server},
		Principal: policy.Principal{Principal: owner.Principal, Tenant: owner.Tenant, Groups: a.Caller.Groups(), GroupsKnown: true},
		Agent:     policy.Agent{ID: owner.Agent},
	})
	if err == nil && !fits {
		return dispatch.Judgement{}, false, nil
	}
	j := dispatch.Judgement{Rule: "decision point " + p.config.Name, Version: p.version, Observe: p.observed()}
	var d authzen.Decision
	if err == nil {
		d, err = p.client.Ask(ctx, p.question(a))
	}
	j.Allowed = err == nil && d.Allowed
	if err == nil && !d.Allowed {
		p.explain(&j, a, d)
	}
	return j, true, err
}

// explain says why a question was answered with no. What a decision point gives as
// the user's reason goes to the model only if the operator says so: it is text
// from elsewhere.
func (p *point) explain(j *dispatch.Judgement, a dispatch.Access, d authzen.Decision) {
	if d.ID != "" {
		j.Rule += " " + fmt.Sprintf("%.80q", d.ID)
	}
	if p.config.ShowReasons {
		j.Public = d.User
	}
	var why []string
	if d.Denied < len(a.Objects) {
		why = append(why, "what the argument "+a.Objects[d.Denied].Argument+" names")
	}
	for _, text := range []string{d.Admin, d.User} {
		if text != "" {
			why = append(why, text)
		}
	}
	j.Private = strings.Join(why, ": ")
}

// kindTool is the resource type of a tool itself, as the AuthZEN binding for MCP has it.
const kindTool = "tool"

// question says what a call means to a decision point. All of it is the registry's
// or the verified identity's, but for the purpose, which is the agent's text, and
// the arguments. A mapping that a server declares of itself (x-authzen-mapping) is
// not looked at: whoever is asked about does not choose the question.
func (p *point) question(a dispatch.Access) authzen.Question {
	owner, t := a.Caller.Owner(), a.Tool
	q := authzen.Question{
		Subject: authzen.Entity{Type: p.config.Subject.Type, ID: p.subject(owner), Properties: map[string]any{
			"tenant": owner.Tenant, "issuer": owner.Principal.Issuer, "agent": owner.Agent, "scopes": list(a.Caller.Scopes()),
		}},
		Action: authzen.Action{Name: t.Name, Properties: map[string]any{
			"read": t.Read, "write": t.Write, "destructive": t.Destructive, "financial": t.Financial, "sink": t.Sink,
		}},
		Context: map[string]any{"tenant": owner.Tenant, "agent": owner.Agent, "run": a.Run, "call": a.Call, "time": a.At.Format(time.RFC3339Nano)},
	}
	q.Subject.Properties["groups"], q.Subject.Properties["other_groups"] = groups(owner.Principal, a.Caller.Groups())
	if a.Purpose != "" {
		q.Context["purpose"] = a.Purpose
	}
	if p.config.SendArguments {
		q.Context["arguments"] = a.Arguments
	}
	for _, o := range a.Objects {
		kind := o.Resource
		if kind == "" {
			// Nobody says what it is. A name of its own keeps it apart from every kind,
			// and from tools.
			kind = t.Name + "." + o.Argument
		}
		q.Resources = append(q.Resources, authzen.Entity{Type: kind, ID: o.Value, Properties: map[string]any{"argument": o.Argument}})
	}
	if len(a.Objects) == 0 {
		q.Resources = []authzen.Entity{{Type: kindTool, ID: t.Name}}
	}
	return q
}

func (p *point) subject(o record.Owner) string {
	return strings.NewReplacer("{subject}", o.Principal.Subject, "{issuer}", o.Principal.Issuer, "{tenant}", string(o.Tenant)).Replace(p.config.Subject.ID)
}

// groups are told apart by issuer, as in a policy's input: an equal name that
// another issuer states is another group.
func groups(of record.Principal, all []record.Group) (own []string, others []map[string]string) {
	own, others = []string{}, []map[string]string{}
	for _, g := range all {
		if g.Issuer == of.Issuer {
			own = append(own, g.Name)
		} else {
			others = append(others, map[string]string{"issuer": g.Issuer, "name": g.Name})
		}
	}
	return own, others
}

// list writes no texts as [] and not as null.
func list(texts []string) []string { return append([]string{}, texts...) }

// override is the setting that weakens a default, if it does (rule H7).
func (p *point) override(place string) (registry.Override, bool) {
	return registry.Override{Setting: "mode", Subject: "decision point " + p.config.Name,
		Detail: "observe: its answers are recorded, not applied", Place: place}, p.observed()
}

// plannedPoints says what an activation changes about decision points.
func plannedPoints(now, next []dispatch.DecisionPoint) []string {
	var out []string
	had := map[string]*point{}
	for _, d := range now {
		if p, ok := d.(*point); ok {
			had[p.config.Name] = p
		}
	}
	for _, d := range next {
		p, ok := d.(*point)
		if !ok {
			continue
		}
		old := had[p.config.Name]
		delete(had, p.config.Name)
		switch {
		case old == nil:
			out = append(out, "added decision point "+p.config.Name)
		case old.config.Mode != p.config.Mode:
			out = append(out, fmt.Sprintf("changed decision point %s: mode is now %s", p.config.Name, p.config.Mode))
		case old.version != p.version:
			out = append(out, "changed decision point "+p.config.Name)
		}
	}
	for name := range had {
		out = append(out, "weakened: decision point "+name+" is gone")
	}
	return out
}
