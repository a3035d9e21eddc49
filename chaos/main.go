package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/store/postgres/pgtest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		stop()
		os.Exit(1) //nolint:gocritic // stop has been called
	}
}

// options are what a run is asked for.
type options struct {
	kills   int
	seed    uint64
	mutants bool
	keep    bool
	dir     string
	within  time.Duration
}

func run(ctx context.Context, args []string, out io.Writer) error {
	var o options
	flags := flag.NewFlagSet("chaos", flag.ContinueOnError)
	flags.IntVar(&o.kills, "kills", 60, "how many processes die")
	flags.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()), "of what is chosen by chance")
	flags.BoolVar(&o.mutants, "mutants", false, "run the servers that break a promise, and fail if one of them is not caught")
	flags.StringVar(&o.dir, "dir", "", "folder for the files of the run (default: a temporary one)")
	flags.BoolVar(&o.keep, "keep", false, "leave the files of the run")
	flags.DurationVar(&o.within, "within", 0, "give up after this time (default: four minutes, and two seconds for each kill)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	o.within = cmp.Or(o.within, 4*time.Minute+time.Duration(o.kills)*2*time.Second)
	ctx, cancel := context.WithTimeoutCause(ctx, o.within, fmt.Errorf("it is not over after %s", o.within))
	defer cancel()
	dir, err := os.MkdirTemp(o.dir, "placet-chaos-")
	if err != nil {
		return err
	}
	if o.keep {
		fmt.Fprintf(out, "chaos: files are in %s\n", dir)
	} else {
		defer os.RemoveAll(dir)
	}
	root, err := moduleRoot(ctx)
	if err != nil {
		return err
	}
	program, err := build(ctx, root, dir)
	if err != nil {
		return err
	}
	if o.mutants {
		return runMutants(ctx, o, dir, program, out)
	}
	violations, err := play(ctx, o, ordinary, filepath.Join(dir, "run"), program, out)
	if err == nil && violations > 0 {
		err = fmt.Errorf("%d violations", violations)
	}
	return err
}

func moduleRoot(ctx context.Context) (string, error) {
	text, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	return filepath.Dir(strings.TrimSpace(string(text))), err
}

// scenario is what is played.
type scenario struct {
	mutant string
	loss   float64 // how many of the calls lose their answer
	step   int     // how many calls are done between two kills, at most
	judge  bool    // to the end: leases, reconciliation and every call
	shared bool    // also on PostgreSQL
}

var ordinary = scenario{loss: 0.06, step: 4, judge: true, shared: true}

// mutants break a promise each. Their unknown calls are not waited for: the effects
// alone must show what is wrong.
var mutants = []scenario{
	{mutant: "record_after_effect", step: 40},
	{mutant: "repeat_unknown", step: 40, loss: 0.3},
}

// runMutants is the test of the test: each mutant must be found out, and what is no
// mutant must not be.
func runMutants(ctx context.Context, o options, dir, program string, out io.Writer) error {
	for _, s := range append([]scenario{{mutant: "none", step: 40, loss: 0.3}}, mutants...) {
		var told strings.Builder
		violations, err := play(ctx, o, s, filepath.Join(dir, s.mutant), program, &told)
		if err != nil {
			return fmt.Errorf("mutant %s: %w\n%s", s.mutant, err, told.String())
		}
		if caught := violations > 0; caught != (s.mutant != "none") {
			return fmt.Errorf("mutant %s: %d violations\n%s", s.mutant, violations, told.String())
		}
		fmt.Fprintf(out, "chaos: mutant=%s violations=%d\n", s.mutant, violations)
	}
	return nil
}

// play is one run: work and faults, then rest, then the judgement.
func play(ctx context.Context, o options, scene scenario, dir, program string, out io.Writer) (violations int, err error) {
	fmt.Fprintf(out, "chaos: seed=%d\n", o.seed)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return 0, err
	}
	file := filepath.Join(dir, "account")
	account, err := openAccount(file)
	if err != nil {
		return 0, err
	}
	defer account.file.Close()
	tools, err := serveTools(account, scene.loss, rand.New(rand.NewPCG(o.seed, 2)), "postgres", "sqlite")
	if err != nil {
		return 0, err
	}
	defer tools.close()

	var sides []*side
	defer func() {
		for _, s := range sides {
			s.close()
		}
	}()
	if scene.shared {
		s, err := openPostgres(ctx, dir, program, tools)
		if s != nil {
			sides = append(sides, s)
		}
		switch {
		case pgtest.Absent(err):
			fmt.Fprintf(out, "chaos: skipped=postgres %v\n", err)
		case err != nil:
			return 0, err
		}
	}
	s, err := openSQLite(ctx, dir, program, tools, 128+o.kills/2)
	sides = append(sides, s)
	if err != nil {
		return 0, err
	}
	if s.small == nil {
		fmt.Fprintln(out, "chaos: skipped=full_disk a small file system cannot be mounted here")
	}
	d := newDirector(o.seed, o.kills, scene.step, sides)
	d.restores = scene.judge
	var crowds []*crowd
	for i, s := range sides {
		s.env = append(s.env, "PLACET_CHAOS_MUTANT="+scene.mutant)
		for _, r := range s.replicas {
			r.keep(ctx, d.next)
		}
		c := newCrowd(s, o.seed+uint64(i))
		s.crowd = c
		s.allowed.Store(ahead)
		c.begin(ctx, 2*len(s.replicas))
		crowds = append(crowds, c)
	}
	for _, s := range sides {
		if scene.judge && err == nil {
			err = s.learnKey(ctx)
		}
	}
	began := time.Now()
	if err == nil {
		err = d.run(ctx)
	}
	took := time.Since(began)
	d.rests()
	tools.calm.Store(true)
	for _, s := range sides {
		s.issuer.calm.Store(true)
	}
	for _, c := range crowds {
		c.finish()
	}
	if err != nil {
		return 0, d.explain(ctx, err)
	}
	fmt.Fprintf(out, "chaos: broken for %s, %s for each death\n", took.Round(time.Second), (took / time.Duration(max(1, d.died()))).Round(10*time.Millisecond))
	v := &verdict{}
	chance := rand.New(rand.NewPCG(o.seed, 3))
	var lines []string
	for _, c := range crowds {
		line, err := v.side(ctx, c, scene.judge, chance, file)
		if err != nil {
			return 0, d.explain(ctx, err)
		}
		lines = append(lines, line)
	}
	d.report(out, tools)
	for _, l := range lines {
		fmt.Fprintln(out, l)
	}
	for i, text := range v.violations {
		if i == 20 {
			fmt.Fprintf(out, "chaos: and %d more\n", len(v.violations)-i)
			break
		}
		fmt.Fprintf(out, "chaos: violation: %s\n", text)
	}
	fmt.Fprintf(out, "chaos: kills=%d violations=%d\n", d.died(), len(v.violations))
	return len(v.violations), nil
}

// side settles a side, ends its servers, and judges it.
func (v *verdict) side(ctx context.Context, c *crowd, whole bool, chance *rand.Rand, file string) (string, error) {
	s := c.side
	var happened, not int
	dead := map[record.CallID]bool{}
	if whole {
		c.giveBack(ctx, chance)
		c.noMore(ctx, chance)
		if err := c.settle(ctx, chance); err != nil {
			return "", err
		}
		var err error
		happened, not, err = c.reconcile(ctx, chance, func() (map[string]int, error) {
			all, err := readAccount(file)
			return byKey(all, s.name), err
		})
		if err != nil {
			return "", err
		}
		gone, err := c.dead(ctx, chance)
		if err != nil {
			return "", fmt.Errorf("%s: nobody says which queued calls are dead: %w", s.name, err)
		}
		for _, u := range gone {
			dead[u.ID] = true
		}
		if err := s.proved(ctx); err != nil {
			return "", err
		}
		v.violations = append(v.violations, s.past.found...)
	}
	for _, r := range s.replicas {
		r.end()
		v.violations = append(v.violations, r.panicked()...)
	}
	store, err := s.records(ctx, false)
	if err != nil {
		return "", err
	}
	all, err := readAccount(file)
	if err != nil {
		return "", errors.Join(err, store.Close())
	}
	l, err := v.readLog(ctx, s.name, store)
	if err != nil {
		return "", errors.Join(err, store.Close())
	}
	lost, err := v.lost(ctx, s, l, byKey(all, s.name))
	if err != nil {
		return "", errors.Join(err, store.Close())
	}
	v.effects(s.name, v.with(s.name, l, lost), all)
	full := v.limits(s.name, all)
	honest, ran := v.answers(s.name, c.told, all)
	states, err := v.ends(ctx, s.name, store, reckoning{log: l, other: lost, effects: byKey(all, s.name), whole: whole, dead: dead})
	if err := errors.Join(err, store.Close()); err != nil {
		return "", err
	}
	if ran*2 < honest || ran == 0 {
		v.add("%s: only %d of %d legitimate calls ran", s.name, ran, honest)
	}
	if whole && s.past.sealed < int64(l.events)-20 {
		v.add("%s: the log has %d events, and %d of them are sealed", s.name, l.events, s.past.sealed)
	}
	var ends []string
	for _, state := range slices.Sorted(maps.Keys(states)) {
		ends = append(ends, fmt.Sprintf("%s=%d", state, states[state]))
	}
	line := fmt.Sprintf("chaos: side=%s events=%d effects=%d legitimate=%d ran=%d calls: %s; %d were unknown, reconciled: %d had happened, %d had not; %d late answers, %d purses spent",
		s.name, l.events, len(byKey(all, s.name)), honest, ran, strings.Join(ends, " "), l.unknown, happened, not, l.late, full)
	if whole {
		used := map[string]int{}
		for _, e := range all {
			if e.Side == s.name && !e.Again {
				used[e.Tool]++
			}
		}
		line += fmt.Sprintf("\nchaos: side=%s queued: %d effects, %d dead; schedules: %d made, %d firings, %d effects; %d effects under leases; %d revocations; %d of %d events sealed, %d proofs",
			s.name, used["later"]+used["once"], len(dead), c.timed, l.fired, used["chime"], used["here"], l.revoked, s.past.sealed, l.events, s.past.proofs)
	}
	if lost != nil {
		line += fmt.Sprintf("\nchaos: side=%s restored: %d events of the lost store, %d of the one in its place were there before, with calls waiting of which %d had run; %d calls and %d questions of before were asked for again",
			s.name, lost.events, l.before, s.past.used, s.past.calls, s.past.asked)
	}
	return line, nil
}

// lost judges the store that gave way to an earlier state of itself, as far as it goes; nil: there
// is none.
func (v *verdict) lost(ctx context.Context, s *side, after *log, effects map[string]int) (*log, error) {
	want := 0
	if s.past.restored {
		want = 1
	}
	if after.epochs != want {
		v.add("%s: the log tells of %d new epochs", s.name, after.epochs)
	}
	if !s.past.restored {
		return nil, nil
	}
	store, err := s.records(ctx, true)
	if err != nil {
		return nil, err
	}
	l, err := v.readLog(ctx, s.name, store)
	if err == nil {
		_, err = v.ends(ctx, s.name+" (lost)", store, reckoning{log: l, other: after, effects: effects})
	}
	if s.past.used == 0 {
		v.add("%s: nothing ran that the backup had waiting", s.name)
	}
	if l != nil && l.events <= after.before {
		v.add("%s: nothing was lost: %d events, and %d before the new epoch", s.name, l.events, after.before)
	}
	return l, errors.Join(err, store.Close())
}

// report prints a line for each kind of fault.
func (d *director) report(out io.Writer, t *toolServer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.counts["reset_after_effect"], d.counts["reset_before_effect"] = int(t.lost.Load()), int(t.early.Load())
	for _, kind := range slices.Sorted(maps.Keys(d.counts)) {
		fmt.Fprintf(out, "chaos: fault=%s count=%d\n", kind, d.counts[kind])
	}
	var places []string
	for _, p := range slices.Sorted(maps.Keys(d.places)) {
		places = append(places, fmt.Sprintf("%s %d", p, d.places[p]))
	}
	if len(places) > 0 {
		fmt.Fprintf(out, "chaos: failpoints: %s\n", strings.Join(places, ", "))
	}
}

// explain adds how far it came, and what processes said that ended by themselves.
func (d *director) explain(ctx context.Context, err error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if why := context.Cause(ctx); why != nil {
		err = fmt.Errorf("%w: %d of %d processes have died; give it more time with -within, or a machine that has less to do (%w)", why, d.dead, d.kills, err)
	}
	if len(d.alone) == 0 {
		return err
	}
	return fmt.Errorf("%w\n%d processes ended by themselves; the last one said: %s", err, len(d.alone), d.alone[len(d.alone)-1])
}
