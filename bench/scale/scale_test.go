package main

import (
	"strings"
	"testing"
)

// TestScale runs the whole of it on stores of a few calls: that it still runs, not what
// it measures.
func TestScale(t *testing.T) {
	for _, c := range []struct{ store, sizes, want string }{
		{"sqlite", "200,1000", "scale: store=sqlite calls=1000 ratio="},
		{"postgres", "200", "scale: store=postgres calls=200 ratio=1.00\n"},
	} {
		t.Run(c.store, func(t *testing.T) {
			var out strings.Builder
			if err := run(t.Context(), []string{"-stores", c.store, "-sizes", c.sizes, "-rounds", "1", "-calls", "20", "-synced=false", "-dir", t.TempDir()}, &out); err != nil {
				t.Fatalf("%v\n%s", err, out.String())
			}
			if !strings.Contains(out.String(), c.want) && !strings.Contains(out.String(), "is left out") {
				t.Errorf("it does not say %q:\n%s", c.want, out.String())
			}
		})
	}
}
