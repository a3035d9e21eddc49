package registry

import (
	"encoding/json"
	"testing"

	"github.com/placet-dev/placet/record"
)

// offer is a server's tool with an object schema of the given properties.
func offer(name, properties string, required ...string) Offer {
	if required == nil {
		required = []string{}
	}
	r, err := json.Marshal(required)
	if err != nil {
		panic(err)
	}
	return Offer{Name: name, Description: "Does " + name + ".",
		InputSchema: json.RawMessage(`{"type":"object","properties":{` + properties + `},"required":` + string(r) + `}`)}
}

// locked is the lock of tools.yaml in which each registry name is pinned.
func locked(t testing.TB, server string, pins map[string]Offer) *Lock {
	t.Helper()
	l := NewLock()
	for name, o := range pins {
		p, err := PinOf(o)
		if err != nil {
			t.Fatal(err)
		}
		l.Tools[name] = LockedTool{server, p}
	}
	return l
}

func lockText(t testing.TB, l *Lock) []byte {
	t.Helper()
	text, err := l.Write()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

const header = "version: 1\nservers: {helpdesk: {url: https://helpdesk.internal/mcp}}\ntools:\n"

func parse(t testing.TB, tools string, l *Lock, o Options) (*Snapshot, error) {
	t.Helper()
	if l == nil {
		l = NewLock()
	}
	return Parse([]Source{{Name: "tools.yaml", Text: []byte(header + tools), Lock: lockText(t, l)}}, o)
}

func mustParse(t testing.TB, tools string, l *Lock) *Snapshot {
	t.Helper()
	s, err := parse(t, tools, l, Options{Environment: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mustTool(t testing.TB, s *Snapshot, name string) *Tool {
	t.Helper()
	tool, ok := s.Tool(name)
	if !ok {
		t.Fatalf("%s is not callable: %v", name, s.Quarantined())
	}
	return tool
}

var anna = record.Owner{Tenant: "acme", Principal: record.Principal{Issuer: "https://idp", Subject: "anna"}, Agent: "support-bot"}
