package guard

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"time"
)

// Resolver finds the addresses of a name. A *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// resolveTime bounds one look-up of a name.
const resolveTime = 3 * time.Second

// Dialer connects tools of this program to public hosts, and to the private
// networks that the operator allows. It finds a name's addresses once, refuses
// unless all of them may be reached, and connects to one of those it checked:
// what a name means a moment later does not matter.
type Dialer struct {
	Resolver Resolver       // nil: no name is found
	Networks []netip.Prefix // private networks that may be reached
	Zones    Zones          // beyond these nothing is reached; nil: no such bound
	// Dial makes the connection to a checked address; nil: a plain net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Addresses are what a host stands for now, if every one of them may be reached.
// The error is a *Refusal.
func (d *Dialer) Addresses(ctx context.Context, host string) ([]netip.Addr, error) {
	addresses, refusal := d.addresses(ctx, host)
	if refusal != nil {
		return nil, refusal
	}
	return addresses, nil
}

func (d *Dialer) addresses(ctx context.Context, host string) ([]netip.Addr, *Refusal) {
	found, refusal := d.find(ctx, host)
	if refusal != nil {
		return nil, refusal
	}
	for i, a := range found {
		if !Public(a) && !within(a, d.Networks) {
			return nil, private("the name has an address in a private or special range")
		}
		if !d.Zones.Hold(a) {
			return nil, private("the name has an address outside of " + d.Zones.Names())
		}
		found[i] = a.Unmap()
	}
	return found, nil
}

func (d *Dialer) find(ctx context.Context, host string) ([]netip.Addr, *Refusal) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a}, nil
	}
	if numeric(host) {
		return nil, private("the host is a number that some resolvers read as an address")
	}
	if d.Resolver == nil {
		return nil, undecided("names a host that could not be checked", "no resolver is configured")
	}
	ctx, cancel := context.WithTimeout(ctx, resolveTime)
	defer cancel()
	found, err := d.Resolver.LookupNetIP(ctx, "ip", host)
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns) && dns.IsNotFound, err == nil && len(found) == 0:
		return nil, refuse("names a host that does not exist")
	case err != nil:
		return nil, undecided("names a host that could not be checked", "the name could not be resolved")
	}
	return found, nil
}

// DialContext is for an http.Transport or anything else that dials host:port.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, refuse("names no host and port")
	}
	addresses, refusal := d.addresses(ctx, host)
	if refusal != nil {
		return nil, refusal
	}
	dial := d.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: 10 * time.Second}).DialContext
	}
	var failed error
	for _, a := range addresses {
		conn, err := dial(ctx, network, net.JoinHostPort(a.String(), port))
		if err == nil {
			return conn, nil
		}
		failed = errors.Join(failed, err)
	}
	return nil, failed
}

// Transport is an HTTP transport that connects through the dialer alone: no proxy
// of the environment, which would resolve names in our place.
func (d *Dialer) Transport() *http.Transport {
	return &http.Transport{
		DialContext: d.DialContext, ForceAttemptHTTP2: true, TLSHandshakeTimeout: 10 * time.Second,
		MaxIdleConnsPerHost: 2, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: 1 << 20,
	}
}

// maxRedirects bounds how often one request may be sent on.
const maxRedirects = 5

// Redirects is for http.Client.CheckRedirect: each address that a request is sent
// on to must be one that the guard itself would have accepted. Addresses are
// checked again as they are dialled.
func (g *Guard) Redirects(request *http.Request, via []*http.Request) error {
	if len(via) >= maxRedirects {
		return refuse("was sent on too often")
	}
	if refusal := g.allowsURL(request.URL.String()); refusal != nil {
		refusal.Type = URL
		return refusal
	}
	return nil
}
