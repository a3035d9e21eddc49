package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	placet "github.com/placet-dev/placet"
	"github.com/placet-dev/placet/config"
	"github.com/placet-dev/placet/connect/connecttest"
	"github.com/placet-dev/placet/registry"
	"github.com/placet-dev/placet/tool/local"
)

// The built program, started by an MCP client as a desktop starts it: the user
// signs in at a real issuer, and the tool behind a real Placet runs once a call.
func TestConnect(t *testing.T) {
	var mu sync.Mutex
	var ledger []string
	server := httptest.NewUnstartedServer(nil)
	public := "http://" + server.Listener.Addr().String()
	issuer := connecttest.New(t, public+"/mcp")
	dir := t.TempDir()
	for name, text := range map[string]string{"tools.yaml": "version: 1\n",
		"placet.yaml": fmt.Sprintf("version: 1\nenvironment: test\npublic_url: %s\nstore: sqlite:state.db\nregistry: [tools.yaml]\nissuers:\n"+
			"  - {issuer: %q, algorithms: [RS256], tenant: claims.tenant, tenants: [acme]}\n", public, issuer.URL)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := config.Load(filepath.Join(dir, "placet.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := placet.Open(t.Context(), placet.Options{Config: c, Tools: []placet.Tool{{Name: "note", Description: "Writes a note.",
		InputSchema: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`),
		Entry:       registry.Entry{Read: true, Scope: "notes"},
		Handler: func(_ context.Context, c local.Call) (json.RawMessage, error) {
			mu.Lock()
			defer mu.Unlock()
			ledger = append(ledger, string(c.Arguments))
			return json.RawMessage(`{"content":[{"type":"text","text":"noted"}]}`), nil
		}}}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	server.Config.Handler = p.Handler()
	server.Start()
	defer func() { server.CloseClientConnections(); server.Close() }()

	folder := filepath.Join(dir, "sign-ins")
	program := func(more ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), "placet", append([]string{"connect", public + "/mcp", "--client-id", connecttest.ClientID,
			"--scopes", "openid,notes", "--folder", folder}, more...)...)
		cmd.Env = []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH")}
		return cmd
	}
	signedIn := 0
	for n, version := range []string{"2026-07-28", "2025-11-25"} {
		cmd := program("--no-browser")
		said, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		log := make(chan string, 1)
		go func() { log <- browse(t, said, &signedIn) }()
		client := mcp.NewClient(&mcp.Implementation{Name: "desktop", Version: "1"}, nil)
		session, err := client.Connect(t.Context(), &mcp.CommandTransport{Command: cmd}, &mcp.ClientSessionOptions{ProtocolVersion: version})
		if err != nil {
			t.Fatalf("%s: %v", version, err)
		}
		if got := session.InitializeResult().ProtocolVersion; got != version {
			t.Errorf("%s became %s", version, got)
		}
		out, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "note", Arguments: map[string]any{"text": version}})
		if err != nil || out.IsError {
			t.Fatalf("%s: %v %+v", version, err, out)
		}
		if err := session.Close(); err != nil {
			t.Errorf("%s: %v", version, err)
		}
		text := <-log
		mu.Lock()
		if len(ledger) != n+1 || ledger[n] != `{"text":"`+version+`"}` {
			t.Errorf("ledger %v", ledger)
		}
		mu.Unlock()
		files, _ := filepath.Glob(filepath.Join(folder, "*.json"))
		if len(files) != 1 {
			t.Fatalf("stored: %v", files)
		}
		var stored struct {
			Access  string `json:"access_token"`
			Refresh string `json:"refresh_token"`
		}
		content, err := os.ReadFile(files[0])
		if err != nil || json.Unmarshal(content, &stored) != nil || stored.Access == "" || stored.Refresh == "" ||
			strings.Contains(text, stored.Access) || strings.Contains(text, stored.Refresh) {
			t.Errorf("a token is missing, or on standard error")
		}
	}
	if signedIn != 1 {
		t.Errorf("signed in %d times", signedIn)
	}
	text, err := program("--logout").CombinedOutput()
	left, _ := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil || !strings.Contains(string(text), "sign-ins removed: 1") || len(left) != 0 {
		t.Errorf("%v %s %v", err, text, left)
	}
}

// browse reads what the program says to its user, who opens every address.
func browse(t *testing.T, said io.Reader, signedIn *int) string {
	var all strings.Builder
	for lines := bufio.NewScanner(said); lines.Scan(); {
		all.WriteString(lines.Text() + "\n")
		if strings.HasPrefix(lines.Text(), "http") {
			*signedIn++
			if _, err := connecttest.Browser(context.WithoutCancel(t.Context()), lines.Text(), false); err != nil {
				t.Error(err)
			}
		}
	}
	return all.String()
}
