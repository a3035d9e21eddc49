package replicas

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/placet-dev/placet/store/postgres/pgtest"
)

// A question that was asked with the records in a SQLite file is answered when they are
// in PostgreSQL, and its call runs once; what ran before is not run again, nor is what was
// redacted since.
func TestMoveFromSQLite(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	server := pgtest.Shared(t)
	database := server.Database(t)
	owner := "owns_" + database
	server.Do(t, database, "CREATE ROLE "+owner+" LOGIN PASSWORD 's3cret-"+owner+"'; ALTER DATABASE "+database+" OWNER TO "+owner+"; CREATE ROLE serves_"+database+" LOGIN PASSWORD 's3cret-serves_"+database+"'")
	w.env = append(w.env, "PLACET_OWNER="+server.DSN(owner, database), "PLACET_STORE="+server.DSN("serves_"+database, database))
	shared := fmt.Sprintf(settings, w.balancer.URL)
	alone := strings.NewReplacer("env:PLACET_STORE", "sqlite:state.db", "secret: env:PLACET_SECRET\n", "").Replace(shared)
	w.write("placet.yaml", alone)
	a := w.start()
	anna := w.token("anna")
	w.must(a.url, anna, "POST", "/v1/calls", `{"tool":"act","arguments":{"id":"before"}}`)
	var gone struct{ Call string }
	w.must(a.url, anna, "POST", "/v1/calls", `{"tool":"act","arguments":{"id":"gone"}}`).into(t, &gone)
	operator := w.token("otto", "ops")
	w.must(a.url, operator, "POST", "/v1/calls/"+gone.Call+"/redact", `{"reason":"asked for"}`)
	w.must(a.url, anna, "POST", "/v1/calls", `{"tool":"file","arguments":{"id":"asked"}}`)
	q := w.question(a.url)
	w.write("shared.yaml", shared)
	move := []string{"migrate", "-c", "shared.yaml", "--owner", "env:PLACET_OWNER", "--from", "sqlite:state.db"}
	if out, err := w.command(move...).CombinedOutput(); err == nil || !strings.Contains(string(out), "owns this store") {
		t.Errorf("while a server uses the file: %v %s", err, out)
	}
	if err := a.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-a.done; err != nil {
		t.Fatalf("%v %s", err, a.errs)
	}
	if said := w.run(move...); !strings.Contains(said, "3 rows of calls") || !strings.Contains(said, "1 rows of approvals") {
		t.Errorf("moving says %s", said)
	}
	if _, err := os.Stat(filepath.Join(w.dir, "state.db")); !os.IsNotExist(err) {
		t.Errorf("the file has its name still: %v", err)
	}
	again := append(slices.Clone(move[:len(move)-1]), "sqlite:state.db.moved")
	if out, err := w.command(again...).CombinedOutput(); err == nil || !strings.Contains(string(out), "has records already") {
		t.Errorf("into a database that has records: %v %s", err, out)
	}

	w.write("placet.yaml", shared)
	w.behind = nil
	w.desk.ahead.Store(int64(6 * time.Second)) // who verifies asks for new keys some seconds after the last time
	b, c := w.start(), w.start()
	w.approve(b.url, q)
	if r, err := w.call(c.url, anna, "placet_wait", `{"call":"`+q.call+`"}`, ""); err != nil || !strings.Contains(r.body, "done file") {
		t.Errorf("what was asked before: %+v %v", r, err)
	}
	w.desk.ahead.Store(0)                                                                  // it has them
	w.must(c.url, anna, "POST", "/v1/calls", `{"tool":"act","arguments":{"id":"before"}}`) // a repeat: answered from its record
	w.must(b.url, anna, "POST", "/v1/calls", `{"tool":"act","arguments":{"id":"gone"}}`)   // so is one whose content was redacted
	if r := w.must(b.url, operator, "GET", "/v1/calls/"+gone.Call, ""); !strings.Contains(r.body, `"why":"asked for"`) || !strings.Contains(r.body, `"arguments":null`) {
		t.Errorf("what was redacted before: %s", r.body)
	}
	w.must(b.url, anna, "POST", "/v1/calls", `{"tool":"act","arguments":{"id":"after"}}`)
	w.must(c.url, operator, "POST", "/v1/calls/"+q.call+"/redact", `{"reason":"there as well"}`) // as the role that only serves
	if r := w.must(b.url, operator, "GET", "/v1/calls/"+q.call, ""); !strings.Contains(r.body, `"why":"there as well"`) || !strings.Contains(r.body, `"arguments":null`) {
		t.Errorf("what was redacted after: %s", r.body)
	}
	if did, want := w.desk.did(), []string{`act {"id":"before"}`, `act {"id":"gone"}`, `file {"id":"asked"}`, `act {"id":"after"}`}; !slices.Equal(did, want) {
		t.Errorf("the desk did %q, want %q", did, want)
	}
}

// Rule E5: a server that was stopped in the middle of a call, and wakes when the lease is
// over, completes nothing: what it brings is kept as evidence, and the other server's
// record stands.
func TestRule_E5_APausedServerWakesLate(t *testing.T) {
	if testing.Short() {
		t.Skip("a lease has to end")
	}
	t.Parallel()
	w := newWorld(t)
	w.write("tools.yaml", strings.Replace(w.read("tools.yaml"), "timeout: 50s", "timeout: 1s", 1))
	a, b := w.start(), w.start()
	anna := w.token("anna")
	late := make(chan reply, 1)
	go func() { r, _ := w.call(a.url, anna, "slow", `{"id":"late"}`, ""); late <- r }()
	<-w.desk.began
	if err := a.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	w.desk.gate <- struct{}{} // the effect happens, and nobody there hears of it
	if err := <-w.desk.ended; err != nil {
		t.Fatal(err)
	}
	operator := w.token("otto", "ops")
	var calls struct{ Calls []struct{ ID, State string } }
	until(t, "the lease ends at B", func() bool {
		w.must(b.url, operator, "GET", "/v1/calls?state=unknown", "").into(t, &calls)
		return len(calls.Calls) == 1
	})
	id := calls.Calls[0].ID
	if err := a.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if r := <-late; strings.Contains(r.body, "done slow") {
		t.Errorf("who waited at A is told of a success: %+v", r)
	}
	until(t, "what A brought is kept as evidence", func() bool {
		return strings.Contains(w.must(b.url, operator, "GET", "/v1/events?call="+id, "").body, `"late`)
	})
	var now struct{ State string }
	w.must(b.url, operator, "GET", "/v1/calls/"+id, "").into(t, &now)
	if now.State != "unknown" {
		t.Errorf("the call is %s", now.State)
	}
	// Nobody runs it again, and the neighbour that A serves now does run.
	w.must(a.url, anna, "POST", "/v1/calls", `{"tool":"act","arguments":{"id":"awake"}}`)
	if did, want := w.desk.did(), []string{`slow {"id":"late"}`, `act {"id":"awake"}`}; !slices.Equal(did, want) {
		t.Errorf("the desk did %q, want %q", did, want)
	}
}
