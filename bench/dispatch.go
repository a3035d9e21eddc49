package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"
)

const dispatchCallers = 64

// dispatchVersusRaw compares whole calls of an in-process no-op tool with bare
// inserts of the rows that they leave.
func (b *bench) dispatchVersusRaw(ctx context.Context) (err error) {
	dir, err := b.configure(ctx, "dispatch", "127.0.0.1:8088", "")
	if err != nil {
		return err
	}
	calls, err := b.driver(roleCalls, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, calls.stop()) }()
	ours := &side{name: "placet", remote: calls.drive}
	if _, _, err := ours.drive(ctx, dispatchCallers, 50*time.Millisecond); err != nil {
		return err
	}
	rows, err := readTemplate(filepath.Join(dir, "state.db"))
	if err != nil {
		return err
	}
	inserts, err := b.driver(roleRows, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, inserts.stop()) }()
	bare := &side{name: "bare inserts", remote: inserts.drive}
	rounds, each := b.rounds()
	if err := race(ctx, dispatchCallers, rounds, each, ours, bare); err != nil {
		return err
	}
	if calls.ran != ours.made {
		return fmt.Errorf("%d calls were answered and the tool ran %d times", ours.made, calls.ran)
	}
	b.ratio("dispatch_vs_rawinsert", over(ours, bare), target{least: 0.6})
	b.say("  calls/s at %d callers, median of %d rounds: placet %.0f (%s), bare inserts %.0f (%s) (reported, not asserted)",
		dispatchCallers, rounds, median(ours.rate), ours.spread(), median(bare.rate), bare.spread())
	b.say("  a call is 1 call row, %d events and %d counters in 2 commits; %d calls, all reached the tool", len(rows.events), len(rows.counters), ours.made)
	return nil
}
