package policy

import (
	"errors"
	"slices"

	"github.com/placet-dev/placet/record"
)

// For names the calls a layer applies to, from the registry and the verified
// identity only. Each list that is set must fit; one entry that fits is
// enough. A zero For fits every call. A group without an issuer is that group
// of any issuer, which is safe because a layer only makes decisions stricter.
type For struct {
	Tenants []record.TenantID
	Agents  []record.AgentID
	Groups  []record.Group
	Servers []string
	Tools   []string
}

var (
	errNoTenant = errors.New("the layer is for some tenants, and the call has none")
	errNoAgent  = errors.New("the layer is for some agents, and the call names none")
	errNoServer = errors.New("the layer is for some servers, and the tool has none")
	errNoTool   = errors.New("the layer is for some tools, and the call names none")
	errNoGroups = errors.New("the layer is for some groups, and it is not known which groups the principal is in")
)

// Fits reports whether the layer applies. An error means that it cannot be
// decided, and the call is denied. A list that certainly does not fit decides
// before one that cannot be decided.
func (f For) Fits(in *Input) (bool, error) {
	var unknown error
	for _, c := range [...]struct {
		fits bool
		err  error
	}{
		named(f.Tenants, in.Principal.Tenant, errNoTenant),
		named(f.Agents, in.Agent.ID, errNoAgent),
		named(f.Servers, in.Tool.Server, errNoServer),
		named(f.Tools, in.Tool.Name, errNoTool),
		f.groups(&in.Principal),
	} {
		switch {
		case c.err != nil && unknown == nil:
			unknown = c.err
		case c.err == nil && !c.fits:
			return false, nil
		}
	}
	return unknown == nil, unknown
}

func named[T ~string](list []T, have T, absent error) (c struct {
	fits bool
	err  error
}) {
	switch {
	case len(list) == 0:
		c.fits = true
	case have == "":
		c.err = absent
	default:
		c.fits = slices.Contains(list, have)
	}
	return c
}

func (f For) groups(p *Principal) (c struct {
	fits bool
	err  error
}) {
	if len(f.Groups) == 0 {
		c.fits = true
		return c
	}
	for _, g := range f.Groups {
		for _, have := range p.Groups {
			if have.Name == g.Name && (g.Issuer == "" || g.Issuer == have.Issuer) {
				c.fits = true
				return c
			}
		}
	}
	if !p.GroupsKnown {
		c.err = errNoGroups
	}
	return c
}

// blank names the first list that holds an empty name; such an entry would fit
// nothing and look as if it did.
func (f For) blank() string {
	switch {
	case slices.Contains(f.Tenants, ""):
		return "tenants"
	case slices.Contains(f.Agents, ""):
		return "agents"
	case slices.Contains(f.Servers, ""):
		return "servers"
	case slices.Contains(f.Tools, ""):
		return "tools"
	case slices.ContainsFunc(f.Groups, func(g record.Group) bool { return g.Name == "" }):
		return "groups"
	}
	return ""
}
