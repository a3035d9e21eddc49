package sqlite

import (
	"testing"
	"testing/synctest"
)

// A batch that expects more callers ends its wait where the clock does not move
// either. Without the bound this test does not end.
func TestGatherEndsWithoutAClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &writer{in: make(chan *request, 1), batch: 64}
		came := &request{}
		w.in <- came
		if got := w.gather([]*request{{}}, 64); len(got) != 2 || got[1] != came {
			t.Fatalf("%d in the batch", len(got))
		}
	})
}
