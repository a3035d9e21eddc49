package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/store/postgres/pgtest"
)

// openWith opens stores that look by the clock so seldom that a test would not see it.
func openWith(t *testing.T, dsn string, poll time.Duration) *Store {
	t.Helper()
	s, err := Open(t.Context(), dsn, Options{Poll: poll})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func hear(t *testing.T, s *Store) <-chan dispatch.Notice {
	t.Helper()
	out := make(chan dispatch.Notice, 100)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Listen(ctx, func(n dispatch.Notice) {
			select {
			case out <- n:
			case <-ctx.Done():
			}
		})
	}()
	t.Cleanup(func() { stop(); <-done })
	if n := patiently(t, out); !n.Anything {
		t.Fatalf("it began with %+v", n)
	}
	return out
}

func patiently[T any](t *testing.T, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(time.Minute):
		t.Fatal("nothing came")
	}
	return v
}

// What one server commits the others hear, at once and by name; its own they do not
// hear again, and after a connection broke they look at everything.
func TestServersHearOneAnother(t *testing.T) {
	dsn, _, _ := runtimeRole(t)
	a, b := openWith(t, dsn, time.Hour), openWith(t, dsn, time.Hour)
	atA, atB := hear(t, a), hear(t, b)
	r := openRun(t, a, anna)
	if n := patiently(t, atB); n.Anything || len(n.Moved) != 0 {
		t.Errorf("of a run without calls: %+v", n)
	}
	c, err := record.Authorize(proposal(t, r, `{"n":1}`), stepOf(r, 0))
	apply(t, a, c, err)
	if n := patiently(t, atB); !slices.Equal(n.Moved, []record.CallID{c.Facts().Call.After.ID}) {
		t.Errorf("of a call: %+v", n)
	}
	id := record.CallID(newID(t, "call"))
	if err := b.Stop(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if n := patiently(t, atA); !slices.Equal(n.Stop, []record.CallID{id}) { // and nothing of A's own before it
		t.Errorf("who is asked to stop: %+v", n)
	}
}

// When the connection breaks, who waits looks by the clock, and then hears again.
func TestServersThatCannotBeHeard(t *testing.T) {
	dsn, server, database := runtimeRole(t)
	a, b := openWith(t, dsn, time.Hour), openWith(t, dsn, 20*time.Millisecond)
	atB := hear(t, b)
	server.Do(t, database, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = '"+database+"' AND query IN ('LISTEN placet', '-- ping')")
	if n := patiently(t, atB); !n.Anything {
		t.Errorf("after a break: %+v", n)
	}
	// By name it hears what is committed once it listens again; what was before, it looks for.
	var made []record.CallID
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		r := openRun(t, a, anna)
		c, err := record.Authorize(proposal(t, r, `{"n":1}`), stepOf(r, 0))
		apply(t, a, c, err)
		made = append(made, c.Facts().Call.After.ID)
		if n := patiently(t, atB); slices.ContainsFunc(n.Moved, func(id record.CallID) bool { return slices.Contains(made, id) }) {
			return
		}
	}
	t.Error("nothing is heard by name after a break")
}

// A newer server's words, and anything else, say that anything may have moved.
func FuzzNotice(f *testing.F) {
	f.Add("me moved")
	f.Add("you moved call_06h2za3za7g1ab76egq4k4att4")
	f.Add("you stop x")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		n, other := readNotice(text, "me")
		if !other && (n.Anything || len(n.Moved)+len(n.Stop) > 0) || other && strings.HasPrefix(text, "me ") {
			t.Errorf("%q: %+v %v", text, n, other)
		}
		for _, id := range append(n.Moved, n.Stop...) {
			if !record.ValidID("call", string(id)) {
				t.Errorf("%q names %q", text, id)
			}
		}
	})
}

// What is done once is done by one server, and by another when that one is gone.
func TestOneServerLeads(t *testing.T) {
	dsn, server, database := runtimeRole(t)
	var leading, most, terms atomic.Int64
	lead := func(ctx context.Context, s *Store) <-chan struct{} {
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.Lead(ctx, func(ctx context.Context) {
				terms.Add(1)
				most.Store(max(most.Load(), leading.Add(1)))
				<-ctx.Done()
				leading.Add(-1)
			})
		}()
		return done
	}
	until := func(what string, so func() bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !so(); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal(what)
			}
		}
	}
	first, stop := context.WithCancel(t.Context())
	a := lead(first, openWith(t, dsn, 5*time.Millisecond))
	until("nobody leads", func() bool { return terms.Load() == 1 })
	second, end := context.WithCancel(t.Context())
	b := lead(second, openWith(t, dsn, 5*time.Millisecond))
	stop()
	<-a
	until("nobody took over", func() bool { return terms.Load() == 2 })
	// Its connection breaks: it stops, and leads again when it has the lock again.
	server.Do(t, database, "SELECT count(pg_terminate_backend(pid)) FROM pg_locks WHERE locktype = 'advisory' AND objid = 2 AND granted")
	until("it does not lead again", func() bool { return terms.Load() == 3 })
	end()
	<-b
	if most.Load() != 1 || leading.Load() != 0 {
		t.Errorf("%d led at once, %d still do", most.Load(), leading.Load())
	}
}

// The first server's keys are those of all.
func TestServersAgreeOnKeys(t *testing.T) {
	dsn, _, _ := runtimeRole(t)
	a, b := open(t, dsn, nil), open(t, dsn, nil)
	one, other := canon.Of("k", []byte("1")), canon.Of("k", []byte("2"))
	for _, c := range []struct {
		s      *Store
		digest canon.Digest
		fits   bool
	}{{a, canon.Digest{}, true}, {a, one, true}, {b, one, true}, {b, other, false}, {b, canon.Digest{}, false}} {
		err := c.s.Agree(t.Context(), "secret", c.digest)
		if c.fits != (err == nil) || err != nil && record.KindOf(err) != record.Conflict {
			t.Errorf("%v: %v", c.digest, err)
		}
	}
}

// A sign-in is one thing for all servers: of two that change it one is first.
func TestServersShareSignIns(t *testing.T) {
	dsn, _, _ := runtimeRole(t)
	a, b := open(t, dsn, nil), open(t, dsn, nil)
	ctx, owner := t.Context(), canon.Of("o", nil)
	name := func(n byte) canon.Digest { return canon.Of("n", []byte{n}) }
	kind := func(err error) record.Kind {
		if err == nil {
			return ""
		}
		return record.KindOf(err)
	}
	if _, _, _, err := a.Session(ctx, name(1)); kind(err) != record.NotFound {
		t.Errorf("an unknown one: %v", err)
	}
	if err := a.PutSession(ctx, name(1), owner, []byte("one"), 1, noon); err != nil {
		t.Fatal(err)
	}
	if err := b.PutSession(ctx, name(1), owner, []byte("two"), 2, noon); err != nil {
		t.Fatal(err)
	}
	if err := a.PutSession(ctx, name(1), owner, []byte("too late"), 2, noon); kind(err) != record.Conflict {
		t.Errorf("a change of what has changed: %v", err)
	}
	if err := a.UseSession(ctx, name(1), noon.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if sealed, version, used, err := b.Session(ctx, name(1)); string(sealed) != "two" || version != 2 || !used.Equal(noon.Add(time.Minute)) || err != nil {
		t.Errorf("kept: %q %d %v %v", sealed, version, used, err)
	}
	for n := range byte(4) {
		if err := a.PutSession(ctx, name(10+n), owner, []byte("more"), 1, noon.Add(time.Duration(n)*time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.TrimSessions(ctx, owner, 2, noon.Add(30*time.Second), noon.Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	var left []byte
	for _, n := range []byte{1, 10, 11, 12, 13} {
		if _, _, _, err := a.Session(ctx, name(n)); err == nil {
			left = append(left, n)
		}
	}
	if !slices.Equal(left, []byte{12, 13}) {
		t.Errorf("left: %v", left)
	}
	if err := a.DropSession(ctx, name(13)); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := b.Session(ctx, name(13)); kind(err) != record.NotFound {
		t.Errorf("a sign-in that ended: %v", err)
	}
}

// During a rolling upgrade the program before and the one after use one schema; one
// that is not to use it any more says so, before it serves and while it does.
func TestRollingUpgrade(t *testing.T) {
	server := pgtest.Shared(t)
	database := server.Database(t)
	dsn := server.DSN("owner", database)
	before := replicasOf(t, dsn, 2, 0)
	adds := `ALTER TABLE calls ADD COLUMN later TEXT NOT NULL DEFAULT ''; ALTER TABLE runs ADD COLUMN later BIGINT NOT NULL DEFAULT 0;
		CREATE TABLE later (tenant TEXT NOT NULL, id TEXT NOT NULL, PRIMARY KEY (tenant, id)); SELECT isolate('later');`
	after, err := Open(t.Context(), dsn, Options{testOnlySteps: []string{adds}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = after.Close() })
	late := open(t, dsn, nil) // an old program that starts after the migration
	shareLimitsAndReservations(t, []*Store{before[0], after, late})
	if err := before[1].Fits(t.Context()); err != nil {
		t.Errorf("after a migration that only adds: %v", err)
	}
	known, err := steps()
	if err != nil {
		t.Fatal(err)
	}
	ends := fmt.Sprintf("-- oldest: %d\nDROP TABLE later;", len(known)+2)
	newest, err := Open(t.Context(), dsn, Options{testOnlySteps: []string{adds, ends}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = newest.Close() })
	if err := newest.Fits(t.Context()); err != nil {
		t.Errorf("the newest: %v", err)
	}
	for _, s := range []*Store{late, after} {
		if err := s.Fits(t.Context()); record.KindOf(err) != record.Unavailable {
			t.Errorf("one that runs: %v", err)
		}
	}
	if s, err := Open(t.Context(), dsn, Options{}); err == nil || !strings.Contains(err.Error(), "newer program") {
		t.Errorf("one that starts: %v", err)
		if s != nil {
			_ = s.Close()
		}
	}
}
