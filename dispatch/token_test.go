package dispatch_test

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

// signs notes what it is asked to sign.
type signs struct {
	mu   sync.Mutex
	err  error
	seen []dispatch.Work
}

func (s *signs) Sign(w dispatch.Work) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, w)
	return "token", s.err
}

// signed is a scene whose server verifies dispatch tokens. Its desk sends nothing
// without one, as every invoker has to.
func signed(t *testing.T, signer dispatch.Signer) *scene {
	t.Helper()
	s := newScene(t, func(s *scene) { s.yaml = strings.Replace(s.yaml, `/mcp"}`, `/mcp", dispatch_token: true}`, 1) })
	var err error
	s.Boundary, err = dispatch.New(dispatch.Options{Store: s.store, Invoker: s.desk, Clock: s.clock.Now, Random: rand.Reader, Signer: signer})
	if err != nil {
		t.Fatal(err)
	}
	s.activate()
	s.desk.on(func(_ context.Context, w dispatch.Work) (dispatch.Reached, bool) {
		if w.Token == nil {
			return dispatch.Reached{Err: errors.New("there is no token")}, true
		}
		_, err := w.Token()
		return dispatch.Reached{Err: err}, err != nil
	})
	return s
}

func TestATokenIsSignedForTheReservedCall(t *testing.T) {
	signer := &signs{}
	s := signed(t, signer)
	before := s.clock.Now()
	a := s.wants(s.do(anna, "refund", `{"order":"o1", "amount":20}`), record.Allow, "", record.Succeeded)
	s.ran(1)
	if len(signer.seen) != 1 {
		t.Fatalf("signed %d times", len(signer.seen))
	}
	w := signer.seen[0]
	if w.Call != a.Call.ID || w.Attempt != 1 || w.Key == "" || string(w.Arguments) != `{"amount":20,"order":"o1"}` || len(w.Targets) != 1 || w.Owner != a.Call.Owner {
		t.Errorf("signed %+v", w)
	}
	if want := before.Add(30 * time.Second); !w.Lease.Equal(want) {
		t.Errorf("the lease ends %s, want the timeout and ten seconds: %s", w.Lease, want)
	}
	if kinds := s.events(a.Call.ID); !slices.Contains(kinds, record.EventExecuting) {
		t.Errorf("events %v", kinds)
	}
}

// TestRule_E1_NoTokenNoCall: a call that cannot be signed fails before its effect,
// also when the boundary has no signer; the neighbour on a server that verifies no
// tokens runs.
func TestRule_E1_NoTokenNoCall(t *testing.T) {
	for name, signer := range map[string]dispatch.Signer{"no key": &signs{err: errors.New("no key")}, "no signer": nil} {
		t.Run(name, func(t *testing.T) {
			s := signed(t, signer)
			a := s.wants(s.do(anna, "refund", `{"order":"o1","amount":20}`), record.Allow, record.CodeFailed, record.Failed)
			if a.Ran || a.Call.Outcome == nil || a.Call.Outcome.Sent {
				t.Errorf("%+v", a.Call.Outcome)
			}
			s.ran(0)
		})
	}
	s := newScene(t)
	s.desk.on(func(_ context.Context, w dispatch.Work) (dispatch.Reached, bool) {
		if w.Token != nil {
			t.Error("a token for a server that verifies none")
		}
		return dispatch.Reached{}, false
	})
	s.wants(s.do(anna, "refund", `{"order":"o1","amount":20}`), record.Allow, "", record.Succeeded)
	s.ran(1)
}
