package placet

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/placet-dev/placet/config"
	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
	"github.com/placet-dev/placet/tool/local"
)

// service is an open Placet behind a listener, with tools that keep a ledger.
type service struct {
	t      *testing.T
	url    string
	placet *Placet

	mu     sync.Mutex
	ledger []string // principal, agent and tool of every effect
}

// newService writes the configuration, of which issuers is the part that a test
// is about, and serves it. change may alter the options.
func newService(t *testing.T, issuers string, change func(*Options)) *service {
	t.Helper()
	s := &service{t: t}
	door := httptest.NewUnstartedServer(nil)
	s.url = "http://" + door.Listener.Addr().String()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"tools.yaml":  "version: 1\n",
		"placet.yaml": "version: 1\nenvironment: test\npublic_url: " + s.url + "\nstore: sqlite:state.db\nregistry: [tools.yaml]\n" + strings.ReplaceAll(issuers, "PUBLIC", s.url),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := config.Load(filepath.Join(dir, "placet.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	wide := 1 << 20 // no test here is about limits
	c.Runs.CallsPerRun, c.Runs.ProposalsOpen, c.Runs.OpenInTurn, c.Runs.OpenOfOne = wide, wide, wide, wide
	o := Options{Config: c, Tools: []Tool{
		s.tool("read_ticket", registry.Entry{Scope: "tickets:read", Read: true, PerMinute: &wide}),
		s.tool("refund", registry.Entry{Scope: "refunds:write", Write: true, Sources: []registry.SourceName{"direct"}, Approval: registry.Asking{When: registry.Asked}}),
		s.tool("hidden", registry.Entry{Scope: "merger:read", Read: true, Callers: registry.CallersEntry{Agents: []string{"another"}}}),
	}}
	if change != nil {
		change(&o)
	}
	if s.placet, err = Open(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	door.Config.Handler = s.placet.Handler()
	door.Start()
	t.Cleanup(func() { door.CloseClientConnections(); door.Close(); _ = s.placet.Close() })
	return s
}

func (s *service) tool(name string, e registry.Entry) Tool {
	return Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}}}`), Entry: e,
		Handler: func(_ context.Context, c local.Call) (json.RawMessage, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.ledger = append(s.ledger, fmt.Sprintf("%s %s/%s/%s", c.Tool, c.Owner.Tenant, c.Owner.Principal.Subject, c.Owner.Agent))
			return json.RawMessage(`{"done":true}`), nil
		}}
}

// effects compares the ledger, and empties it.
func (s *service) effects(what string, want ...string) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if diff := cmp.Diff(want, s.ledger); diff != "" {
		s.t.Errorf("%s: effects (-want +got):\n%s", what, diff)
	}
	s.ledger = nil
}

// events are those of a tenant after one of them.
func (s *service) events(tenant record.TenantID, after int64) []record.Event {
	s.t.Helper()
	events, err := s.placet.Records().Events(s.t.Context(), dispatch.EventQuery{Tenant: tenant, After: after, Limit: 500})
	if err != nil {
		s.t.Fatal(err)
	}
	return events
}
