package placet

import (
	"bytes"
	"context"
	"crypto/rand"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/placet-dev/placet/audit"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
)

// sealing is a configuration with a place for checkpoints outside of the store.
const sealing = "checkpoint: {every: 100ms, publish: [\"file:log.jsonl\"]}\n"

// allSealed waits until everything is sealed.
func (p *Placet) allSealed(t *testing.T) record.Checkpoint {
	t.Helper()
	for until := time.Now().Add(time.Minute); time.Now().Before(until); runtime.Gosched() {
		last, _, err := p.store.Last(t.Context(), time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		if head, err := p.store.Head(t.Context()); err == nil && last > 0 && head.Seq == last {
			return head
		}
	}
	t.Fatal("the log is not sealed")
	return record.Checkpoint{}
}

// TestPromise_P9_EvidenceSurvives: what a running server recorded is exported over its
// API and verifies without it, against what it published; the same store with one
// event changed does not.
func TestPromise_P9_EvidenceSurvives(t *testing.T) {
	s := newService(t, "permissions: {read: [\"group:security\"]}\n"+sealing, func(o *Options) {
		local, err := identity.NewLocal(LocalIssuer, rand.Reader, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		o.Local = local
	})
	dir := filepath.Dir(s.placet.o.Config.StorePath())
	head := s.placet.allSealed(t)
	text := s.read(t, "/v1/audit/export")
	var since []string
	for until := time.Now().Add(time.Minute); !slices.Contains(since, head.Note); runtime.Gosched() { // it is published once it is in the store
		kept, err := os.ReadFile(filepath.Join(dir, "log.jsonl"))
		if err == nil {
			since, err = audit.Checkpoints(kept)
		}
		if time.Now().After(until) {
			t.Fatalf("the newest checkpoint is not published: %v", err)
		}
	}
	keys, err := audit.Verifiers(s.placet.logKey)
	if err != nil {
		t.Fatal(err)
	}
	got, err := audit.Verify(bytes.NewReader(text), keys, since)
	if err != nil || got.Events == 0 || got.Known == 0 {
		t.Fatalf("%+v %v\n%s", got, err, text)
	}
	receipt := s.read(t, "/v1/events/1/receipt")
	if events, _, err := audit.VerifyReceipt(bytes.TrimSpace(receipt), keys); err != nil || events[0].Seq != 1 {
		t.Fatalf("%v\n%s", err, receipt)
	}
	path := s.placet.o.Config.StorePath()
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := sqlitex.ExecuteScript(conn, `UPDATE events SET at = at - 1 WHERE seq = 1`, nil); err != nil {
		t.Fatal(err)
	}
	text = s.read(t, "/v1/audit/export")
	if _, err := audit.Verify(bytes.NewReader(text), keys, nil); err == nil {
		t.Fatal("a changed event verifies")
	}
	receipt = s.read(t, "/v1/events/1/receipt")
	if _, _, err := audit.VerifyReceipt(bytes.TrimSpace(receipt), keys); err == nil {
		t.Fatal("a changed event has a receipt")
	}
}

// read asks as somebody who may read the log.
func (s *service) read(t *testing.T, path string) []byte {
	t.Helper()
	token, err := s.placet.o.Local.Sign(identity.TokenSpec{Audience: s.placet.o.Config.ConsoleAudience(), Subject: "sec", Tenant: "dev", Groups: []string{"security"}})
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, s.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(res.Body); err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d %s", path, res.StatusCode, b.Bytes())
	}
	return b.Bytes()
}
