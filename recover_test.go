package placet

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/placet-dev/placet/config"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
	"github.com/placet-dev/placet/tool/local"
)

// restored is a server whose store is put back to an earlier state.
type restored struct {
	t      *testing.T
	dir    string
	o      Options
	p      *Placet
	url    string
	close  func()
	bearer map[string]string
	ledger []string // of the tool
}

func newRestored(t *testing.T) *restored {
	t.Helper()
	r := &restored{t: t, dir: t.TempDir(), bearer: map[string]string{}}
	for name, text := range map[string]string{"tools.yaml": "version: 1\n",
		"placet.yaml": "version: 1\nenvironment: test\npublic_url: http://127.0.0.1:1\nstore: sqlite:state.db\nregistry: [tools.yaml]\n" + sealing} {
		if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := config.Load(filepath.Join(r.dir, "placet.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	issuer, err := identity.NewLocal(LocalIssuer, rand.Reader, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	for name, spec := range map[string]identity.TokenSpec{
		"anna": {Audience: c.Audience(), Subject: "anna", Tenant: "dev", Agent: "bot", Scopes: []string{"pay"}},
		"lena": {Audience: c.ConsoleAudience(), Subject: "lena", Tenant: "dev", Groups: []string{"leads"}},
	} {
		if r.bearer[name], err = issuer.Sign(spec); err != nil {
			t.Fatal(err)
		}
	}
	asks := registry.Asking{When: registry.Always, Approvers: []string{"group:leads"}, Quorum: 1, Expires: time.Hour}
	r.o = Options{Config: c, Local: issuer, Tools: []Tool{{Name: "pay", InputSchema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`),
		Entry: registry.Entry{Scope: "pay", Write: true, Sources: []registry.SourceName{"direct"}, Approval: asks},
		Handler: func(_ context.Context, c local.Call) (json.RawMessage, error) {
			r.ledger = append(r.ledger, string(c.Arguments))
			return json.RawMessage(`{"content":[]}`), nil
		}}}}
	t.Cleanup(func() { r.stop() })
	return r
}

func (r *restored) start() error {
	r.t.Helper()
	p, err := Open(r.t.Context(), r.o)
	if err != nil {
		return err
	}
	door := httptest.NewServer(p.Handler())
	r.p, r.url = p, door.URL
	r.close = func() {
		door.Close()
		if err := p.Close(); err != nil {
			r.t.Error(err)
		}
	}
	return nil
}

func (r *restored) stop() {
	if r.close != nil {
		r.close()
		r.close = nil
	}
}

func (r *restored) ask(who, path, body string) map[string]any {
	r.t.Helper()
	method := http.MethodPost
	if body == "" {
		method = http.MethodGet
	}
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.url+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+r.bearer[who])
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	var out map[string]any
	if err := json.NewDecoder(res.Body).Decode(&out); err != nil {
		r.t.Fatal(err)
	}
	return out
}

func (r *restored) propose() map[string]any {
	return r.ask("anna", "/v1/calls", `{"tool":"pay","arguments":{"n":1}}`)
}

func (r *restored) file(name string) string { return filepath.Join(r.dir, name) }

// backup copies the store's files; what is in the log beside it belongs to it.
func (r *restored) backup() map[string][]byte {
	r.t.Helper()
	out := map[string][]byte{}
	for _, name := range []string{"state.db", "state.db-wal"} {
		text, err := os.ReadFile(r.file(name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			r.t.Fatal(err)
		}
		out[name] = text
	}
	return out
}

func (r *restored) restore(backup map[string][]byte) {
	r.t.Helper()
	_ = os.Remove(r.file("state.db-shm"))
	for name, text := range backup {
		if err := os.WriteFile(r.file(name), text, 0o600); err != nil {
			r.t.Fatal(err)
		}
	}
}

// approved asks for a call and has it approved. It does not run yet.
func (r *restored) approved() {
	r.t.Helper()
	asked := r.propose()
	if asked["state"] != "approval_pending" {
		r.t.Fatalf("it is not asked: %v", asked)
	}
	approval, _ := asked["approval"].(string)
	binding, _ := r.ask("lena", "/v1/approvals/"+approval, "")["binding"].(string)
	if got := r.ask("lena", "/v1/approvals/"+approval+"/approve", `{"binding":"`+binding+`"}`); got["state"] != "approved" {
		r.t.Fatalf("it is not approved: %v", got)
	}
}

// TestRule_J2_RestoredStore: a store that is put back to before an approval was consumed
// is refused, and after placet recover the approval does not run its call again.
func TestRule_J2_RestoredStore(t *testing.T) {
	r := newRestored(t)
	if err := r.start(); err != nil {
		t.Fatal(err)
	}
	r.approved()
	r.p.allSealed(t)
	r.stop()
	backup := r.backup()

	// The neighbour: after a normal restart the approved call runs, once.
	if err := r.start(); err != nil {
		t.Fatalf("a normal restart is refused: %v", err)
	}
	if got := r.propose(); got["state"] != "succeeded" || len(r.ledger) != 1 {
		t.Fatalf("the approved call: %v, effects %v", got, r.ledger)
	}
	r.p.allSealed(t)
	r.stop()

	r.restore(backup)
	if err := r.start(); record.KindOf(err) != record.Conflict || !strings.Contains(err.Error(), "placet recover") {
		t.Fatalf("the restored store is opened: %v", err)
	}
	plan, err := Recover(t.Context(), r.o, "restored from a backup", true)
	if err != nil || plan.Epoch != 2 || plan.Canceled != 1 || plan.Lost == "" {
		t.Fatalf("the plan: %+v %v", plan, err)
	}
	if err := r.start(); err == nil {
		t.Fatal("a plan recovers")
	}
	if done, err := Recover(t.Context(), r.o, "restored from a backup", false); err != nil || done.Epoch != 2 {
		t.Fatalf("%+v %v", done, err)
	}
	if err := r.start(); err != nil {
		t.Fatalf("after the recovery: %v", err)
	}
	if got := r.propose(); got["state"] != "approval_pending" || len(r.ledger) != 1 {
		t.Fatalf("the consumed approval: %v, effects %v", got, r.ledger)
	}
	// And in the new epoch a call that is approved anew runs, once.
	r.approved()
	if got := r.propose(); got["state"] != "succeeded" || len(r.ledger) != 2 {
		t.Fatalf("a new approval: %v, effects %v", got, r.ledger)
	}
	if head := r.p.allSealed(t); head.Epoch != 2 {
		t.Fatalf("the log is in epoch %d", head.Epoch)
	}
	r.stop()
	if err := r.start(); err != nil {
		t.Fatalf("a restart in the new epoch: %v", err)
	}
}

// TestRule_J2_ForkedStore: a store whose log goes another way than what was published
// is refused, however long it is.
func TestRule_J2_ForkedStore(t *testing.T) {
	r := newRestored(t)
	if err := r.start(); err != nil {
		t.Fatal(err)
	}
	r.p.allSealed(t)
	r.stop()
	backup := r.backup()
	kept, err := os.ReadFile(r.file("log.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	grow := func(n int) {
		t.Helper()
		if err := r.start(); err != nil {
			t.Fatal(err)
		}
		for range n {
			r.propose()
			r.p.allSealed(t)
		}
		r.stop()
	}
	grow(1)
	published, err := os.ReadFile(r.file("log.jsonl"))
	if err != nil || bytes.Equal(kept, published) {
		t.Fatal("nothing was published", err)
	}
	// The other way: the backup goes on while what was published is out of sight.
	r.restore(backup)
	if err := os.WriteFile(r.file("log.jsonl"), kept, 0o600); err != nil {
		t.Fatal(err)
	}
	grow(3)
	if err := os.WriteFile(r.file("log.jsonl"), published, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.start(); record.KindOf(err) != record.Conflict || !strings.Contains(err.Error(), "fork") {
		t.Fatalf("the forked store is opened: %v", err)
	}
}
