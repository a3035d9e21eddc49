package placet

import (
	"crypto/rand"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/placet-dev/placet/config"
	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/guard"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
	toolmcp "github.com/placet-dev/placet/tool/mcp"
)

// folderHouse is a real boundary over servers that Placet itself runs, with the
// folder that they stand beside.
type folderHouse struct {
	t      *testing.T
	p      *Placet
	dir    string // of the configuration
	issuer *identity.Local
}

// openFolder writes a registry, locks what its servers offer, and opens it.
func openFolder(t *testing.T, registryText string, files map[string]string, change ...func(*Options)) *folderHouse {
	t.Helper()
	h := &folderHouse{t: t, dir: t.TempDir()}
	registryText = strings.ReplaceAll(registryText, "DIR", h.dir)
	if files == nil {
		files = map[string]string{}
	}
	files["tools.yaml"] = registryText
	if !strings.Contains(files["placet.yaml"], "version:") { // else the test's own
		files["placet.yaml"] += "version: 1\nenvironment: test\npublic_url: http://127.0.0.1:8088\nstore: sqlite:state/state.db\nregistry: [tools.yaml]\n"
	}
	for name, text := range files {
		path := filepath.Join(h.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(h.dir, "state"), 0o700); err != nil {
		t.Fatal(err)
	}
	h.lock()
	c, err := config.Load(filepath.Join(h.dir, "placet.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if h.issuer, err = identity.NewLocal(LocalIssuer, rand.Reader, time.Now); err != nil {
		t.Fatal(err)
	}
	o := Options{Config: c, Local: h.issuer, Tenants: []string{"acme", "globex"}}
	for _, f := range change {
		f(&o)
	}
	if h.p, err = Open(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.p.Close() })
	return h
}

// lock reviews what the servers offer, as placet tools add does.
func (h *folderHouse) lock() {
	h.t.Helper()
	file := filepath.Join(h.dir, "tools.yaml")
	unlocked, err := registry.Load([]string{file}, registry.Options{Environment: "test"})
	if err != nil {
		h.t.Fatal(err)
	}
	servers := OpenServers(toolmcp.Options{}, guard.World{})
	defer servers.Close()
	lock := registry.NewLock()
	for _, q := range unlocked.Quarantined() {
		server, ok := unlocked.Server(q.Tool.Server)
		if !ok {
			h.t.Fatalf("no server %s", q.Tool.Server)
		}
		offer, err := servers.Offer(h.t.Context(), server, q.Tool.Upstream, 0)
		if err != nil {
			h.t.Fatal(err)
		}
		pin, err := registry.PinOf(offer)
		if err != nil {
			h.t.Fatal(err)
		}
		lock.Tools[q.Tool.Name] = registry.LockedTool{Server: server.Name, Pin: pin}
	}
	text, err := lock.Write()
	if err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(registry.LockPath(file), text, 0o600); err != nil {
		h.t.Fatal(err)
	}
}

func (h *folderHouse) caller(tenant, subject string) identity.Caller {
	h.t.Helper()
	token, err := h.issuer.Sign(identity.TokenSpec{Audience: h.p.o.Config.Audience(), Subject: subject, Tenant: tenant, Agent: "bot", Scopes: []string{"files"}})
	if err != nil {
		h.t.Fatal(err)
	}
	c, err := h.p.Verifier().Caller(h.t.Context(), identity.Credentials{Bearer: token})
	if err != nil {
		h.t.Fatal(err)
	}
	return c
}

func (h *folderHouse) do(c identity.Caller, tool, arguments string) dispatch.Answer {
	h.t.Helper()
	a, err := h.p.Boundary().Do(h.t.Context(), dispatch.Proposal{Caller: c, Tool: tool, Arguments: json.RawMessage(arguments)})
	if err != nil {
		h.t.Fatal(err)
	}
	return a
}

func (h *folderHouse) wants(a dispatch.Answer, state record.State, text string) {
	h.t.Helper()
	if a.State() != state || !strings.Contains(string(a.Result), text) {
		h.t.Fatalf("%s: %s %s, result %s, reasons %+v; want %s with %q", a.Tool, a.State(), a.Code, a.Result, a.Decision.Reasons, state, text)
	}
}

const filesYAML = `version: 1
servers:
  notes: {files: "DIR/agents/{tenant}"}
defaults: {per_minute: 0}
tools:
  list_files: {server: notes, scope: files, read: true}
  read_file: {server: notes, scope: files, read: true}
  write_file: {server: notes, scope: files, write: true, sources: [direct], approval: {when: asked}, repeat: {within: 10m, answer: run}}
  move_file: {server: notes, scope: files, write: true, sources: [direct], approval: {when: asked}}
  delete_file: {server: notes, scope: files, destructive: true, sources: [direct], approval: {when: asked}}
`

// The caller's folder, and nothing else: not by a path, not by a link, not by another
// tenant's name. The disk is the oracle.
func TestFilesStayInTheirFolder(t *testing.T) {
	h := openFolder(t, filesYAML, map[string]string{"agents/acme/welcome.txt": "hello anna", "agents/globex/secret.txt": "globex only", "outside.txt": "outside"})
	anna, gleb := h.caller("acme", "anna"), h.caller("globex", "gleb")
	h.wants(h.do(anna, "read_file", `{"path":"welcome.txt"}`), record.Succeeded, "hello anna")
	h.wants(h.do(gleb, "read_file", `{"path":"secret.txt"}`), record.Succeeded, "globex only")
	h.wants(h.do(anna, "write_file", `{"path":"a b/..hidden ünï","content":"one"}`), record.Succeeded, "written")
	on := func(path, want string) {
		t.Helper()
		got, err := os.ReadFile(filepath.Join(h.dir, path))
		if want == "" && !os.IsNotExist(err) || want != "" && string(got) != want {
			t.Errorf("%s holds %q (%v), want %q", path, got, err, want)
		}
	}
	on("agents/acme/a b/..hidden ünï", "one")

	if err := os.Symlink(h.dir, filepath.Join(h.dir, "agents/acme/up")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../globex/secret.txt", filepath.Join(h.dir, "agents/acme/theirs")); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"../globex/secret.txt", "/etc/passwd", "..", "a/../../globex/secret.txt", "%2e%2e/globex/secret.txt", "%252e%252e%252fglobex", `..\globex\secret.txt`,
		"up/outside.txt", "up/state/state.db", "theirs", "x\u0000", "~/x"} {
		quoted, err := json.Marshal(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range []struct{ tool, arguments string }{
			{"read_file", `{"path":` + string(quoted) + `}`}, {"list_files", `{"path":` + string(quoted) + `}`}, {"delete_file", `{"path":` + string(quoted) + `}`},
			{"write_file", `{"path":` + string(quoted) + `,"content":"stolen","if_exists":"replace"}`}, {"move_file", `{"path":` + string(quoted) + `,"to":"mine.txt"}`},
			{"move_file", `{"path":"welcome.txt","to":` + string(quoted) + `}`},
		} {
			if path == "theirs" && (call.tool == "delete_file") {
				continue // the link itself is in the folder, and may be deleted
			}
			a := h.do(anna, call.tool, call.arguments)
			if a.State() == record.Succeeded || strings.Contains(string(a.Result), "globex only") || strings.Contains(string(a.Result), "outside") {
				t.Errorf("%s %s: %s %s", call.tool, call.arguments, a.State(), a.Result)
			}
		}
	}
	on("agents/globex/secret.txt", "globex only")
	on("outside.txt", "outside")
	on("agents/acme/welcome.txt", "hello anna")
	on("agents/acme/mine.txt", "")
	entries, err := os.ReadDir(filepath.Join(h.dir, "agents/acme"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".placet-") {
			t.Errorf("%s was left", e.Name())
		}
	}
}

// What is there is not lost by accident, and what was refused did not happen.
func TestFilesAreReplacedOnlyOnRequest(t *testing.T) {
	h := openFolder(t, filesYAML, map[string]string{"agents/acme/a.txt": "first"})
	anna := h.caller("acme", "anna")
	h.wants(h.do(anna, "write_file", `{"path":"a.txt","content":"second"}`), record.Failed, "there already")
	h.wants(h.do(anna, "write_file", `{"path":"b.txt","content":"b"}`), record.Succeeded, "written")
	h.wants(h.do(anna, "move_file", `{"path":"b.txt","to":"a.txt"}`), record.Failed, "there already")
	h.wants(h.do(anna, "write_file", `{"path":"a.txt","content":"second","if_exists":"replace"}`), record.Succeeded, "written")
	h.wants(h.do(anna, "read_file", `{"path":"a.txt"}`), record.Succeeded, "second")
	h.wants(h.do(anna, "move_file", `{"path":"b.txt","to":"c/b.txt"}`), record.Succeeded, "moved")
	h.wants(h.do(anna, "delete_file", `{"path":"c"}`), record.Failed, "")
	h.wants(h.do(anna, "delete_file", `{"path":"c/b.txt"}`), record.Succeeded, "deleted")
	h.wants(h.do(anna, "list_files", `{}`), record.Succeeded, "a.txt")
	h.wants(h.do(anna, "read_file", `{"path":"c/b.txt"}`), record.Failed, "not there")
	h.wants(h.do(h.caller("globex", "gleb"), "list_files", `{}`), record.Failed, "") // no folder for that tenant
}

// Placet's own files are out of reach, whatever the registry says (rule K2).
func TestRule_K2_FilesOfPlacet(t *testing.T) {
	dir := t.TempDir()
	text := "version: 1\nservers:\n  notes: {files: \"" + dir + "\"}\ntools:\n  read_file: {server: notes, scope: files, read: true}\n"
	_, err := registry.Parse([]registry.Source{{Name: "tools.yaml", Text: []byte(text)}}, registry.Options{Own: []string{filepath.Join(dir, "state.db")}})
	if err == nil || !strings.Contains(err.Error(), "files of Placet itself") {
		t.Errorf("a folder with the store in it: %v", err)
	}
	if _, err = registry.Parse([]registry.Source{{Name: "tools.yaml", Text: []byte(text)}}, registry.Options{Own: []string{filepath.Join(dir, "..", "elsewhere.db")}}); err != nil {
		t.Errorf("a folder beside it: %v", err)
	}
}

// A folder of tools that holds a secret of the configuration, or the key that seals
// passkeys, is refused; one beside them works.
func TestRule_K2_SecretsOfPlacet(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"keys/desk.secret": "s3cret", "store/state.db": "", "work/a.txt": "a",
		"placet.yaml": "version: 1\nenvironment: test\npublic_url: http://127.0.0.1:8088\nstore: sqlite:store/state.db\nregistry: [tools.yaml]\n" +
			"credentials: {desk: {type: static, value: \"file:" + dir + "/keys/desk.secret\"}}\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := config.Load(filepath.Join(dir, "placet.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	own := Options{Config: c}.ownFiles()
	if key := filepath.Join(dir, "store/state.db.passkey-key"); !slices.Contains(own, key) {
		t.Errorf("%s is not among %q", key, own)
	}
	for folder, refused := range map[string]bool{"keys": true, "store": true, "work": false} {
		text := "version: 1\nservers:\n  notes: {files: \"" + filepath.Join(dir, folder) + "\"}\ntools:\n  read_file: {server: notes, scope: files, read: true}\n"
		_, err := registry.Parse([]registry.Source{{Name: "tools.yaml", Text: []byte(text)}}, registry.Options{Own: own})
		if got := err != nil && strings.Contains(err.Error(), "files of Placet itself"); got != refused {
			t.Errorf("%s: %v", folder, err)
		}
	}
}
