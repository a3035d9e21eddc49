package placet

import (
	"fmt"
	"slices"
	"strings"

	"github.com/placet-dev/placet/config"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
)

// statedPeople is what the configuration says of who is one person.
func (p *Placet) statedPeople() (*record.People, error) {
	var persons []record.Individual
	var alike, apart [][]string
	for _, i := range p.o.Config.Identities {
		switch {
		case i.Person != "":
			one := record.Individual{Name: i.Person}
			for _, ref := range i.Logins {
				login, err := p.resolvePrincipal(ref)
				if err != nil {
					return nil, fmt.Errorf("identities: %w", err)
				}
				one.Logins = append(one.Logins, login)
			}
			persons = append(persons, one)
		case i.Same == config.SameSubject:
			alike = append(alike, i.Issuers)
		default:
			apart = append(apart, i.Issuers)
		}
	}
	people, err := record.NewPeople(p.issuers(), persons, alike, apart)
	if err != nil {
		return nil, record.Errorf(record.Invalid, "identities: %w", err)
	}
	return people, nil
}

// identityOverrides are statements under which logins count as two persons without
// anybody being named.
func (p *Placet) identityOverrides() []registry.Override {
	var out []registry.Override
	for _, i := range p.o.Config.Identities {
		if i.Same == config.SameNobody {
			out = append(out, registry.Override{Setting: "same: nobody", Subject: "identities of " + strings.Join(i.Issuers, " and "),
				Detail: "logins at two of them always count as two persons", Place: p.o.Config.File()})
		}
	}
	return out
}

// unmapped warns of rules whose approvers sign in at issuers of which identities says
// too little: their answers cannot be combined, or cannot count for who calls from
// elsewhere (rule D5).
func (c *Checked) unmapped(place, path string, part record.ApprovalPart, self bool) {
	at := part.Issuers()
	for i, x := range at {
		for _, y := range at[:i] {
			if part.Quorum > 1 && !c.active.People.Related(x, y) {
				c.warn(place, path, fmt.Sprintf("wants %d persons, who sign in at %s and %s: two answers count together only where identities says who is one person", part.Quorum, y, x))
			}
		}
	}
	for _, y := range c.placet.issuers() {
		if !self && len(at) > 0 && !slices.ContainsFunc(at, func(x string) bool { return c.active.People.Related(x, y) }) {
			c.warn(place, path, fmt.Sprintf("asks people who sign in at %s: their yes does not count for who calls with a token of %s unless identities says that they are two persons", strings.Join(at, " and "), y))
		}
	}
}
