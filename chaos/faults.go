package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// director breaks things until enough processes have died.
type director struct {
	sides []*side
	kills int // wanted
	step  int // calls that are done between two of them, at most

	mu       sync.Mutex
	chance   *rand.Rand
	deck     map[string][]string // failpoints that were not drawn yet, by side
	counts   map[string]int      // faults by kind
	places   map[string]int      // deaths by failpoint
	alone    []string            // what processes said that ended by themselves
	dead     int
	restores bool // each store is put back to an earlier state once
	calm     bool // nobody breaks anything any more

	passed map[string]bool // what is done once in a run

	hurried atomic.Bool // nobody waits for a replica that has not stopped itself yet

	stop    bool     // a PostgreSQL replica is to stop itself behind a reservation
	stopper *replica // the one; it is started so again, should it die before, and not killed
}

func newDirector(seed uint64, kills, step int, sides []*side) *director {
	return &director{sides: sides, kills: kills, step: step, chance: rand.New(rand.NewPCG(seed, 1)), deck: map[string][]string{}, counts: map[string]int{}, places: map[string]int{}, passed: map[string]bool{}}
}

// steps are the changes that a call makes durable.
var steps = []string{"run_opened", "proposed", "executing", "succeeded", "unknown", "approval_requested", "answered", "approved", "rejected",
	"approval_consumed", "limited", "canceled", "returned", "queued", "delegated", "scheduled", "schedule_fired", "revocation", "revoked", "revocation_undone",
	"lease_extended"}

// inside are the places within a store.
var inside = map[string][]string{"sqlite": {"before commit", "after commit"}, "postgres": {"between round trips", "before commit", "after commit"}}

const stopPlace = "after executing"

func (d *director) n(most int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.chance.IntN(most)
}

func (d *director) count(kind string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.counts[kind]++
}

func (d *director) died() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.dead
}

// next is asked when a replica is to be started (again).
func (d *director) next(r *replica, how ending) string {
	if how.alone {
		time.Sleep(200 * time.Millisecond) // what made it end may still be so
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case how.point != "":
		d.counts["failpoint"]++
		d.places[how.point]++
		d.dead++
	case how.alone:
		d.counts["ended_alone"]++
		d.alone = append(d.alone, r.name+": "+how.said)
	}
	side := r.side.name
	switch {
	case d.calm || how.first:
		return ""
	case d.stop && r.side.database != nil && (d.stopper == nil || d.stopper == r):
		d.stopper = r
		return stopPlace + "|2|stop"
	case d.chance.IntN(2) == 0:
		return ""
	}
	if len(d.deck[side]) == 0 {
		for _, s := range steps {
			d.deck[side] = append(d.deck[side], "before "+s, "after "+s)
		}
		d.deck[side] = append(d.deck[side], inside[side]...)
		d.chance.Shuffle(len(d.deck[side]), func(i, j int) { d.deck[side][i], d.deck[side][j] = d.deck[side][j], d.deck[side][i] })
	}
	point := d.deck[side][0]
	d.deck[side] = d.deck[side][1:]
	times := 1 + d.chance.IntN(2)
	if strings.HasSuffix(point, "commit") || strings.HasSuffix(point, "trips") {
		times = 1 + d.chance.IntN(30)
	}
	return fmt.Sprintf("%s|%d|kill", point, times)
}

// patience is how long nothing may succeed on a side that is being broken.
const patience = 3 * time.Minute

// run breaks until enough processes have died.
func (d *director) run(ctx context.Context) error {
	var pauses sync.WaitGroup
	defer func() {
		d.hurried.Store(true)
		pauses.Wait()
	}()
	due := map[string]int{"database": 4, "connections": 2, "pause": 3, "disk": 8, "revoke": 5}
	every := map[string]int{"database": 12, "connections": 5, "pause": 100, "disk": 100, "revoke": 4}
	ready := func(kind string) bool {
		if d.died() < due[kind] {
			return false
		}
		due[kind] = d.died() + every[kind]
		return true
	}
	for d.died() < d.kills {
		s := d.sides[d.n(4)%len(d.sides)]
		if d.n(4) > 0 {
			s = d.sides[0]
		}
		if err := d.progress(ctx, s, 1+d.n(d.step)); err != nil {
			return err
		}
		if d.kill(ctx, s) {
			d.count("kill")
		}
		if err := d.history(ctx, &pauses); err != nil {
			return err
		}
		if s := d.sides[d.n(len(d.sides))]; ready("revoke") {
			tool, chance := revocable[d.n(len(revocable))], rand.New(rand.NewPCG(uint64(d.n(1<<30)), 5))
			pauses.Go(func() { s.crowd.revoke(ctx, tool, chance) })
			d.count("revocation")
		}
		for _, s := range d.sides {
			switch {
			case s.database != nil && ready("database"):
				if err := d.restartDatabase(s); err != nil {
					return err
				}
			case s.database != nil && ready("connections"):
				d.cutConnections(s)
			case s.database != nil && ready("pause"):
				pauses.Go(func() { d.pauseBeyondLease(ctx, s) })
			case s.small != nil && ready("disk"):
				if err := d.fillDisk(ctx, s); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// revocable are the tools that an operator takes away and gives back.
var revocable = []string{"note", "once", "later", "line", "wire", "here", "chime"}

// history copies each store when a third of the deaths are over, and puts it back after two.
func (d *director) history(ctx context.Context, others *sync.WaitGroup) error {
	for _, s := range d.sides {
		switch {
		case !d.restores:
		case !d.passed[s.name+" backup"] && d.died() >= d.kills/3:
			d.passed[s.name+" backup"] = true
			if err := s.backup(ctx, rand.New(rand.NewPCG(uint64(d.n(1<<30)), 7))); err != nil {
				return err
			}
			d.count("backup")
		case !d.passed[s.name+" restore"] && s.past.backed && d.died() >= d.kills*2/3:
			d.passed[s.name+" restore"] = true
			d.hurried.Store(true)
			others.Wait() // nobody is stopped, and nothing is taken away meanwhile
			d.hurried.Store(false)
			if err := s.restore(ctx, rand.New(rand.NewPCG(uint64(d.n(1<<30)), 6))); err != nil {
				return fmt.Errorf("%s: the store could not be put back: %w", s.name, err)
			}
			d.count("restore")
		}
	}
	return nil
}

// progress waits until callers have got n more calls done on a side, or a process of it
// died meanwhile.
func (d *director) progress(ctx context.Context, s *side, n int) error {
	from, dead, end := s.done.Load(), d.died(), time.Now().Add(patience)
	s.allowed.Store(from + int64(n) + ahead)
	for s.done.Load() < from+int64(n) && d.died() < dead+2 {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if time.Now().After(end) {
			return fmt.Errorf("%s: no call succeeded for %s, with %d requests that nobody took", s.name, patience, s.refused.Load())
		}
		time.Sleep(5 * time.Millisecond)
	}
	return nil
}

// kill is kill -9 of one that answers, or now and then of any, also one that only starts.
func (d *director) kill(ctx context.Context, s *side) bool {
	r := s.replicas[d.n(len(s.replicas))]
	d.mu.Lock()
	spared := r == d.stopper
	d.mu.Unlock()
	if spared || d.n(5) > 0 && !r.ready(ctx) || !r.kill() {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dead++
	return true
}

// restartDatabase ends PostgreSQL without a chance to clean up, and starts it again.
func (d *director) restartDatabase(s *side) error {
	s.database.Crash()
	d.count("database_restart")
	time.Sleep(time.Duration(d.n(500)) * time.Millisecond) // it is missed
	return s.database.Run()
}

// cutConnections ends what the replicas do in the database, wherever they are in it.
func (d *director) cutConnections(s *side) {
	if _, err := s.database.Query("postgres", "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = 'placet'"); err == nil {
		d.count("database_connections_cut")
	}
}

// pauseBeyondLease stops one replica behind a reservation, before the first byte leaves,
// and another one wherever it is, until their leases are long over.
func (d *director) pauseBeyondLease(ctx context.Context, s *side) {
	d.mu.Lock()
	d.stop = true
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.stop, d.stopper = false, nil
	}()
	var wake func()
	for end := time.Now().Add(patience); wake == nil && time.Now().Before(end) && ctx.Err() == nil && !d.hurried.Load(); {
		for _, r := range s.replicas {
			if w := r.slept(stopPlace); w != nil {
				wake = w
				break
			}
		}
		rest(ctx, 20*time.Millisecond)
	}
	if wake == nil {
		return
	}
	d.mu.Lock()
	d.stop = false
	d.mu.Unlock()
	for _, r := range s.replicas {
		if w := r.pause(); w != nil {
			first := wake
			wake = func() { first(); w() }
			d.count("paused_anywhere")
			break
		}
	}
	rest(ctx, lease+2*time.Second)
	wake()
	d.count("paused_with_a_reservation")
}

// fillDisk takes all room from the SQLite store until that was felt, kills its server
// while there is none, and gives the room back.
func (d *director) fillDisk(ctx context.Context, s *side) error {
	s.allowed.Add(1000) // somebody is to feel it
	defer func() { s.allowed.Store(s.done.Load() + ahead) }()
	if err := s.small.fill(); err != nil {
		return err
	}
	felt := func() {
		from := s.refused.Load()
		for end := time.Now().Add(20 * time.Second); s.refused.Load() < from+20 && time.Now().Before(end) && ctx.Err() == nil; {
			time.Sleep(5 * time.Millisecond)
		}
	}
	felt()
	if d.kill(ctx, s) {
		d.count("kill")
	}
	felt()
	d.count("full_disk")
	return s.small.free()
}

// rests ends the breaking: what is started from now on stays.
func (d *director) rests() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calm, d.stop = true, false
}
