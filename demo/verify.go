package demo

import (
	"context"
	"fmt"
	"time"

	"github.com/placet-dev/placet/record"
)

// summary is what the help desk's own file says in the end.
type summary struct {
	Effects  []attributed `json:"effects"`
	Expected int          `json:"expected"`
	Verified bool         `json:"verified"`
	Decided  []decided    `json:"decided,omitempty"` // what people said at the console
	Second   burst        `json:"second_act"`

	faults []string // why not
	took   time.Duration
}

// attributed is an effect and the step after which it was there; empty if it
// appeared after none.
type attributed struct {
	Step string `json:"step"`
	Tool string `json:"tool"`
	Key  string `json:"key"`
}

func (s *summary) fault(format string, args ...any) {
	s.Verified = false
	s.faults = append(s.faults, fmt.Sprintf(format, args...))
}

// refund is an effect that the scene may have.
type refund struct{ step, tool, args string }

// expected are those effects, in their order: a refund that a person did not
// approve is none of them.
func (s *scene) expected() []refund {
	out := []refund{{"c2", "stripe_refund", refund1200}}
	if s.interactive {
		out = nil
		for _, d := range s.decided {
			switch {
			case d.State != record.Approved:
			case d.Step == "c":
				out = append(out, refund{"c2", "stripe_refund", refund1200})
			default:
				out = append(out, refund{"e2", "stripe_refund", refund4800})
			}
		}
	}
	return append(out, refund{"g", "stripe_refund", refund60}, refund{"h3", "issue_refund", refundOf(owned)})
}

// verify reads the help desk's file once more. It holds if there are exactly the
// expected refunds, each with its arguments, after its step, and under the key that
// the gateway's records name for that very call.
func (s *scene) verify(ctx context.Context) *summary {
	expected := s.expected()
	sum := &summary{Effects: []attributed{}, Expected: len(expected), Verified: true, Decided: s.decided, Second: s.second}
	for _, f := range s.faults {
		sum.fault("%s", f)
	}
	rows, err := readLedger(ctx, s.h.ledgerPath())
	if err != nil {
		sum.fault("%v", err)
		return sum
	}
	for _, r := range rows {
		sum.Effects = append(sum.Effects, attributed{s.steps[r.id], r.tool, r.key})
	}
	if len(rows) != len(expected) {
		sum.fault("the ledger holds %d effects, not %d", len(rows), len(expected))
		return sum
	}
	for i, want := range expected {
		r, key := rows[i], s.calls[want.step]
		switch {
		case r.tool != want.tool || r.args != want.args:
			sum.fault("effect %d of the ledger is not the one of step %s", i+1, want.step)
		case s.steps[r.id] != want.step:
			sum.fault("effect %d of the ledger appeared after step %q, not %s", i+1, s.steps[r.id], want.step)
		case key == "" || r.key != key:
			sum.fault("effect %d of the ledger has another key than the gateway's record of step %s", i+1, want.step)
		case i > 0 && r.key == rows[i-1].key:
			sum.fault("two effects of the ledger have one key")
		}
	}
	return sum
}
