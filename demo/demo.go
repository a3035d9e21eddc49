package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// ChildCommand is the hidden command by which [Run] starts this program again; it
// calls [Child] with what follows.
const ChildCommand = "demo-child"

// Options is how to play the demo. Stdout and Stderr are required.
type Options struct {
	JSON bool // one object a line, in place of the screen
	// Interactive leaves c and e to whoever signs in at the console as lena.
	Interactive bool
	Stdout      io.Writer
	Stderr      io.Writer
	// Self starts this program in a way that calls [Child] with the arguments
	// that are added. Empty: this executable with ChildCommand.
	Self []string

	// testOnlyHaste lets nobody look at the page after an answer.
	testOnlyHaste bool
	// testOnlyBeforeVerify is called with the ledger's path when the scene is over.
	testOnlyBeforeVerify func(ledger string) error
}

// longest is how long the whole demo may take before it gives up. People may take
// longer over two questions.
const (
	longest      = 2 * time.Minute
	longestAsked = 2 * time.Hour
)

// Run plays the demo and returns an exit code: 0 only if the ledger was verified.
// A signal that would end this program, or a reader of its output that leaves, ends
// the demo first.
func Run(ctx context.Context, o Options) int {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	defer stop()
	limit := longest
	if o.Interactive {
		limit = longestAsked
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	verified, err := run(ctx, o)
	if err != nil {
		fmt.Fprintf(o.Stderr, "placet demo: %v\n", err)
	}
	if err != nil || !verified {
		return 1
	}
	return 0
}

func run(ctx context.Context, o Options) (verified bool, err error) {
	begin := time.Now()
	if len(o.Self) == 0 {
		program, err := os.Executable()
		if err != nil {
			return false, fmt.Errorf("find this program: %w", err)
		}
		o.Self = []string{program, ChildCommand}
	}
	h, err := build(ctx, o.Self)
	// The processes end whatever happened, an interrupt included.
	defer func() { err = errors.Join(err, h.tear()) }()
	if err != nil {
		return false, err
	}
	var out report = &screen{w: o.Stdout, interactive: o.Interactive}
	if o.JSON {
		out = &lines{w: o.Stdout}
	}
	s := &scene{h: h, out: out, interactive: o.Interactive, shown: lookAt, steps: map[int64]string{}, calls: map[string]string{}}
	if o.testOnlyHaste {
		s.shown = 0
	}
	played := s.play(ctx)
	var tampered error
	if o.testOnlyBeforeVerify != nil {
		tampered = o.testOnlyBeforeVerify(h.ledgerPath())
	}
	sum := s.verify(ctx)
	sum.took = time.Since(begin)
	if played != nil && ctx.Err() != nil {
		played = fmt.Errorf("the scene was ended before its end: %w", played)
	}
	if played != nil {
		sum.fault("%v", played)
	}
	err = errors.Join(tampered, out.summary(sum))
	for _, f := range sum.faults {
		err = errors.Join(err, errors.New(f))
	}
	if played != nil && h.gateway != nil {
		if note := h.gateway.said.note(); note != "" {
			err = errors.Join(err, errors.New("the gateway"+note))
		}
	}
	return sum.Verified, err
}
