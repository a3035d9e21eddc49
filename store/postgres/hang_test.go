package postgres

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/store/postgres/pgtest"
)

// said keeps what a store logs.
type said struct {
	mu    sync.Mutex
	lines []string
}

func (s *said) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, string(b))
	return len(b), nil
}

// count is how many lines hold all of the words.
func (s *said) count(words ...string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
lines:
	for _, line := range s.lines {
		for _, w := range words {
			if !strings.Contains(line, w) {
				continue lines
			}
		}
		n++
	}
	return n
}

// hurried opens a store whose times are short.
func hurried(t *testing.T, dsn string, o Options) (*Store, *said) {
	t.Helper()
	log := &said{}
	o.Log = slog.New(slog.NewTextHandler(log, nil))
	s, err := Open(t.Context(), dsn, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, log
}

// elsewhere runs statements in a transaction of somebody else, who then does nothing
// more until the test lets go.
func elsewhere(t *testing.T, dsn string, sql string, args ...any) (letGo func()) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	tx, err := conn.Begin(t.Context())
	if err == nil {
		_, err = tx.Exec(t.Context(), sql, args...)
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := tx.Rollback(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

// reservation is one of a new call.
func reservation(t *testing.T, r record.Run, arguments string, edit func(*record.Call)) record.Change {
	t.Helper()
	c := proposal(t, r, arguments)
	if edit != nil {
		edit(&c)
	}
	change, err := record.Reserve(c, stepOf(r, 0), noon.Add(time.Minute), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return change
}

// recorded reports whether a change's call is in the store.
func recorded(t *testing.T, s *Store, c record.Change) bool {
	t.Helper()
	call := c.Facts().Call.After
	_, err := s.Call(t.Context(), call.Tenant, call.ID)
	if err != nil && record.KindOf(err) != record.NotFound {
		t.Fatal(err)
	}
	return err == nil
}

// Who needs a lock that somebody holds for ever is told so when the time is over, and
// nothing of theirs is recorded; it is not tried again. Others, even of the same batch,
// go on. When the lock is free the same change is made, once.
func TestAHungLockHolderStopsOnlyWhoNeedsTheLock(t *testing.T) {
	dsn, server, database := runtimeRole(t)
	const lock = 300 * time.Millisecond
	s, log := hurried(t, dsn, Options{Lock: lock, Idle: lock / 2})
	other := anna
	other.Tenant = "globex"
	runs := []record.Run{openRun(t, s, anna), openRun(t, s, other)}
	letGo := elsewhere(t, server.DSN("owner", database), `SELECT pg_advisory_xact_lock($1)`, lockOf(lockTenant, "acme"))
	changes := make([]record.Change, 16)
	errs := make([]error, len(changes))
	began := time.Now()
	var all sync.WaitGroup
	for i := range changes {
		changes[i] = reservation(t, runs[i%2], fmt.Sprintf(`{"n":%d}`, i), nil)
		all.Go(func() { errs[i] = s.Apply(t.Context(), changes[i]) })
	}
	all.Wait()
	if took := time.Since(began); took < lock || took > 20*lock {
		t.Errorf("they were told after %s", took)
	}
	for i, err := range errs {
		switch there := recorded(t, s, changes[i]); {
		case i%2 == 0 && (record.KindOf(err) != record.Unavailable || !strings.Contains(err.Error(), "could not be recorded") || there):
			t.Errorf("who needs the lock is told %v; recorded: %t", err, there)
		case i%2 == 1 && (err != nil || !there):
			t.Errorf("who does not need it is told %v; recorded: %t", err, there)
		}
	}
	if n := log.count("a batch failed", "try=2"); n != 0 {
		t.Errorf("%d tries more for a lock that nobody lets go", n)
	}
	if n := log.count("a batch failed"); n == 0 || n > len(changes) { // each of theirs once alone, and once in a batch
		t.Errorf("%d batches failed", n)
	}
	letGo()
	for i := 0; i < len(changes); i += 2 {
		if err := s.Apply(t.Context(), changes[i]); err != nil {
			t.Errorf("with the lock free: %v", err)
		}
		if err := s.Apply(t.Context(), changes[i]); kindOf(err) != record.RefusedEqual {
			t.Errorf("a second time: %v", err)
		}
	}
}

// hang makes the database stand still at calls with a purpose: in the statement, or
// when it is to commit.
func hang(t *testing.T, do func(sql string) string) {
	t.Helper()
	do(`CREATE FUNCTION hang() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(600); RETURN NULL; END';
		CREATE TRIGGER hang AFTER INSERT ON placet.calls FOR EACH ROW WHEN (NEW.purpose = 'hang') EXECUTE FUNCTION hang();
		CREATE CONSTRAINT TRIGGER hang_at_commit AFTER INSERT ON placet.calls DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.purpose = 'hang at commit') EXECUTE FUNCTION hang()`)
}

// A statement that takes too long is ended, and its batch with it, for certain: nothing
// is recorded, and it is not tried again. One that hangs in COMMIT has no answer: it is
// not known, and is not tried again either. The next change is made.
func TestAHungDatabaseIsNotBelieved(t *testing.T) {
	dsn, server, database := runtimeRole(t)
	hang(t, func(sql string) string { return server.Do(t, database, sql) })
	const statement = 300 * time.Millisecond
	s, log := hurried(t, dsn, Options{Statement: statement})
	r := openRun(t, s, anna)
	for n, c := range []struct{ where, told, sent string }{
		{"hang", "could not be recorded", "commit_sent=true"},
		{"hang at commit", "not known", "commit_sent=true"},
	} {
		change := reservation(t, r, fmt.Sprintf(`{"n":%d}`, n), func(call *record.Call) { call.Purpose = c.where })
		began := time.Now()
		err := s.Apply(t.Context(), change)
		if record.KindOf(err) != record.Unavailable || !strings.Contains(err.Error(), c.told) {
			t.Errorf("%s: %v", c.where, err)
		}
		if took := time.Since(began); took < statement || took > 40*statement {
			t.Errorf("%s: told after %s", c.where, took)
		}
		if got := log.count("a batch failed"); got != n+1 || log.count(c.sent) != n+1 {
			t.Errorf("%s: %d batches failed: %q", c.where, got, log.lines)
		}
		if recorded(t, s, change) {
			t.Errorf("%s: it is recorded", c.where)
		}
		if err := s.Apply(t.Context(), reservation(t, r, fmt.Sprintf(`{"neighbour":%d}`, n), nil)); err != nil {
			t.Errorf("%s: the next change: %v", c.where, err)
		}
	}
}

// stops makes a committer stand still between what it read and what it writes, once:
// at says that it does, and it goes on when on is closed.
func stops() (pause func(), at, on chan struct{}) {
	at, on = make(chan struct{}), make(chan struct{})
	var once sync.Once
	return func() { once.Do(func() { close(at); <-on }) }, at, on
}

// A replica that stands still in the middle of a transaction keeps others waiting for
// as long as the server lets it, and fails nobody. When it wakes it has lost what it
// did, and decides anew: of two who want one call one has it.
func TestAPausedReplicaKeepsOthersWaitingBriefly(t *testing.T) {
	const idle, lock = 2 * time.Second, 10 * time.Second
	for name, blind := range map[string]bool{"it knows when it wakes": false, "it believes that no time has passed": true} {
		t.Run(name, func(t *testing.T) {
			dsn, _, _ := runtimeRole(t)
			pause, at, on := stops()
			b, _ := hurried(t, dsn, Options{Lock: lock, Idle: idle})
			r := openRun(t, b, anna)
			other := anna
			other.Tenant = "globex"
			elsewhere := openRun(t, b, other)
			authorized, err := record.Authorize(proposal(t, r, `{"n":1}`), stepOf(r, 0))
			apply(t, b, authorized, err)
			reserve := func() record.Change {
				c, err := record.Reserve(authorized.Facts().Call.After, stepOf(r, 0), noon.Add(time.Minute), nil, nil)
				if err != nil {
					t.Fatal(err)
				}
				return c
			}
			a, log := hurried(t, dsn, Options{Lock: lock, Idle: idle, testOnlyPause: pause})
			if blind {
				a.committer.idle = time.Hour
			}
			first := make(chan error, 1)
			go func() { first <- a.Apply(context.Background(), reserve()) }()
			<-at
			began := time.Now()
			if err := b.Apply(t.Context(), reservation(t, elsewhere, `{"n":2}`, nil)); err != nil || time.Since(began) >= idle {
				t.Errorf("who needs nothing that it holds: %v after %s", err, time.Since(began))
			}
			if err := b.Apply(t.Context(), reserve()); err != nil {
				t.Errorf("who waited: %v", err)
			}
			if took := time.Since(began); took > idle+lock/2 {
				t.Errorf("it waited for %s, and %s is allowed", took, idle)
			}
			close(on)
			if err := <-first; kindOf(err) != record.RefusedConflict && !(blind && err != nil) {
				t.Errorf("who stood still: %v", err)
			}
			if log.count("a batch failed", "try=1") != 1 || !blind && log.count("stood still") != 1 {
				t.Errorf("it says %q", log.lines)
			}
			if l, err := b.Call(t.Context(), "acme", authorized.Facts().Call.After.ID); err != nil || l.Call.Attempt != 1 {
				t.Errorf("attempt %d: %v", l.Call.Attempt, err)
			}
			// It serves again.
			if err := a.Apply(t.Context(), reservation(t, r, `{"n":3}`, nil)); err != nil {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

// One that wakes in time has what it holds.
func TestAReplicaThatWakesInTimeLosesNothing(t *testing.T) {
	dsn, _, _ := runtimeRole(t)
	pause, at, on := stops()
	b, _ := hurried(t, dsn, Options{})
	r := openRun(t, b, anna)
	a, log := hurried(t, dsn, Options{testOnlyPause: pause})
	change := reservation(t, r, `{"n":1}`, nil)
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { first <- a.Apply(context.Background(), change) }()
	<-at
	go func() { second <- b.Apply(context.Background(), reservation(t, r, `{"n":1}`, nil)) }()
	close(on)
	if err := <-first; err != nil || log.count("failed") != 0 {
		t.Errorf("who woke in time: %v %q", err, log.lines)
	}
	if err := <-second; kindOf(err) != record.RefusedEqual {
		t.Errorf("who waited for it: %v", err)
	}
}

// The times fit one another: who is paused is given up before those who wait for it
// give up, and both before a statement is.
func TestTimesOfOneAnother(t *testing.T) {
	o := Options{}.withDefaults()
	if !(o.Idle < o.Lock && o.Lock < o.Statement) {
		t.Errorf("a transaction waits for its process %s, others for its locks %s, and a statement takes %s", o.Idle, o.Lock, o.Statement)
	}
	dsn, _, _ := runtimeRole(t)
	s, _ := hurried(t, dsn, Options{})
	for setting, want := range map[string]time.Duration{"lock_timeout": o.Lock, "statement_timeout": o.Statement, "idle_in_transaction_session_timeout": o.Idle} {
		var got string
		conn, err := pgx.ConnectConfig(t.Context(), s.committer.config)
		if err == nil {
			err = conn.QueryRow(t.Context(), `SELECT setting FROM pg_settings WHERE name = $1`, setting).Scan(&got)
			_ = conn.Close(t.Context())
		}
		if err != nil || got != millis(want) {
			t.Errorf("%s is %s, want %s: %v", setting, got, millis(want), err)
		}
	}
}

// What goes around the locks, such as somebody at a prompt, fails the batch and not a
// promise: the batch is decided anew by what is there then.
func TestWhatGoesAroundTheLocks(t *testing.T) {
	dsn, server, database := runtimeRole(t)
	charged := func(s *Store, r record.Run, n int) error {
		step := stepOf(r, 0)
		step.Charges = []record.Charge{{Counter: "c", Amount: 1, Limit: 3}}
		c, err := record.Reserve(proposal(t, r, fmt.Sprintf(`{"n":%d}`, n)), step, noon.Add(time.Minute), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return s.Apply(t.Context(), c)
	}
	var around func()
	s, log := hurried(t, dsn, Options{testOnlyPause: func() {
		if f := around; f != nil {
			around = nil
			f()
		}
	}})
	r := openRun(t, s, anna)
	if err := charged(s, r, 0); err != nil {
		t.Fatal(err)
	}
	spend := func(by string) func() {
		return func() {
			server.Do(t, database, `UPDATE placet.counters SET level = '`+by+`', version = version + 1 WHERE tenant = 'acme' AND counter = 'c'`)
		}
	}
	around = spend("2")
	if err := charged(s, r, 1); err != nil {
		t.Errorf("with room for it: %v", err)
	}
	around = spend("3")
	if err := charged(s, r, 2); kindOf(err) != record.RefusedLimit {
		t.Errorf("without room: %v", err)
	}
	if n := log.count("a guard did not hold", "try=1"); n != 1 {
		t.Errorf("%d batches failed: %q", n, log.lines)
	}
	levels, err := s.Levels(t.Context(), "acme", []record.Counter{"c"})
	if err != nil || levels[0].Sum != 3 {
		t.Errorf("the counter holds %+v %v", levels, err)
	}
	// Likewise of a run that a change moves.
	around = func() {
		server.Do(t, database, `UPDATE placet.runs SET state = 'terminated', version = version + 1 WHERE id = '`+string(r.ID)+`'`)
	}
	turn, err := record.StartTurn(r, nil, r.By(), noon)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Apply(t.Context(), turn); kindOf(err) != record.RefusedConflict {
		t.Errorf("a turn of a run that was ended meanwhile: %v", err)
	}
}

// A server that has no room for all the locks of a batch takes its changes one by one.
func TestTooFewLocks(t *testing.T) {
	server := pgtest.Start(t, "max_locks_per_transaction=10", "max_connections=20")
	database := server.Database(t)
	s, log := hurried(t, server.DSN("owner", database), Options{testOnlyPause: func() {
		for range 1000 { // the others come meanwhile
			runtime.Gosched()
		}
	}})
	r := openRun(t, s, anna)
	race(t, 64, func(i int) error {
		step := stepOf(r, 0)
		for n := range 30 {
			step.Charges = append(step.Charges, record.Charge{Counter: record.CounterFor("c", fmt.Sprint(i*30+n)), Amount: 1, Limit: 1000})
		}
		c, err := record.Reserve(proposal(t, r, fmt.Sprintf(`{"n":%d}`, i)), step, noon.Add(time.Minute), nil, nil)
		if err != nil {
			return err
		}
		return s.Apply(t.Context(), c)
	})
	if open, err := s.OpenCalls(t.Context(), "acme", r.ID, 100); err != nil || len(open) != 64 {
		t.Errorf("%d of 64 calls: %v", len(open), err)
	}
	if log.count("a batch failed", "53200") == 0 {
		t.Error("there were locks enough: nothing was tested")
	}
}
