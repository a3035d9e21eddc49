package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

// resources reports what the server itself needs. Nothing is asserted: memory and
// start depend on the machine.
func (b *bench) resources(ctx context.Context) (err error) {
	binary := filepath.Join(b.dir, "placet")
	build := exec.CommandContext(ctx, "go", "build", "-o", binary, "./cmd/placet")
	build.Dir = b.root
	if said, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build placet: %w: %s", err, said)
	}
	l, err := listen()
	if err != nil {
		return err
	}
	upstream, err := b.start(roleUpstream, "", l)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, upstream.stop()) }()
	dir, err := b.configure(ctx, "resources", "127.0.0.1:0", "http://"+upstream.address+"/mcp")
	if err != nil {
		return err
	}
	idle, err := serveOnce(ctx, binary, dir)
	if err != nil {
		return err
	}
	b.say("idle memory %s of resident size, start %s (targets 60 MB; reported, not asserted)", megabytes(idle.resident), idle.start)
	open := 10_000
	if b.short {
		open = 500
	}
	if err := hold(ctx, dir, open); err != nil {
		return err
	}
	loaded, err := serveOnce(ctx, binary, dir)
	if err != nil {
		return err
	}
	b.say("with %d open calls, each with a pending approval: memory %s, start %s (targets 200 MB and 1s; reported, not asserted)", open, megabytes(loaded.resident), loaded.start)
	return nil
}

func megabytes(n int64) string {
	if n == 0 {
		return "not measured"
	}
	return fmt.Sprintf("%.0f MB", float64(n)/1e6)
}

// served is what one start of the server came to.
type served struct {
	start    time.Duration // from the start of the process to the listening line
	resident int64         // bytes, settle later
}

// settle is how long a server is left alone before its memory is read.
const settle = 2 * time.Second

// serveOnce starts the real binary, waits until it listens, looks at its memory
// and ends it.
func serveOnce(ctx context.Context, binary, dir string) (served, error) {
	var s served
	cmd := exec.CommandContext(ctx, binary, "dev", "--config", filepath.Join(dir, "placet.yaml"), "--tenants", tenant)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		return s, err
	}
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return s, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	s.start = time.Since(begin).Round(time.Millisecond)
	if err != nil {
		return s, errors.Join(fmt.Errorf("placet dev ended: %s", said.String()), cmd.Wait())
	}
	if !strings.Contains(line, "listening") {
		err = fmt.Errorf("placet dev said %q", line)
	}
	select {
	case <-time.After(settle):
	case <-ctx.Done():
	}
	s.resident = resident(cmd.Process.Pid)
	_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended; Wait says how
	return s, errors.Join(err, cmd.Wait())
}

// hold proposes calls that wait for a person.
func hold(ctx context.Context, dir string, n int) (err error) {
	p, issuer, err := open(ctx, dir, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	who, err := callers(ctx, p, issuer, dir, dispatchCallers)
	if err != nil {
		return err
	}
	var serial atomic.Int64
	proposing := &side{name: "proposing", call: func(ctx context.Context, caller int) error {
		i := serial.Add(1)
		if i > int64(n) {
			return errEnough
		}
		a, err := p.Boundary().Propose(ctx, dispatch.Proposal{Caller: who[caller], Tool: "stripe.refund",
			Arguments: json.RawMessage(fmt.Sprintf(`{"table":"orders","customer":"c-%d","amount":1200}`, i))})
		if err == nil && a.State() != record.ApprovalPending {
			err = fmt.Errorf("the call is %s: %s %v", a.State(), a.Code, a.Decision.Reasons)
		}
		return err
	}}
	if _, _, err := proposing.drive(ctx, dispatchCallers, time.Hour); !errors.Is(err, errEnough) {
		return err
	}
	return nil
}

var errEnough = errors.New("enough")
