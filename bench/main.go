package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

func main() {
	debug.SetGCPercent(400) // as placet serve does; the bare proxy goes back to Go's own setting
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	if len(os.Args) > 1 && os.Args[1] == childRole {
		err = child(ctx, os.Args[2:])
	} else {
		err = run(ctx, os.Args[1:], os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// bench is one run.
type bench struct {
	out     io.Writer
	root    string // of the module
	dir     string // of this run's files, on a real disk
	profile string // where profiles are written; empty: none
	short   bool
	missed  []string
}

// target is what a ratio must keep.
type target struct {
	least, most float64 // 0: no bound
}

func (t target) kept(r float64) bool {
	return (t.least == 0 || r >= t.least) && (t.most == 0 || r <= t.most)
}

func (t target) String() string {
	if t.least > 0 {
		return fmt.Sprintf("at least %.2f", t.least)
	}
	return fmt.Sprintf("at most %.2f", t.most)
}

var measurements = []struct {
	name string
	run  func(*bench, context.Context) error
}{
	{"dispatch_vs_rawinsert", (*bench).dispatchVersusRaw},
	{"postgres", (*bench).postgres},
	{"gateway", (*bench).gateway},
	{"exchanged_vs_plain", (*bench).exchanged},
	{"decision_vs_opa", (*bench).decisionVersusOPA},
	{"identity_vs_jose", (*bench).identityVersusJose},
	{"resources", (*bench).resources},
	{"waiting", (*bench).waiting},
}

func run(ctx context.Context, args []string, out io.Writer) error {
	b := &bench{out: out}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	var only, dir string
	var keep bool
	var names []string
	for _, m := range measurements {
		names = append(names, m.name)
	}
	flags.BoolVar(&b.short, "short", os.Getenv("PLACET_BENCH_SHORT") != "", "a smoke run: a few seconds each, nothing asserted (also PLACET_BENCH_SHORT=1)")
	flags.StringVar(&only, "only", "", "which, separated by commas: "+strings.Join(names, ", "))
	flags.StringVar(&dir, "dir", "", "where the stores are made: a folder on a real disk (default: a temporary one)")
	flags.StringVar(&b.root, "root", ".", "the top of the module")
	flags.StringVar(&b.profile, "profile", "", "a folder for CPU profiles of every process")
	flags.BoolVar(&keep, "report", false, "report only: exit 0 whatever the ratios are")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var err error
	if b.root, err = filepath.Abs(b.root); err != nil {
		return err
	}
	if b.profile != "" {
		if b.profile, err = filepath.Abs(b.profile); err != nil {
			return err
		}
	}
	if b.dir, err = os.MkdirTemp(dir, "placet-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	b.about()
	for _, m := range measurements {
		if only != "" && !slices.Contains(strings.Split(only, ","), m.name) {
			continue
		}
		if err := m.run(b, ctx); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	if len(b.missed) > 0 && !b.short && !keep {
		return errors.New("missed: " + strings.Join(b.missed, "; "))
	}
	return nil
}

// about says what the figures were measured on.
func (b *bench) about() {
	b.say("%s %s/%s, %d CPUs, %s, %s", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), processor(), diskOf(b.dir))
	b.say("durable: SQLite WAL, synchronous=FULL, one writer with group commit, on both sides where a ratio has commits")
}

func (b *bench) say(format string, args ...any) { fmt.Fprintf(b.out, "# "+format+"\n", args...) }

// ratio prints one, and notes whether it keeps its target.
func (b *bench) ratio(name string, r float64, t target) {
	fmt.Fprintf(b.out, "bench: %s ratio=%.2f\n", name, r)
	if !t.kept(r) {
		b.missed = append(b.missed, fmt.Sprintf("%s is %.2f and must be %s", name, r, t))
	}
}

// rounds is how often both sides are measured, and for how long each time.
func (b *bench) rounds() (int, time.Duration) {
	if b.short {
		return 2, 400 * time.Millisecond
	}
	return 25, 600 * time.Millisecond
}
