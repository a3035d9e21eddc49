package record

import (
	"slices"
)

// WorkloadIssuer qualifies the principals of workloads that call as themselves. No
// person signs in there.
const WorkloadIssuer = "placet:workload"

// People says which principals are one person, as the operator states it (rule D5).
// Without a statement, an issuer tells its own subjects apart, and nobody can say
// whether subjects of two issuers are one person: [People.Same] and [People.Apart]
// are then both false, and whoever asks fails closed. A nil *People is without any.
type People struct {
	issuers []string             // configured; nil: whatever they are
	names   map[Principal]string // stated one by one
	named   []Principal          // the same, in the order of the statement
	alike   [][]string           // the same subject at these issuers is the same person
	apart   [][]string           // nobody has a login at two of these issuers
}

// Individual is a person with their logins at several issuers.
type Individual struct {
	Name   string
	Logins []Principal
}

// NewPeople checks statements against one another. issuers are those whose logins
// count at all.
func NewPeople(issuers []string, persons []Individual, alike, apart [][]string) (*People, error) {
	p := &People{issuers: issuers, names: map[Principal]string{}, alike: alike, apart: apart}
	seen := map[string]bool{}
	for _, set := range alike {
		for _, issuer := range set {
			if seen[issuer] {
				return nil, Errorf(Invalid, "issuer %q is listed twice as one of those whose equal subjects are one person; write one list", issuer)
			}
			seen[issuer] = true
		}
	}
	for _, set := range apart {
		for i, issuer := range set {
			for _, other := range set[:i] {
				if p.domain(issuer) == p.domain(other) {
					return nil, Errorf(Invalid, "issuers %q and %q are stated to have the same people and to have nobody in common", other, issuer)
				}
			}
		}
	}
	for _, one := range persons {
		for _, login := range one.Logins {
			if err := p.add(one.Name, login); err != nil {
				return nil, err
			}
		}
	}
	return p, p.contradiction()
}

// add states a login of a person, and with it those of the same subject.
func (p *People) add(name string, login Principal) error {
	logins := []Principal{login}
	for _, set := range p.alike {
		if slices.Contains(set, login.Issuer) {
			logins = nil
			for _, issuer := range set {
				logins = append(logins, Principal{Issuer: issuer, Subject: login.Subject})
			}
		}
	}
	for _, l := range logins {
		if was, known := p.names[l]; known && was != name {
			return Errorf(Invalid, "%s is stated to be %q and %q; a login is one person's", l, was, name)
		} else if !known {
			p.names[l] = name
			p.named = append(p.named, l)
		}
	}
	return nil
}

// contradiction finds a person with logins at issuers that are stated to have nobody in common.
func (p *People) contradiction() error {
	for i, a := range p.named {
		for _, b := range p.named[:i] {
			if p.names[a] == p.names[b] && p.strangers(p.domain(a.Issuer), p.domain(b.Issuer)) {
				return Errorf(Invalid, "%q has logins at %q and %q, which are stated to have nobody in common", p.names[a], b.Issuer, a.Issuer)
			}
		}
	}
	return nil
}

// Known reports whether a login is of an issuer that is still configured.
func (p *People) Known(a Principal) bool {
	return p == nil || p.issuers == nil || slices.Contains(p.issuers, a.Issuer)
}

// Same reports whether two principals are certainly one person.
func (p *People) Same(a, b Principal) bool {
	if a == b {
		return true
	}
	if p == nil {
		return false
	}
	x, y := p.names[a], p.names[b]
	if x != "" || y != "" {
		return x == y
	}
	return a.Subject == b.Subject && p.domain(a.Issuer) == p.domain(b.Issuer)
}

// Apart reports whether two principals are certainly two persons: the operator names
// both, or some issuer knows both and tells them apart, or their issuers have nobody
// in common. A workload is nobody's login.
func (p *People) Apart(a, b Principal) bool {
	if p.Same(a, b) {
		return false
	}
	if a.Issuer == WorkloadIssuer || b.Issuer == WorkloadIssuer || a.Issuer == b.Issuer {
		return true
	}
	if p == nil {
		return false
	}
	if p.names[a] != "" && p.names[b] != "" {
		return true
	}
	for _, x := range p.domains(a) {
		for _, y := range p.domains(b) {
			if x == y || p.strangers(x, y) {
				return true
			}
		}
	}
	return false
}

// Logins returns the logins that are certainly a person's, a itself first.
func (p *People) Logins(a Principal) []Principal {
	out := []Principal{a}
	if p == nil {
		return out
	}
	add := func(b Principal) {
		if !slices.Contains(out, b) && p.Same(a, b) {
			out = append(out, b)
		}
	}
	for _, b := range p.named {
		add(b)
	}
	for _, set := range p.alike {
		for _, issuer := range set {
			add(Principal{Issuer: issuer, Subject: a.Subject})
		}
	}
	return out
}

// Count returns how many of the principals certainly are distinct persons: the size
// of the largest set found in which each is apart from each. Beginning with each of
// them in turn, it takes whoever is apart from all taken before.
func (p *People) Count(all []Principal) int {
	most := 0
	for i := range all {
		var taken []Principal
		for j := range all {
			next := all[(i+j)%len(all)]
			if !slices.ContainsFunc(taken, func(t Principal) bool { return !p.Apart(t, next) }) {
				taken = append(taken, next)
			}
		}
		if most = max(most, len(taken)); most == len(all) {
			break
		}
	}
	return most
}

// Others reports whether an issuer may have people who are certainly not a.
func (p *People) Others(issuer string, a Principal) bool {
	if p.Apart(Principal{Issuer: issuer}, a) { // somebody there of whom nothing is stated
		return true
	}
	return p != nil && slices.ContainsFunc(p.named, func(b Principal) bool { return b.Issuer == issuer && p.Apart(b, a) })
}

// domain names those issuers that have the same people by the same subjects.
func (p *People) domain(issuer string) string {
	if p != nil {
		for _, set := range p.alike {
			if slices.Contains(set, issuer) {
				return set[0]
			}
		}
	}
	return issuer
}

// domains are where a principal's person is known.
func (p *People) domains(a Principal) []string {
	name := p.names[a]
	if name == "" {
		return []string{p.domain(a.Issuer)}
	}
	var out []string
	for _, b := range p.named {
		if d := p.domain(b.Issuer); p.names[b] == name && !slices.Contains(out, d) {
			out = append(out, d)
		}
	}
	return out
}

// strangers reports whether two domains are stated to have nobody in common.
func (p *People) strangers(x, y string) bool {
	return x != y && slices.ContainsFunc(p.apart, func(set []string) bool {
		in := func(d string) bool {
			return slices.ContainsFunc(set, func(issuer string) bool { return p.domain(issuer) == d })
		}
		return in(x) && in(y)
	})
}

// Related reports whether what is stated tells all people of two issuers apart.
func (p *People) Related(x, y string) bool {
	x, y = p.domain(x), p.domain(y)
	return x == y || p != nil && p.strangers(x, y)
}
