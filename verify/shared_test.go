package verify

import (
	"bufio"
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the drivers
	_ "modernc.org/sqlite"

	"github.com/placet-dev/placet/credential"
	"github.com/placet-dev/placet/store/postgres/pgtest"
)

func openShared(t *testing.T, file string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(file)+"?_pragma=busy_timeout(10000)&_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func newShared(t *testing.T) (file string, db *sql.DB) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "used.db")
	db = openShared(t, file)
	for range 2 { // a second time changes nothing
		if _, err := db.ExecContext(t.Context(), SharedTable); err != nil {
			t.Fatal(err)
		}
	}
	return file, db
}

// Of many verifiers that share a table, one lets a token through. Per process each does.
func TestSharedSeenLetsATokenThroughOnce(t *testing.T) {
	file, _ := newShared(t)
	lettingThroughOnce(t, func() *sql.DB { return openShared(t, file) })
}

// The same in PostgreSQL, where what is committed is seen by others at once: a token
// works once, a table that is away or locked refuses in doubt, and does not for ever.
func TestSharedSeenInPostgreSQL(t *testing.T) {
	server := pgtest.Start(t)
	open := func() *sql.DB {
		db, err := sql.Open("pgx", server.DSN("owner", "postgres"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		return db
	}
	for range 2 { // a second time changes nothing
		if _, err := open().ExecContext(t.Context(), SharedTable); err != nil {
			t.Fatal(err)
		}
	}
	lettingThroughOnce(t, open)

	c := &clock{now: begin}
	seen := Shared(open(), c.Now)
	use := func(id string, want bool) {
		t.Helper()
		if first, err := seen.Use(t.Context(), id, c.Now().Add(time.Minute)); first != want || err != nil {
			t.Errorf("%s: %v, %v", id, first, err)
		}
	}
	use("it's; DROP TABLE placet_used_tokens; --"+strings.Repeat("x", 10_000), true)
	use("a", true)
	use("a", false)
	c.pass(2 * time.Hour)
	use("b", true)
	if n := server.Do(t, "postgres", `SELECT count(*) FROM placet_used_tokens WHERE ends >= `+fmt.Sprint(begin.Unix()-60)); n != "1" {
		t.Errorf("%s rows are kept", n)
	}

	// Somebody holds the table: who asks is refused when their time is over. The database
	// may still take note of the token then, so it may be used up; it never counts twice.
	held := open()
	tx, err := held.BeginTx(t.Context(), nil)
	if err == nil {
		_, err = tx.ExecContext(t.Context(), `LOCK TABLE placet_used_tokens`)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if first, err := seen.Use(ctx, "c", c.Now().Add(time.Minute)); first || err == nil {
		t.Errorf("while the table is locked: %v, %v", first, err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if _, err := seen.Use(t.Context(), "c", c.Now().Add(time.Minute)); err != nil {
		t.Errorf("when the table is free again: %v", err)
	}
	use("c", false)
	use("e", true)

	server.Crash()
	if first, err := seen.Use(t.Context(), "d", c.Now().Add(time.Minute)); first || err == nil {
		t.Errorf("without a database: %v, %v", first, err)
	}
	server.Restart(t)
	use("c", false)
	use("d", true)
}

func lettingThroughOnce(t *testing.T, open func() *sql.DB) {
	t.Helper()
	h := newHouse(t)
	race := func(seen func() Seen) int64 {
		token := h.token()
		var through atomic.Int64
		var all sync.WaitGroup
		for range 8 {
			v, err := New(Options{Issuer: h.url, Audience: audience, Seen: seen(), Clock: h.clock.Now})
			if err != nil {
				t.Fatal(err)
			}
			all.Go(func() {
				if _, err := v.Check(context.Background(), token, "refund", []byte(refund)); err == nil {
					through.Add(1)
				} else if ReasonOf(err) != Replayed {
					t.Errorf("%v: %v", err, err.(*Refused).Unwrap())
				}
			})
		}
		all.Wait()
		return through.Load()
	}
	if n := race(func() Seen { return Shared(open(), h.clock.Now) }); n != 1 {
		t.Errorf("%d came through", n)
	}
	if n := race(func() Seen { return PerProcess(h.clock.Now) }); n != 8 {
		t.Errorf("%d came through with a store each", n)
	}
}

func TestSharedSeenForgetsLateAndRefusesInDoubt(t *testing.T) {
	_, db := newShared(t)
	c := &clock{now: begin}
	seen := Shared(db, c.Now)
	use := func(id string, want bool) {
		t.Helper()
		if first, err := seen.Use(t.Context(), id, c.Now().Add(time.Minute)); first != want || err != nil {
			t.Errorf("%s: %v, %v", id, first, err)
		}
	}
	rows := func() (n int) {
		if err := db.QueryRowContext(t.Context(), `SELECT COUNT(*) FROM placet_used_tokens`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	use("a", true)
	use("a", false)
	use("it's; DROP TABLE placet_used_tokens; --"+strings.Repeat("x", 10_000), true)
	c.pass(59 * time.Minute) // another process' clock may be behind: nothing is forgotten yet
	use("a", false)
	use("b", true)
	c.pass(3 * time.Minute)
	use("c", true)
	if n := rows(); n != 2 {
		t.Errorf("%d rows are kept", n)
	}
	c.pass(2 * time.Minute)
	if _, err := db.ExecContext(t.Context(), `CREATE TRIGGER keep BEFORE DELETE ON placet_used_tokens BEGIN SELECT RAISE(ABORT, 'no'); END`); err != nil {
		t.Fatal(err)
	}
	c.pass(2 * time.Hour)
	if first, err := seen.Use(t.Context(), "d", c.Now()); first || err == nil || rows() != 2 {
		t.Errorf("with a table that cannot be swept: %v, %v", first, err)
	}
	if _, err := db.ExecContext(t.Context(), `DROP TABLE placet_used_tokens`); err != nil {
		t.Fatal(err)
	}
	for _, again := range []Seen{seen, Shared(db, c.Now)} {
		if first, err := again.Use(t.Context(), "e", c.Now()); first || err == nil {
			t.Errorf("without a table: %v, %v", first, err)
		}
	}
	h := newHouse(t, func(o *Options) { o.Seen = seen })
	h.wants(h.token(), CannotCheck)
}

const (
	racerDB     = "PLACET_TEST_RACER_DB"
	racerLedger = "PLACET_TEST_RACER_LEDGER"
	racerIssuer = "PLACET_TEST_RACER_ISSUER"
)

// TestRacer is one process of a tool server in TestTwoProcessesShareOneToken: it checks
// each token that it reads, and writes those that it admits to the ledger.
func TestRacer(t *testing.T) {
	if os.Getenv(racerDB) == "" {
		t.Skip("runs as a process of another test only")
	}
	v, err := New(Options{Issuer: os.Getenv(racerIssuer), Audience: audience, Seen: Shared(openShared(t, os.Getenv(racerDB)), nil)})
	if err != nil {
		t.Fatal(err)
	}
	ledger, err := os.OpenFile(os.Getenv(racerLedger), os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer ledger.Close()
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		call, err := v.Check(t.Context(), in.Text(), "refund", []byte(refund))
		answer := "admitted"
		if err != nil {
			answer = string(ReasonOf(err))
		} else if _, err := fmt.Fprintln(ledger, call.Token); err != nil {
			t.Fatal(err)
		}
		fmt.Println("racer:", answer)
	}
}

// racer is a running TestRacer.
type racer struct {
	in  io.Writer
	out *bufio.Scanner
}

func (r racer) answer() string {
	for r.out.Scan() {
		if text, ok := strings.CutPrefix(r.out.Text(), "racer: "); ok {
			return text
		}
	}
	return "it is gone"
}

func startRacer(t *testing.T, env ...string) racer {
	t.Helper()
	c := exec.Command(os.Args[0], "-test.run=^TestRacer$")
	c.Env = append(os.Environ(), env...)
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(); _ = c.Wait() })
	return racer{in, bufio.NewScanner(out)}
}

// Two processes of one server get the same token at once: one acts, by their ledger.
func TestTwoProcessesShareOneToken(t *testing.T) {
	h := newHouse(t)
	h.clock.now = time.Now()
	signer, err := credential.Open(filepath.Join(t.TempDir(), "keys"), credential.Options{Issuer: h.url, Random: rand.Reader, Clock: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	h.signer = signer
	file, _ := newShared(t)
	ledger := filepath.Join(t.TempDir(), "ledger")
	env := []string{racerDB + "=" + file, racerLedger + "=" + ledger, racerIssuer + "=" + h.url}
	racers := []racer{startRacer(t, env...), startRacer(t, env...)}
	const tokens = 20
	for i := range tokens {
		token := h.token()
		for _, r := range racers {
			if _, err := io.WriteString(r.in, token+"\n"); err != nil {
				t.Fatal(err)
			}
		}
		got := map[string]int{}
		for _, r := range racers {
			got[r.answer()]++
		}
		if got["admitted"] != 1 || got[string(Replayed)] != 1 {
			t.Fatalf("token %d: %v", i, got)
		}
	}
	text, err := os.ReadFile(ledger)
	if err != nil {
		t.Fatal(err)
	}
	acted := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		acted[line] = true
	}
	if n := strings.Count(string(text), "\n"); n != tokens || len(acted) != tokens {
		t.Errorf("%d tokens acted %d times, %d of them different", tokens, n, len(acted))
	}
}
