package mcp

import (
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// guard is what is checked before anything is read: that the request was meant
// for this server. A page whose name an attacker points at loopback (DNS
// rebinding) sends its own name as Host and Origin.
type guard struct {
	publicHost   string // of public_url, with port
	publicOrigin string
	origins      []string
	maxBytes     int64
}

func newGuard(o Options) guard {
	g := guard{maxBytes: int64(o.Limits.Bytes)}
	if u, err := url.Parse(o.PublicURL); err == nil && u.Host != "" {
		g.publicHost = strings.ToLower(u.Host)
		g.publicOrigin = origin(u)
	}
	for _, text := range o.Origins {
		if u, err := url.Parse(text); err == nil && u.Host != "" {
			g.origins = append(g.origins, origin(u))
		}
	}
	return g
}

// check returns nil or why the request is not looked at.
func (g guard) check(r *http.Request) *refusal {
	if !g.hostAllowed(r) {
		return plain(http.StatusForbidden, "the Host header names another server")
	}
	if !g.originAllowed(r) {
		return plain(http.StatusForbidden, "this origin may not call; the operator can allow it")
	}
	switch r.Method {
	case http.MethodGet, http.MethodDelete:
		return nil
	case http.MethodPost:
	default:
		f := plain(http.StatusMethodNotAllowed, "the method must be POST")
		f.header = http.Header{"Allow": {"GET, POST, DELETE"}}
		return f
	}
	if r.ContentLength > g.maxBytes {
		return g.tooLarge()
	}
	if t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || t != "application/json" {
		return plain(http.StatusUnsupportedMediaType, "the Content-Type must be application/json")
	}
	if r.Header.Get("Content-Encoding") != "" {
		return plain(http.StatusUnsupportedMediaType, "the body must not be compressed")
	}
	if json, events := accepts(r.Header.Values("Accept")); !json || !events {
		return plain(http.StatusNotAcceptable, "Accept must hold application/json and text/event-stream")
	}
	return nil
}

func (g guard) tooLarge() *refusal {
	return plain(http.StatusRequestEntityTooLarge, "the body is larger than %d bytes", g.maxBytes)
}

// hostAllowed refuses foreign names on a loopback listener, where no network
// stands between a browser and this server. Elsewhere the name is the business of
// whatever routes to here, and every request needs a token anyway.
func (g guard) hostAllowed(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok || !loopback(local.String()) {
		return true
	}
	return loopback(r.Host) || g.publicHost != "" && strings.EqualFold(r.Host, g.publicHost)
}

// originAllowed takes no Origin (not a browser), the public one, a configured
// one, and loopback pages for a server that is addressed by loopback.
func (g guard) originAllowed(r *http.Request) bool {
	values := r.Header.Values("Origin")
	if len(values) == 0 {
		return true
	}
	if len(values) > 1 {
		return false
	}
	u, err := url.Parse(values[0])
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return false
	}
	if o := origin(u); o == g.publicOrigin || slices.Contains(g.origins, o) {
		return true
	}
	return loopback(u.Host) && loopback(r.Host)
}

func origin(u *url.URL) string {
	return strings.ToLower(u.Scheme) + "://" + strings.ToLower(u.Host)
}

// loopback reports whether host, or host:port, is this machine by a name that
// cannot be pointed elsewhere.
func loopback(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.TrimSuffix(strings.TrimPrefix(hostport, "["), "]")
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// accepts reports what an Accept header takes.
func accepts(values []string) (json, events bool) {
	for _, value := range values {
		for part := range strings.SplitSeq(value, ",") {
			kind, _, _ := strings.Cut(part, ";")
			switch strings.ToLower(strings.TrimSpace(kind)) {
			case "application/json", "application/*":
				json = true
			case "text/event-stream", "text/*":
				events = true
			case "*/*":
				return true, true
			}
		}
	}
	return json, events
}
