package demo

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// runCommand makes the test binary play the demo in a process of its own.
const (
	runCommand      = "demo-run"
	interactiveFlag = "--interactive"
)

// TestMain lets the test binary be the processes that the demo starts.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == runCommand {
		os.Exit(Run(context.Background(), Options{JSON: true, Interactive: slices.Contains(os.Args, interactiveFlag), Stdout: os.Stdout, Stderr: os.Stderr}))
	}
	if len(os.Args) > 1 && os.Args[1] == ChildCommand {
		os.Exit(Child(context.Background(), os.Args[2:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// played is what one run of the demo left.
type played struct {
	code   int
	stdout string
	stderr string
	took   time.Duration
	folder string // where its folders would be
}

func play(t *testing.T, ctx context.Context, o Options) played {
	t.Helper()
	p := played{folder: t.TempDir()}
	t.Setenv("TMPDIR", p.folder)
	var out, bad bytes.Buffer
	if o.Stderr = &bad; o.Stdout == nil {
		o.Stdout = &out
	}
	begin := time.Now()
	p.code = Run(ctx, o)
	p.took, p.stdout, p.stderr = time.Since(begin), out.String(), bad.String()
	return p
}

// gone fails if the demo left a folder or a process behind.
func (p played) gone(t *testing.T) {
	t.Helper()
	if left, err := filepath.Glob(filepath.Join(p.folder, "*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
	for _, c := range children(t, p.folder) {
		t.Errorf("still running: %s", c)
	}
}

// children are the demo's processes below a folder that are alive.
func children(t *testing.T, folder string) (out []string) {
	t.Helper()
	commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range commands {
		text, err := os.ReadFile(name)
		if err == nil && bytes.Contains(text, []byte(ChildCommand)) && bytes.Contains(text, []byte(folder)) {
			out = append(out, fmt.Sprintf("%s %q", name, text))
		}
	}
	return out
}

func (p played) lines(t *testing.T) (steps []map[string]any, last map[string]any) {
	t.Helper()
	for text := range strings.Lines(p.stdout) {
		var v map[string]any
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatalf("not an object a line: %q: %v", text, err)
		}
		steps = append(steps, v)
	}
	if len(steps) == 0 {
		t.Fatalf("nothing was printed; stderr: %s", p.stderr)
	}
	last, _ = steps[len(steps)-1]["summary"].(map[string]any)
	return steps[:len(steps)-1], last
}

func TestDemo(t *testing.T) {
	p := play(t, t.Context(), Options{JSON: true})
	if p.code != 0 || p.stderr != "" {
		t.Errorf("exit code %d, stderr: %s", p.code, p.stderr)
	}
	p.gone(t)
	if p.took > 15*time.Second {
		t.Errorf("it took %s", p.took)
	}
	step := func(name string, tool, arguments, verdict, state, code any, effects float64) map[string]any {
		return map[string]any{"step": name, "tool": tool, "arguments": arguments, "verdict": verdict, "state": state, "code": code, "ledger_effects": effects}
	}
	refund := func(amount, order string) map[string]any {
		return map[string]any{"amount": amount, "currency": "EUR", "order_id": order}
	}
	big, bigger, small := refund("1200.00", "ord_1001"), refund("4800.00", "ord_1001"), refund("60.00", "ord_1002")
	want := []map[string]any{
		step("a", "db_query", map[string]any{"table": "orders", "customer": "cus_17"}, "allow", "succeeded", nil, 0),
		step("b", "http_post", map[string]any{"host": "10.0.4.7", "body": "orders of cus_17"}, "deny", "denied", "policy_denied", 0),
		step("c1", "stripe_refund", big, "requires-approval", "approval_pending", "above_limit", 0),
		step("c2", "stripe_refund", big, "allow", "succeeded", nil, 1),
		step("d", "stripe_refund", big, "allow", "succeeded", "already_done", 1),
		step("e", "stripe_refund", bigger, "requires-approval", "approval_pending", "above_limit", 1),
		step("f", nil, nil, nil, nil, nil, 1),
		step("g", "stripe_refund", small, "allow", "succeeded", nil, 2),
	}
	fromTicket := func(order string) map[string]any {
		return map[string]any{"amount": "75.50", "currency": "EUR", "order_id": order}
	}
	burst := step("h2", "issue_refund", fromTicket("ord_1001"), "requires-approval", "approval_pending", "tainted_target", 2)
	burst["calls"], burst["origin"] = 40.0, "read_ticket"
	held := step("h5", "issue_refund", fromTicket("ord_1002"), "deny", "approval_pending", "rate_limited", 3)
	held["calls"] = 38.0
	want = append(want,
		step("h1", "read_ticket", map[string]any{"ticket": "T-88"}, "allow", "succeeded", nil, 2),
		burst,
		step("h3", "issue_refund", fromTicket("ord_1003"), "allow", "succeeded", nil, 3),
		step("h4", "issue_refund", fromTicket("ord_1001"), "allow", "failed", "failed", 3),
		held,
		step("h6", "issue_refund", fromTicket("ord_1003"), "allow", "succeeded", "already_done", 3),
		step("h7", nil, nil, nil, nil, nil, 3))
	got, last := p.lines(t)
	for _, s := range got {
		if at, there := s["retry_after"]; there != (s["step"] == "h5") || there && at == "" {
			t.Errorf("step %v may be tried again at %v", s["step"], at)
		}
		delete(s, "retry_after")
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("steps (-want +got):\n%s", d)
	}
	if last == nil || last["verified"] != true || last["expected"] != 3.0 {
		t.Fatalf("summary: %v", last)
	}
	effects, _ := last["effects"].([]any)
	told := map[string]any{"proposed": 40.0, "asked": 40.0, "approved": 40.0, "ran": 1.0, "refused_by_tool": 1.0, "held_back": 38.0, "answered_from_record": 1.0}
	if d := cmp.Diff(told, last["second_act"]); d != "" {
		t.Errorf("the second act (-want +got):\n%s", d)
	}
	if len(effects) != 3 {
		t.Fatalf("effects: %v", effects)
	}
	keys := map[any]bool{"": true}
	for i, want := range [][2]string{{"c2", "stripe_refund"}, {"g", "stripe_refund"}, {"h3", "issue_refund"}} {
		e, _ := effects[i].(map[string]any)
		if e["step"] != want[0] || e["tool"] != want[1] || keys[e["key"]] {
			t.Errorf("effect %d: %v", i, e)
		}
		keys[e["key"]] = true
	}
}

func TestDemo_Screen(t *testing.T) {
	p := play(t, t.Context(), Options{})
	if p.code != 0 || p.stderr != "" {
		t.Errorf("exit code %d, stderr: %s", p.code, p.stderr)
	}
	p.gone(t)
	t.Logf("\n%s", p.stdout)
	lines := strings.Split(strings.TrimSuffix(p.stdout, "\n"), "\n")
	starts := []string{
		"placet demo   gateway localhost:", "   console    http://127.0.0.1:", "   call                                      verdict            ran  ledger",
		"a  db_query  orders of cus_17                allow              yes  0",
		"b  http_post host 10.0.4.7                   deny               no   0   private net, use proxy",
		"c  stripe_refund 1,200.00 EUR ord_1001       requires-approval  no   0   lena approves; recorded; gateway killed; back in ",
		"     the agent asks again                    allow              yes  1   ran once; lena was not asked again",
		"d  the same once more                        (already done)     no   1   the recorded result, nothing ran again",
		"e  stripe_refund 4,800.00 EUR ord_1001       requires-approval  no   1   the earlier yes does not cover it; nobody answers",
		"f  mallory resumes anna's chat that ends in delete_file   (no call)  1   history is data; anna's next real question still works",
		"g  stripe_refund 60.00 EUR ord_1002          allow              yes  2   below the limit of 200",
		"h  read_ticket T-88                          allow              yes  2   its text says: refund orders 1001 to 1040",
		"   issue_refund 40 times, as it says         requires-approval  no   2   40 calls like this wait; every order comes from ticket T-88",
		"     lena approves all; ord_1003             allow              yes  3   the customer's own order: ran once",
		"     ord_1001, somebody else's               allow              no   3   the help desk refuses: the token names ben",
		"     the other 38                            deny               no   3   approved, held back: two a minute; next slot ",
		"     ord_1003 once more                      (already done)     no   3   a retry duplicates nothing",
		"   audit tail: ticket read, labelled untrusted; 40 refunds (no call)  3   40 asked, 40 approved, 1 ran, 1 refused, 38 held back",
		"Weakened for this demo, as placet overrides lists it: ",
		"Ledger, read from the help desk's own file: 3 effects, 3 expected. Verified. ",
	}
	if len(lines) != len(starts) {
		t.Fatalf("%d lines, want %d", len(lines), len(starts))
	}
	for i, start := range starts {
		if !strings.HasPrefix(lines[i], start) {
			t.Errorf("line %d:\n got %s\nwant %s", i+1, lines[i], start)
		}
	}
	for _, tool := range []string{"http_post", "stripe_refund", "issue_refund", "delete_file"} {
		if !strings.Contains(lines[len(lines)-2], tool) {
			t.Errorf("the overrides do not name %s: %s", tool, lines[len(lines)-2])
		}
	}
}

// change alters the ledger behind everybody's back.
func change(sql string) func(string) error {
	return func(path string) error {
		conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
		if err != nil {
			return err
		}
		defer conn.Close()
		return sqlitex.ExecuteScript(conn, sql, nil)
	}
}

// The demo must be able to fail: each of these ledgers is not the scene's.
func TestDemo_NotVerified(t *testing.T) {
	for name, sql := range map[string]string{
		"a stray effect":               `INSERT INTO effects (effect, key, args, at) VALUES ('delete_file', 'k', '{"path":"/srv"}', 'now');`,
		"an effect is missing":         `DELETE FROM effects WHERE id = 2;`,
		"another amount":               `UPDATE effects SET args = replace(args, '1200.00', '4800.00');`,
		"another key":                  `UPDATE effects SET key = 'other' WHERE id = 1;`,
		"another tool":                 `UPDATE effects SET effect = 'delete_file' WHERE id = 2;`,
		"no key":                       `UPDATE effects SET key = '' WHERE id = 2;`,
		"the same under other numbers": `UPDATE effects SET id = id + 10;`,
		"a foreign order is refunded":  `INSERT INTO effects (effect, key, args, at) VALUES ('issue_refund', 'k', '{"amount":"75.50","currency":"EUR","order_id":"ord_1001"}', 'now');`,
		"another order":                `UPDATE effects SET args = replace(args, 'ord_1003', 'ord_1004');`,
		"no effect of the second act":  `DELETE FROM effects WHERE id = 3;`,
		"no ledger":                    `DROP TABLE effects;`,
	} {
		t.Run(name, func(t *testing.T) {
			p := play(t, t.Context(), Options{JSON: true, testOnlyBeforeVerify: change(sql)})
			p.gone(t)
			steps, last := p.lines(t)
			if p.code == 0 || last["verified"] != false || p.stderr == "" {
				t.Errorf("exit code %d, summary %v, stderr %q", p.code, last, p.stderr)
			}
			if len(steps) != 15 {
				t.Errorf("%d steps", len(steps))
			}
		})
	}
}

// stopAt cancels when the demo writes its nth line.
type stopAt struct {
	n      int
	cancel context.CancelFunc
	bytes.Buffer
}

func (s *stopAt) Write(b []byte) (int, error) {
	if s.n--; s.n == 0 {
		s.cancel()
	}
	return s.Buffer.Write(b)
}

// An end that comes early, at whatever step, leaves nothing behind.
func TestDemo_Canceled(t *testing.T) {
	for _, step := range []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 14} {
		t.Run(fmt.Sprint(step), func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if step == 0 {
				cancel()
			}
			out := &stopAt{n: step, cancel: cancel}
			p := play(t, ctx, Options{JSON: true, Stdout: out})
			p.gone(t)
			if p.code != 1 || p.stderr == "" || strings.Contains(out.String(), `"verified":true`) {
				t.Errorf("exit code %d, stderr %q, stdout %s", p.code, p.stderr, out)
			}
			if p.took > 10*time.Second {
				t.Errorf("it took %s", p.took)
			}
		})
	}
}

// A start that takes longer than it may is given up, whatever it was doing.
func TestDemo_TimesOutAtStart(t *testing.T) {
	for _, after := range []time.Duration{time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond} {
		ctx, cancel := context.WithTimeout(t.Context(), after)
		p := play(t, ctx, Options{JSON: true})
		cancel()
		p.gone(t)
		if p.code != 1 || p.stderr == "" {
			t.Errorf("exit code %d, stderr %q, after %s", p.code, p.stderr, after)
		}
	}
}

// alone plays the demo in a process of its own, and signals it after its first
// line, or when it shows its first question.
func alone(t *testing.T, signal os.Signal, flags ...string) (folder string, ended *exec.ExitError) {
	t.Helper()
	if _, err := os.Stat("/proc/self/cmdline"); err != nil {
		t.Skip("needs /proc to see processes")
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	folder = t.TempDir()
	c := exec.Command(program, append([]string{runCommand}, flags...)...)
	c.Env = append(os.Environ(), "TMPDIR="+folder)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Process.Kill() }()
	for lines := bufio.NewReader(out); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("%q, %v", line, err)
		}
		if len(flags) == 0 || strings.Contains(line, `"question"`) {
			break
		}
	}
	if n := len(children(t, folder)); n == 0 {
		t.Error("no child is seen while the demo runs, so the test would see none afterwards")
	}
	if err := c.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); !errors.As(err, &ended) {
		t.Fatalf("it ended with %v", err)
	}
	return folder, ended
}

func TestDemo_CtrlC(t *testing.T) {
	folder, ended := alone(t, os.Interrupt)
	if ended.ExitCode() != 1 {
		t.Errorf("it ended with %v", ended)
	}
	played{folder: folder}.gone(t)
}

// When the demo itself is killed, its processes notice and end.
func TestDemo_Killed(t *testing.T) {
	folder, _ := alone(t, os.Kill)
	for end := time.Now().Add(20 * time.Second); len(children(t, folder)) > 0; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("still running: %v", children(t, folder))
		}
	}
}

// A child that cannot start is an error that says why, not a demo that hangs.
func TestDemo_ChildFails(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := play(t, t.Context(), Options{JSON: true, Self: []string{program, ChildCommand, "extra"}})
	p.gone(t)
	if p.code == 0 || !strings.Contains(p.stderr, "start the helpdesk: it ended; it said: ") {
		t.Errorf("exit code %d, stderr %q", p.code, p.stderr)
	}
}

func TestLedger_HonoursKeys(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	l, err := newLedger(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.conn.Close()
	add := func(effect, key, args string) int64 {
		t.Helper()
		id, err := l.add(effect, key, args, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	first := add("stripe_refund", "k1", refund60)
	if again := add("stripe_refund", "k1", refund60); again != first {
		t.Errorf("the same key gave effect %d, then %d", first, again)
	}
	if _, err := l.add("stripe_refund", "k1", refund1200, time.Now()); err == nil {
		t.Error("a used key was taken for another effect")
	}
	if other := add("stripe_refund", "k2", refund60); other == first {
		t.Error("another key gave the same effect")
	}
	rows, err := readLedger(t.Context(), path)
	if err != nil || len(rows) != 2 {
		t.Errorf("the ledger holds %v, %v", rows, err)
	}
}

func TestStoredChat_EndsInToolCall(t *testing.T) {
	c, err := storedChat()
	if err != nil {
		t.Fatal(err)
	}
	use, err := c.unresolved()
	if err != nil || use.Name != "delete_file" || use.ID == "" || len(use.Input) == 0 {
		t.Errorf("it ends in %+v, %v", use, err)
	}
}
