package guard

import (
	"net"
	"net/netip"
	"strings"
)

// Listens reports whether Placet itself listens at a host, which is a name or an
// address; port "" stands for any.
func (w World) Listens(host, port string) bool {
	for _, l := range w.Listeners {
		own, ownPort, err := net.SplitHostPort(l)
		if err != nil || port != "" && port != ownPort {
			continue
		}
		self, errSelf := netip.ParseAddr(own)
		a, err := netip.ParseAddr(host)
		switch a = a.Unmap(); {
		case errSelf != nil || err != nil:
			if strings.EqualFold(own, host) {
				return true
			}
		case a == self.Unmap(), self.IsUnspecified() && (a.IsLoopback() || a.IsUnspecified()):
			return true
		}
	}
	return false
}
