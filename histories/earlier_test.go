package histories_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// leave writes a store as the program of a schema left it.
func leave(t *testing.T, path string, schema []string, version, pin string) {
	t.Helper()
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite|sqlite.OpenCreate)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := os.ReadFile("testdata/earlier.sql")
	if err != nil {
		t.Fatal(err)
	}
	micro := func(d time.Duration) string { return fmt.Sprint(time.Now().Add(d).UnixMicro()) }
	text := strings.NewReplacer("{now}", micro(0), "{later}", micro(time.Hour), "{past}", micro(-time.Minute),
		"{version}", strings.TrimPrefix(version, "sha256:"), "{pin}", strings.TrimPrefix(pin, "sha256:")).Replace(string(rows))
	for _, script := range append(slices.Clone(schema), text, fmt.Sprintf("PRAGMA user_version = %d;", len(schema))) {
		if err := sqlitex.ExecuteScript(conn, script, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestEarlierStores opens what each earlier schema left, with open calls in every
// state. Reading it revives nothing: no history, and no yes of before, makes a call
// run; what was executing is not repeated; and a new call runs once.
func TestEarlierStores(t *testing.T) {
	files, err := filepath.Glob("../store/sqlite/migrations/*.sql")
	if err != nil || len(files) < 7 {
		t.Fatalf("%d migrations, %v: the test looks in the wrong place", len(files), err)
	}
	slices.Sort(files)
	probe := &scene{t: t, w: newWorld(t, 10*time.Millisecond), row: "probe"}
	probe.door = &api{probe.w}
	var now struct {
		Operators struct {
			Version string `json:"tool_version"`
			Pin     string `json:"tool_pin"`
		}
	}
	probe.get("/v1/calls/"+probe.call("send", "x").Call, &now)
	var schema []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		schema = append(schema, string(text))
		t.Run(filepath.Base(file), func(t *testing.T) { earlier(t, slices.Clone(schema), now.Operators.Version, now.Operators.Pin) })
	}
}

func earlier(t *testing.T, schema []string, version, pin string) {
	w := worldOn(t, 10*time.Millisecond, func(dir string) { leave(t, filepath.Join(dir, "state.db"), schema, version, pin) })
	s := &scene{t: t, w: w, door: &api{w}, row: "earlier"}
	var left struct {
		Calls []struct {
			ID, State, Approval, Tool string
			Arguments                 struct{ What string }
		}
	}
	list := func() map[string]answer {
		t.Helper()
		s.get("/v1/calls?limit=500", &left)
		out := map[string]answer{}
		for _, c := range left.Calls {
			out[c.Arguments.What] = answer{Call: c.ID, Approval: c.Approval}
		}
		return out
	}
	calls := list()
	want := map[string]string{"proposed": "proposed", "pending": "approval_pending", "approved": "approval_pending", "authorized": "dispatch_authorized",
		"lost": "unknown", "executing": "executing", "unknown": "unknown", "succeeded": "succeeded"}
	if len(calls) != len(want) {
		t.Fatalf("%d calls were read, want %d", len(calls), len(want))
	}
	s.until(calls["lost"], "unknown") // its lease had run out; whether it ran is not known
	same := func(after string) {
		t.Helper()
		for what, state := range want {
			if got := s.stateOf(calls[what]); got != state {
				t.Errorf("after %s: the call %s is %s, want %s", after, what, got, state)
			}
		}
		s.holds(after, nil)
	}
	same("opening")

	// A history that ends in all of them, each with a yes.
	var parts []any
	for _, what := range slices.Sorted(maps.Keys(calls)) {
		parts = append(parts, map[string]any{"type": "tool-send", "toolCallId": calls[what].Call, "state": "approval-responded",
			"input": map[string]string{"row": "earlier", "what": what}, "approval": map[string]any{"id": calls[what].Approval, "approved": true}})
	}
	text, err := json.Marshal([]any{map[string]any{"id": "m", "role": "assistant", "parts": parts}})
	if err != nil {
		t.Fatal(err)
	}
	var runs struct{ Runs []struct{ ID string } }
	s.get("/v1/runs", &runs)
	if len(runs.Runs) != 1 {
		t.Fatalf("runs: %+v", runs)
	}
	run := runs.Runs[0].ID
	var resumed struct {
		Calls []struct{ Call, State string }
	}
	for path, out := range map[string]any{
		"/v1/transcripts?format=ai-sdk-ui": &struct{}{}, "/v1/history/check?run=" + run: &struct{}{},
		"/v1/history/repair?to=openai-chat&run=" + run: &struct{}{}, "/v1/runs/" + run + "/resume?to=openai-chat": &resumed,
	} {
		status, got, err := w.send(t.Context(), w.token("anna", false), http.MethodPost, path, string(text))
		if err == nil && status < 300 {
			err = json.Unmarshal(got, out)
		}
		if err != nil || status >= 300 {
			t.Fatalf("%s: %d %s %v", path, status, got, err)
		}
		same(path)
	}
	if len(resumed.Calls) != len(want)-1 {
		t.Errorf("open are %+v", resumed.Calls)
	}

	// The agent itself comes back for each. Tools of another version are denied; the yes
	// was for a binding that nobody makes now, so it is asked about anew; and what may
	// have run is not repeated.
	for what, c := range calls {
		s.back(c)
		s.holds("coming back for "+what, nil)
	}
	c := list()["approved"]
	if s.state(c, "approval_pending"); c.Approval == calls["approved"].Approval {
		t.Errorf("the old question stands: %+v", c)
	}
	var old struct{ State string }
	s.get("/v1/approvals/"+calls["approved"].Approval, &old)
	if old.State != "void" {
		t.Errorf("the old yes is %s", old.State)
	}

	c = s.call("send", "new")
	s.holds("asking", nil)
	s.yes(c)
	s.back(c)
	s.back(c)
	s.holds("a yes", []string{"send new"})
}
