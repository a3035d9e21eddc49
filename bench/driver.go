package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/tool/local"
)

// The roles of processes that make their calls themselves when they are told to.
// Each side has a process of its own: SQLite's page cache is one for a process, and
// so is the garbage collector.
const (
	roleCalls = "calls" // whole calls of an in-process tool
	roleRows  = "rows"  // bare inserts of the rows they leave

	roleChanges = "changes" // of a store in PostgreSQL
)

// command tells a driver what to do: drive, and answer with what came of it.
type command struct {
	Callers int
	For     time.Duration
}

type driven struct {
	Made  int64 // calls
	Took  time.Duration
	Ran   int64 // how often the tool ran since the start; -1: there is none
	Error string
}

// drives serves one of the roles until its input ends.
func drives(ctx context.Context, role, dir string, in io.Reader, out io.Writer) (err error) {
	s, ran, end, err := drivenSide(ctx, role, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	if _, err := io.WriteString(out, readyLine); err != nil {
		return err
	}
	commands, answers := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var c command
		if err := commands.Decode(&c); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		var d driven
		d.Made, d.Took, err = s.drive(ctx, c.Callers, c.For)
		if d.Ran = ran(); err != nil {
			d.Error = err.Error()
		}
		if err := answers.Encode(d); err != nil {
			return err
		}
	}
}

// drivenSide makes what a role drives of what it is given, the count of its tool, and what ends it.
func drivenSide(ctx context.Context, role, dir string) (s *side, ran func() int64, end func() error, err error) {
	if role == roleCalls {
		p, s, reached, err := newCalls(ctx, dir)
		if err != nil {
			return nil, nil, nil, err
		}
		return s, reached.Load, p.Close, nil
	}
	none := func() int64 { return -1 }
	if role == roleChanges {
		s, end, err := newChanges(ctx, dir)
		return s, none, end, err
	}
	rows, err := readTemplate(filepath.Join(dir, "state.db"))
	if err != nil {
		return nil, nil, nil, err
	}
	store, err := openRaw(ctx, filepath.Join(dir, "raw.db"), rows)
	if err != nil {
		return nil, nil, nil, err
	}
	return &side{name: "bare inserts", call: store.call}, none, store.close, nil
}

// newCalls opens Placet with a tool that does nothing but count.
func newCalls(ctx context.Context, dir string) (io.Closer, *side, *atomic.Int64, error) {
	reached := new(atomic.Int64)
	p, issuer, err := open(ctx, dir, func(context.Context, local.Call) (json.RawMessage, error) {
		reached.Add(1)
		return nil, nil
	})
	if err != nil {
		return nil, nil, nil, err
	}
	who, err := callers(ctx, p, issuer, dir, dispatchCallers)
	if err != nil {
		return nil, nil, nil, errors.Join(err, p.Close())
	}
	var serial atomic.Int64
	return p, &side{name: "placet", call: func(ctx context.Context, caller int) error {
		arguments := fmt.Appendf(nil, `{"table":"orders","customer":"c-%08d"}`, serial.Add(1))
		a, err := p.Do(ctx, dispatch.Proposal{Caller: who[caller], Tool: toolName, Arguments: arguments})
		if err == nil && a.State() != record.Succeeded {
			err = fmt.Errorf("the call is %s: %s %v", a.State(), a.Code, a.Decision.Reasons)
		}
		return err
	}}, reached, nil
}

// driver is such a process, seen from its parent.
type driver struct {
	cmd     *exec.Cmd
	input   io.WriteCloser
	answers *json.Decoder
	ran     int64
}

func (b *bench) driver(role, dir string) (*driver, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	d := &driver{cmd: exec.Command(self, childRole, role, dir, b.profile)}
	var said strings.Builder
	d.cmd.Stderr = &said
	if d.input, err = d.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := d.cmd.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewReader(out)
	if line, err := lines.ReadString('\n'); err != nil || line != readyLine {
		_ = d.stop()
		return nil, fmt.Errorf("the process for %s did not start: %s", role, strings.TrimSpace(said.String()))
	}
	d.answers = json.NewDecoder(lines)
	return d, nil
}

// drive is side.drive in the other process.
func (d *driver) drive(_ context.Context, callers int, each time.Duration) (int64, time.Duration, error) {
	if err := json.NewEncoder(d.input).Encode(command{callers, each}); err != nil {
		return 0, 0, err
	}
	var a driven
	if err := d.answers.Decode(&a); err != nil {
		return 0, 0, err
	}
	if a.Error != "" {
		return 0, 0, errors.New(a.Error)
	}
	d.ran = a.Ran
	return a.Made, a.Took, nil
}

func (d *driver) stop() error {
	if d == nil {
		return nil
	}
	return errors.Join(d.input.Close(), d.cmd.Wait())
}
