package dispatch_test

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/store/postgres"
	"github.com/placet-dev/placet/store/postgres/pgtest"
	"github.com/placet-dev/placet/store/sqlite"
)

// closable is a store of a scene.
type closable interface {
	dispatch.Store
	dispatch.Reader
	io.Closer
}

// onPostgres, when set, is where scenes keep their records, each in a database of its own.
var onPostgres *pgtest.Server

// emptyRecords is a database whose schema is made: copying it is quicker.
const emptyRecords = "empty_records"

// openStore opens a scene's store, the same again after a restart.
func (s *scene) openStore() (closable, error) {
	if onPostgres == nil {
		return sqlite.Open(s.ctx, s.path, sqlite.Options{})
	}
	if s.database == "" {
		s.database = onPostgres.DatabaseFrom(s.t, emptyRecords)
	}
	return postgres.Open(s.ctx, onPostgres.DSN("owner", s.database), s.postgres)
}

// TestPromisesOnPostgreSQL are the same tests, with the records in PostgreSQL.
func TestPromisesOnPostgreSQL(t *testing.T) {
	onPostgres = pgtest.Start(t)
	onPostgres.Do(t, "postgres", "CREATE DATABASE "+emptyRecords)
	if err := postgres.Migrate(t.Context(), onPostgres.DSN("owner", emptyRecords), ""); err != nil {
		t.Fatal(err)
	}
	defer func() { onPostgres = nil }()
	t.Run("P1", TestPromise_P1_NoEffectWithoutARecord)
	t.Run("P2", TestPromise_P2_NoAuthorityFromHistory)
	t.Run("P3", TestPromise_P3_OneApprovalOneCall)
	t.Run("P4", TestPromise_P4_AuthorityIsCurrent)
	t.Run("P5", TestPromise_P5_AtMostOneEffect)
	t.Run("C3", TestRule_C3_RevokedWhatItNames)
	t.Run("C3Waiting", TestRule_C3_RevokingEndsWhatWaits)
	t.Run("D5", TestRule_D5_RevokedPersonsAndLoginsAnswerNothing)
	t.Run("C3Race", TestRule_C3_NothingStartsOnceRevoked)
	t.Run("B4", TestRule_B4_AChildOfAnEndedRunDoesNothing)
	t.Run("J4", TestRule_J4_RedactedCalls)
	t.Run("J4 operator", TestRule_J4_RedactedByAnOperator)
	t.Run("J4 unknown", TestRule_J4_UnknownCallsStayWhole)
	t.Run("J4 repeats", TestRule_A7_RepeatsOfARedactedCall)
	t.Run("B4 budgets", TestRule_B4_ChildRunsSpendTheirParentsBudget)
}

// A database that stands still, at a lock or in a statement, runs nothing: the caller is
// told that it could not be decided, and when the database goes on the same call runs once.
func TestPromise_P6_ADatabaseThatStandsStill(t *testing.T) {
	onPostgres = pgtest.Start(t)
	defer func() { onPostgres = nil }()
	onPostgres.Do(t, "postgres", "CREATE DATABASE "+emptyRecords)
	if err := postgres.Migrate(t.Context(), onPostgres.DSN("owner", emptyRecords), ""); err != nil {
		t.Fatal(err)
	}
	s := newScene(t, func(s *scene) {
		s.postgres = postgres.Options{Lock: 300 * time.Millisecond, Idle: 100 * time.Millisecond, Statement: 500 * time.Millisecond}
	})
	s.wants(s.do(anna, "pay", `{"n":1}`), record.Allow, record.CodeNone, record.Succeeded)
	conn, err := pgx.Connect(t.Context(), onPostgres.DSN("owner", s.database))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	for what, stands := range map[string]string{"the calls": `LOCK TABLE placet.calls IN EXCLUSIVE MODE`, "the log": `LOCK TABLE placet.events IN EXCLUSIVE MODE`} {
		if _, err := conn.Exec(t.Context(), "BEGIN; "+stands, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
		before := len(s.desk.effects())
		arguments := fmt.Sprintf(`{"n":%d}`, len(what))
		if a := s.do(anna, "pay", arguments); a.Verdict != record.Deny || a.Code != record.CodeCannotDecide {
			t.Errorf("while somebody holds %s: %s %s", what, a.Verdict, a.Code)
		}
		s.ran(before)
		if _, err := conn.Exec(t.Context(), "ROLLBACK", pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
		s.wants(s.do(anna, "pay", arguments), record.Allow, record.CodeNone, record.Succeeded)
		s.ran(before + 1)
	}
}

// A reservation that takes as long as the tool may is one that nothing is sent for: the
// outcome is known, and asking again runs the call (rule E5).
func TestRule_E5_ALateReservationSendsNothing(t *testing.T) {
	s := newScene(t, func(s *scene) {
		s.yaml = strings.Replace(s.yaml, "defaults: {per_minute: 0, concurrent: 0}", "defaults: {per_minute: 0, concurrent: 0, timeout: 20ms}", 1)
	})
	s.store.fail(nil, func(f record.Facts) error {
		if f.Call != nil && f.Call.After.State == record.Executing {
			for end := time.Now().Add(20 * time.Millisecond); time.Now().Before(end); {
				runtime.Gosched()
			}
		}
		return nil
	})
	s.wants(s.do(anna, "pay", `{"n":1}`), record.Allow, record.CodeFailed, record.Failed)
	s.ran(0)
	s.store.fail(nil, nil)
	s.yaml = toolsYAML
	s.activate()
	s.wants(s.do(anna, "pay", `{"n":1}`), record.Allow, record.CodeNone, record.Succeeded)
	s.ran(1)
}
