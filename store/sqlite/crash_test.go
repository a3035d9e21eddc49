package sqlite

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

const childEnv = "PLACET_TEST_WRITE_UNTIL_KILLED"

func TestMain(m *testing.M) {
	if path := os.Getenv(childEnv); path != "" {
		writeUntilKilled(path)
		return
	}
	os.Exit(m.Run())
}

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func testOwner() record.Owner {
	return record.Owner{Tenant: "acme", Principal: record.Principal{Issuer: "i", Subject: "anna"}, Agent: "bot"}
}

func mustID(prefix string) string {
	s, err := record.NewID(prefix, noon, rand.Reader)
	if err != nil {
		panic(err)
	}
	return s
}

func openedRun() (record.Change, record.Run) {
	c := record.OpenRun(record.Run{Owner: testOwner(), ID: record.RunID(mustID("run")), Lineage: "lin_1", Turn: 1, Opened: noon, Active: noon}, record.Who{System: "test"})
	return c, c.Facts().Run.After
}

func reservation(r record.Run, arguments string) record.Change {
	c := record.Call{Owner: r.Owner, ID: record.CallID(mustID("call")), Run: r.ID, Lineage: r.Lineage, Turn: 1, Tool: record.ToolRef{Name: "t", Version: canon.Of("v"), Pin: canon.Of("p")},
		Arguments: []byte(arguments), Digest: canon.Of("d"), Effect: canon.Of("e", []byte(arguments)), Source: record.Direct, Route: record.RouteAPI, Attempts: 1, Proposed: noon, Expires: noon}
	change, err := record.Reserve(c, record.Step{At: noon, Premise: &record.Premise{Tenant: r.Tenant, Run: r.ID, Owner: r.Owner, Turn: 1},
		Charges: []record.Charge{{Counter: "calls", Amount: 1, Limit: 1 << 40}}}, noon, nil, nil)
	if err != nil {
		panic(err)
	}
	return change
}

// writeUntilKilled records calls and says of each that it is durable, as the
// boundary would by invoking the tool.
func writeUntilKilled(path string) {
	ctx := context.Background()
	s, err := Open(ctx, path, Options{})
	if err != nil {
		panic(err)
	}
	open, run := openedRun()
	if err := s.Apply(ctx, open); err != nil {
		panic(err)
	}
	for worker := range 8 {
		go func() {
			for i := 0; ; i++ {
				c := reservation(run, fmt.Sprintf(`{"w":%d,"i":%d}`, worker, i))
				if err := s.Apply(ctx, c); err != nil {
					panic(err)
				}
				fmt.Println(c.Facts().Call.After.ID)
			}
		}()
	}
	select {}
}

// TestKillNine: whatever was said to be durable is there after SIGKILL, whole,
// with its events and its share of the counter.
func TestKillNine(t *testing.T) {
	for round := range 3 {
		path := filepath.Join(t.TempDir(), "state.db")
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), childEnv+"="+path)
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		var said []record.CallID
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			said = append(said, record.CallID(lines.Text()))
			if len(said) == 50+200*round {
				if err := child.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		_ = child.Wait() // it was killed
		if len(said) < 50 {
			t.Fatalf("only %d calls before the kill", len(said))
		}
		if last := said[len(said)-1]; !record.ValidID("call", string(last)) {
			said = said[:len(said)-1] // the kill cut the line
		}
		s, err := Open(t.Context(), path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range said {
			l, err := s.Call(t.Context(), "acme", id)
			if err != nil || l.Call.State != record.Executing {
				t.Fatalf("round %d: %s was said to be durable: %v %v", round, id, l.Call.State, err)
			}
			ev, err := s.Events(t.Context(), dispatch.EventQuery{Tenant: "acme", Call: id})
			if err != nil || len(ev) != 3 {
				t.Fatalf("round %d: %s has %d events (%v)", round, id, len(ev), err)
			}
		}
		var calls, counted int64
		if err := s.read(t.Context(), func(c *sqlite.Conn) error {
			if _, err := row(c, "SELECT count(*) FROM calls", func(s *sqlite.Stmt) { calls = s.ColumnInt64(0) }); err != nil {
				return err
			}
			_, err := row(c, "SELECT level FROM counters", func(s *sqlite.Stmt) { counted = s.ColumnInt64(0) })
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if calls != counted || calls < int64(len(said)) {
			t.Fatalf("round %d: %d calls, counted %d, said %d", round, calls, counted, len(said))
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// small mounts a tmpfs of its own, or skips.
func small(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("mounting a small file system needs privileges this test does not have: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir
}

// TestFullDisk: when the disk fills in the middle of a batch, nobody in it is
// told that his change is durable unless it is, and what was said stays true.
func TestFullDisk(t *testing.T) {
	path := filepath.Join(small(t, "1m"), "state.db")
	s, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	open, run := openedRun()
	if err := s.Apply(t.Context(), open); err != nil {
		t.Fatal(err)
	}
	var said []record.CallID
	var failure error
	for i := 0; failure == nil && i < 10_000; i++ {
		c := reservation(run, fmt.Sprintf(`{"i":%d,"filler":%q}`, i, strings.Repeat("x", 2000)))
		if failure = s.Apply(t.Context(), c); failure == nil {
			said = append(said, c.Facts().Call.After.ID)
		}
	}
	if failure == nil {
		t.Fatal("the disk never filled")
	}
	if record.KindOf(failure) != record.Unavailable {
		t.Fatalf("a full disk: %v", failure)
	}
	var refused *record.Refusal
	if errors.As(failure, &refused) {
		t.Fatal("a full disk is told as a refusal, after which the boundary would go on")
	}
	_ = s.Close()
	again, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Skipf("a full disk cannot even be opened: %v", err) // a clean stop; nothing ran
	}
	defer again.Close()
	for _, id := range said {
		if _, err := again.Call(t.Context(), "acme", id); err != nil {
			t.Fatalf("%s was said to be durable: %v", id, err)
		}
	}
	if len(said) == 0 {
		t.Fatal("nothing was recorded before the disk filled")
	}
}

// TestReadOnlyFile: a store that cannot be written is not opened.
func TestReadOnlyFile(t *testing.T) {
	dir := small(t, "8m")
	path := filepath.Join(dir, "state.db")
	s, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Skipf("remounting read-only: %v", err)
	}
	if s, err := Open(t.Context(), path, Options{}); err == nil {
		_ = s.Close()
		t.Fatal("a read-only store was opened for writing")
	} else if record.KindOf(err) != record.Unavailable {
		t.Fatalf("a read-only store: %v", err)
	}
}

// TestLockedDatabase: another program's lock is a denial, and over when it ends.
func TestLockedDatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	s, err := Open(t.Context(), path, Options{Busy: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	open, run := openedRun()
	if err := s.Apply(t.Context(), open); err != nil {
		t.Fatal(err)
	}
	other, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := sqlitex.ExecuteTransient(other, "BEGIN IMMEDIATE", nil); err != nil {
		t.Fatal(err)
	}
	blocked := reservation(run, `{"n":1}`)
	if err := s.Apply(t.Context(), blocked); record.KindOf(err) != record.Unavailable {
		t.Fatalf("behind another program's lock: %v", err)
	}
	if err := sqlitex.ExecuteTransient(other, "ROLLBACK", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Call(t.Context(), "acme", blocked.Facts().Call.After.ID); record.KindOf(err) != record.NotFound {
		t.Fatalf("the failed change left a trace: %v", err)
	}
	if err := s.Apply(t.Context(), blocked); err != nil {
		t.Fatalf("after the lock: %v", err)
	}
}

// TestSettings: what durability rests on, and who may read the file.
func TestSettings(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	s, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	open, _ := openedRun()
	if err := s.Apply(t.Context(), open); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path, path + "-wal", path + "-shm", path + ".lock"} {
		info, err := os.Stat(name)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v (%v)", name, info.Mode(), err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	conn, err := openWriter(path, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "foreign_keys": "1", "secure_delete": "1"} {
		got := ""
		if err := sqlitex.ExecuteTransient(conn, "PRAGMA "+pragma, &sqlitex.ExecOptions{
			ResultFunc: func(s *sqlite.Stmt) error { got = s.ColumnText(0); return nil }}); err != nil || got != want {
			t.Errorf("%s is %q, want %q (%v)", pragma, got, want, err)
		}
	}
}

func TestOneProcessOwnsTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	s, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), path, Options{}); record.KindOf(err) != record.Unavailable {
		t.Fatalf("a second owner: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestMigrations opens a file of every earlier schema with records in it, and one
// of a later one.
func TestMigrations(t *testing.T) {
	all, err := steps()
	if err != nil {
		t.Fatal(err)
	}
	for version := 1; version < len(all); version++ {
		path := filepath.Join(t.TempDir(), "state.db")
		conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite|sqlite.OpenCreate|sqlite.OpenWAL)
		if err != nil {
			t.Fatal(err)
		}
		for i := range version {
			if err := step(conn, all[i], i+1); err != nil {
				t.Fatal(err)
			}
		}
		if err := sqlitex.ExecuteTransient(conn, "INSERT INTO activations (generation, digest, who, at) VALUES (1, 'sha256:x', '{}', 1)", nil); err != nil {
			t.Fatal(err)
		}
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
		s, err := Open(t.Context(), path, Options{})
		if err != nil {
			t.Fatalf("from schema %d: %v", version, err)
		}
		if g, _, err := s.Generation(t.Context()); g != 1 || err != nil {
			t.Fatalf("from schema %d: what was recorded is gone: %d %v", version, g, err)
		}
		open, run := openedRun()
		if err := errors.Join(s.Apply(t.Context(), open), s.Close()); err != nil {
			t.Fatalf("from schema %d: %v", version, err)
		}
		_ = run
		if _, err := os.Stat(fmt.Sprintf("%s.before-%d", path, version+1)); err != nil {
			t.Fatalf("no copy was made before the migration: %v", err)
		}
	}
	path := filepath.Join(t.TempDir(), "state.db")
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite|sqlite.OpenCreate)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(sqlitex.ExecuteTransient(conn, fmt.Sprintf("PRAGMA user_version = %d", len(all)+1), nil), conn.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), path, Options{}); err == nil || !strings.Contains(err.Error(), "newer program") {
		t.Fatalf("a file of a later schema: %v", err)
	}
}
