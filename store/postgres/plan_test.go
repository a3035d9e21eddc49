package postgres

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/placet-dev/placet/record"
)

// TestTheCommitterFindsByKey: no statement of a batch reads more of a table than the
// rows that its keys name, whatever the database knows of the table's size: while there
// are no calls, when many are open and it has not looked, and when it has.
func TestTheCommitterFindsByKey(t *testing.T) {
	dsn, server, database := runtimeRole(t)
	findsByKey(t, dsn)
	s := open(t, dsn, nil)
	r := openRun(t, s, anna)
	c, err := record.Authorize(proposal(t, r, `{}`), stepOf(r, 0))
	apply(t, s, c, err)
	server.Do(t, database, `INSERT INTO placet.calls SELECT (jsonb_populate_record(c, jsonb_build_object('id', 'call_' || i, 'effect', '\x' || lpad(to_hex(i), 64, '0')))).*
		FROM placet.calls AS c, generate_series(1, 3000) AS i`)
	findsByKey(t, dsn)
	server.Do(t, database, "ANALYZE placet.calls")
	findsByKey(t, dsn)
}

// fittingIndex is the one index that a look-up is to use, where others begin with the tenant.
var fittingIndex = map[string]string{
	readCalls: "calls_pkey", readEquals: "calls_equal", updateCalls: "calls_pkey", settleCalls: "calls_pkey", readRuns: "runs_pkey", touchRuns: "runs_pkey",
	readApprovals: "approvals_pkey", readEmissions: "emissions_pkey", moveEmission: "emissions_pkey",
}

func findsByKey(t *testing.T, dsn string) {
	t.Helper()
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
		if fits := fittingIndex[sql]; fits != "" && !strings.Contains(plan, "Scan using "+fits+" on ") {
			t.Errorf("%s\ndoes not use %s:\n%s", sql, fits, plan)
		}
		for _, scan := range regexp.MustCompile(`(?m)^.*(Scan using|Seq Scan on|Bitmap Index Scan on).*\n.*$`).FindAllString(plan, -1) {
			keys := strings.Count(scan, " AND ") // of an index, beside the tenant
			if !strings.Contains(scan, "Index Cond") || keys == 0 && !strings.Contains(scan, "passkeys_id") && !strings.Contains(scan, "fences_pkey") {
				t.Errorf("%s\nreads too much:\n%s", sql, plan)
			}
		}
	}
}
