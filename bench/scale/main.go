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
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/placet-dev/placet/store/postgres/pgtest"
)

func main() {
	debug.SetGCPercent(400) // as placet serve does
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		stop()
		os.Exit(1)
	}
}

// scale is one run.
type scale struct {
	dir    string
	rounds int
	calls  int  // of a round
	synced bool // PostgreSQL syncs what it commits
	out    io.Writer
}

func run(ctx context.Context, args []string, out io.Writer) error {
	s := &scale{out: out}
	flags := flag.NewFlagSet("scale", flag.ContinueOnError)
	stores := flags.String("stores", "sqlite,postgres", "which stores: sqlite, postgres")
	sizes := flags.String("sizes", "10000,100000,1000000", "how many calls the stores hold, the smallest first")
	flags.StringVar(&s.dir, "dir", "", "folder for the stores, on a real disk; about 1.2 GB for a million calls (default: a temporary one)")
	flags.IntVar(&s.rounds, "rounds", 15, "how often each store is measured, in turn")
	flags.IntVar(&s.calls, "calls", 400, "calls of a round")
	flags.BoolVar(&s.synced, "synced", true, "PostgreSQL syncs what it commits; SQLite always does")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var all []int
	for _, text := range strings.Split(*sizes, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return fmt.Errorf("-sizes: %q is no number of calls", text)
		}
		all = append(all, n)
	}
	dir, err := os.MkdirTemp(s.dir, "placet-scale-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s.dir = dir
	for _, kind := range strings.Split(*stores, ",") {
		if err := s.store(ctx, kind, all); err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
	}
	return nil
}

// store measures one kind of store at every size.
func (s *scale) store(ctx context.Context, kind string, sizes []int) (err error) {
	var server *pgtest.Server
	switch kind {
	case "sqlite":
	case "postgres":
		fsync := "fsync=off"
		if s.synced {
			fsync = "fsync=on"
		}
		server, err = pgtest.New(fsync, "max_wal_size=4GB", "shared_buffers=256MB")
		if pgtest.Absent(err) {
			fmt.Fprintf(s.out, "# postgres is left out: %v\n", err)
			return nil
		}
		if err != nil {
			return err
		}
		defer server.Close()
	default:
		return errors.New("there is no such store")
	}
	var stores []*filled
	defer func() {
		for _, f := range stores {
			err = errors.Join(err, f.close())
		}
	}()
	for _, n := range sizes {
		began := time.Now()
		f, e := s.fill(ctx, filepath.Join(s.dir, kind+strconv.Itoa(n)), server, n)
		if e != nil {
			return e
		}
		stores = append(stores, f)
		fmt.Fprintf(s.out, "# store=%s calls=%d filled in %s, opened in %s\n", kind, n, (time.Since(began) - f.opening).Round(time.Second), f.opening.Round(time.Millisecond))
	}
	if err := s.measure(ctx, stores); err != nil {
		return err
	}
	for _, f := range stores {
		var ratios []float64
		for i := range f.costs {
			ratios = append(ratios, f.costs[i]/stores[0].costs[i])
		}
		fmt.Fprintf(s.out, "# store=%s calls=%d median %.0f µs a call at %d callers\n", kind, f.n, median(f.costs), callers)
		fmt.Fprintf(s.out, "scale: store=%s calls=%d ratio=%.2f\n", kind, f.n, median(ratios))
	}
	return nil
}

func median(v []float64) float64 {
	sorted := slices.Sorted(slices.Values(v))
	return sorted[len(sorted)/2]
}
