package postgres

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// TestTheCommitterFindsByKey: no statement of a batch reads more of a table than the
// rows that its keys name, whatever the database knows of the table's size.
func TestTheCommitterFindsByKey(t *testing.T) {
	dsn, _, _ := runtimeRole(t)
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.ConnectConfig(t.Context(), writing(config, Options{}.withDefaults()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	for i, sql := range []string{readRuns, readCalls, readEquals, readApprovals, readAnswers, readCounters, readEffects, readLineages, readStanding,
		readEmissions, readObjects, readPasskeys, readTaken, readTranscripts, readShares, selectWaiting, selectLive, readFences, readLiveRevocations,
		updateCalls, settleCalls, updateApproval, touchRuns, moveEmission} {
		name := fmt.Sprintf("s%d", i)
		st, err := conn.Prepare(t.Context(), name, sql)
		if err != nil {
			t.Fatal(err)
		}
		args := strings.TrimSuffix(strings.Repeat("NULL,", len(st.ParamOIDs)), ",")
		rows, err := conn.Query(t.Context(), "EXPLAIN EXECUTE "+name+"("+args+")", pgx.QueryExecModeSimpleProtocol)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		plan := strings.Join(lines, "\n")
		for _, scan := range regexp.MustCompile(`(?m)^.*(Scan using|Seq Scan on|Bitmap Index Scan on).*\n.*$`).FindAllString(plan, -1) {
			keys := strings.Count(scan, " AND ") // of an index, beside the tenant
			if !strings.Contains(scan, "Index Cond") || keys == 0 && !strings.Contains(scan, "passkeys_id") && !strings.Contains(scan, "fences_pkey") {
				t.Errorf("%s\nreads too much:\n%s", sql, plan)
			}
		}
	}
}
