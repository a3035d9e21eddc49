//go:build unix

package mcp

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/registry"
)

func TestRule_I2_SessionsBelongToOneOwner(t *testing.T) {
	everywhere(t, func(t *testing.T, v *Invoker, s *target) {
		if s.seen != nil && s.modern {
			t.Skip("no sessions")
		}
		seen := map[string]string{}
		for name, change := range map[string]func(*dispatch.Work){
			"alice":         func(*dispatch.Work) {},
			"bob":           func(w *dispatch.Work) { w.Owner.Principal.Subject = "bob" },
			"other issuer":  func(w *dispatch.Work) { w.Owner.Principal.Issuer = "https://other" },
			"other tenant":  func(w *dispatch.Work) { w.Owner.Tenant = "other" },
			"other lineage": func(w *dispatch.Work) { w.Lineage = "lin_2" },
		} {
			w := s.work("who", `{}`)
			change(&w)
			first := textOf(t, mustReach(t, v, w))
			if again := textOf(t, mustReach(t, v, w)); again != first {
				t.Errorf("%s got two sessions: %s, %s", name, first, again)
			}
			if other := seen[first]; other != "" {
				t.Errorf("%s and %s share session %s", name, other, first)
			}
			seen[first] = name
		}
		shared := *s.Server
		shared.Stateless = true
		shared.Name = "shared"
		w := s.work("who", `{}`)
		w.Server = &shared
		first := textOf(t, mustReach(t, v, w))
		w.Owner.Tenant = "other"
		if got := textOf(t, mustReach(t, v, w)); got != first {
			t.Errorf("stateless, but two sessions: %s, %s", first, got)
		}
	})
}

func TestRule_K1_ChildGetsOnlyNamedVariables(t *testing.T) {
	s, env := childTarget(t, "modern")
	v := open(t, Options{LookupEnv: env})
	got := map[string]bool{}
	for line := range strings.SplitSeq(textOf(t, mustReach(t, v, s.work("env", `{}`))), "\n") {
		name, _, _ := strings.Cut(line, "=")
		got[name] = true
	}
	for _, want := range []string{"PATH", "HOME", "MCP_TEST_CHILD", "MCP_TEST_LEDGER"} {
		if !got[want] {
			t.Errorf("%s is missing", want)
		}
		delete(got, want)
	}
	if len(got) > 0 {
		t.Errorf("it also got %v", got)
	}
}

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil && !zombie(pid) }

func zombie(pid int) bool {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(text), ") ")
	return strings.HasPrefix(rest, "Z")
}

func pids(t *testing.T, text string) (out []int) {
	for f := range strings.FieldsSeq(text) {
		n, err := strconv.Atoi(f)
		if err != nil {
			t.Fatalf("no process number in %q", text)
		}
		out = append(out, n)
	}
	return out
}

func TestCloseEndsTheWholeFamily(t *testing.T) {
	s, env := childTarget(t, "family")
	v := New(Options{LookupEnv: env})
	family := pids(t, textOf(t, mustReach(t, v, s.work("x", `{}`))))
	for _, pid := range family {
		if !alive(pid) {
			t.Errorf("process %d is not there", pid)
		}
	}
	v.Close()
	for _, pid := range family {
		waitFor(t, fmt.Sprintf("the end of process %d", pid), func() bool { return !alive(pid) })
	}
	if out := v.invoke(within(t), s.work("x", `{}`)); out.Sent || out.Err == nil {
		t.Errorf("after Close: %+v", out)
	}
}

func TestOddChildren(t *testing.T) {
	for kind, good := range map[string]bool{"garbage": false, "endless": false, "asker": true, "stranger": true} {
		s, env := childTarget(t, kind)
		v := open(t, Options{LookupEnv: env, MaxResult: 1 << 16})
		for range 2 {
			out := v.invoke(within(t), s.work("x", `{}`))
			if !out.Sent || good != (out.Err == nil) || good != (out.Result != nil) || out.Refused {
				t.Errorf("%s: %+v %s", kind, out, out.Result)
			}
			if strings.Contains(string(out.Result), "true") {
				t.Errorf("%s: a second answer counted: %s", kind, out.Result)
			}
		}
	}
}

// An old server may not even answer what it does not know.
func TestMuteChild(t *testing.T) {
	t.Parallel()
	s, env := childTarget(t, "mute")
	mustReach(t, open(t, Options{LookupEnv: env}), s.work("x", `{}`))
}

// A child that does not read its input cannot hold up a caller whose time is over.
func TestDeafChild(t *testing.T) {
	s, env := childTarget(t, "deaf")
	v := open(t, Options{LookupEnv: env})
	big := `{"a":"` + strings.Repeat("x", 1<<20) + `"}`
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			ctx, stop := contextFor(300 * time.Millisecond)
			defer stop()
			began := time.Now()
			if out := v.invoke(ctx, s.work("x", big)); out.Err == nil || time.Since(began) > 10*time.Second {
				t.Errorf("after %v: %+v", time.Since(began), out)
			}
		})
	}
	all.Wait()
}

// resources counts what this process holds.
func resources(t *testing.T) (children, files, goroutines int) {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("needs /proc")
	}
	tasks, _ := os.ReadDir("/proc/self/task")
	for _, task := range tasks {
		text, _ := os.ReadFile("/proc/self/task/" + task.Name() + "/children")
		children += len(strings.Fields(string(text)))
	}
	return children, len(entries), runtime.NumGoroutine()
}

func TestHundredConnectsAndKills(t *testing.T) {
	s, env := childTarget(t, "modern")
	s.Stateless = true
	v := New(Options{LookupEnv: env})
	children, files, goroutines := resources(t)
	cycles := 100
	if testing.Short() {
		cycles = 10
	}
	for i := range cycles {
		pid := pids(t, textOf(t, mustReach(t, v, s.work("who", `{}`))))[0]
		if i%2 == 0 {
			v.endAll()
		} else {
			syscall.Kill(pid, syscall.SIGKILL)
		}
		waitFor(t, "its end", func() bool { return !alive(pid) && syscall.Kill(pid, 0) != nil })
		waitFor(t, "the session to be known as over", func() bool {
			e, _ := v.endpoint(s.Server)
			e.mu.Lock()
			defer e.mu.Unlock()
			for _, sl := range e.slots {
				if !sl.over() {
					return false
				}
			}
			return true
		})
	}
	v.Close()
	waitFor(t, "everything to be given back", func() bool {
		c, f, g := resources(t)
		return c <= children && f <= files && g <= goroutines
	})
}

func TestIdleSessionsEnd(t *testing.T) {
	for name, make := range map[string]func() (*target, Options){
		"stdio": func() (*target, Options) { s, env := childTarget(t, "legacy"); return s, Options{LookupEnv: env} },
		"http":  func() (*target, Options) { return httpTarget(t, false, false), Options{} },
	} {
		s, o := make()
		o.Idle = 50 * time.Millisecond
		v := open(t, o)
		first := textOf(t, mustReach(t, v, s.work("who", `{}`)))
		e, _ := v.endpoint(s.Server)
		waitFor(t, name+" session to end", func() bool {
			e.mu.Lock()
			defer e.mu.Unlock()
			return len(e.slots) == 0
		})
		if again := textOf(t, mustReach(t, v, s.work("who", `{}`))); again == first {
			t.Errorf("%s: the session is still there", name)
		}
		// One that is in use stays, however long it takes.
		if got := textOf(t, mustReach(t, v, s.work("slow", `{"ms":300,"name":"long"}`))); got != "long" {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestAtMostSoManyChildren(t *testing.T) {
	s, env := childTarget(t, "modern")
	v := open(t, Options{LookupEnv: env, MaxChildren: 2})
	as := func(lineage, tool, arguments string) dispatch.Work {
		w := s.work(tool, arguments)
		w.Lineage = "lin_" + recordLineage(lineage)
		return w
	}
	mustReach(t, v, as("a", "who", `{}`))
	mustReach(t, v, as("b", "who", `{}`))
	mustReach(t, v, as("c", "who", `{}`)) // a's, which was idle longest, ended for it
	e, _ := v.endpoint(s.Server)
	e.mu.Lock()
	if n := len(e.slots); n != 2 {
		t.Errorf("%d children", n)
	}
	e.mu.Unlock()
	var all sync.WaitGroup
	for _, l := range []string{"b", "c"} {
		all.Go(func() { mustReach(t, v, as(l, "slow", `{"ms":1500,"name":"x"}`)) })
	}
	s.ledger.until(t, "started", 2)
	if out := v.invoke(within(t), as("d", "echo", `{}`)); out.Sent || out.Err == nil {
		t.Errorf("no room: %+v", out)
	}
	all.Wait()
	mustReach(t, v, as("d", "echo", `{}`))
}

// A server that forgot our session says 404, which is a refusal: the call goes
// to a new session, once.
func TestSessionLost(t *testing.T) {
	l := newLedger(t)
	var handler http.Handler
	var mu sync.Mutex
	restart := func() {
		mu.Lock()
		defer mu.Unlock()
		s := newServer(l)
		handler = sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil)
	}
	restart()
	srv := serve(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		h := handler
		mu.Unlock()
		h.ServeHTTP(w, r)
	})
	s := &target{Server: &registry.Server{Name: "srv", URL: srv}, ledger: l}
	v := open(t, Options{})
	mustReach(t, v, s.work("echo", `{"n":1}`))
	restart()
	mustReach(t, v, s.work("echo", `{"n":2}`))
	if l.count(`echo {"n":1}`) != 1 || l.count(`echo {"n":2}`) != 1 {
		t.Errorf("the server's ledger: %q", l.lines())
	}
}

// Some servers answer 400 to a session they forgot. That may be about the call, so
// it is refused; but the next one works.
func TestSessionLostWithStatus400(t *testing.T) {
	var mu sync.Mutex
	current, calls := 1, 0
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		body, _ := io.ReadAll(r.Body)
		session := fmt.Sprint(current)
		switch {
		case strings.Contains(string(body), `"initialize"`):
			w.Header().Set("Mcp-Session-Id", session)
			writeJSON(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{}}}`, idIn(body))
		case r.Header.Get("Mcp-Session-Id") != session:
			w.WriteHeader(http.StatusBadRequest)
		case strings.Contains(string(body), `"tools/call"`):
			calls++
			writeJSON(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, idIn(body))
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	})
	s := &target{Server: &registry.Server{Name: "srv", URL: url}}
	v := open(t, Options{})
	mustReach(t, v, s.work("x", `{}`))
	mu.Lock()
	current = 2
	mu.Unlock()
	if out := v.invoke(within(t), s.work("x", `{}`)); !out.Refused || !out.Sent {
		t.Errorf("%+v", out)
	}
	mustReach(t, v, s.work("x", `{}`))
	if calls != 2 {
		t.Errorf("%d effects, want 2", calls)
	}
}

func idIn(body []byte) string {
	_, id, _ := strings.Cut(string(body), `"id":`)
	id, _, _ = strings.Cut(id, ",")
	return id
}

// A server that did not answer is left alone for a while.
func TestBackOff(t *testing.T) {
	var tries int
	var mu sync.Mutex
	srv := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		tries++
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	s := &target{Server: &registry.Server{Name: "srv", URL: srv}}
	v := open(t, Options{})
	ctx, stop := contextFor(3 * time.Second)
	defer stop()
	calls := 0
	for ctx.Err() == nil {
		if out := v.invoke(ctx, s.work("echo", `{}`)); out.Sent {
			t.Fatalf("%+v", out)
		}
		calls++
		time.Sleep(time.Millisecond)
	}
	mu.Lock()
	defer mu.Unlock()
	if tries < 3 || tries > 7 || calls < 2 {
		t.Errorf("%d tries in 3 s of %d calls", tries, calls)
	}
}
