package placet

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/placet-dev/placet/config"
	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
	"github.com/placet-dev/placet/tool/local"
)

// crashRole makes the test binary the server that the crash tests kill: its value
// is the folder, the version of the registry, and the write to die at.
const crashRole = "PLACET_TEST_CRASH"

func TestMain(m *testing.M) {
	if role := os.Getenv(crashRole); role != "" {
		if err := crashServer(strings.Split(role, "|")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// dying is a store before which the process kills itself at its nth write from
// when it is armed: before the write, or when it is durable and nobody knows.
type dying struct {
	dispatch.Store
	dir   string
	mu    sync.Mutex
	left  int // 0: it never does
	after bool
}

func (d *dying) arm(n int, after bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.left, d.after = n, after
}

func (d *dying) Apply(ctx context.Context, c record.Change) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.left == 0 {
		return d.Store.Apply(ctx, c)
	}
	if d.left--; d.left > 0 {
		return d.Store.Apply(ctx, c)
	}
	if d.after {
		if err := d.Store.Apply(ctx, c); err != nil {
			return err
		}
	}
	var kinds []string
	for _, e := range c.Facts().Events {
		kinds = append(kinds, string(e.Kind))
	}
	slices.Sort(kinds)
	if m := c.Facts().Call; m != nil {
		_ = os.WriteFile(filepath.Join(d.dir, "attempt"), []byte(strconv.Itoa(m.After.Attempt)), 0o600)
	}
	_ = os.WriteFile(filepath.Join(d.dir, "point"), []byte(strings.Join(kinds, " ")), 0o600) // a point without a name fails the test
	p, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = p.Kill()
	}
	if err != nil {
		return err
	}
	select {} // SIGKILL ends it here
}

// crashServer serves on the parent's listener until it is killed. role is folder,
// version, write ("" or a number) and "before" or "after".
func crashServer(role []string) error {
	ctx, dir := context.Background(), role[0]
	c, err := config.Load(filepath.Join(dir, "placet.yaml"))
	if err != nil {
		return err
	}
	store := &dying{dir: dir}
	o := Options{Config: c, Tools: append(queueTools(dir), crashTool(dir, role[1])), Clock: crashClock(dir), testOnlyStore: func(s dispatch.Store) dispatch.Store {
		store.Store = s
		return store
	}}
	if len(c.Issuers) == 0 {
		if o.Local, err = identity.LoadLocal(filepath.Join(dir, "issuer.json"), rand.Reader, time.Now); err != nil {
			return err
		}
	}
	p, err := Open(ctx, o)
	if err != nil {
		return err
	}
	if n, err := strconv.Atoi(role[2]); err == nil {
		store.arm(n, role[3] == "after")
	}
	l, err := net.FileListener(os.NewFile(3, "listener"))
	if err != nil {
		return err
	}
	return (&http.Server{Handler: p.Handler(), ReadHeaderTimeout: 10 * time.Second}).Serve(l)
}

// crashTool writes its effect into a file of its own, on the disk before it
// answers. Two persons decide; the versions differ in how long they have.
func crashTool(dir, version string) Tool {
	asks := registry.Asking{When: registry.Always, Approvers: []string{"group:leads"}, Quorum: 2, Expires: time.Hour}
	if version == "v2" {
		asks.Expires = 2 * time.Hour
	}
	return Tool{Name: "pay", InputSchema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`),
		Entry: registry.Entry{Scope: "pay", Write: true, Sources: []registry.SourceName{"direct"}, Approval: asks},
		Handler: func(_ context.Context, c local.Call) (json.RawMessage, error) {
			f, err := os.OpenFile(filepath.Join(dir, "ledger"), os.O_APPEND|os.O_CREATE|os.O_WRONLY|os.O_SYNC, 0o600)
			if err != nil {
				return nil, err
			}
			defer f.Close()
			_, err = fmt.Fprintf(f, "%s\n", c.Arguments)
			return json.RawMessage(`{"content":[]}`), err
		}}
}

// crashing is one run of a scenario against a server that dies once and is started
// again, whenever that is.
type crashing struct {
	t        *testing.T
	dir, url string
	door     *os.File
	version  string
	bearer   map[string]string

	mu     sync.Mutex
	cmd    *exec.Cmd
	gone   chan struct{} // closed when that one has ended
	said   bytes.Buffer
	ending bool
	died   int
	watch  sync.WaitGroup
}

func newCrashing(t *testing.T) *crashing {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c := &crashing{t: t, dir: t.TempDir(), url: "http://" + l.Addr().String(), bearer: map[string]string{}, version: "v1"}
	// The port stays the test's own while the server is dead: who connects waits.
	if c.door, err = l.(*net.TCPListener).File(); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"tools.yaml": "version: 1\n",
		"placet.yaml": "version: 1\nenvironment: test\npublic_url: " + c.url + "\nstore: sqlite:state.db\nregistry: [tools.yaml]\n"} {
		if err := os.WriteFile(filepath.Join(c.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	issuer, err := identity.NewLocal(LocalIssuer, rand.Reader, time.Now)
	if err == nil {
		err = issuer.Save(filepath.Join(c.dir, "issuer.json"))
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, spec := range map[string]identity.TokenSpec{
		"anna": {Audience: c.url + "/mcp", Subject: "anna", Tenant: "dev", Agent: "bot", Scopes: []string{"pay"}},
		"lena": {Audience: c.url + "/console", Subject: "lena", Tenant: "dev", Groups: []string{"leads"}},
		"lars": {Audience: c.url + "/console", Subject: "lars", Tenant: "dev", Groups: []string{"leads"}},
	} {
		if c.bearer[name], err = issuer.Sign(spec); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(c.end)
	return c
}

// start runs the server, to die at a write if point says so, and starts it again
// without a point whenever it is gone.
func (c *crashing) start(point string) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.run(point)
}

func (c *crashing) run(point string) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), crashRole+"="+strings.Join([]string{c.dir, c.version, point}, "|"))
	cmd.ExtraFiles = []*os.File{c.door}
	cmd.Stderr = &c.said
	if err := cmd.Start(); err != nil {
		c.t.Error(err)
		return
	}
	gone := make(chan struct{})
	c.cmd, c.gone = cmd, gone
	c.watch.Go(func() {
		_ = cmd.Wait() // killed
		close(gone)
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.cmd != cmd || c.ending {
			return
		}
		if c.died++; c.died > 1 {
			c.t.Errorf("the server died again: %s", c.said.String())
			return
		}
		c.run("|")
	})
}

// restart is an operator's: the next version, to die at a write.
func (c *crashing) restart(version, point string) {
	c.mu.Lock()
	old := c.cmd
	c.cmd, c.version = nil, version
	c.mu.Unlock()
	_ = old.Process.Kill() // an error means that it has ended
	<-c.gone
	c.start(point)
}

func (c *crashing) end() {
	c.mu.Lock()
	c.ending = true
	if c.cmd != nil {
		_ = c.cmd.Process.Kill()
	}
	c.mu.Unlock()
	c.watch.Wait()
	_ = c.door.Close()
}

// ask sends until somebody answers: who asks does not know that the server died.
func (c *crashing) ask(who, method, path, body string, out any) int {
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	for {
		status, text, err := c.send(ctx, who, method, path, body)
		switch {
		case c.t.Failed():
			return 0 // the server does not come back
		case ctx.Err() != nil:
			c.t.Errorf("%s %s: nobody answers: %v", method, path, err)
			return 0
		case err != nil || status == http.StatusServiceUnavailable:
			continue
		}
		if err := json.Unmarshal(text, out); err != nil {
			c.t.Errorf("%s %s: %d %s", method, path, status, text)
		}
		return status
	}
}

func (c *crashing) send(ctx context.Context, who, method, path, body string) (int, []byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, c.url+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Authorization", "Bearer "+c.bearer[who])
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Close = true
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, text, err
}

// crashAnswer is what the agent reads.
type crashAnswer struct {
	State    record.State
	Call     string
	Approval string
}

func (c *crashing) propose(n int, edits string) (a crashAnswer) {
	body := fmt.Sprintf(`{"tool":"pay","arguments":{"n":%d}}`, n)
	if edits != "" {
		body = fmt.Sprintf(`{"tool":"pay","arguments":{"n":%d},"edits":%q}`, n, edits)
	}
	c.ask("anna", http.MethodPost, "/v1/calls", body, &a)
	return a
}

// waits is the agent that waits for its call, through whatever happens, until
// there is no more to wait for.
func (c *crashing) waits(call string) <-chan record.State {
	end := make(chan record.State, 1)
	go func() {
		for c.t.Context().Err() == nil {
			var a crashAnswer
			c.ask("anna", http.MethodPost, "/v1/calls/"+call+"/dispatch?wait=20", "", &a)
			if a.State != record.ApprovalPending && a.State != record.DispatchAuthorized {
				end <- a.State
				return
			}
		}
	}()
	return end
}

// yes answers what is shown, as a person who presses again when the page is lost.
func (c *crashing) yes(who, approval string) {
	var q struct{ Binding string }
	c.ask(who, http.MethodGet, "/v1/approvals/"+approval, "", &q)
	if status := c.ask(who, http.MethodPost, "/v1/approvals/"+approval+"/approve", fmt.Sprintf(`{"binding":%q}`, q.Binding), &q); status != http.StatusOK {
		c.t.Errorf("%s's yes was answered with %d", who, status)
	}
}

// questions are all that were ever asked.
func (c *crashing) questions() (states []record.ApprovalState) {
	var out struct {
		Approvals []struct {
			State   record.ApprovalState
			Answers []json.RawMessage
		}
	}
	c.ask("lena", http.MethodGet, "/v1/approvals", "", &out)
	for _, q := range out.Approvals {
		states = append(states, q.State)
		if q.State == record.Consumed && len(q.Answers) != 2 {
			c.t.Errorf("a question was used up with %d answers", len(q.Answers))
		}
	}
	return states
}

func (c *crashing) ledger() []string {
	text, err := os.ReadFile(filepath.Join(c.dir, "ledger"))
	if err != nil && !os.IsNotExist(err) {
		c.t.Fatal(err)
	}
	return strings.Fields(string(text))
}

// crashScenario is a way through approvals, with all questions that it asks and
// the effect that it ends in.
type crashScenario struct {
	name      string
	play      func(c *crashing, point string) (last record.State, call string)
	questions []record.ApprovalState
	effect    string
	writes    []string // the kinds of writes to die at that must be met, by an event of each
}

var crashScenarios = []crashScenario{
	{name: "asked, answered by two, run", effect: `{"n":1}`, questions: []record.ApprovalState{record.Consumed},
		writes: []string{"approval_requested", "answered", "approved", "approval_consumed", "succeeded"},
		play: func(c *crashing, point string) (record.State, string) {
			c.start(point)
			a := c.propose(1, "")
			end := c.waits(a.Call)
			c.yes("lena", a.Approval)
			c.yes("lars", a.Approval)
			return <-end, a.Call
		}},
	{name: "edited", effect: `{"n":2}`, questions: []record.ApprovalState{record.Pending, record.Consumed},
		writes: []string{"approval_requested", "answered", "approved", "approval_consumed", "succeeded"},
		play: func(c *crashing, point string) (record.State, string) {
			c.start(point)
			first := c.propose(1, "")
			a := c.propose(2, first.Call)
			end := c.waits(a.Call)
			c.yes("lena", a.Approval)
			c.yes("lars", a.Approval)
			last := <-end
			c.ask("anna", http.MethodPost, "/v1/calls/"+first.Call+"/dispatch", "", &first) // the edit's yes is not its own
			return last, a.Call
		}},
	{name: "void, and asked anew", effect: `{"n":1}`, questions: []record.ApprovalState{record.Void, record.Consumed},
		writes: []string{"approval_voided", "answered", "approved", "approval_consumed", "succeeded"},
		play: func(c *crashing, point string) (record.State, string) {
			c.start("|")
			a := c.propose(1, "")
			c.yes("lena", a.Approval)
			c.yes("lars", a.Approval)
			c.restart("v2", point)
			c.ask("anna", http.MethodPost, "/v1/calls/"+a.Call+"/dispatch", "", &a)
			end := c.waits(a.Call)
			c.yes("lena", a.Approval)
			c.yes("lars", a.Approval)
			return <-end, a.Call
		}},
}

// TestCrashPoints kills the real process before and after every durable write on
// the way from a question to its outcome. Nobody is asked again, nothing acts
// twice, and the agent that waits gets it once. Only where the process died
// between the reservation and its outcome, nobody can know whether it acted, and
// the call says so.
func TestCrashPoints(t *testing.T) {
	for _, s := range crashScenarios {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			met := map[string]bool{}
			for n := 1; ; n++ {
				died := false
				for _, when := range []string{"before", "after"} {
					t.Run(fmt.Sprintf("%s write %d", when, n), func(t *testing.T) {
						point, end := s.crash(t, fmt.Sprintf("%d|%s", n, when))
						died = died || end
						for _, kind := range strings.Fields(point) {
							met[kind] = true
						}
					})
				}
				if !died || testing.Short() && n == 2 {
					break
				}
			}
			for _, kind := range s.writes {
				if !met[kind] && !testing.Short() {
					t.Errorf("the process never died at the write of %s, but at %v", kind, met)
				}
			}
		})
	}
}

func (s crashScenario) crash(t *testing.T, point string) (written string, died bool) {
	c := newCrashing(t)
	last, call := s.play(c, point)
	text, err := os.ReadFile(filepath.Join(c.dir, "point"))
	if died = err == nil; !died {
		point = ""
	}
	written = string(text)
	want, effects := []string{s.effect}, c.ledger()
	state := record.Succeeded
	reserved := strings.Contains(written, "executing") && strings.HasSuffix(point, "after")
	sent := strings.Contains(written, "succeeded") && strings.HasSuffix(point, "before")
	if reserved || sent {
		state = record.Executing // until its lease ends; then unknown
	}
	if reserved {
		want = nil
	}
	if last != state {
		t.Errorf("%s %q: the agent was told %s, want %s", point, written, last, state)
	}
	if !slices.Equal(effects, want) {
		t.Errorf("%s %q: the ledger holds %q, want %q", point, written, effects, want)
	}
	if q := c.questions(); !slices.Equal(q, s.questions) {
		t.Errorf("%s %q: the questions are %v, want %v", point, written, q, s.questions)
	}
	var again crashAnswer // and once more: nothing moves
	c.ask("anna", http.MethodPost, "/v1/calls/"+call+"/dispatch", "", &again)
	if effects = c.ledger(); !slices.Equal(effects, want) || again.State != last {
		t.Errorf("%s %q: asked once more, the call is %s and the ledger holds %q", point, written, again.State, effects)
	}
	return written, died
}
