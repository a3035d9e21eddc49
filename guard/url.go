package guard

import (
	"context"
	"encoding/json"
	"net/netip"
	neturl "net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/nlnwa/whatwg-url/url"
	"github.com/placet-dev/placet/canon"
)

// maxURL is what common servers and clients bear.
const maxURL = 2048

// toHost keeps a URL at public hosts, or those that are listed. Programs read
// URLs in two ways, RFC 3986's and the WHATWG's: what the two read differently is
// refused, since the tool's reading is not known.
type toHost struct {
	hosts
	schemes []string
	ports   []int
	max     int
}

func newURL(s Spec) (rule, error) {
	h, err := newHosts("hosts", s.Hosts, s.Networks)
	if err != nil {
		return nil, err
	}
	u := toHost{hosts: h, schemes: s.Schemes, ports: s.Ports, max: s.MaxLength}
	if u.schemes == nil {
		u.schemes = []string{"https"}
	}
	for _, one := range u.schemes {
		if one != "https" && one != "http" {
			return nil, wrong("schemes", "holds %q; https and http are known", one)
		}
	}
	if len(u.schemes) == 0 {
		return nil, wrong("schemes", "is empty; list https or remove the key")
	}
	for _, p := range u.ports {
		if p < 1 || p > 65535 {
			return nil, wrong("ports", "holds %d, which is no port", p)
		}
	}
	if u.max == 0 {
		u.max = maxURL
	}
	return u, nil
}

func (u toHost) accept(v value) (json.RawMessage, *Refusal) {
	text, refusal := v.text()
	if refusal != nil {
		return nil, refusal
	}
	read, refusal := u.read(text)
	if refusal != nil {
		return nil, refusal
	}
	return canon.AppendText(nil, read.href), nil
}

// allowsURL is what a redirect is judged by.
func (g *Guard) allowsURL(text string) *Refusal {
	u, ok := g.rule.(toHost)
	if !ok {
		return refuse("leads elsewhere, and there is no guard for that")
	}
	_, refusal := u.read(text)
	return refusal
}

// reading is a URL as both ways read it.
type reading struct {
	href string // normal form
	host hostname
	port string
}

// whole is how a URL of a host begins. Shorter forms are completed differently.
var whole = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*://[^/\\?#]`)

func (u toHost) read(text string) (reading, *Refusal) {
	switch {
	case len(text) > u.max:
		return reading{}, refuse("is longer than a URL may be")
	case strings.ContainsFunc(text, unprintable) || strings.ContainsAny(text, " \\") || !whole.MatchString(text):
		return reading{}, refuse("must be a whole URL without spaces, control characters and backslashes")
	}
	w, err := url.Parse(text)
	if err != nil {
		return reading{}, refuse("is no valid URL")
	}
	authority, _, _ := strings.Cut(text[strings.Index(text, "://")+3:], "/")
	authority, _, _ = strings.Cut(authority, "?")
	authority, _, _ = strings.Cut(authority, "#")
	host, refusal := readHost(w.Hostname(), hostText(authority))
	switch {
	case refusal != nil:
		return reading{}, refusal
	case host.addr.IsValid() && !Public(host.addr) && !within(host.addr, u.networks):
		return reading{}, private("an address in a private or special range") // before all else: in any spelling
	case strings.ContainsAny(authority, "@%"):
		return reading{}, refuse("must not hold a user, a password or anything encoded before its path")
	case !slices.Contains(u.schemes, w.Scheme()):
		return reading{}, refuse("must begin with " + strings.Join(u.schemes, ":// or ") + "://")
	}
	if refusal := u.admits(host); refusal != nil {
		return reading{}, refusal
	}
	port := w.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[w.Scheme()]
	}
	if number, _ := strconv.Atoi(port); u.ports != nil && !slices.Contains(u.ports, number) || u.ports == nil && w.Port() != "" {
		return reading{}, refuse("names a port that this tool may not use")
	}
	if !agree(text, w, host) {
		return reading{}, refuse("is a URL that is read differently in different places; write it plainly")
	}
	w.SetHostname(bracketed(host))
	out := reading{w.Href(false), host, port}
	if again, err := url.Parse(out.href); err != nil || again.Href(false) != out.href || len(out.href) > 3*u.max {
		return reading{}, refuse("is a URL that is read differently in different places; write it plainly")
	}
	return out, nil
}

func hostText(authority string) string {
	if strings.HasPrefix(authority, "[") {
		return authority
	}
	host, _, _ := strings.Cut(authority, ":")
	return host
}

func bracketed(h hostname) string {
	if h.addr.Is6() {
		return "[" + h.name + "]"
	}
	return h.name
}

// agree reports whether Go's parser, which is RFC 3986's, reads the same.
func agree(text string, w *url.Url, host hostname) bool {
	g, err := neturl.Parse(text)
	if err != nil || g.User != nil || g.Opaque != "" || !strings.EqualFold(g.Scheme, w.Scheme()) {
		return false
	}
	if g.Port() != w.Port() && g.Port() != map[string]string{"http": "80", "https": "443"}[w.Scheme()] {
		return false
	}
	if host.addr.IsValid() {
		a, err := netip.ParseAddr(g.Hostname())
		if err != nil || a != host.addr {
			return false
		}
	} else if name, err := names46.ToASCII(strings.TrimSuffix(g.Hostname(), ".")); err != nil || name != host.name {
		return false
	}
	path := g.Path
	if path == "" {
		path = "/"
	}
	return path == percentDecoded(w.Pathname()) && percentDecoded(g.RawQuery) == percentDecoded(w.Query()) &&
		g.Fragment == percentDecoded(w.Fragment())
}

func (u toHost) examine(ctx context.Context, v value, w World) *Refusal {
	text, refusal := v.text()
	if refusal != nil {
		return refusal
	}
	read, refusal := u.read(text)
	if refusal != nil {
		return refusal
	}
	return u.resolves(ctx, read.host, read.port, w)
}

// resolves looks a host up and refuses unless every address may be reached. No
// listener of Placet itself is ever reached, whatever networks are allowed (rule
// K2); port "" stands for any.
func (h hosts) resolves(ctx context.Context, n hostname, port string, w World) *Refusal {
	d := Dialer{Resolver: w.Resolver, Networks: h.networks, Zones: w.Zones}
	addresses, refusal := d.addresses(ctx, n.name)
	if refusal != nil {
		return refusal
	}
	if port != "" && w.Listens(n.name, port) {
		return private("Placet's own address")
	}
	for _, a := range addresses {
		if w.Listens(a.String(), port) {
			return private("Placet's own address")
		}
	}
	return nil
}
