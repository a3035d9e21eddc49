package mcp

import (
	"net"
	"net/http"
	"time"

	"github.com/placet-dev/placet/guard"
	"github.com/placet-dev/placet/record"
)

// wireTo is how a server is reached. One whose entry names a network has connections
// of its own, to addresses in that network alone: no proxy is asked, which would
// connect in our place, and each name is resolved once and dialled as it was checked.
func (v *Invoker) wireTo(e *endpoint) (*wire, error) {
	if e.server.Network == nil {
		return v.wire, nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.wire != nil {
		return e.wire, nil
	}
	base, ok := v.opts.Transport.(*http.Transport)
	if !ok {
		return nil, record.Errorf(record.Unavailable, "the connections of this program cannot be held to the network of server %s", e.server.Name)
	}
	t := base.Clone()
	t.Proxy, t.DialTLSContext = nil, nil
	d := &guard.Dialer{Resolver: v.opts.Resolver, Networks: e.server.Network.Blocks(), Zones: e.server.Network}
	dial := t.DialContext
	if dial == nil {
		dial = (&net.Dialer{Timeout: 10 * time.Second}).DialContext
	}
	d.Dial, t.DialContext = dial, d.DialContext
	own := *v.wire
	own.rt = t
	e.wire = &own
	return e.wire, nil
}
