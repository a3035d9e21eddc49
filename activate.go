package placet

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/config"
	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/issuer"
	"github.com/placet-dev/placet/policy"
	"github.com/placet-dev/placet/policy/rego"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
	"github.com/placet-dev/placet/trust"
	"github.com/placet-dev/placet/version"
)

// load reads what the configuration names: registry, locks and layers, from the disk or
// from a stored version.
func (p *Placet) load(ctx context.Context, from *version.Reader) (dispatch.Active, error) {
	c := p.o.Config
	snapshot, err := registry.Load(c.Registry, registry.Options{
		Environment: c.Environment, Group: p.verifier.ResolveGroup, Principal: p.resolvePrincipal,
		Declared: p.o.declared(), ReadFile: from.ReadFile, Measure: p.measure(ctx), Own: p.o.ownFiles(),
	})
	if err != nil {
		// Whoever reloads may read what is wrong with the files.
		return dispatch.Active{}, record.Errorf(record.Invalid, "%w", err)
	}
	if err := p.checkCredentials(snapshot); err != nil {
		return dispatch.Active{}, err
	}
	if err := p.checkPasskeys(snapshot); err != nil {
		return dispatch.Active{}, err
	}
	layers, err := p.layers(from)
	if err != nil {
		return dispatch.Active{}, err
	}
	set, err := policy.NewSet(layers, c.Policy.Timeout, func(_ *policy.Input, ref string, part *record.ApprovalPart) error {
		return p.approver(ref, part)
	})
	if err != nil {
		return dispatch.Active{}, err
	}
	a := dispatch.Active{Registry: snapshot, Policy: set, Approver: p.approver, Environment: c.Environment}
	digest := [][]byte{snapshot.Digest().Bytes(), []byte(c.Environment)}
	parts := partsOf(snapshot)
	parts.add("environment", []byte(c.Environment))
	for _, l := range layers {
		made := l.Version()
		of := [][]byte{[]byte(l.Name()), made[:], []byte(l.Mode()), fmt.Appendf(nil, "%v", l.For())}
		digest = append(digest, of...)
		parts.add("layer "+l.Name(), of...)
		if l.Mode() == policy.Observe {
			a.Overrides = append(a.Overrides, registry.Override{Setting: "mode", Subject: "policy layer " + l.Name(),
				Detail: "observe: its verdicts are recorded, not applied", Place: c.File()})
		}
	}
	if a.Points, err = p.points(snapshot); err != nil {
		return dispatch.Active{}, err
	}
	for _, d := range a.Points {
		made := d.(*point)
		digest = append(digest, []byte("decision point"), []byte(made.version))
		parts.add("decision point "+made.config.Name, []byte(made.version))
		if o, weak := made.override(c.File()); weak {
			a.Overrides = append(a.Overrides, o)
		}
	}
	for _, agent := range c.Agents {
		if agent.Value.Only == "read" {
			if a.OnlyRead == nil {
				a.OnlyRead = map[record.AgentID]bool{}
			}
			a.OnlyRead[record.AgentID(agent.Key)] = true
			digest = append(digest, []byte("only read"), []byte(agent.Key))
			parts.add("agents."+agent.Key, []byte("only read"))
		}
	}
	if d := c.Approvals.Default; d != nil {
		a.Default = &dispatch.DefaultRule{Part: record.ApprovalPart{From: "approvals.default", Quorum: max(d.Quorum, 1)}, Expires: d.Expires,
			Reason: d.Reason == "required", Passkey: d.Passkey}
		for _, ref := range d.Approvers {
			if err := p.approver(ref, &a.Default.Part); err != nil {
				return dispatch.Active{}, fmt.Errorf("approvals.default: %w", err)
			}
		}
		of := fmt.Appendf(nil, "%v %v", d, a.Default.Part)
		digest = append(digest, of)
		parts.add("approvals.default", of)
	}
	if a.People, err = p.statedPeople(); err != nil {
		return dispatch.Active{}, err
	}
	if len(c.Identities) > 0 {
		of := fmt.Appendf(nil, "%q", c.Identities)
		digest = append(digest, []byte("identities"), of)
		parts.add("identities", of)
		a.Overrides = append(a.Overrides, p.identityOverrides()...)
	}
	if len(c.Credentials) > 0 {
		digest = append(digest, describe(c.Credentials))
		parts.add("credentials", describe(c.Credentials))
	}
	if len(c.Providers) > 0 {
		if err := p.checkProviders(snapshot); err != nil {
			return dispatch.Active{}, err
		}
		digest = append(digest, []byte("providers"), describeProviders(c.Providers))
		parts.add("providers", describeProviders(c.Providers))
		a.Overrides = append(a.Overrides, providerOverrides(c)...)
	}
	if c.Policy.Sent != "" {
		a.Overrides = append(a.Overrides, registry.Override{Setting: "sent", Subject: "policy",
			Detail: "operators may activate registry and policy files that they send", Place: c.File()})
	}
	weak, err := checkQueries(snapshot)
	if err != nil {
		return dispatch.Active{}, err
	}
	a.Overrides = append(append(a.Overrides, snapshot.Overrides()...), weak...)
	a.Digest = canon.Of("placet/active/1", digest...).String()
	a.Parts = parts.list
	readServerFiles(snapshot, from)
	a.Files, err = version.Encode(from.Seen())
	return a, err
}

// layers compiles the policy, each layer alone (rule H1).
func (p *Placet) layers(from *version.Reader) ([]policy.Layer, error) {
	var out []policy.Layer
	for _, l := range p.o.Config.Policy.Layers {
		files := rego.Files{}
		for _, name := range l.Files {
			read, err := from.ReadTree(name, policyFiles)
			if err != nil {
				return nil, fmt.Errorf("policy layer %q: %w", l.Name, err)
			}
			for path, text := range read {
				if _, twice := files[path]; twice {
					return nil, record.Errorf(record.Invalid, "policy layer %q: two of its folders hold a file %q", l.Name, path)
				}
				files[path] = text
			}
		}
		fits, err := p.fits(l.For)
		if err != nil {
			return nil, fmt.Errorf("policy layer %q: %w", l.Name, err)
		}
		layer, err := p.engine.Load(rego.Source{Name: l.Name, Files: files, Query: l.Query, Mode: policy.Mode(l.Mode), For: fits})
		if err != nil {
			return nil, err
		}
		out = append(out, layer)
	}
	return out, nil
}

func (p *Placet) fits(f config.For) (policy.For, error) {
	out := policy.For{Servers: f.Servers, Tools: f.Tools}
	for _, t := range f.Tenants {
		out.Tenants = append(out.Tenants, record.TenantID(t))
	}
	for _, a := range f.Agents {
		out.Agents = append(out.Agents, record.AgentID(a))
	}
	for _, g := range f.Groups {
		group, err := p.verifier.ResolveGroup("group:" + strings.TrimPrefix(g, "group:"))
		if err != nil {
			return out, err
		}
		out.Groups = append(out.Groups, group)
	}
	return out, nil
}

// approver resolves a reference to whom may answer: group:NAME[@ISSUER],
// principal:SUBJECT@ISSUER, or principal, the call's own.
func (p *Placet) approver(ref string, part *record.ApprovalPart) error {
	switch {
	case ref == "principal":
		part.Principal = true
		return nil
	case strings.HasPrefix(ref, "group:"):
		g, err := p.verifier.ResolveGroup(ref)
		if err == nil {
			part.Groups = append(part.Groups, g)
		}
		return err
	case strings.HasPrefix(ref, "principal:"):
		who, err := p.resolvePrincipal(strings.TrimPrefix(ref, "principal:"))
		if err == nil {
			part.People = append(part.People, who)
		}
		return err
	}
	return record.Errorf(record.Invalid, "%q names nobody; write group:NAME, group:NAME@ISSUER or principal:SUBJECT@ISSUER", ref)
}

// resolvePrincipal reads SUBJECT@ISSUER, or SUBJECT where one issuer is configured.
func (p *Placet) resolvePrincipal(ref string) (record.Principal, error) {
	issuers := p.issuers()
	best := record.Principal{}
	for _, i := range issuers {
		if subject, ok := strings.CutSuffix(ref, "@"+i); ok && len(i) > len(best.Issuer) {
			best = record.Principal{Issuer: i, Subject: subject}
		}
	}
	switch {
	case best.Issuer != "" && best.Subject != "":
		return best, nil
	case strings.Contains(ref, "://"):
		return best, record.Errorf(record.Invalid, "%q names an issuer that is not configured", ref)
	case len(issuers) == 1 && ref != "":
		return record.Principal{Issuer: issuers[0], Subject: ref}, nil
	}
	return best, record.Errorf(record.Invalid, "%q: several issuers are configured; write SUBJECT@ISSUER", ref)
}

func (p *Placet) issuers() []string {
	if p.o.Local != nil {
		return []string{LocalIssuer}
	}
	var out []string
	for _, i := range p.o.Config.Issuers {
		out = append(out, i.Issuer)
	}
	return out
}

// LocalIssuer is the name of the development issuer.
const LocalIssuer = "urn:placet:dev"

// verifier configures identity from the configuration's issuers, or from the
// development issuer, which stands alone: a server that real people use does not
// take tokens that anybody on its machine can make.
func (o Options) verifier() (*identity.Verifier, error) {
	c := o.Config
	var ic identity.Config
	switch {
	case o.Local != nil && len(c.Issuers) > 0:
		return nil, record.Errorf(record.Invalid, "the development issuer cannot stand beside real ones; remove issuers from %s, or use serve", c.File())
	case o.Local != nil:
		i, err := o.Local.Issuer(c.Audience(), c.ConsoleAudience(), o.Tenants)
		if err != nil {
			return nil, err
		}
		i.Address = c.PublicURL + issuer.Path
		ic.Issuers = append(ic.Issuers, i)
	default:
		for _, i := range c.Issuers {
			ic.Issuers = append(ic.Issuers, issuerOf(c, i))
		}
	}
	for _, w := range c.Workloads {
		k := identity.WorkloadKey{Name: w.Key, Tenant: w.Value.Tenant, SPIFFE: w.Value.SPIFFE, Agent: w.Value.Agent, Expires: w.Value.Expires.Time}
		if !w.Value.Key.IsZero() {
			k.Keys = func() (string, error) { return w.Value.Key.Read(o.LookupEnv, o.ReadFile) }
		}
		if cert := w.Value.Certificate; cert != nil {
			k.Certificate = identity.CertificateName{Authority: cert.Authority, DNS: cert.DNS, URI: cert.URI}
		}
		for _, may := range w.Value.Permissions {
			k.Permissions = append(k.Permissions, identity.Permission(may))
		}
		ic.Workloads = append(ic.Workloads, k)
	}
	authorities, err := o.authorities()
	if err != nil {
		return nil, err
	}
	ic.Authorities = authorities
	ic.PublicURL = c.PublicURL
	ic.Operate, ic.OperateAll, ic.Read = c.Permissions.Operate, c.Permissions.OperateAll, c.Permissions.Read
	return identity.New(ic, identity.Deps{Clock: o.Clock, HTTP: o.HTTP, Log: o.Log})
}

// authorities are those that certify workloads. Files must be readable now, so that
// a mistake is found at the start; the Workload API may come later.
func (o Options) authorities() ([]identity.Authority, error) {
	var out []identity.Authority
	for _, a := range o.Config.Trust {
		roots := trust.File(o.ReadFile, cmp.Or(a.Value.CA, a.Value.Bundle), a.Value.SPIFFE)
		if a.Value.WorkloadAPI != "" {
			roots = trust.WorkloadAPI(a.Value.WorkloadAPI, a.Value.SPIFFE)
		} else if _, err := roots(context.Background()); err != nil {
			return nil, record.Errorf(record.Invalid, "trust.%s: %w", a.Key, err)
		}
		out = append(out, identity.Authority{Name: a.Key, Domain: a.Value.SPIFFE, Roots: roots})
	}
	return out, nil
}

func issuerOf(c *config.Config, i config.Issuer) identity.Issuer {
	out := identity.Issuer{
		Issuer: i.Issuer, Audience: i.Audience, ConsoleAudience: c.ConsoleAudience(), TokenTypes: i.TokenTypes, Keys: i.Keys,
		Skew: i.Skew, MaxTokenAge: i.MaxTokenAge,
		Claims: identity.Claims{Subject: i.Claims.Subject, Agent: i.Claims.Agent, Scopes: i.Claims.Scopes, Groups: i.Claims.Groups},
	}
	if i.Sender != "none" {
		out.SenderConstrained = identity.Constraint(i.Sender)
	}
	for _, a := range i.Algorithms {
		out.Algorithms = append(out.Algorithms, string(a))
	}
	if claim, ok := strings.CutPrefix(i.Tenant, "claims."); ok {
		out.TenantClaim, out.Tenants = claim, i.Tenants
	} else {
		out.Tenant = i.Tenant
	}
	return out
}
