package placet

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/policy"
	"github.com/placet-dev/placet/policy/rego"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
	toolmcp "github.com/placet-dev/placet/tool/mcp"
	"github.com/placet-dev/placet/yamlfile"
)

// Checked is what a configuration comes to, without a store and without a
// listener. Nothing is active through it.
type Checked struct {
	placet *Placet
	active dispatch.Active
	warned yamlfile.Problems
}

// Check goes the way of [Open] as far as it can without a store: identity,
// handlers, registry with its locks, policy, approvers. What it accepts, Open
// accepts.
func Check(ctx context.Context, o Options) (*Checked, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	p := &Placet{o: o, engine: rego.New()}
	if p.verifier, err = o.verifier(); err != nil {
		return nil, err
	}
	if _, err = o.handlers(); err != nil {
		return nil, err
	}
	if p.profiles, err = o.openProfiles(); err != nil {
		return nil, err
	}
	if _, err = p.receivers(); err != nil {
		return nil, err
	}
	if _, err = o.providers(); err != nil {
		return nil, err
	}
	c := &Checked{placet: p}
	if c.active, err = p.load(ctx, p.disk()); err != nil {
		return nil, err
	}
	c.warned = slices.Clone(c.active.Registry.Warnings())
	for t := range c.active.Registry.Tools() {
		if err := c.approvers(t); err != nil {
			return nil, err
		}
	}
	if d := c.active.Default; d != nil {
		c.unmapped(o.Config.File(), "approvals.default", d.Part, d.Self)
	}
	c.dottedNames()
	c.decisionPoints(ctx)
	if err := c.ownServers(ctx); err != nil {
		return nil, err
	}
	return c, c.fixtures()
}

// ownServers reads the files that HTTP operations and named queries stand in, and
// warns of those that cannot be used: their tools are not there then. Nobody is asked.
func (c *Checked) ownServers(ctx context.Context) error {
	o := c.placet.o
	servers := OpenServers(toolmcp.Options{Log: o.Log, Now: o.Clock, LookupEnv: o.LookupEnv, Version: o.Version}, o.world())
	for s := range c.active.Registry.Servers() {
		if s.Kind != registry.KindOperations && s.Kind != registry.KindQueries {
			continue
		}
		if _, err := servers.ListOffers(ctx, s); err != nil {
			c.warn(s.Place, "servers."+s.Name, err.Error())
		}
	}
	return servers.Close()
}

// decisionPoints warns of decision points whose metadata cannot be used. They need
// not be up for a start.
func (c *Checked) decisionPoints(ctx context.Context) {
	for _, d := range c.active.Points {
		p := d.(*point)
		if err := p.client.Check(ctx); err != nil {
			c.warn(c.placet.o.Config.File(), "decision_points."+p.config.Name, err.Error())
		}
	}
}

// approvers makes the check of an activation, and warns of questions that nobody
// is named for.
func (c *Checked) approvers(t *registry.Tool) error {
	part := record.ApprovalPart{Quorum: t.Approval.Quorum}
	for _, ref := range t.Approval.Approvers {
		if err := c.placet.approver(ref, &part); err != nil {
			return record.Errorf(record.Invalid, "%s: approver %q: %w", t.Place, ref, err)
		}
	}
	c.unmapped(t.Place, "tools."+t.Name+".approval", part, t.Approval.Self)
	if len(t.Approval.Approvers) == 0 && t.Approval.When != registry.Asked && c.active.Default == nil {
		c.warn(t.Place, "tools."+t.Name+".approval", "asks, and nobody is named to answer: such a call is denied; set approvers, or approvals.default in the configuration")
	}
	return nil
}

// fixtures warns of layers that nothing tests, and refuses fixtures that cannot be read.
func (c *Checked) fixtures() error {
	cfg := c.placet.o.Config
	for _, l := range cfg.Policy.Layers {
		count := 0
		for _, name := range l.Files {
			files, err := rego.ReadFiles(name)
			if err != nil {
				return fmt.Errorf("policy layer %q: %w", l.Name, err)
			}
			some, err := files.Fixtures()
			if err != nil {
				return fmt.Errorf("policy layer %q: %w", l.Name, err)
			}
			count += len(some)
		}
		if count == 0 {
			c.warn(cfg.File(), "policy.layers."+l.Name, "has no fixtures, so that placet policy test cannot tell when it weakens")
		}
	}
	if len(cfg.Issuers) == 0 {
		c.warn(cfg.File(), "issuers", "are none: nobody can call, except at placet dev")
	}
	return nil
}

func (c *Checked) warn(place, path, message string) {
	w := yamlfile.Problem{File: place, Path: path, Message: message}
	if i := strings.LastIndex(place, ":"); i > 0 {
		if _, err := fmt.Sscanf(place[i+1:], "%d", &w.Line); err == nil {
			w.File = place[:i]
		}
	}
	c.warned = append(c.warned, w)
}

// Warnings are what an operator should know and what is no error.
func (c *Checked) Warnings() yamlfile.Problems { return c.warned }

// Registry is the tools that would be active.
func (c *Checked) Registry() *registry.Snapshot { return c.active.Registry }

// Policy is the layers that would be active.
func (c *Checked) Policy() *policy.Set { return c.active.Policy }

// Overrides is every setting that weakens a default.
func (c *Checked) Overrides() []registry.Override { return c.active.Overrides }

// Verifier turns credentials into identities.
func (c *Checked) Verifier() *identity.Verifier { return c.placet.verifier }

// Listed is a tool, and whether a caller would see it.
type Listed struct {
	Tool   string `json:"tool"`
	Listed bool   `json:"listed"`
	Why    string `json:"why,omitempty"` // not; for operators
}

// Listed says of every tool whether a caller would see it, as far as the files
// and the token decide; whether the server still offers it is asked at the call.
func (c *Checked) Listed(who identity.Caller) []Listed {
	var out []Listed
	for _, row := range c.active.Registry.Inventory() {
		l := Listed{Tool: row.Tool}
		if t, ok := c.active.Registry.Tool(row.Tool); !ok {
			l.Why = "it is quarantined: " + row.Quarantined
		} else if scope, ok := t.Admits(who.Owner(), who.Scopes(), who.Groups()); ok {
			l.Listed = true
		} else if scope != "" {
			l.Why = "the token lacks the scope " + scope
		} else {
			l.Why = "callers of the entry (" + t.Place + ") does not name this tenant, principal, agent or one of its groups"
		}
		out = append(out, l)
	}
	return out
}
