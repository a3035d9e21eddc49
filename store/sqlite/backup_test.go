package sqlite

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/placet-dev/placet/record"
)

// noted opens a store, notes some events in it, and leaves it open.
func noted(t *testing.T, path string, n int) *Store {
	t.Helper()
	s, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	note(t, s, n)
	return s
}

func note(t *testing.T, s *Store, n int) {
	t.Helper()
	for range n {
		e := record.Event{At: time.Unix(1, 0), Tenant: "acme", Kind: record.EventRefused}
		if err := s.Apply(t.Context(), record.Note(e, record.Body{Detail: strings.Repeat("x", 3000)})); err != nil {
			t.Fatal(err)
		}
	}
}

// A copy is made while the store is used, holds what it held then, and opens.
func TestBackupAndRestore(t *testing.T) {
	dir := t.TempDir()
	path, copied, aside := filepath.Join(dir, "state.db"), filepath.Join(dir, "copy.db"), filepath.Join(dir, "aside.db")
	s := noted(t, path, 3)
	got, err := Backup(t.Context(), path, copied)
	if err != nil || got.Events != 3 || got.Last != 3 {
		t.Fatalf("%+v %v", got, err)
	}
	if info, err := os.Stat(copied); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v %v", info.Mode(), err)
	}
	if _, err := Backup(t.Context(), path, copied); record.KindOf(err) != record.Conflict {
		t.Fatalf("over a copy that is there: %v", err)
	}
	note(t, s, 2)
	if _, err := Restore(t.Context(), copied, path, aside); record.KindOf(err) != record.Unavailable {
		t.Fatalf("into a store that is open: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err = Restore(t.Context(), copied, path, aside); err != nil || got.Events != 3 {
		t.Fatalf("%+v %v", got, err)
	}
	for name, want := range map[string]int64{path: 3, aside: 5} {
		if got, err := Verify(t.Context(), name); err != nil || got.Events != want {
			t.Errorf("%s: %+v %v, want %d events", name, got, err, want)
		}
	}
	s = noted(t, path, 1) // it goes on
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := Verify(t.Context(), path); err != nil || got.Events != 4 {
		t.Errorf("%+v %v", got, err)
	}
}

// What is not whole is neither a backup nor restored, and the store stays.
func TestBrokenCopiesAreRefused(t *testing.T) {
	dir := t.TempDir()
	path, copied := filepath.Join(dir, "state.db"), filepath.Join(dir, "copy.db")
	s := noted(t, path, 20)
	if _, err := Backup(t.Context(), path, copied); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(copied)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func([]byte) []byte{
		"cut":      func(b []byte) []byte { return b[:len(b)/2] },
		"empty":    func([]byte) []byte { return nil },
		"no store": func([]byte) []byte { return []byte("hello") },
		"overwritten": func(b []byte) []byte {
			for i := len(b) - 9000; i < len(b)-4000; i++ {
				b[i] = 0xff
			}
			return b
		},
	} {
		bad := filepath.Join(dir, strings.ReplaceAll(name, " ", "-"))
		if err := os.WriteFile(bad, change(append([]byte(nil), text...)), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := Restore(t.Context(), bad, path, filepath.Join(dir, "aside-"+filepath.Base(bad))); err == nil {
			t.Errorf("%s: restored %+v", name, got)
		}
	}
	if got, err := Verify(t.Context(), path); err != nil || got.Events != 20 {
		t.Errorf("the store: %+v %v", got, err)
	}
}

// A store that is broken itself gives way to a copy, and is kept as it is.
func TestRestoreOverABrokenStore(t *testing.T) {
	dir := t.TempDir()
	path, copied, aside := filepath.Join(dir, "state.db"), filepath.Join(dir, "copy.db"), filepath.Join(dir, "aside.db")
	s := noted(t, path, 3)
	if _, err := Backup(t.Context(), path, copied); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("no store any more"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(t.Context(), copied, path, aside); err != nil {
		t.Fatal(err)
	}
	if got, err := Verify(t.Context(), path); err != nil || got.Events != 3 {
		t.Errorf("%+v %v", got, err)
	}
	if text, err := os.ReadFile(aside); err != nil || string(text) != "no store any more" {
		t.Errorf("%q %v", text, err)
	}
}
