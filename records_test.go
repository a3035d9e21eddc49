package placet

import (
	"strings"
	"sync"
	"testing"

	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/store/postgres/pgtest"
)

// TestOnPostgreSQL is a server whose records are in PostgreSQL, as a role that the
// schema's owner made it for: calls run once, what people approve runs once, also
// after a restart, and of two servers on one database one runs it.
func TestOnPostgreSQL(t *testing.T) {
	server := pgtest.Start(t)
	database := server.Database(t)
	server.Do(t, database, "CREATE ROLE runs LOGIN PASSWORD 's3cret-runs'")
	t.Setenv("PLACET_TEST_STORE", server.DSN("runs", database))
	s := &shop{t: t}
	s.prepare("env:PLACET_TEST_STORE", "")
	if _, err := Open(t.Context(), s.o); err == nil || !strings.Contains(err.Error(), "placet migrate") {
		t.Fatalf("without a schema: %v", err)
	}
	if err := Migrate(t.Context(), s.o, server.DSN("owner", database)); err != nil {
		t.Fatal(err)
	}
	s.open()

	s.wants(s.do("anna", "refund", `{"order":"o1"}`), record.Allow, record.CodeNone, `refund{"order":"o1"}`)
	asked := s.do("anna", "wipe", `{"order":"o2"}`)
	s.wants(asked, record.RequiresApproval, asked.Code, `refund{"order":"o1"}`)
	s.approve(asked)
	if err := s.p.Close(); err != nil {
		t.Fatal(err)
	}
	s.open() // a restart keeps the question, the yes and the version
	first := s.p
	s.open() // and a second server on the same database
	second := s.p
	var both sync.WaitGroup
	for _, p := range []*Placet{first, second} {
		one := &shop{t: t, p: p, issuer: s.issuer}
		both.Go(func() {
			if _, err := one.try("anna", "wipe", `{"order":"o2"}`); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	s.wants(s.do("anna", "refund", `{"order":"o3"}`), record.Allow, record.CodeNone, `refund{"order":"o1"}`, `wipe{"order":"o2"}`, `refund{"order":"o3"}`)
	if got := server.Do(t, database, "SELECT count(*) FROM placet.events WHERE kind = 'executing'"); got != "3" {
		t.Errorf("%s executing events for three effects", got)
	}
	if err := first.ready(t.Context()); err != nil {
		t.Error(err)
	}
	server.Crash()
	if err := second.ready(t.Context()); err == nil {
		t.Error("ready without its database")
	}
	if a, err := s.try("anna", "refund", `{"order":"o4"}`); err == nil && a.Verdict == record.Allow {
		t.Errorf("without its database it answers %s", a.Text())
	}
	server.Restart(t)
	s.wants(s.do("anna", "ping", `{}`), record.Allow, record.CodeNone, `refund{"order":"o1"}`, `wipe{"order":"o2"}`, `refund{"order":"o3"}`, `ping{}`)
}
