package guard

import (
	"net/netip"
	"slices"
)

// special are the IPv4 blocks and the IPv6 blocks within 2000::/3 that the IANA
// special-purpose registries (RFC 6890) keep from the public network, with
// multicast, what is reserved, and the tunnels whose addresses hide another one
// (6to4, RFC 3056; Teredo, RFC 4380).
var special = prefixes(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
	"192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15",
	"198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
	"168.63.129.16/32", // a public number that in Azure is the host's own service
	"2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
)

// unicast6 is where public IPv6 addresses are (RFC 4291, section 2.4). Outside it
// are loopback, link-local, unique-local, mapped, compatible and NAT64 addresses.
var unicast6 = netip.MustParsePrefix("2000::/3")

func prefixes(texts ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, t := range texts {
		out = append(out, netip.MustParsePrefix(t))
	}
	return out
}

// Public reports whether an address belongs to the public network. An IPv4
// address in an IPv6 one counts as what it is.
func Public(a netip.Addr) bool {
	a = a.Unmap()
	if !a.IsValid() || a.Zone() != "" || a.Is6() && !unicast6.Contains(a) {
		return false
	}
	return !within(a, special)
}

func within(a netip.Addr, blocks []netip.Prefix) bool {
	a = a.Unmap()
	return slices.ContainsFunc(blocks, func(p netip.Prefix) bool { return p.Contains(a) })
}
