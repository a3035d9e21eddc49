package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestTargets(t *testing.T) {
	for _, c := range []struct {
		target target
		ratio  float64
		kept   bool
	}{
		{target{least: 0.6}, 0.6, true}, {target{least: 0.6}, 0.59, false},
		{target{most: 1.5}, 1.5, true}, {target{most: 1.5}, 1.51, false},
	} {
		var out bytes.Buffer
		b := &bench{out: &out}
		b.ratio("name", c.ratio, c.target)
		if kept := len(b.missed) == 0; kept != c.kept {
			t.Errorf("%.2f, %s: kept is %t", c.ratio, c.target, kept)
		}
		if !strings.HasPrefix(out.String(), "bench: name ratio=") {
			t.Errorf("printed %q", out.String())
		}
	}
}

// A round's ratio is of neighbours, so that a slow moment of the machine, which
// falls on both, does not count.
func TestOverIsTheMedianOfNeighbours(t *testing.T) {
	a, b := &side{rate: []float64{10, 1, 30}}, &side{rate: []float64{20, 2, 15}}
	if got := over(a, b); got != 0.5 {
		t.Fatalf("got %v", got)
	}
}

func TestDriveCountsAndFails(t *testing.T) {
	s := &side{name: "s", call: func(context.Context, int) error { return nil }}
	n, took, err := s.drive(t.Context(), 4, time.Millisecond)
	if err != nil || n == 0 || s.made != n || took < time.Millisecond {
		t.Fatalf("%d calls in %s, %v", n, took, err)
	}
	wrong := errors.New("wrong answer")
	s.call = func(context.Context, int) error { return wrong }
	if _, _, err := s.drive(t.Context(), 4, time.Hour); !errors.Is(err, wrong) {
		t.Fatalf("a call that failed: %v", err)
	}
}

// The decision that is measured is the one that callers get: three verdicts, and
// the input that OPA is given is the one that the policy saw.
func TestDecisionsAreThoseOfThePolicy(t *testing.T) {
	var out bytes.Buffer
	b := &bench{out: &out, root: "..", short: true}
	if err := b.decisionVersusOPA(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"bench: decision_vs_opa ratio=", "bench: decision_5000_tools_vs_10 ratio="} {
		if !strings.Contains(out.String(), name) {
			t.Errorf("no %q in\n%s", name, out.String())
		}
	}
}

// What pgbench says is taken only where all its transactions were made.
func TestPgbenchIsRead(t *testing.T) {
	said := "number of transactions actually processed: 3000\nnumber of failed transactions: 0 (0.000%)\ninitial connection time = 80 ms\ntps = 1500.000 (without initial connection time)\n"
	if made, took, err := readPgbench(said); made != 3000 || took != 2*time.Second || err != nil {
		t.Errorf("%d in %s, %v", made, took, err)
	}
	for _, wrong := range []string{"", "tps = 1.0 (without initial connection time)", strings.Replace(said, "transactions: 0", "transactions: 4", 1), strings.Replace(said, "tps = 1500.000", "tps = 0.000", 1)} {
		if made, took, err := readPgbench(wrong); err == nil {
			t.Errorf("%q is read as %d in %s", wrong, made, took)
		}
	}
}
