package sqlite

import (
	"path/filepath"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"
)

// TestQueriesUseTheirIndexes: what is asked on the way of a call finds its rows
// by index, however many there are.
func TestQueriesUseTheirIndexes(t *testing.T) {
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "state.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, q := range []struct{ index, sql string }{
		{"calls_equal", selectEqual},
		{"approvals_unused", selectUnused},
		{"calls_witnessed", selectWitnessed},
		{"emissions_match", selectMatching},
		{"emissions_run", selectOpenEmissions},
		{"emissions_label", selectLabelled},
		{"model_requests_newest", selectNewestRequest},
		{"approvals_state", selectAsked},
		{"approvals_previewed", redactPreviews},
		{"approvals_run", selectAskedOfRun},
		{"approvals_given", selectApproved},
		{"calls_made", selectMade},
		{"calls_denied", selectDenied},
		{"events_run", selectRunEvents},
		{"calls_effect", selectDone},
		{"calls_effect", selectUnsettled},
		{"calls_occurrence", selectSame},
		{"calls_run", selectOpen},
		{"calls_run", selectWaiting},
		{"approvals_state", selectAnswered},
		{"runs_delegated", selectReady},
		{"calls_run", selectReady},
		{"calls_again", selectQueueing},
		{"calls_again", selectQueued},
		{"calls_again", selectNext},
		{"calls_again", selectBacklog},
		{"calls_dead", selectDead},
		{"calls_run", wakeCalls},
		{"schedules_next", selectFiring},
		{"schedules_next", selectNextFiring},
		{"approvals_pending", selectPending},
		{"events_alert", selectAlerts},
		{"calls_due", `SELECT id FROM calls WHERE due IS NOT NULL AND due <= ? ORDER BY due LIMIT ?`},
		{"runs_owner", `SELECT id FROM runs WHERE tenant = ? AND issuer = ? AND subject = ? AND agent = ? AND label = ? AND state <> 'terminated' AND vouched = 0 ORDER BY opened DESC LIMIT 1`},
		{"approvals_state", `SELECT id FROM approvals WHERE tenant = ? AND state = ? ORDER BY id LIMIT ?`},
		{"events_call", `SELECT seq FROM events WHERE call = ? AND call <> ''`},
	} {
		var plan strings.Builder
		err := s.read(t.Context(), func(c *sqlite.Conn) error {
			return each(c, "EXPLAIN QUERY PLAN "+q.sql, func(s *sqlite.Stmt) error { plan.WriteString(s.ColumnText(3) + "\n"); return nil })
		})
		if err != nil || !strings.Contains(plan.String(), "INDEX "+q.index) {
			t.Errorf("%s\nshould use %s: %v\n%s", q.sql, q.index, err, plan.String())
		}
	}
}
