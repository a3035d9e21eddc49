package dispatch_test

import (
	"io"
	"testing"

	"github.com/placet-dev/placet/dispatch"
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
	return postgres.Open(s.ctx, onPostgres.DSN("owner", s.database), postgres.Options{})
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
