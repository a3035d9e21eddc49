package guard

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// PublicZone is the zone of every public address. Nobody declares it.
const PublicZone = "public"

// Zone is a named part of the network: blocks of addresses, or with the name
// [PublicZone] and no blocks every public address.
type Zone struct {
	Name   string
	Blocks []netip.Prefix
}

// ParseZone reads a zone's blocks, such as 10.0.0.0/8. Of an address that is no
// block's first, nobody can tell what was meant.
func ParseZone(name string, blocks []string) (Zone, error) {
	z := Zone{Name: name}
	for _, text := range blocks {
		p, err := netip.ParsePrefix(text)
		if err != nil || p != p.Masked() {
			return Zone{}, fmt.Errorf("wants blocks of addresses such as 10.0.0.0/8; %q is none", text)
		}
		z.Blocks = append(z.Blocks, p)
	}
	return z, nil
}

// Zones are parts of the network that something may reach; nil: all of it.
type Zones []Zone

// Hold reports whether an address is in one of the zones.
func (z Zones) Hold(a netip.Addr) bool {
	return z == nil || slices.ContainsFunc(z, func(one Zone) bool {
		return within(a, one.Blocks) || one.Name == PublicZone && one.Blocks == nil && Public(a)
	})
}

// Names joins their names, for people.
func (z Zones) Names() string {
	var out []string
	for _, one := range z {
		out = append(out, one.Name)
	}
	return strings.Join(out, ", ")
}

// Blocks are those of all zones together: addresses that an operator declared.
func (z Zones) Blocks() []netip.Prefix {
	var out []netip.Prefix
	for _, one := range z {
		out = append(out, one.Blocks...)
	}
	return out
}
