package registry

import (
	"slices"

	"github.com/placet-dev/placet/guard"
	"github.com/placet-dev/placet/yamlfile"
)

// networks reads the zones that a file names. public is always there.
func (b *builder) networks(f File) {
	for _, e := range f.Networks {
		path := "networks." + e.Key
		switch {
		case !toolName.MatchString(e.Key) || e.Key == guard.PublicZone:
			b.fail(e.Place, path, "a zone's name is lower-case letters, digits and _ . -, starts with a letter, and is not public, which is every public address")
			continue
		case b.zones[e.Key].Name != "":
			b.fail(e.Place, path, "is named twice")
			continue
		}
		z, err := guard.ParseZone(e.Key, e.Value)
		if err != nil {
			b.fail(e.Place, path, "%s", err)
		}
		b.zones[e.Key] = z
	}
}

// zone finds zones by their names.
func (b *builder) zone(place yamlfile.Place, path string, names ...string) (out guard.Zones) {
	for _, name := range names {
		z, ok := b.zones[name]
		if name == guard.PublicZone {
			z, ok = guard.Zone{Name: name}, true
		}
		if !ok {
			b.fail(place, path, "there is no network %q%s", name, meant(name, append(sortedKeysOf(b.zones), guard.PublicZone)))
			continue
		}
		out = append(out, z)
	}
	return out
}

// located says in which zone a server is. Placet connects to it nowhere else.
func (b *builder) located(place yamlfile.Place, path string, s *Server, name string) {
	switch {
	case name == "":
	case s.URL == "" && s.Kind != KindOperations:
		b.fail(place, path+".network", "is for servers that Placet reaches over HTTP: those with url or operations")
	default:
		s.Network = b.zone(place, path+".network", name)
	}
}

// bounded checks the zones that a tool may reach: its server is in one of them.
func (b *builder) bounded(t *Tool, s *Server, place yamlfile.Place, names []string) {
	path := "tools." + t.Name + ".network"
	if names == nil {
		return
	}
	t.Network = b.zone(place, path, names...)
	switch {
	case (s.URL != "" || s.Kind == KindOperations) && s.Network == nil:
		b.fail(place, path, "needs the network of its server %s, to see that it is one of these", s.Name)
	case s.Network != nil && !slices.Contains(names, s.Network[0].Name):
		b.fail(place, path, "does not hold %s, the network of its server %s", s.Network[0].Name, s.Name)
	}
}
