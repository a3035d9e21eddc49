package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/tool/local"
)

// dispatchVersusRaw compares whole calls of an in-process no-op tool with bare
// inserts of the rows that they leave.
func (b *bench) dispatchVersusRaw(ctx context.Context) (err error) {
	const callersAtOnce = 64
	dir, err := b.configure(ctx, "dispatch", "127.0.0.1:8088", "")
	if err != nil {
		return err
	}
	var reached atomic.Int64
	p, issuer, err := open(ctx, dir, func(context.Context, local.Call) (json.RawMessage, error) {
		reached.Add(1)
		return nil, nil
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	who, err := callers(ctx, p, issuer, dir, callersAtOnce)
	if err != nil {
		return err
	}
	var serial atomic.Int64
	ours := &side{name: "placet", call: func(ctx context.Context, caller int) error {
		arguments := fmt.Appendf(nil, `{"table":"orders","customer":"c-%08d"}`, serial.Add(1))
		a, err := p.Do(ctx, dispatch.Proposal{Caller: who[caller], Tool: toolName, Arguments: arguments})
		if err == nil && a.State() != record.Succeeded {
			err = fmt.Errorf("the call is %s: %s %v", a.State(), a.Code, a.Decision.Reasons)
		}
		return err
	}}
	for caller := range who { // one call each: their runs and counters
		if err := ours.call(ctx, caller); err != nil {
			return err
		}
		ours.made++
	}
	rows, err := readTemplate(filepath.Join(dir, "state.db"))
	if err != nil {
		return err
	}
	store, err := openRaw(ctx, filepath.Join(b.dir, "raw.db"), rows)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.close()) }()
	bare := &side{name: "bare inserts", call: store.call}
	rounds, each := b.rounds()
	stop, err := b.profiling("dispatch")
	if err != nil {
		return err
	}
	err = race(ctx, callersAtOnce, rounds, each, ours, bare)
	if err = errors.Join(err, stop()); err != nil {
		return err
	}
	if reached.Load() != ours.made {
		return fmt.Errorf("%d calls were answered and the tool ran %d times", ours.made, reached.Load())
	}
	b.ratio("dispatch_vs_rawinsert", over(ours, bare), target{least: 0.6})
	b.say("  calls/s at %d callers, median of %d rounds: placet %.0f (%s), bare inserts %.0f (%s) (reported, not asserted)",
		callersAtOnce, rounds, median(ours.rate), ours.spread(), median(bare.rate), bare.spread())
	b.say("  a call is 1 call row, %d events and %d counters in 2 commits; %d calls, all reached the tool", len(rows.events), len(rows.counters), ours.made)
	return nil
}
