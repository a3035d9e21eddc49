package integration

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "github.com/placet-dev/placet" // so that a change of the server runs the clients again
)

// TestClients runs the tests of clients/: AI SDK, OpenAI Agents and LangGraph.
func TestClients(t *testing.T) { play(t, "clients") }

// TestClaude runs the tests of claude/: the Claude Agent SDK, which is far larger.
func TestClaude(t *testing.T) { play(t, "claude") }

// play runs the tests of a folder with the clients that make fetched for its lock file, or
// with the newest ones if CLIENTS says so.
func play(t *testing.T, folder string) {
	if testing.Short() {
		t.Skip("-short: no client is started")
	}
	if os.Getenv("CLIENTS") == "newest" {
		folder += "/newest"
	}
	locked, err := os.ReadFile(filepath.Join(folder, "package-lock.json"))
	if err != nil {
		t.Fatal(err)
	}
	fetched, err := os.ReadFile(filepath.Join("..", ".cache", "integration", folder, "node_modules", "locked"))
	if err != nil || !bytes.Equal(locked, fetched) {
		t.Skipf("the clients of %s are not there as its lock file names them: make integration fetches and tests them", folder)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	placet := filepath.Join(t.TempDir(), "placet")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", placet, "../cmd/placet").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	run := exec.CommandContext(ctx, "bash", "run.sh", "test", folder)
	run.Env = append(run.Environ(), "PLACET="+placet)
	run.Cancel = func() error { return run.Process.Signal(os.Interrupt) }
	run.WaitDelay = 10 * time.Second
	out, err := run.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "✔") {
			t.Log(strings.TrimSpace(line))
		}
	}
}
