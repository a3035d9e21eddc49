package audit_test

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/placet-dev/placet/audit"
	"github.com/placet-dev/placet/record"
	store "github.com/placet-dev/placet/store/sqlite"
)

// TestPublishedFile: a line that a crash cut short spoils nothing behind it.
func TestPublishedFile(t *testing.T) {
	w := newWorld(t, 1, 2)
	file := audit.File{Path: filepath.Join(t.TempDir(), "kept.jsonl")}
	if _, found, err := file.Newest(w.key.Verifiers()); found || err != nil {
		t.Fatal(found, err)
	}
	w.write(2, file)
	if err := appendTo(file.Path, `{"checkpoint":"log.te`); err != nil {
		t.Fatal(err)
	}
	if c, found, err := file.Newest(w.key.Verifiers()); !found || err != nil || c.Size != 4 {
		t.Fatal(c, found, err)
	}
	w.write(2, file)
	if c, found, err := file.Newest(w.key.Verifiers()); !found || err != nil || c.Size != 6 {
		t.Fatal(c, found, err)
	}
	if _, _, err := file.Newest(newKey(t, "log.test").Verifiers()); record.KindOf(err) != record.Invalid {
		t.Fatalf("a file of another log: %v", err)
	}
}

func appendTo(path, text string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// TestKeyFile: made once, private, and refused where others can read it.
func TestKeyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	first, err := audit.OpenKey(path, "a.test", nil)
	if err != nil {
		t.Fatal(err)
	}
	again, err := audit.OpenKey(path, "b.test", nil)
	if err != nil || again.Public() != first.Public() || again.Name() != "a.test" {
		t.Fatal(again.Name(), err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := audit.OpenKey(path, "a.test", nil); record.KindOf(err) != record.Invalid {
		t.Fatalf("a key that others can read: %v", err)
	}
	if err := errors.Join(os.Chmod(path, 0o600), os.WriteFile(path, []byte("PRIVATE+KEY+x"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := audit.OpenKey(path, "a.test", nil); record.KindOf(err) != record.Invalid {
		t.Fatalf("no key: %v", err)
	}
}

// BenchmarkSeal writes events as 64 callers do, and seals them.
func BenchmarkSeal(b *testing.B) {
	s, err := store.Open(b.Context(), filepath.Join(b.TempDir(), "state.db"), store.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	sealer, err := audit.NewSealer(b.Context(), audit.Options{Log: s, Apply: s.Apply, Key: newKey(b, "log.test")})
	if err != nil {
		b.Fatal(err)
	}
	var writing, sealing time.Duration
	rounds := 0
	for b.Loop() {
		rounds++
		begin := time.Now()
		var callers sync.WaitGroup
		for range 64 {
			callers.Go(func() {
				for range 16 {
					if err := s.Apply(b.Context(), something("x", "acme", begin)); err != nil {
						b.Error(err)
					}
				}
			})
		}
		callers.Wait()
		wrote := time.Now()
		if err := sealer.Step(b.Context()); err != nil {
			b.Fatal(err)
		}
		writing, sealing = writing+wrote.Sub(begin), sealing+time.Since(wrote)
	}
	b.ReportMetric(float64(sealing)/float64(writing), "sealing/writing")
	b.ReportMetric(float64(rounds)*1024/sealing.Seconds(), "events-sealed/s")
}
