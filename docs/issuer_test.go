package docs_test

import (
	"crypto/rand"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	placet "github.com/placet-dev/placet"
	"github.com/placet-dev/placet/config"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/issuer"
)

// The commands of dev-issuer.md run as they stand, against a server with the
// sample's users, and show what the text says.
func TestDevIssuerCommands(t *testing.T) {
	for _, tool := range []string{"sh", "curl", "openssl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatalf("the commands need %s: %v", tool, err)
		}
	}
	door := httptest.NewUnstartedServer(nil)
	dir, at := t.TempDir(), "http://"+door.Listener.Addr().String()
	for name, text := range map[string]string{"tools.yaml": "version: 1\n",
		"placet.yaml": "version: 1\nenvironment: test\npublic_url: " + at + "\nstore: sqlite:state.db\nregistry: [tools.yaml]\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := config.Load(filepath.Join(dir, "placet.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	local, err := identity.NewLocal(placet.LocalIssuer, rand.Reader, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	p, err := placet.Open(t.Context(), placet.Options{Config: c, Local: local, Users: issuer.File("sample/users.yaml")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	door.Config.Handler = p.Handler()
	door.Start()
	t.Cleanup(func() { door.CloseClientConnections(); door.Close() })

	text, err := os.ReadFile("dev-issuer.md")
	if err != nil {
		t.Fatal(err)
	}
	script := "set -eu\n"
	for _, m := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		script += m[1]
	}
	run := exec.CommandContext(t.Context(), "sh", "-c", strings.ReplaceAll(script, "http://127.0.0.1:8088", at))
	run.Dir = dir
	got, err := run.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, got)
	}
	rest := string(got)
	for _, want := range []string{
		`"issuer":"` + at + `/dev/issuer"`, `"calls":[`, `"approvals":[`, `not made for this server`,
		`"scope":"desk:read"`, `"error":"invalid_scope"`, `"error":"invalid_target"`,
		`"active":true`, `"groups":["support"]`, `"sub":"anna"`, `"tenant":"dev"`, `"active":true`, `{"active":false}`,
		`"expires_in":900,"scope":"desk:read"}`, `{"active":false}`,
	} {
		_, after, ok := strings.Cut(rest, want)
		if !ok {
			t.Fatalf("%s is missing, or out of turn, in\n%s", want, got)
		}
		rest = after
	}
}
