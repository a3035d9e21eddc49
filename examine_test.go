package placet

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/placet-dev/placet/config"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/store/postgres/pgtest"
)

// patient is a server's folder with everything that it rests on, each of which can be
// taken away.
type patient struct {
	t            *testing.T
	dir          string
	issuer, desk *httptest.Server
	env          map[string]string
	ahead        time.Duration
}

func newPatient(t *testing.T) *patient {
	local, err := identity.NewLocal("https://idp.example", zeroes{}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := local.JWKS()
	if err != nil {
		t.Fatal(err)
	}
	tools := mcp.NewServer(&mcp.Implementation{Name: "desk", Version: "1"}, nil)
	p := &patient{t: t, dir: t.TempDir(), env: map[string]string{"PLACET_TEST_KEY": strings.Repeat("k", 40)},
		issuer: httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(keys) })),
		desk:   httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return tools }, &mcp.StreamableHTTPOptions{Stateless: true}))}
	t.Cleanup(p.issuer.Close)
	t.Cleanup(func() { p.desk.CloseClientConnections(); p.desk.Close() })
	p.write("tools.yaml", "version: 1\nservers:\n  desk: {url: "+p.desk.URL+"}\n")
	p.write("secret", "of-a-file")
	return p
}

// zeroes is randomness for a key that nobody verifies anything with.
type zeroes struct{}

func (zeroes) Read(b []byte) (int, error) { clear(b); return len(b), nil }

func (p *patient) write(name, text string) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// settings writes the configuration, with a store.
func (p *patient) settings(store string) {
	p.t.Helper()
	p.write("placet.yaml", "version: 1\nenvironment: test\npublic_url: http://127.0.0.1:1\nregistry: [tools.yaml]\n"+store+
		"checkpoint: {publish: [\"file:checkpoints\"]}\ncredentials:\n  crm: {type: static, header: X-Key, value: \"file:secret\"}\n"+
		"issuers:\n  - {issuer: \"https://idp.example\", keys: \""+p.issuer.URL+"\", audience: [x], algorithms: [EdDSA], tenant: acme, claims: {subject: sub}}\n")
}

func (p *patient) options() Options {
	p.t.Helper()
	c, err := config.Load(filepath.Join(p.dir, "placet.yaml"))
	if err != nil {
		p.t.Fatal(err)
	}
	return Options{Config: c, Clock: func() time.Time { return time.Now().Add(p.ahead) },
		LookupEnv: func(name string) (string, bool) { v, ok := p.env[name]; return v, ok }}
}

// run opens the server and closes it again, once its own events are sealed.
func (p *patient) run() {
	p.t.Helper()
	s, err := Open(p.t.Context(), p.options())
	if err != nil {
		p.t.Fatal(err)
	}
	until(p.t, func() bool {
		lag, err := s.sealer.Unsealed(p.t.Context())
		return err == nil && lag == 0
	})
	if err := s.Close(); err != nil {
		p.t.Fatal(err)
	}
}

// finds examines, and wants one finding of a check, and no failure but of it.
func (p *patient) finds(check string, h Health, says string) {
	p.t.Helper()
	found := Examine(p.t.Context(), p.options())
	if !slices.ContainsFunc(found, func(f Finding) bool {
		return f.Check == check && f.Status == h && strings.Contains(f.Says, says) && (h == Well || f.Do != "")
	}) {
		p.t.Errorf("no finding %s %s %q among %+v", check, h, says, found)
	}
	for _, f := range found {
		if f.Status == Fails && f.Check != check {
			p.t.Errorf("%+v fails, too", f)
		}
		if strings.Contains(f.Says+f.Do, "of-a-file") || strings.Contains(f.Says+f.Do, "s3cret") || strings.Contains(f.Says+f.Do, p.env["PLACET_TEST_KEY"]) {
			p.t.Errorf("a secret is in %+v", f)
		}
	}
	if (Worst(found) == Fails) != (h == Fails) {
		p.t.Errorf("the worst is %s", Worst(found))
	}
}

// TestExamine: what a server rests on is well, and each thing that is taken away is
// named, with what to do; looking changes nothing.
func TestExamine(t *testing.T) {
	p := newPatient(t)
	p.settings("store: sqlite:state.db\n")
	p.finds("store", Worries, "there is none yet")
	p.run()
	before := p.names()
	for check, says := range map[string]string{"configuration": "valid", "secrets": "1 secret can be read", "disk": "free", "store": "with schema", "log": "under a checkpoint",
		"version": "these files are it", "issuer": "1 key", "server": "desk offers 0 tools"} {
		p.finds(check, Well, says)
	}
	p.finds("serving", Worries, "does not answer")
	if after := p.names(); after != before {
		t.Errorf("the folder held %s, and holds %s", before, after)
	}

	state := filepath.Join(p.dir, "state.db")
	p.mode(state, 0o644)
	p.finds("files", Fails, "state.db has the mode 0644")
	p.mode(state, 0o600)
	p.mode(filepath.Join(p.dir, "secret"), 0o604)
	p.finds("secrets", Fails, "the mode 0604")
	p.mode(filepath.Join(p.dir, "secret"), 0o600)

	p.write("tools.yaml", "version: 1\nservers:\n  desk: {url: "+p.desk.URL+", tools_max_age: 7s}\n")
	p.finds("version", Worries, "these files are not it")
	p.write("tools.yaml", "version: 1\nservers:\n  desk: {url: "+p.desk.URL+"}\n")
	key := state + ".log-key"
	text, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	p.finds("log", Fails, "the key that seals it is not")
	p.write("state.db.log-key", string(text))
	if err := os.Remove(filepath.Join(p.dir, "secret")); err != nil {
		t.Fatal(err)
	}
	found := Examine(t.Context(), p.options())
	if !slices.ContainsFunc(found, func(f Finding) bool {
		return f.Check == "secrets" && f.Status == Fails && strings.HasPrefix(f.Says, "credentials.crm.value: ")
	}) {
		t.Errorf("a secret that is gone: %+v", found)
	}
	p.write("secret", "of-a-file")
	p.issuer.Close()
	p.finds("issuer", Fails, "https://idp.example")
	p.issuer = httptest.NewServer(p.issuer.Config.Handler)
	t.Cleanup(p.issuer.Close)
	p.settings("store: sqlite:state.db\n")
	p.desk.CloseClientConnections()
	p.desk.Close()
	p.finds("server", Fails, "desk: ")
}

// TestExaminePostgreSQL: a database that is not migrated, whose clock is another, that a
// superuser is used for, or that is gone, is named.
func TestExaminePostgreSQL(t *testing.T) {
	server := pgtest.Start(t, "fsync=on") // as it is to be
	database := server.Database(t)
	server.Do(t, database, "CREATE ROLE runs LOGIN PASSWORD 's3cret-runs'")
	p := newPatient(t)
	p.env["PLACET_TEST_STORE"], p.env["PLACET_TEST_KEYS"] = server.DSN("runs", database), strings.Repeat("of all servers", 3)
	p.settings("store: env:PLACET_TEST_STORE\nsecret: env:PLACET_TEST_KEYS\n")
	p.finds("store", Worries, "no schema yet")
	if err := Migrate(t.Context(), p.options(), server.DSN("owner", database)); err != nil {
		t.Fatal(err)
	}
	p.run()
	p.finds("store", Well, "with schema")
	p.finds("clock", Well, "differ by")
	p.finds("log", Well, "under a checkpoint")
	p.finds("version", Well, "these files are it")
	p.ahead = 5 * time.Second
	p.finds("clock", Worries, "differ by")
	p.ahead = 2 * time.Minute
	p.finds("clock", Fails, "differ by")
	p.ahead = 0
	server.Do(t, database, "ALTER ROLE runs BYPASSRLS")
	p.finds("store", Fails, "above row level security")
	server.Do(t, database, "ALTER ROLE runs NOBYPASSRLS")
	server.Do(t, database, "INSERT INTO placet.migrations (version) SELECT max(version) + 1 FROM placet.migrations")
	p.finds("store", Worries, "and this program knows up to")
	server.Crash()
	p.finds("store", Fails, "")
}

func (p *patient) mode(path string, mode os.FileMode) {
	p.t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		p.t.Fatal(err)
	}
}

// names are the files of the folder.
func (p *patient) names() string {
	p.t.Helper()
	entries, err := os.ReadDir(p.dir)
	if err != nil {
		p.t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return strings.Join(out, " ")
}
