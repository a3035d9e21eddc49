package audit_test

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/placet-dev/placet/audit"
	"github.com/placet-dev/placet/record"
	store "github.com/placet-dev/placet/store/sqlite"
)

// world is a real store file with a sealed log of two tenants.
type world struct {
	t    *testing.T
	path string
	key  audit.Key
	s    *store.Store
	at   time.Time
}

func newKey(t testing.TB, name string) audit.Key {
	t.Helper()
	key, err := audit.OpenKey(filepath.Join(t.TempDir(), "key"), name, nil)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newWorld(t *testing.T, checkpoints, events int) *world {
	t.Helper()
	w := &world{t: t, path: filepath.Join(t.TempDir(), "state.db"), key: newKey(t, "log.test"), at: time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC)}
	w.open()
	for range checkpoints {
		w.write(events)
	}
	return w
}

func (w *world) open() {
	w.t.Helper()
	s, err := store.Open(w.t.Context(), w.path, store.Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	w.s = s
	w.t.Cleanup(func() { _ = s.Close() })
}

func (w *world) sealer(key audit.Key, to ...audit.Target) *audit.Sealer {
	w.t.Helper()
	s, err := audit.NewSealer(w.t.Context(), audit.Options{Log: w.s, Apply: w.s.Apply, Key: key, Publish: to, Clock: func() time.Time { return w.at }})
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func something(subject string, tenant record.TenantID, at time.Time) record.Change {
	return record.Raise(record.Alert{Rule: record.AlertRefusals, Subject: subject, Text: "text <&> \u2028 é"}, tenant, "run_x", "", at)
}

// write records n events, of two tenants in turn, and seals them.
func (w *world) write(n int, to ...audit.Target) {
	w.t.Helper()
	done := make(chan error, n)
	for i := range n {
		w.at = w.at.Add(time.Second)
		change := something(fmt.Sprint("subject-", i), record.TenantID([]string{"acme", "globex"}[i%2]), w.at)
		if n > 100 { // many at once share a commit
			go func() { done <- w.s.Apply(w.t.Context(), change) }()
			continue
		}
		done <- w.s.Apply(w.t.Context(), change)
	}
	for range n {
		if err := <-done; err != nil {
			w.t.Fatal(err)
		}
	}
	if err := w.sealer(w.key, to...).Step(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) export(x audit.Export) []byte {
	w.t.Helper()
	var out bytes.Buffer
	if err := x.WriteTo(w.t.Context(), &out, w.s, w.key.Public()); err != nil {
		w.t.Fatal(err)
	}
	return out.Bytes()
}

// head is the newest checkpoint, as somebody outside keeps it.
func (w *world) head() string {
	w.t.Helper()
	c, err := w.s.Head(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return c.Note
}

// tamper changes the store's file as whoever can write it does, while no server runs.
func (w *world) tamper(sql ...string) {
	w.t.Helper()
	if err := w.s.Close(); err != nil {
		w.t.Fatal(err)
	}
	conn, err := sqlite.OpenConn(w.path, sqlite.OpenReadWrite)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, s := range sql {
		if err := sqlitex.ExecuteScript(conn, s, nil); err != nil {
			w.t.Fatal(s, err)
		}
	}
	if err := conn.Close(); err != nil {
		w.t.Fatal(err)
	}
	w.open()
}

func faultOf(err error) audit.Fault {
	var b *audit.Broken
	if errors.As(err, &b) {
		return b.Fault
	}
	return ""
}

func (w *world) verify(export []byte, since ...string) (audit.Verified, error) {
	return audit.Verify(bytes.NewReader(export), w.key.Verifiers(), since)
}
