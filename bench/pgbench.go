package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/placet-dev/placet/store/postgres/pgtest"
)

// pgbench's time includes that in which its clients connect, which its rate does not.
const pgbenchLasts, pgbenchMost = 2 * time.Second, 32 * time.Second

// pgbench is pgbench inserting the rows of the newest call in the store again and
// again, each time under names of their own: with one round trip for each statement,
// as its scripts are, and with one for each transaction.
func (b *bench) pgbench(ctx context.Context, server *pgtest.Server, dsn, owner string) (plain, pipelined *side, err error) {
	inserts, err := insertsOf(ctx, owner)
	if err != nil {
		return nil, nil, err
	}
	// A number for each transaction of each client, which rises as IDs of calls do.
	head := `\set i :i + 1` + "\n" + `\set n :base + :i * 1000 + :client_id` + "\n"
	body := "BEGIN;\n" + strings.Join(inserts, ";\n") + ";\nCOMMIT;\n"
	var serial atomic.Int64
	made := func(name, script string) (*side, error) {
		file := filepath.Join(b.dir, name+".sql")
		if err := os.WriteFile(file, []byte(head+script), 0o600); err != nil {
			return nil, err
		}
		return &side{name: name, remote: func(ctx context.Context, callers int, d time.Duration) (int64, time.Duration, error) {
			for lasts := max(d, pgbenchLasts); ; lasts *= 2 {
				base := 1_000_000_000_000_000 + serial.Add(1)*1_000_000_000_000
				cmd := exec.CommandContext(ctx, server.Program("pgbench"), "-n", "-M", "prepared", "-c", strconv.Itoa(callers), "-j", "2",
					"-T", strconv.Itoa(int(lasts.Seconds())), "-D", "i=0", "-D", fmt.Sprintf("base=%d", base), "-f", file, dsn)
				cmd.Env = append(os.Environ(), "PGOPTIONS=-c search_path=placet -c placet.tenants=*")
				out, err := cmd.CombinedOutput()
				if err != nil {
					return 0, 0, fmt.Errorf("pgbench: %w\n%s", err, out[:min(len(out), 1000)])
				}
				made, took, err := readPgbench(string(out))
				if !errors.Is(err, errNoTime) || lasts > pgbenchMost {
					return made, took, err
				}
			}
		}}, nil
	}
	if plain, err = made("pgbench", body); err != nil {
		return nil, nil, err
	}
	pipelined, err = made("pgbench-pipelined", `\startpipeline`+"\n"+body+`\endpipeline`+"\n")
	return plain, pipelined, err
}

var (
	pgbenchMade   = regexp.MustCompile(`(?m)^number of transactions actually processed: (\d+)`)
	pgbenchFailed = regexp.MustCompile(`(?m)^number of failed transactions: (\d+)`)
	pgbenchRate   = regexp.MustCompile(`(?m)^tps = ([0-9.]+) \(without initial connection time\)`)
)

// errNoTime says that the clients were still connecting when the time was over.
var errNoTime = errors.New("pgbench made no transaction")

// readPgbench reads how many transactions there were, and how long they took.
func readPgbench(out string) (made int64, took time.Duration, err error) {
	n, rate := pgbenchMade.FindStringSubmatch(out), pgbenchRate.FindStringSubmatch(out)
	if n != nil && n[1] == "0" {
		return 0, 0, errNoTime
	}
	if n == nil || rate == nil {
		return 0, 0, errors.New("pgbench does not say how fast it was:\n" + out)
	}
	if failed := pgbenchFailed.FindStringSubmatch(out); failed != nil && failed[1] != "0" {
		return 0, 0, errors.New("transactions of pgbench failed:\n" + out)
	}
	made, err = strconv.ParseInt(n[1], 10, 64)
	if err != nil {
		return 0, 0, err
	}
	perSecond, err := strconv.ParseFloat(rate[1], 64)
	if err != nil || perSecond <= 0 {
		return 0, 0, errors.New("pgbench made no transaction:\n" + out)
	}
	return made, time.Duration(float64(made) / perSecond * float64(time.Second)), nil
}

// renamed are columns that must not be the same in two calls, as pgbench writes them.
var renamed = map[string]string{
	"calls.id": "'call_0000000000' || :n::text", "events.call": "'call_0000000000' || :n::text",
	"calls.effect": "sha256(:n::text::bytea)", "effects.effect": "sha256(:n::text::bytea)",
}

// literal escapes a text. pgbench sees variables behind colons, within quotes too.
var literal = strings.NewReplacer(`\`, `\\`, `'`, `''`, `:`, `\x3A`)

// insertsOf are the statements that insert the rows of the newest call, one for each table.
func insertsOf(ctx context.Context, dsn string) ([]string, error) {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx)
	var id string
	if err := conn.QueryRow(ctx, "SELECT id FROM placet.calls ORDER BY id DESC LIMIT 1").Scan(&id); err != nil {
		return nil, err
	}
	var out []string
	for _, of := range []struct{ table, where string }{
		{"calls", "id = $1"}, {"effects", "effect = (SELECT effect FROM placet.calls WHERE id = $1)"},
		{"counters", "counter LIKE '%' || (SELECT run FROM placet.calls WHERE id = $1) || '%'"}, {"events", "call = $1"},
	} {
		insert, err := insertOf(ctx, conn, of.table, of.where, id)
		if err != nil {
			return nil, err
		}
		out = append(out, insert)
	}
	return out, nil
}

func insertOf(ctx context.Context, conn *pgx.Conn, table, where, id string) (string, error) {
	rows, err := conn.Query(ctx, "SELECT * FROM placet."+table+" WHERE "+where, pgx.QueryExecModeExec, pgx.QueryResultFormats{pgx.TextFormatCode}, id)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	var names, all []string
	for rows.Next() {
		var values []string
		names = names[:0]
		for i, raw := range rows.RawValues() {
			name := rows.FieldDescriptions()[i].Name
			if table == "events" && name == "seq" {
				continue // the database counts
			}
			value := "NULL"
			switch as := renamed[table+"."+name]; {
			case as != "":
				value = as
			case raw != nil:
				value = "E'" + literal.Replace(string(raw)) + "'"
			}
			if table == "counters" && name == "counter" {
				value += " || :n::text"
			}
			names, values = append(names, name), append(values, value)
		}
		all = append(all, "("+strings.Join(values, ", ")+")")
	}
	if len(all) == 0 {
		return "", fmt.Errorf("the newest call has no rows of %s: %w", table, rows.Err())
	}
	return "INSERT INTO " + table + " (" + strings.Join(names, ", ") + ") VALUES " + strings.Join(all, ", "), rows.Err()
}
