package dispatch_test

import (
	"context"
	"encoding/json"
	"os"
	"testing"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

// forgetful is a store that answers at once and keeps nothing: what is left is
// the decision.
type forgetful struct {
	dispatch.Store
	run record.Run
}

func (forgetful) Apply(context.Context, record.Change) error { return nil }
func (f forgetful) LiveRun(context.Context, record.Owner, string) (record.Run, error) {
	return f.run, nil
}
func (forgetful) Rejected(context.Context, record.TenantID, record.LineageID, record.EffectKey) (*record.Rejection, error) {
	return nil, nil
}

// BenchmarkDecision is one whole decision on a read: canonical arguments,
// registry, schema, brief 3's policy, digests and the change, without a store.
func BenchmarkDecision(b *testing.B) {
	text, err := os.ReadFile("../policy/rego/testdata/brief.rego")
	if err != nil {
		b.Fatal(err)
	}
	s := newScene(b, func(s *scene) {
		s.rego = string(text)
		s.yaml = "version: 1\nservers:\n  desk: {url: \"http://127.0.0.1:1/mcp\"}\ntools:\n  db.query: {server: desk, scope: read, read: true, per_minute: 0, concurrent: 0}\n"
	})
	caller := s.caller(anna)
	run, err := s.OpenRun(s.ctx, caller, "")
	if err != nil {
		b.Fatal(err)
	}
	s.Boundary, err = dispatch.New(dispatch.Options{Store: forgetful{s.store.Store, run}, Invoker: s.desk, Clock: s.clock.Now, Random: zeros{}})
	if err != nil {
		b.Fatal(err)
	}
	s.activate()
	p := dispatch.Proposal{Caller: caller, Tool: "db.query", Arguments: json.RawMessage(`{"order":"ord_1001","amount":12.5}`)}
	b.ReportAllocs()
	for b.Loop() {
		a, err := s.Propose(s.ctx, p)
		if err != nil || a.Verdict != record.Allow {
			b.Fatal(a.Verdict, a.Code, err)
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
