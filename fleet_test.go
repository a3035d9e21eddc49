package placet

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/placet-dev/placet/config"
	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/store/postgres/pgtest"
)

// fleet is several servers on one database; their tools write into one folder, the oracle.
type fleet struct {
	*folderHouse
	database *pgtest.Server
	name     string
}

const fleetYAML = "version: 1\nenvironment: test\npublic_url: http://127.0.0.1:8088\nstore: env:PLACET_TEST_STORE\nsecret: env:PLACET_TEST_SECRET\nregistry: [tools.yaml]\n"

func newFleet(t *testing.T) *fleet {
	server := pgtest.Start(t)
	name := server.Database(t)
	t.Setenv("PLACET_TEST_STORE", server.DSN("owner", name))
	t.Setenv("PLACET_TEST_SECRET", strings.Repeat("of every server ", 3))
	return &fleet{openFolder(t, filesYAML, map[string]string{"placet.yaml": fleetYAML, "agents/acme/victim.txt": "alive"}), server, name}
}

// join opens another server, whose folder holds these files and a placet.yaml with more
// settings.
func (f *fleet) join(settings string, files map[string]string) *folderHouse {
	f.t.Helper()
	dir := f.t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			f.t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "placet.yaml"), []byte(fleetYAML+settings), 0o600); err != nil {
		f.t.Fatal(err)
	}
	c, err := config.Load(filepath.Join(dir, "placet.yaml"))
	if err != nil {
		f.t.Fatal(err)
	}
	h := &folderHouse{t: f.t, dir: f.dir, issuer: f.issuer}
	if h.p, err = Open(f.t.Context(), Options{Config: c, Local: f.issuer, Tenants: []string{"acme"}}); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = h.p.Close() })
	return h
}

// edit changes the files of the first server.
func (f *fleet) edit(from, to string) {
	f.t.Helper()
	path := filepath.Join(f.dir, "tools.yaml")
	text, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(text), from) {
		f.t.Fatalf("%s holds no %q (%v)", path, from, err)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), from, to, 1)), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

func (h *folderHouse) disk(path, want string) {
	h.t.Helper()
	got, err := os.ReadFile(filepath.Join(h.dir, "agents/acme", path))
	if want == "" && !os.IsNotExist(err) || want != "" && string(got) != want {
		h.t.Errorf("%s holds %q (%v), want %q", path, got, err, want)
	}
}

func (h *folderHouse) status(path string) (int, string) {
	w := httptest.NewRecorder()
	h.p.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://127.0.0.1:8088"+path, nil))
	return w.Code, w.Body.String()
}

func (h *folderHouse) wantsReady(ready bool, why string) {
	h.t.Helper()
	until(h.t, func() bool {
		_, halted := h.p.standing()
		return (h.p.ready(h.t.Context()) == nil) == ready && (ready || halted != nil)
	})
	code, body := h.status("/readyz")
	if (code == http.StatusOK) != ready {
		h.t.Errorf("/readyz answers %d %s", code, body)
	}
	if code, _ := h.status("/healthz"); code != http.StatusOK {
		h.t.Errorf("/healthz answers %d: it says whether the process runs", code)
	}
	if _, err := h.p.standing(); !ready && !strings.Contains(err.Error(), why) {
		h.t.Errorf("it says %v, want %q", err, why)
	}
}

// until waits for what another process brings about.
func until(t testing.TB, done func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it did not come about")
		}
	}
}

const deletes = "  delete_file: {server: notes, scope: files, destructive: true, sources: [direct], approval: {when: asked}}\n"

// A server without any files decides by what another one activated: a tool that an
// activation removes is not reserved anywhere once the activation returned, and its
// neighbour goes on. Going back is an activation like another.
func TestRule_H2_WhatOneActivatesHoldsForAll(t *testing.T) {
	f := newFleet(t)
	other := f.join("", nil)
	other.wantsReady(true, "")
	anna := f.caller("acme", "anna")
	theirs := other.caller("acme", "anna")
	other.wants(other.do(theirs, "write_file", `{"path":"one.txt","content":"1"}`), record.Succeeded, "written")
	other.disk("one.txt", "1")

	const files, at = 60, 3
	for i := range files {
		if err := os.WriteFile(filepath.Join(f.dir, fmt.Sprintf("agents/acme/f%d", i)), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var tried, activated atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var all sync.WaitGroup
	for range at {
		all.Go(func() {
			for n := tried.Add(1); n <= files && ctx.Err() == nil; n = tried.Add(1) {
				if n > files/2 { // the rest comes after the activation returned
					for activated.Load() == 0 && ctx.Err() == nil {
						time.Sleep(time.Millisecond)
					}
				}
				_, _ = other.p.Do(ctx, dispatch.Proposal{Caller: theirs, Tool: "delete_file", Arguments: fmt.Appendf(nil, `{"path":"f%d"}`, n-1)})
			}
		})
	}
	reserved := func() string {
		return f.database.Do(t, f.name, `SELECT count(*) FROM placet.events WHERE kind = 'executing' AND body::json->>'tool' = 'delete_file'`)
	}
	until(t, func() bool { return reserved() != "0" })
	f.edit(deletes, "")
	r, err := f.p.Reload(t.Context(), record.Who{System: "test"}, "")
	if err != nil || r.Generation != 2 || !strings.Contains(strings.Join(r.Lines(), "\n"), "removed tool delete_file") {
		t.Fatalf("%+v %v", r, err)
	}
	before := reserved()
	activated.Store(1)
	all.Wait()
	if after := reserved(); after != before {
		t.Errorf("%s calls of the removed tool were reserved when its removal returned, and %s at the end", before, after)
	}
	gone := 0
	for i := range files {
		if _, err := os.Stat(filepath.Join(f.dir, fmt.Sprintf("agents/acme/f%d", i))); os.IsNotExist(err) {
			gone++
		}
	}
	if fmt.Sprint(gone) != before || gone == 0 || gone == files {
		t.Errorf("%d files are gone, and %s deletions were reserved", gone, before)
	}
	if a := other.do(theirs, "delete_file", `{"path":"victim.txt"}`); a.Code != record.CodeNotAvailable {
		t.Errorf("the removed tool: %s %s", a.Verdict, a.Code)
	}
	other.disk("victim.txt", "alive")
	other.wants(other.do(theirs, "write_file", `{"path":"two.txt","content":"2"}`), record.Succeeded, "written")
	other.disk("two.txt", "2")
	other.wantsReady(true, "")

	// Files of a server activate nothing.
	late := f.join("", map[string]string{"tools.yaml": strings.ReplaceAll(filesYAML, "DIR", f.dir)})
	if a := late.do(late.caller("acme", "anna"), "delete_file", `{"path":"victim.txt"}`); a.Code != record.CodeNotAvailable {
		t.Errorf("files of a server that starts: %s %s", a.Verdict, a.Code)
	}
	late.disk("victim.txt", "alive")

	back, err := late.p.Enact(t.Context(), record.Who{System: "test"}, Order{Generation: 1, After: 2})
	if err != nil || back.Generation != 3 || !strings.Contains(strings.Join(back.Lines(), "\n"), "added tool delete_file") {
		t.Fatalf("going back: %+v %v", back, err)
	}
	f.wants(f.do(anna, "delete_file", `{"path":"victim.txt"}`), record.Succeeded, "deleted")
	f.disk("victim.txt", "")
	if _, err := f.p.Enact(t.Context(), record.Who{System: "test"}, Order{Generation: 2, After: 2}); record.KindOf(err) != record.Conflict {
		t.Errorf("a plan for a version that is not active: %v", err)
	}
}

// A server that makes something else of the active version says what, reserves nothing
// and is not ready, until it has the others' configuration or the version is activated
// through it; then the others are not.
func TestRule_H2_AnotherConfiguration(t *testing.T) {
	f := newFleet(t)
	other := f.join("approvals: {default: {approvers: [\"group:leads\"], expires: 1h}}\n", nil)
	other.wantsReady(false, "approvals.default")
	if code, body := other.status("/readyz"); code != http.StatusServiceUnavailable || strings.Contains(body, "approvals") {
		t.Errorf("what differs is for operators: %d %s", code, body)
	}
	theirs, write := other.caller("acme", "anna"), `{"path":"one.txt","content":"1"}`
	if a := other.do(theirs, "write_file", write); a.Verdict != record.Deny || a.Code != record.CodeCannotDecide {
		t.Errorf("a server that is not ready: %s %s", a.Verdict, a.Code)
	}
	other.disk("one.txt", "")
	f.wantsReady(true, "")

	plan, err := other.p.PlanOrder(t.Context(), Order{Generation: 1})
	if err != nil || !plan.Changed || len(plan.Lines()) != 1 || plan.Lines()[0] != "changed: approvals.default of placet.yaml" {
		t.Fatalf("%+v %v", plan, err)
	}
	if _, err := other.p.Enact(t.Context(), record.Who{System: "test"}, Order{Generation: 1, Planned: plan.Version}); err != nil {
		t.Fatal(err)
	}
	other.wantsReady(true, "")
	f.wantsReady(false, "approvals.default")
	if a := f.do(f.caller("acme", "anna"), "write_file", write); a.Verdict != record.Deny {
		t.Errorf("the one with the old configuration: %s", a.Verdict)
	}
	f.disk("one.txt", "")
	other.wants(other.do(theirs, "write_file", write), record.Succeeded, "written")
	other.disk("one.txt", "1")
}

// What is not what was stored is not loaded, and neither is what this program does not
// know; what a newer program left in the records stops this one.
func TestRule_H2_WhatIsNotKnownStops(t *testing.T) {
	f := newFleet(t)
	for _, c := range []struct{ name, change, why string }{
		{"a damaged version", `content = content || 'x'`, "are not what was stored"},
		{"a version of a newer program", `needs = '["obligation/9"]'`, `needs "obligation/9"`},
	} {
		f.database.Do(t, f.name, `CREATE TABLE kept AS SELECT * FROM placet.versions`)
		f.database.Do(t, f.name, `UPDATE placet.versions SET `+c.change)
		other := f.join("", nil)
		other.wantsReady(false, c.why)
		if a := other.do(other.caller("acme", "anna"), "write_file", `{"path":"one.txt","content":"1"}`); a.Verdict != record.Deny {
			t.Errorf("%s: %s", c.name, a.Verdict)
		}
		f.disk("one.txt", "")
		f.database.Do(t, f.name, `DELETE FROM placet.versions; INSERT INTO placet.versions SELECT * FROM kept; DROP TABLE kept`)
	}
	// Whoever changes files and sum alike is found by what they come to.
	other := f.join("", nil)
	other.wantsReady(true, "")
	files, v, err := f.p.stored(t.Context(), other.p.Boundary().Current().Digest)
	if err != nil {
		t.Fatal(err)
	}
	files["tools.yaml"] = strings.Replace(files["tools.yaml"], "destructive: true", "write: true", 1)
	forged := record.NewVersion(v.Digest, encoded(t, files), v.Parts, v.Needs, v.Who, v.At)
	f.database.Do(t, f.name, fmt.Sprintf(`UPDATE placet.versions SET content = '\x%x', sum = '\x%x'`, forged.Content, forged.Sum[:]))
	f.join("", nil).wantsReady(false, "tool delete_file")

	// A call in a state of a newer program.
	theirs := other.caller("acme", "anna")
	a, err := other.p.Boundary().Propose(t.Context(), dispatch.Proposal{Caller: theirs, Tool: "delete_file", Arguments: []byte(`{"path":"victim.txt"}`)})
	if err != nil || a.Call == nil {
		t.Fatalf("%+v %v", a, err)
	}
	f.database.Do(t, f.name, `ALTER TABLE placet.calls DROP CONSTRAINT calls_state_check`) // as that program's migration would
	f.database.Do(t, f.name, `UPDATE placet.calls SET state = 'simmering' WHERE id = '`+string(a.Call.ID)+`'`)
	if _, err := other.p.Boundary().Dispatch(t.Context(), theirs, a.Call.ID, nil); record.KindOf(err) != record.Unavailable {
		t.Errorf("a call in a state that is not known: %v", err)
	}
	other.wantsReady(false, "simmering")
	if a := other.do(theirs, "write_file", `{"path":"one.txt","content":"1"}`); a.Verdict != record.Deny {
		t.Errorf("after that: %s", a.Verdict)
	}
	f.disk("one.txt", "")
	f.disk("victim.txt", "alive")
	f.wants(f.do(f.caller("acme", "bert"), "write_file", `{"path":"one.txt","content":"1"}`), record.Succeeded, "written") // it met nothing
}

// The files in which operations, queries and schemas stand are the version's: a server
// that has none of them runs the tools, and what it has on its own disk counts for nothing.
func TestRule_H2_ServersFilesAreTheVersions(t *testing.T) {
	remote := newRemote(t, nil)
	server := pgtest.Start(t)
	name := server.Database(t)
	t.Setenv("PLACET_TEST_STORE", server.DSN("owner", name))
	t.Setenv("PLACET_TEST_SECRET", strings.Repeat("of every server ", 3))
	f := &fleet{openFolder(t, operationsYAML(readOrder), map[string]string{"placet.yaml": fleetYAML, "orders.yaml": ordersFile(remote.url+"/", readOrderFile)}), server, name}
	f.wants(f.do(f.caller("acme", "anna"), "read_order", `{"order_id":"o-1"}`), record.Succeeded, "o-1")
	for _, files := range []map[string]string{nil, {"orders.yaml": ordersFile("http://127.0.0.1:1/", readOrderFile)}} {
		other := f.join("", files)
		other.wantsReady(true, "")
		remote.took()
		other.wants(other.do(other.caller("acme", "anna"), "read_order", `{"order_id":"o-1"}`), record.Succeeded, "o-1")
		if got := remote.took(); len(got) != 1 || got[0].uri != "/orders/o-1" {
			t.Errorf("the service got %+v", got)
		}
	}
	f.write("orders.yaml", ordersFile("http://127.0.0.1:1/", readOrderFile))
	f.wants(f.do(f.caller("acme", "anna"), "read_order", `{"order_id":"o-2"}`), record.Succeeded, "o-1")
	if got := remote.took(); len(got) != 1 {
		t.Errorf("the service got %+v", got)
	}
}
