package postgres

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/store/postgres/pgtest"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

var anna = record.Owner{Tenant: "acme", Principal: record.Principal{Issuer: "https://idp", Subject: "anna"}, Agent: "bot"}

func newID(t testing.TB, prefix string) string {
	t.Helper()
	id, err := record.NewID(prefix, noon, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// replicas are stores of one database, each with a committer that lingers between what
// it read and what it writes.
func replicas(t testing.TB, n int) []*Store {
	t.Helper()
	dsn, _, _ := runtimeRole(t)
	return replicasOf(t, dsn, n, 0)
}

// replicasOf opens stores whose batches hold so many changes. None of their batches
// may fail, though it would be tried again.
func replicasOf(t testing.TB, dsn string, n, batch int) (out []*Store) {
	t.Helper()
	for range n {
		s, err := Open(t.Context(), dsn, Options{Batch: batch, Log: slog.New(slog.NewTextHandler(complains{t}, nil)), testOnlyPause: func() {
			for range 50 {
				runtime.Gosched()
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		out = append(out, s)
	}
	return out
}

// complains makes a test fail by what a store logs, but for what is said of a server
// that does not wait for its disk.
type complains struct{ t testing.TB }

func (c complains) Write(b []byte) (int, error) {
	if !bytes.Contains(b, []byte("fsync")) {
		c.t.Errorf("a store logs %s", b)
	}
	return len(b), nil
}

// Replicas that want the same locks wait for one another, never in a circle.
func TestReplicasLockInOneOrder(t *testing.T) {
	dsn, _, _ := runtimeRole(t)
	s := replicasOf(t, dsn, 3, 2)
	r := openRun(t, s[0], anna)
	race(t, 120, func(i int) error {
		step := stepOf(r, 0)
		for n := range 8 {
			step.Charges = append(step.Charges, record.Charge{Counter: record.CounterFor("c", fmt.Sprint((i*5+n*3)%11)), Amount: 1, Limit: 1000})
		}
		reserve, err := record.Reserve(proposal(t, r, fmt.Sprintf(`{"order":%d}`, i)), step, noon.Add(time.Minute), nil, nil)
		if err != nil {
			return err
		}
		return s[i%3].Apply(t.Context(), reserve)
	})
}

func apply(t testing.TB, s *Store, c record.Change, err error) {
	t.Helper()
	if err == nil {
		err = s.Apply(t.Context(), c)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func openRun(t testing.TB, s *Store, o record.Owner) record.Run {
	t.Helper()
	c := record.OpenRun(record.Run{Owner: o, ID: record.RunID(newID(t, "run")), Lineage: record.LineageID(newID(t, "lin")), Vouched: true, Turn: 1, Opened: noon, Active: noon}, o.By())
	apply(t, s, c, nil)
	return c.Facts().Run.After
}

func proposal(t testing.TB, r record.Run, arguments string) record.Call {
	t.Helper()
	a := []byte(arguments)
	return record.Call{Owner: r.Owner, ID: record.CallID(newID(t, "call")), Run: r.ID, Lineage: r.Lineage, Turn: r.Turn,
		Tool:      record.ToolRef{Name: "refund", Server: "desk", Version: canon.Of("v"), Pin: canon.Of("p")},
		Arguments: a, Digest: record.ArgumentDigest(a, nil), Effect: record.NewEffectKey(r.Owner, "refund", a),
		Source: record.Direct, Route: record.RouteAPI, Attempts: 1, Proposed: noon, Changed: noon, Expires: noon.Add(time.Hour)}
}

func stepOf(r record.Run, generation int64) record.Step {
	return record.Step{At: noon, Who: r.By(), Decision: record.Decision{Verdict: record.Allow, At: noon, Generation: generation},
		Premise: &record.Premise{Tenant: r.Tenant, Run: r.ID, Owner: r.Owner, Turn: r.Turn, Generation: generation}}
}

func kindOf(err error) record.RefusalKind {
	var r *record.Refusal
	if errors.As(err, &r) {
		return r.Kind
	}
	return ""
}

// race runs f n times at once and returns how many succeeded; what was refused must
// have been refused for one of the reasons.
func race(t *testing.T, n int, f func(i int) error, reasons ...record.RefusalKind) (won int) {
	t.Helper()
	errs := make([]error, n)
	var start, done sync.WaitGroup
	start.Add(1)
	for i := range n {
		done.Go(func() { start.Wait(); errs[i] = f(i) })
	}
	start.Done()
	done.Wait()
	for _, err := range errs {
		ok := err == nil
		for _, r := range reasons {
			ok = ok || kindOf(err) == r
		}
		if !ok {
			t.Errorf("a race was lost by %v", err)
		}
		if err == nil {
			won++
		}
	}
	return won
}

// One call, one effect, one limit, whichever replica is asked.
func TestReplicasShareLimitsAndReservations(t *testing.T) {
	shareLimitsAndReservations(t, replicas(t, 3))
}

func shareLimitsAndReservations(t *testing.T, s []*Store) {
	t.Helper()
	r := openRun(t, s[0], anna)
	t.Run("a reservation", func(t *testing.T) {
		authorized, err := record.Authorize(proposal(t, r, `{"n":1}`), stepOf(r, 0))
		apply(t, s[0], authorized, err)
		c := authorized.Facts().Call.After
		if won := race(t, 30, func(i int) error {
			reserve, err := record.Reserve(c, stepOf(r, 0), noon.Add(time.Minute), nil, nil)
			if err != nil {
				return err
			}
			return s[i%3].Apply(t.Context(), reserve)
		}, record.RefusedConflict); won != 1 {
			t.Errorf("%d reserved one call", won)
		}
	})
	t.Run("an equal effect", func(t *testing.T) {
		for _, seen := range []bool{true, false} { // by the premise, and by the index alone
			arguments := fmt.Sprintf(`{"equal":%v}`, seen)
			if won := race(t, 30, func(i int) error {
				c, step := proposal(t, r, arguments), stepOf(r, 0)
				if seen {
					step.Premise.Seen = []record.Seen{{Key: c.Effect}}
				}
				reserve, err := record.Reserve(c, step, noon.Add(time.Minute), nil, nil)
				if err != nil {
					return err
				}
				return s[i%3].Apply(t.Context(), reserve)
			}, record.RefusedPremise, record.RefusedEqual); won != 1 {
				t.Errorf("%d equal calls are open", won)
			}
		}
	})
	t.Run("a limit", func(t *testing.T) {
		// Two counters in either order: without an order of locks, replicas would wait for one another.
		charges := []record.Charge{{Counter: "a", Amount: 1, Limit: 17, Window: time.Minute}, {Counter: "b", Amount: 2, Limit: 1000}}
		if won := race(t, 60, func(i int) error {
			step := stepOf(r, 0)
			step.Charges = []record.Charge{charges[i%2], charges[1-i%2]}
			reserve, err := record.Reserve(proposal(t, r, fmt.Sprintf(`{"limit":%d}`, i)), step, noon.Add(time.Minute), nil, nil)
			if err != nil {
				return err
			}
			return s[i%3].Apply(t.Context(), reserve)
		}, record.RefusedLimit); won != 17 {
			t.Errorf("%d passed a limit of 17", won)
		}
		levels, err := s[1].Levels(t.Context(), "acme", []record.Counter{"b", "a"})
		if err != nil || levels[0].Sum != 34 || levels[1].Used(time.Minute, noon) != 17 {
			t.Errorf("counters hold %+v %v", levels, err)
		}
	})
}

// What facts 6 saw to fail without locks: each command is before or after every
// reservation, whichever replica takes which.
func TestReplicasKeepTheFence(t *testing.T) {
	s := replicas(t, 2)
	t.Run("a run ends", func(t *testing.T) {
		for range 10 {
			r := openRun(t, s[0], anna)
			race(t, 17, func(i int) error {
				if i == 8 {
					end, err := record.EndRun(r, "race", r.By(), noon)
					if err != nil {
						return err
					}
					return s[1].Apply(t.Context(), end)
				}
				c, err := record.Authorize(proposal(t, r, fmt.Sprintf(`{"end":%d}`, i)), stepOf(r, 0))
				if err != nil {
					return err
				}
				return s[i%2].Apply(t.Context(), c)
			}, record.RefusedPremise)
			if open, err := s[0].OpenCalls(t.Context(), "acme", r.ID, 100); err != nil || len(open) != 0 {
				t.Fatalf("an ended run keeps %d open calls: %v", len(open), err)
			}
		}
	})
	t.Run("a person starts fresh", func(t *testing.T) {
		for n := range 6 {
			o := anna
			o.Agent = record.AgentID(fmt.Sprintf("fresh-%d", n))
			race(t, 9, func(i int) error {
				if i == 4 {
					return s[1].Apply(t.Context(), record.StartFresh(o, 0, noon))
				}
				return s[i%2].Apply(t.Context(), record.OpenRun(record.Run{Owner: o, ID: record.RunID(newID(t, "run")), Lineage: record.UnvouchedLineage(o, 0), Turn: 1, Opened: noon, Active: noon}, o.By()))
			}, record.RefusedPremise)
			if live, err := s[0].LiveRuns(t.Context(), o); err != nil || len(live) != 0 {
				t.Fatalf("%d runs of the old lineage live on: %v", len(live), err)
			}
		}
	})
	t.Run("a revocation", func(t *testing.T) {
		for n := range 10 {
			o := anna
			o.Tenant = record.TenantID(fmt.Sprintf("revoked-%d", n))
			r := openRun(t, s[0], o)
			revocation := record.Revocation{ID: record.RevocationID(newID(t, "rev")), Tenant: o.Tenant, Kind: record.RevokedTool, Name: "refund", Reason: "race", Who: record.Who{System: "test"}, At: noon}
			won := race(t, 17, func(i int) error {
				if i == 8 {
					revoke, err := record.Revoke(revocation)
					if err != nil {
						return err
					}
					return s[1].Apply(t.Context(), revoke)
				}
				step := stepOf(r, 0)
				step.Premise.Revoked = &record.Fence{}
				reserve, err := record.Reserve(proposal(t, r, fmt.Sprintf(`{"n":%d}`, i)), step, noon.Add(time.Minute), nil, nil)
				if err != nil {
					return err
				}
				return s[i%2].Apply(t.Context(), reserve)
			}, record.RefusedPremise)
			// Whatever was reserved, it saw: nothing in flight is missed, and nothing comes after.
			made, err := s[0].Revocation(t.Context(), o.Tenant, revocation.ID)
			if err != nil || made.Caught.Running != won-1 || len(made.Caught.Calls) != won-1 {
				t.Fatalf("%d were reserved, and it caught %+v: %v", won-1, made.Caught, err)
			}
		}
	})
	t.Run("two approvers", func(t *testing.T) {
		for n := range 10 {
			r := openRun(t, s[0], anna)
			c := proposal(t, r, fmt.Sprintf(`{"asked":%d}`, n))
			rule := record.ApprovalRule{Expires: time.Hour, Parts: []record.ApprovalPart{{From: "registry", Quorum: 2, Groups: []record.Group{{Issuer: "https://idp", Name: "leads"}}}}}
			c.Binding = record.BindingOf(c, &rule, noon.Add(time.Hour), "x")
			q := record.Approval{Owner: c.Owner, ID: record.ApprovalID(newID(t, "apr")), Call: c.ID, Run: c.Run, Lineage: c.Lineage, Binding: c.Binding, Rule: rule, Asked: noon, Expires: noon.Add(time.Hour)}
			step := stepOf(r, 0)
			step.Decision.Verdict = record.RequiresApproval
			hold, err := record.Hold(c, step, q, nil)
			apply(t, s[0], hold, err)
			if won := race(t, 2, func(i int) error {
				for {
					l, err := s[i].Call(t.Context(), "acme", c.ID)
					if err != nil {
						return err
					}
					yes, err := record.Answer(*l.Approval, l.Call, record.Reply{Person: record.Principal{Issuer: "https://idp", Subject: fmt.Sprint(i)}, Word: record.Yes,
						Binding: q.Binding, At: noon, Groups: rule.Parts[0].Groups}, step.Decision, nil)
					if err != nil {
						return err
					}
					if err = s[i].Apply(t.Context(), yes); kindOf(err) != record.RefusedConflict {
						return err
					}
				}
			}); won != 2 {
				t.Fatal("an approver was refused")
			}
			if l, err := s[0].Call(t.Context(), "acme", c.ID); err != nil || l.Approval.State != record.Approved || len(l.Approval.Answers) != 2 {
				t.Fatalf("two yeses leave %+v: %v", l.Approval, err)
			}
		}
	})
	t.Run("an activation", func(t *testing.T) {
		r := openRun(t, s[0], anna)
		for g := range int64(8) {
			activate, err := record.Activate(record.Activation{From: g, To: g + 1, Digest: "d", Who: record.Who{System: "test"}, At: noon}, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			race(t, 17, func(i int) error {
				if i == 8 {
					return s[1].Apply(t.Context(), activate)
				}
				reserve, err := record.Reserve(proposal(t, r, fmt.Sprintf(`{"g":%d,"i":%d}`, g, i)), stepOf(r, g), noon.Add(time.Minute), nil, nil)
				if err != nil {
					return err
				}
				return s[i%2].Apply(t.Context(), reserve)
			}, record.RefusedPremise)
		}
		// In the log every reservation stands between its version's activation and the next.
		active, reserved := int64(0), 0
		for _, e := range events(t, s[0]) {
			var body struct {
				Generation int64 `json:"generation"`
			}
			if err := json.Unmarshal(e.Body, &body); err != nil {
				t.Fatal(err)
			}
			switch {
			case e.Kind == record.EventActivated:
				active++
			case e.Kind == record.EventExecuting && e.Run == r.ID:
				if reserved++; body.Generation != active {
					t.Errorf("event %d reserves under version %d while %d is active", e.Seq, body.Generation, active)
				}
			}
		}
		if active != 8 || reserved == 0 {
			t.Errorf("%d activations, %d reservations", active, reserved)
		}
	})
}

// allAfter asks for the whole log behind an event.
func allAfter(seq int64) dispatch.EventQuery {
	return dispatch.EventQuery{All: true, After: seq, Limit: 500}
}

func events(t testing.TB, s *Store) (out []record.Event) {
	t.Helper()
	var last int64
	for {
		page, err := s.Events(t.Context(), allAfter(last))
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			return out
		}
		out = append(out, page...)
		last = page[len(page)-1].Seq
	}
}

// Whoever follows the log from several replicas misses nothing: a number that is
// smaller than one that was read does not come later.
func TestTheLogIsInTheOrderOfCommits(t *testing.T) {
	dsn, server, database := runtimeRole(t)
	// Commits take a while, some longer than others.
	server.Do(t, database, `CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(random() * 0.005); RETURN NULL; END';
		CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON placet.events DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION slow()`)
	s := replicasOf(t, dsn, 3, 2)
	ctx, stop := context.WithCancel(t.Context())
	followed := make(chan map[int64]bool)
	go func() {
		seen, last, ended := map[int64]bool{}, int64(0), false
		for {
			page, err := s[2].Events(t.Context(), allAfter(last))
			if err != nil {
				t.Error(err)
				break
			}
			for _, e := range page {
				seen[e.Seq], last = true, e.Seq
			}
			if ended && len(page) == 0 {
				break
			}
			ended = ctx.Err() != nil // and once more
		}
		followed <- seen
	}()
	var all sync.WaitGroup
	for w := range 16 {
		all.Go(func() {
			for range 12 {
				_ = openRun(t, s[w%2], anna)
			}
		})
	}
	all.Wait()
	stop()
	seen := <-followed
	for _, e := range events(t, s[0]) {
		if !seen[e.Seq] {
			t.Fatalf("event %d was not seen", e.Seq)
		}
	}
	if len(seen) != 16*12 {
		t.Errorf("%d events were seen", len(seen))
	}
}

// One change that the database does not take harms none of those that are committed
// with it, and its caller alone is told.
func TestOneBadChangeHarmsNobody(t *testing.T) {
	dsn, _, _ := runtimeRole(t)
	s := open(t, dsn, nil)
	r := openRun(t, s, anna)
	bad := proposal(t, r, `{"n":"bad"}`)
	bad.Occurrence = "a\x00b"
	change, err := record.Authorize(bad, stepOf(r, 0))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Apply(t.Context(), change); record.KindOf(err) != record.Invalid {
		t.Errorf("a text with U+0000: %v", err)
	}
	// One that passes the check before: a rejection's note.
	var wg sync.WaitGroup
	for i := range 30 {
		wg.Go(func() {
			if i == 15 {
				o := anna
				p := record.Passkey{Tenant: o.Tenant, Person: o.Principal, ID: []byte("k"), Public: []byte("p"), Name: "a\x00b", RPID: "x", Added: noon, Seal: []byte("s")}
				if err := s.Apply(t.Context(), record.AddPasskey(p, o.By(), "")); record.KindOf(err) != record.Unavailable {
					t.Errorf("a name with U+0000: %v", err)
				}
				return
			}
			c, err := record.Authorize(proposal(t, r, fmt.Sprintf(`{"beside":%d}`, i)), stepOf(r, 0))
			if err == nil {
				err = s.Apply(t.Context(), c)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if open, err := s.OpenCalls(t.Context(), "acme", r.ID, 100); err != nil || len(open) != 29 {
		t.Errorf("%d calls: %v", len(open), err)
	}
}

// The database itself keeps tenants apart, and a running program's role changes no
// event and no table.
func TestRolesAndRows(t *testing.T) {
	dsn, server, database := runtimeRole(t)
	s := open(t, dsn, nil)
	mine := openRun(t, s, anna)
	other := anna
	other.Tenant = "globex"
	theirs := openRun(t, s, other)
	role, err := Role(dsn)
	if err != nil {
		t.Fatal(err)
	}
	as := func(sql string) string { return server.Do(t, database, "SET ROLE "+role+"; "+sql) }
	if got := as("SELECT count(*) FROM placet.runs"); got != "0" {
		t.Errorf("a transaction that named nobody sees %s runs", got)
	}
	if got := as(`BEGIN; SELECT set_config('placet.tenants', '{"acme"}', true); SELECT string_agg(id, ',') FROM placet.runs`); got != string(mine.ID) {
		t.Errorf("acme sees %s", got)
	}
	if got := as(`BEGIN; SELECT set_config('placet.tenants', '{"acme"}', true); WITH u AS (UPDATE placet.runs SET label = 'x' RETURNING tenant) SELECT string_agg(tenant, ',') FROM u`); got != "acme" {
		t.Errorf("acme changes rows of %s", got)
	}
	if got := as(`BEGIN; SELECT set_config('placet.tenants', '*', true); SELECT count(*) FROM placet.runs`); got != "2" {
		t.Errorf("whoever follows the log sees %s runs", got)
	}
	for _, sql := range []string{
		"UPDATE placet.events SET body = ''", "DELETE FROM placet.events", "TRUNCATE placet.events", "DELETE FROM placet.calls", "UPDATE placet.answers SET word = 'approved'",
		"DROP TABLE placet.runs", "CREATE TABLE placet.x (y int)", "ALTER TABLE placet.runs DISABLE ROW LEVEL SECURITY", "UPDATE placet.activations SET digest = ''",
		"UPDATE placet.migrations SET version = 99",
		`BEGIN; SELECT set_config('placet.tenants', '{"acme"}', true); INSERT INTO placet.effects VALUES ('globex', 'x', 1)`,
	} {
		if err := server.Try(t, database, "SET ROLE "+role+"; "+sql); err == nil || !strings.Contains(err.Error(), "42501") {
			t.Errorf("%s: %v", sql, err)
		}
	}
	// A new table is in it too.
	if got := server.Do(t, database, `SELECT string_agg(relname, ',') FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid AND attname = 'tenant'
		WHERE relnamespace = 'placet'::regnamespace AND relkind = 'r' AND NOT (relrowsecurity AND relforcerowsecurity)`); got != "" {
		t.Errorf("tables whose rows are not kept apart: %s", got)
	}
	if got, err := s.Run(t.Context(), "acme", theirs.ID); record.KindOf(err) != record.NotFound {
		t.Errorf("acme reads %+v: %v", got, err)
	}
}

// Of programs that start at once on an empty database each finds the schema whole; a
// role that may not make it is told who may.
func TestMigrationsAtOnce(t *testing.T) {
	server := pgtest.Shared(t)
	database := server.Database(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			s, err := Open(t.Context(), server.DSN("owner", database), Options{})
			if err != nil {
				t.Error(err)
				return
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	all, err := steps()
	if err != nil {
		t.Fatal(err)
	}
	if got := server.Do(t, database, "SELECT count(*) FROM placet.migrations"); got != fmt.Sprint(len(all)) {
		t.Errorf("%s migrations of %d", got, len(all))
	}
	empty := server.Database(t)
	server.Do(t, empty, "CREATE ROLE poor LOGIN PASSWORD 's3cret-poor'")
	if _, err := Open(t.Context(), server.DSN("poor", empty), Options{}); err == nil || !strings.Contains(err.Error(), "placet migrate") {
		t.Errorf("a role that may not make the schema: %v", err)
	}
	// A newer program's schema is used: during an upgrade both run.
	server.Do(t, database, "INSERT INTO placet.migrations VALUES (99)")
	s := open(t, server.DSN("owner", database), nil)
	openRun(t, s, anna)
}

// When the database goes away nobody is told that something was recorded, and when it
// is back the store goes on.
func TestTheDatabaseGoesAway(t *testing.T) {
	server := pgtest.Start(t)
	database := server.Database(t)
	s := open(t, server.DSN("owner", database), nil)
	r := openRun(t, s, anna)
	acknowledged := make(chan record.CallID)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				c, err := record.Authorize(proposal(t, r, fmt.Sprintf(`{"w":%d,"i":%d}`, w, i)), stepOf(r, 0))
				if err == nil {
					err = s.Apply(t.Context(), c)
				}
				switch {
				case err == nil:
					select {
					case acknowledged <- c.Facts().Call.After.ID:
					case <-ctx.Done():
					}
				case record.KindOf(err) != record.Unavailable:
					t.Errorf("while the database was away: %v", err)
				}
			}
		})
	}
	var told []record.CallID
	for len(told) < 50 {
		told = append(told, <-acknowledged)
	}
	server.Crash()
	server.Restart(t)
	for len(told) < 200 {
		told = append(told, <-acknowledged)
	}
	stop()
	wg.Wait()
	for _, id := range told {
		if _, err := s.Call(t.Context(), "acme", id); err != nil {
			t.Fatalf("call %s was acknowledged and is not there: %v", id, err)
		}
	}
}
