package registry

import (
	"strings"
	"testing"
)

// A tool whose server is not in the networks that it may reach is refused at load.
func TestNetworksAreCheckedAtLoad(t *testing.T) {
	const good = `version: 1
networks: {internal: [10.0.0.0/8]}
servers:
  s: {url: "https://s.example.com/mcp", network: internal}
  c: {command: [/bin/x]}
tools:
  a: {server: s, scope: x, read: true, network: [internal, public]}
  b: {server: c, scope: x, read: true, network: [public]}
`
	for name, c := range map[string]struct{ old, now, want string }{
		"good":              {"", "", ""},
		"no such network":   {"[internal, public]", "[intern]", `tools.a.network: there is no network "intern"; did you mean internal?`},
		"another network":   {"[internal, public]", "[public]", "tools.a.network: does not hold internal, the network of its server s"},
		"server not stated": {", network: internal}", "}", "tools.a.network: needs the network of its server s"},
		"a command":         {"[/bin/x]", "[/bin/x], network: internal", "servers.c.network: is for servers that Placet reaches over HTTP"},
		"public is there":   {"internal: [10.0.0.0/8]", "internal: [10.0.0.0/8], public: [1.0.0.0/8]", "networks.public: a zone's name"},
		"no block":          {"[10.0.0.0/8]", "[10.0.0.1/8]", `networks.internal: wants blocks of addresses such as 10.0.0.0/8; "10.0.0.1/8" is none`},
		"no network at all": {"[internal, public]", "[]", "tools.a.network: is empty"},
		"server in no such": {"network: internal}", "network: inside}", `servers.s.network: there is no network "inside"`},
	} {
		text := good
		if c.old != "" {
			text = strings.Replace(good, c.old, c.now, 1)
		}
		_, err := Parse([]Source{{Name: "tools.yaml", Text: []byte(text)}}, Options{})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
