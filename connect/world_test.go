package connect_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	placet "github.com/placet-dev/placet"
	"github.com/placet-dev/placet/config"
	"github.com/placet-dev/placet/connect"
	"github.com/placet-dev/placet/connect/connecttest"
	"github.com/placet-dev/placet/registry"
	"github.com/placet-dev/placet/tool/local"
)

// world is a real issuer, a real Placet that trusts it, and a tool with a ledger.
type world struct {
	t      *testing.T
	issuer *connecttest.Issuer
	url    string // of the Placet's MCP door
	folder string

	mu      sync.Mutex
	ledger  []string
	tokens  []string // that reached the door
	opened  int      // how often the browser opened
	deny    bool
	door    func(http.ResponseWriter, *http.Request) bool // a test's own answer
	browser func(context.Context, string) error           // a test's own
	log     bytes.Buffer
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, folder: filepath.Join(t.TempDir(), "sign-ins")}
	server := httptest.NewUnstartedServer(nil)
	public := "http://" + server.Listener.Addr().String()
	w.url = public + "/mcp"
	w.issuer = connecttest.New(t, w.url)
	dir := t.TempDir()
	file := filepath.Join(dir, "placet.yaml")
	text := fmt.Sprintf("version: 1\nenvironment: test\npublic_url: %s\nstore: sqlite:state.db\nregistry: [tools.yaml]\nissuers:\n"+
		"  - {issuer: %q, algorithms: [RS256], tenant: claims.tenant, tenants: [acme]}\n", public, w.issuer.URL)
	for name, text := range map[string]string{file: text, filepath.Join(dir, "tools.yaml"): "version: 1\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	p, err := placet.Open(t.Context(), placet.Options{Config: c, Tools: []placet.Tool{{Name: "note", Description: "Writes a note.",
		InputSchema: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"},"n":{"type":"number"}},"required":["text"]}`),
		// A tool kept to some callers: its scope is not advertised, so that a client learns of it by a 403.
		Entry: registry.Entry{Read: true, Scope: "notes", Callers: registry.CallersEntry{Tenants: []string{"acme"}}},
		Handler: func(_ context.Context, c local.Call) (json.RawMessage, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.ledger = append(w.ledger, string(c.Arguments))
			return json.RawMessage(`{"content":[{"type":"text","text":"noted"}],"structuredContent":{"n":9007199254740993.0,"x":1e400}}`), nil
		}}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	h := p.Handler()
	server.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		if token := r.Header.Get("Authorization"); token != "" {
			w.tokens = append(w.tokens, strings.TrimPrefix(token, "Bearer "))
		}
		door := w.door
		w.mu.Unlock()
		if door == nil || !door(rw, r) {
			h.ServeHTTP(rw, r)
		}
	})
	server.Start()
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	return w
}

// open is the browser of the user.
func (w *world) open(ctx context.Context, url string) error {
	w.mu.Lock()
	w.opened++
	own, deny := w.browser, w.deny
	w.mu.Unlock()
	if own == nil {
		own = func(ctx context.Context, url string) error {
			_, err := connecttest.Browser(ctx, url, deny)
			return err
		}
	}
	go func() {
		if err := own(context.WithoutCancel(ctx), url); err != nil {
			w.t.Log("browser:", err)
		}
	}()
	return nil
}

func (w *world) options() connect.Options {
	return connect.Options{Server: w.url, ClientID: connecttest.ClientID, Scopes: []string{"openid", "notes"}, Folder: w.folder, Open: w.open,
		Log: slog.New(slog.NewTextHandler(&syncWriter{w: &w.log}, nil))}
}

type syncWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (s *syncWriter) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(p)
}

func (w *world) notes() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.ledger)
}

func (w *world) browsers() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.opened
}

func (w *world) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

// desk is a client at the other end of a bridge's pipes.
type desk struct {
	t     *testing.T
	in    *io.PipeWriter
	lines chan string // closed when the bridge has ended
}

func (w *world) start(change func(*connect.Options)) *desk {
	w.t.Helper()
	o := w.options()
	if change != nil {
		change(&o)
	}
	return bridge(w.t, o)
}

func bridge(t *testing.T, o connect.Options) *desk {
	t.Helper()
	b, err := connect.New(o)
	if err != nil {
		t.Fatal(err)
	}
	in, send := io.Pipe()
	receive, out := io.Pipe()
	d := &desk{t, send, make(chan string, 1000)}
	go func() { _ = out.CloseWithError(b.Serve(context.Background(), in, out)) }()
	go func() {
		defer close(d.lines)
		for r := bufio.NewReader(receive); ; {
			text, err := r.ReadString('\n')
			if err != nil {
				return
			}
			d.lines <- strings.TrimSuffix(text, "\n")
		}
	}()
	t.Cleanup(d.close)
	return d
}

// close is the client's end, and waits for the bridge's.
func (d *desk) close() {
	d.in.Close()
	for {
		select {
		case _, more := <-d.lines:
			if !more {
				return
			}
		case <-time.After(20 * time.Second):
			d.t.Error("the bridge does not end")
			return
		}
	}
}

func (d *desk) send(text string) {
	d.t.Helper()
	if _, err := io.WriteString(d.in, text+"\n"); err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) line() string {
	d.t.Helper()
	select {
	case text, more := <-d.lines:
		if !more {
			d.t.Fatal("the bridge has ended")
		}
		return text
	case <-time.After(30 * time.Second):
		d.t.Fatal("nothing came")
	}
	return ""
}

func (d *desk) ask(text string) string {
	d.t.Helper()
	d.send(text)
	return d.line()
}

const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"desk","version":"1"}}`

func note(id, arguments string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"note","arguments":` + arguments + `,` + meta + `}}`
}
