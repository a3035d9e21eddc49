package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/store/sqlite"
)

// ledger is the tool server's own account: fsynced before it answers.
type ledger struct {
	mu   sync.Mutex
	file *os.File
}

func (l *ledger) write(key string, arguments json.RawMessage) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := fmt.Fprintf(l.file, "%s %s\n", key, arguments); err != nil {
		return err
	}
	return l.file.Sync()
}

// placetProcess starts this program as a process of its own and waits until it listens.
func placetProcess(t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Args = append([]string{"placet"}, args...)
	cmd.Dir = dir
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "listening on") {
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return cmd
		}
	}
	t.Fatalf("the server ended before it listened: %v\n%s", cmd.Wait(), errs.String())
	return nil
}

func placetOutput(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Args = append([]string{"placet"}, args...)
	cmd.Dir = dir
	text, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("placet %v: %v\n%s", args, err, text)
	}
	return strings.TrimSpace(string(text))
}

// TestPromise_P1_P5_KillNine kills the real program again and again while callers
// work through it, and then compares the tool server's own ledger with the
// records: no effect without its record, no key twice, and whoever was told that
// a call was done finds it in the ledger.
func TestPromise_P1_P5_KillNine(t *testing.T) {
	dir := t.TempDir()
	file, err := os.Create(filepath.Join(dir, "ledger"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	book := &ledger{file: file}
	desk := mcp.NewServer(&mcp.Implementation{Name: "desk", Version: "1"}, nil)
	desk.AddTool(&mcp.Tool{Name: "act", Description: "Acts.", InputSchema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`)},
		func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			key, _ := r.Params.Meta["dev.placet/idempotency_key"].(string)
			if err := book.write(key, r.Params.Arguments); err != nil {
				return nil, err
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "acted"}}}, nil
		})
	upstream := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return desk }, &mcp.StreamableHTTPOptions{Stateless: true}))
	defer upstream.Close()

	port := freePort(t)
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("placet.yaml", fmt.Sprintf("version: 1\nenvironment: test\nlisten: %s\nstore: sqlite:state.db\nregistry: [tools.yaml]\nruns: {calls_per_run: 100000, proposals_open: 10000, proposals_open_turn: 10000, proposals_open_principal: 10000}\n", port))
	write("tools.yaml", fmt.Sprintf("version: 1\nservers:\n  desk: {url: %q}\ntools:\n  act: {server: desk, scope: act, write: true, sources: [direct], approval: {when: asked}, per_minute: 0, concurrent: 0, timeout: 5s}\n", upstream.URL))
	placetOutput(t, dir, "tools", "lock", "desk")
	gateway := placetProcess(t, dir, "dev")
	token := placetOutput(t, dir, "dev", "token", "--user", "anna", "--agent", "bot", "--scopes", "act")

	rounds := 8
	if testing.Short() {
		rounds = 3
	}
	stop := make(chan struct{})
	var callers sync.WaitGroup
	var mu sync.Mutex
	done := map[int]bool{} // told that it succeeded
	next := 0
	acted := make(chan struct{}, 1<<16)
	for range 8 {
		callers.Go(func() {
			for {
				mu.Lock()
				n := next
				next++
				mu.Unlock()
				for { // the same call until somebody says how it ended
					select {
					case <-stop:
						return
					default:
					}
					state, ok := propose(port, token, n)
					if ok {
						if state == record.Succeeded {
							mu.Lock()
							done[n] = true
							mu.Unlock()
							acted <- struct{}{}
						}
						break
					}
				}
			}
		})
	}
	for range rounds {
		for range 15 { // let it work before it dies
			<-acted
		}
		if err := gateway.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = gateway.Wait() // killed
		gateway = placetProcess(t, dir, "dev")
	}
	for range 15 {
		<-acted
	}
	close(stop)
	callers.Wait()
	if err := gateway.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = gateway.Wait()

	// The two accounts, each read from its own file.
	effects := map[string]int{}
	byArgument := map[int]int{}
	text, err := os.ReadFile(filepath.Join(dir, "ledger"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		key, arguments, _ := strings.Cut(strings.TrimSpace(line), " ")
		var a struct{ N int }
		if err := json.Unmarshal([]byte(arguments), &a); err != nil || key == "" {
			t.Fatalf("ledger line %q: %v", line, err)
		}
		effects[key]++
		byArgument[a.N]++
	}
	store, err := sqlite.Open(t.Context(), filepath.Join(dir, "state.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	recorded := map[string]bool{}
	states := map[record.State]int{}
	for after := int64(0); ; {
		events, err := store.Events(t.Context(), dispatch.EventQuery{All: true, After: after, Limit: 500})
		if err != nil {
			t.Fatal(err)
		}
		if len(events) == 0 {
			break
		}
		for _, e := range events {
			after = e.Seq
			var b record.Body
			if err := json.Unmarshal(e.Body, &b); err != nil {
				t.Fatal(err)
			}
			if e.Kind == record.EventExecuting {
				recorded[b.Key] = true
			}
		}
	}
	for before := record.CallID(""); ; {
		calls, err := store.Calls(t.Context(), dispatch.CallQuery{Tenant: "dev", Before: before, Limit: 500})
		if err != nil {
			t.Fatal(err)
		}
		if len(calls) == 0 {
			break
		}
		for _, c := range calls {
			before = c.ID
			states[c.State]++
			if c.State == record.Succeeded && effects[c.Key] != 1 {
				t.Errorf("%s is recorded as succeeded and has %d effects", c.ID, effects[c.Key])
			}
		}
	}
	for key, n := range effects {
		if n != 1 {
			t.Errorf("key %s has %d effects", key, n)
		}
		if !recorded[key] {
			t.Errorf("key %s has an effect and no executing event", key)
		}
	}
	for n := range done {
		if byArgument[n] != 1 {
			t.Errorf("call %d was answered as done and has %d effects", n, byArgument[n])
		}
	}
	if len(done) < 15*rounds {
		t.Fatalf("only %d calls were done: the test shows nothing", len(done))
	}
	t.Logf("%d kills, %d effects, %d calls answered as done, states %v", rounds+1, len(effects), len(done), states)
}

// propose sends call n and reports the state it ended in. ok is false when there
// was no answer, or none that says how it ended.
func propose(addr, token string, n int) (record.State, bool) {
	body := fmt.Sprintf(`{"tool":"act","arguments":{"n":%d}}`, n)
	r, err := http.NewRequest(http.MethodPost, "http://"+addr+"/v1/calls", strings.NewReader(body))
	if err != nil {
		return "", false
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", fmt.Sprint("n-", n))
	r.GetBody = nil
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", false
	}
	defer resp.Body.Close()
	var a struct {
		State record.State
		Code  record.Code
	}
	if json.NewDecoder(resp.Body).Decode(&a) != nil || a.State == record.None {
		return "", false
	}
	// A call that a killed process left executing has no outcome until its lease
	// ends; its caller goes on with other work.
	return a.State, true
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
