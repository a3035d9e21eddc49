package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/placet-dev/placet/store/postgres"
	"github.com/placet-dev/placet/store/postgres/pgtest"
)

// How often each side of these is measured, and for how long: they take longer than
// others, since clients of pgbench connect anew each time.
const (
	postgresRounds = 15
	postgresEach   = time.Second
)

// postgres compares changes of the store in PostgreSQL with pgbench, which inserts the
// same rows with a transaction for each, and two servers on a database with one.
func (b *bench) postgres(ctx context.Context) (err error) {
	server, err := pgtest.New("fsync=on")
	if pgtest.Absent(err) {
		fmt.Fprintf(b.out, "bench: postgres_vs_pgbench skipped: %v\n", err)
		return nil
	}
	if err != nil {
		return err
	}
	defer server.Close()
	b.say("PostgreSQL with fsync=on and synchronous_commit=on on both sides, %s", diskOf(os.TempDir()))
	const database, role = "bench", "runs"
	for _, q := range [][2]string{{"postgres", "CREATE DATABASE " + database}, {database, "CREATE ROLE " + role + " LOGIN PASSWORD 's3cret-" + role + "'"}} {
		if _, err := server.Query(q[0], q[1]); err != nil {
			return err
		}
	}
	if err := postgres.Migrate(ctx, server.DSN("owner", database), role); err != nil {
		return err
	}
	dsn := server.DSN(role, database)
	var drivers []*driver
	defer func() {
		for _, d := range drivers {
			err = errors.Join(err, d.stop())
		}
	}()
	start := func(kind string) (*driver, error) {
		d, err := b.driver(roleChanges, kind+" "+dsn)
		if err == nil {
			drivers = append(drivers, d)
		}
		return d, err
	}
	own, err := start("own")
	if err != nil {
		return err
	}
	hot, err := start("hot")
	if err != nil {
		return err
	}
	first := &side{name: "placet", remote: own.drive}
	if _, _, err := first.drive(ctx, 1, time.Millisecond); err != nil {
		return err
	}
	bare, pipelined, err := b.pgbench(ctx, server, dsn, server.DSN("owner", database))
	if err != nil {
		return err
	}
	ours, hottest := &side{name: "placet", remote: own.drive}, &side{name: "placet, one hot counter", remote: hot.drive}
	rounds, each := b.rounds()
	if err := race(ctx, changeCallers, min(rounds, postgresRounds), max(each, postgresEach), ours, bare, hottest, pipelined); err != nil {
		return err
	}
	b.ratio("postgres_vs_pgbench", over(ours, bare), target{least: 0.8})
	b.ratio("postgres_hot_vs_pgbench", over(hottest, bare), target{least: 0.8})
	for _, s := range []*side{ours, hottest, bare, pipelined} {
		b.say("  %s: %.0f a second at %d callers (%s) (reported, not asserted)", s.name, median(s.rate), changeCallers, s.spread())
	}
	b.say("  against pgbench with one round trip a transaction: ratio %.2f, with one hot counter %.2f (reported, not asserted)", over(ours, pipelined), over(hottest, pipelined))
	second, err := start("own")
	if err != nil {
		return err
	}
	made := first.made + ours.made + hottest.made + bare.made + pipelined.made
	return b.twoServers(ctx, server, database, own, second, made)
}

// twoServers compares two servers on one database with one, for the same callers, and
// says what a batch's time in the database went into.
func (b *bench) twoServers(ctx context.Context, server *pgtest.Server, database string, first, second *driver, made int64) error {
	at := map[string]*watch{}
	watched := func(name string, of remote) *side {
		at[name] = &watch{dsn: server.DSN("owner", database), seen: map[string]int{}}
		return &side{name: name, remote: at[name].during(of)}
	}
	one, two := watched("one server", first.drive), watched("two servers", together(first, second))
	rounds, each := b.rounds()
	if err := race(ctx, changeCallers, min(rounds, postgresRounds), max(each, postgresEach), one, two); err != nil {
		return err
	}
	b.ratio("postgres_two_servers_vs_one", over(two, one), target{})
	for _, s := range []*side{one, two} {
		b.say("  %s: %.0f changes/s at %d callers (%s); %s (reported, not asserted)", s.name, median(s.rate), changeCallers, s.spread(), at[s.name])
	}
	made += one.made + two.made
	recorded, err := server.Query(database, "SELECT count(*) FROM placet.calls")
	if err == nil && recorded != strconv.FormatInt(made, 10) {
		err = fmt.Errorf("%d changes were answered and %s are recorded", made, recorded)
	}
	return err
}

// together drives the same number of callers on several servers at once.
func together(drivers ...*driver) remote {
	return func(ctx context.Context, callers int, d time.Duration) (made int64, took time.Duration, err error) {
		var mu sync.Mutex
		var all sync.WaitGroup
		for _, each := range drivers {
			all.Go(func() {
				n, t, failed := each.drive(ctx, callers/len(drivers), d)
				mu.Lock()
				defer mu.Unlock()
				made, took, err = made+n, max(took, t), errors.Join(err, failed)
			})
		}
		all.Wait()
		return made, took, err
	}
}
