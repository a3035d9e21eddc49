package mcp

import (
	"net/http"
	"testing"

	"github.com/placet-dev/placet/guard"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
)

// A server is reached in the network that its entry names and nowhere else: not by
// another address of its name, and not through connections that other servers opened.
func TestServersAreReachedInTheirNetwork(t *testing.T) {
	s, effects := rawServer(t, func(w http.ResponseWriter, _ *http.Request, id string) {
		writeJSON(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, id)
	})
	zone := func(block string) guard.Zones {
		z, err := guard.ParseZone("internal", []string{block})
		if err != nil {
			t.Fatal(err)
		}
		return guard.Zones{z}
	}
	for _, own := range []bool{true, false} {
		o := Options{}
		if !own {
			o.Transport = http.DefaultTransport.(*http.Transport).Clone()
		}
		v := open(t, o)
		mustReach(t, v, s.work("x", `{}`)) // not stated: as ever, and a connection stays open
		effects.Store(0)
		w := s.work("x", `{}`)
		w.Server = &registry.Server{Name: "srv", URL: s.URL, Network: zone("127.0.0.0/8")}
		mustReach(t, v, w)
		for _, there := range []guard.Zones{zone("10.0.0.0/8"), {{Name: guard.PublicZone}}} {
			w := s.work("x", `{}`)
			w.Server = &registry.Server{Name: "srv", URL: s.URL, Network: there}
			if out := v.invoke(within(t), w); out.Sent || out.Err == nil {
				t.Errorf("%s: %+v", there.Names(), out)
			}
		}
		if effects.Load() != 1 {
			t.Errorf("%d calls, want 1", effects.Load())
		}
	}
}

// Connections of a transport that cannot be held to a network are none.
func TestForeignTransportHasNoNetwork(t *testing.T) {
	v := open(t, Options{Transport: struct{ http.RoundTripper }{http.DefaultTransport}})
	_, err := v.wireTo(&endpoint{server: &registry.Server{Name: "srv", Network: guard.Zones{{Name: guard.PublicZone}}}})
	if record.KindOf(err) != record.Unavailable {
		t.Error(err)
	}
}
