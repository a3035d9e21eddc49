package audit_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/placet-dev/placet/audit"
	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

// TestRule_J4_AnEarlierLogGoesOn opens what a program wrote and sealed before calls had salts.
// Its calls read as they were and bind as they did, its log verifies against a checkpoint
// that was kept then, and so does what is sealed after one of its calls was redacted.
func TestRule_J4_AnEarlierLogGoesOn(t *testing.T) {
	key, err := audit.KeyFrom([]byte("the key of an earlier log; test."), "log.test")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, path: filepath.Join(t.TempDir(), "state.db"), key: key, at: time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)}
	earlier(t, w.path)
	w.open()
	kept := w.head()
	if got, err := w.verify(w.export(audit.Export{}), kept); err != nil || got.Events != 13 || got.Checkpoints != 2 {
		t.Fatalf("as it was left it does not verify: %+v %v", got, err)
	}
	if text := w.export(audit.Export{}); strings.Count(string(text), `argument_digest`) != 3 {
		t.Error("an earlier event is not shown as it was recorded")
	}
	read := func(id record.ApprovalID, arguments string) dispatch.Loaded {
		t.Helper()
		l, err := w.s.Approval(t.Context(), "acme", id)
		if err != nil {
			t.Fatal(err)
		}
		c, q := l.Call, l.Approval
		if string(c.Arguments) != arguments || len(c.Salt) != 0 || c.Redacted != nil || c.Retention != (record.Retention{}) || c.State.Terminal() && !c.Due.IsZero() {
			t.Errorf("%s is read as %+v", id, c)
		}
		if record.BindingOf(c, &q.Rule, q.Expires, c.Decision.DecidedBy) != q.Binding {
			t.Errorf("the yes %s was for another binding than its call has now", id)
		}
		return l
	}
	ended, approved := read("apr_06h31n8pd0wjawr1vm9mw2966c", `{"note":"ended","order":"ord_1"}`), read("apr_06h31n8ta0ztyd6ft6nhw7xp84", `{"note":"approved","order":"ord_1"}`)

	// An operator takes the content of the one that ended, and not of the one that may run.
	by := record.Who{Workload: "otto"}
	if _, err := record.RedactCall(approved.Call, approved.Approval, "asked for", by, "otto", w.at); record.KindOf(err) != record.Conflict {
		t.Errorf("one that may run: %v", err)
	}
	change, err := record.RedactCall(ended.Call, ended.Approval, "asked for", by, "otto", w.at)
	if err == nil {
		err = w.s.Apply(t.Context(), change)
	}
	if err != nil {
		t.Fatal(err)
	}
	w.write(3)
	if got, err := w.verify(w.export(audit.Export{}), kept); err != nil || got.Events != 17 || got.Checkpoints != 3 {
		t.Fatalf("with what came after it does not verify: %+v %v", got, err)
	}
	if text := w.export(audit.Export{}); bytes.Contains(text, []byte("refunded")) || bytes.Contains(text, []byte("T-88")) || !bytes.Contains(text, []byte(record.EventCallRedacted)) {
		t.Error("an export tells of what was redacted, or not that it was")
	}
	w.tamper(`UPDATE events SET body = replace(body, 'argument_digest', 'argument_commitment') WHERE seq = 2`)
	if _, err := w.verify(w.export(audit.Export{}), kept); faultOf(err) != audit.Changed {
		t.Errorf("an earlier event was rewritten, and that is told as %v", err)
	}
}

// earlier writes a file as the program of schema 19 left it.
func earlier(t *testing.T, path string) {
	t.Helper()
	files, err := filepath.Glob("../store/sqlite/migrations/*.sql")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d migrations, %v: the test looks in the wrong place", len(files), err)
	}
	slices.Sort(files)
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite|sqlite.OpenCreate)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files[:19:19], "testdata/earlier.sql") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := sqlitex.ExecuteScript(conn, string(text), nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := sqlitex.ExecuteTransient(conn, "PRAGMA user_version = 19", nil); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
}
