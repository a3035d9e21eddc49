package replicas

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// A server that is stopped in the middle of whatever it does, with what it holds in the
// database, makes none of the others' calls fail: they outwait it. What it goes on with when it wakes happens once.
func TestOthersOutwaitAPausedServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("tools.yaml", strings.Replace(w.read("tools.yaml"), "timeout: 1s", "timeout: 20s", 1))
	a, b := w.start(), w.start()
	w.mu.Lock()
	w.behind = []*replica{b} // the balancer has noticed: the desk gets its keys
	w.mu.Unlock()
	anna := w.token("anna")
	act := func(at *replica, id string) error {
		r, err := w.call(at.url, anna, "act", `{"id":"`+id+`"}`, "")
		if err == nil && !strings.Contains(r.body, "done act") {
			err = fmt.Errorf("%s: %s", id, r.body)
		}
		return err
	}
	var done atomic.Int64
	var busy sync.WaitGroup
	over := make(chan struct{})
	for caller := range 8 {
		busy.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-over:
					return
				default:
				}
				_ = act(a, fmt.Sprintf("a %d %d", caller, n)) // its own callers may be told that it is not known
				done.Add(1)
			}
		})
	}
	var longest time.Duration
	for round := range 8 {
		more := done.Load() + 16
		until(t, "the server is busy", func() bool { return done.Load() >= more })
		if err := a.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		for n := range 4 {
			began := time.Now()
			if err := act(b, fmt.Sprintf("beside %d %d", round, n)); err != nil {
				t.Errorf("while the other server stands still: %v", err)
			}
			longest = max(longest, time.Since(began))
		}
		if err := a.cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
	}
	close(over)
	busy.Wait()
	t.Logf("%d calls at the server that was stopped; beside it the longest took %s", done.Load(), longest)
	did := w.desk.did()
	slices.Sort(did)
	if len(slices.Compact(slices.Clone(did))) != len(did) {
		t.Error("something happened twice")
	}
	for round := range 8 {
		for n := range 4 {
			if !slices.Contains(did, fmt.Sprintf(`act {"id":"beside %d %d"}`, round, n)) {
				t.Errorf("what was asked beside it in round %d did not happen", round)
			}
		}
	}
}
