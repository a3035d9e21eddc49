// Package deploy holds what runs Placet on other people's machines: a systemd unit,
// an image, a Helm chart (whose tests are a module of their own).
package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/placet-dev/placet/config"
)

// analyze runs systemd's own judge of units, where there is one.
func analyze(t *testing.T, args ...string) string {
	t.Helper()
	path, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed here")
	}
	out, err := exec.CommandContext(t.Context(), path, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", args, err, out)
	}
	return string(out)
}

// unit is the unit with programs that exist here, in place of the installed one.
func unit(t *testing.T, change func(string) string) string {
	t.Helper()
	text, err := os.ReadFile("systemd/placet.service")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "placet.service")
	s := change(strings.ReplaceAll(string(text), "/usr/local/bin/placet", "/bin/true"))
	if err := os.WriteFile(path, []byte(s), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func whole(s string) string { return s }

func TestUnitIsUnderstood(t *testing.T) {
	if out := analyze(t, "verify", unit(t, whole)); strings.Contains(out, "placet.service") {
		t.Errorf("systemd says:\n%s", out)
	}
	broken := unit(t, func(s string) string { return strings.Replace(s, "NoNewPrivileges", "NoNewPrivilege", 1) })
	if out := analyze(t, "verify", broken); !strings.Contains(out, "NoNewPrivilege") {
		t.Errorf("an unknown setting was not seen:\n%s", out)
	}
}

// Systemd rates from 0 (nothing exposed) to 10.
func TestUnitIsHardened(t *testing.T) {
	rated := func(path string) float64 {
		out := analyze(t, "security", "--offline=true", "--no-pager", path)
		m := regexp.MustCompile(`exposure level for \S+: ([0-9.]+)`).FindStringSubmatch(out)
		if m == nil {
			t.Fatalf("no rating in\n%s", out)
		}
		v, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	if v := rated(unit(t, whole)); v > 1.5 {
		t.Errorf("rated %.1f", v)
	}
	open := unit(t, func(s string) string { return s[:strings.Index(s, "# An account")] + s[strings.Index(s, "[Install]"):] })
	if v := rated(open); v < 5 {
		t.Errorf("an open unit is rated %.1f: the rating says nothing", v)
	}
}

// The chart's own configuration is one that a server of several reads: all that it keeps
// secret comes from the environment, and its folder may be read-only.
func TestTheChartsConfiguration(t *testing.T) {
	text, err := os.ReadFile("helm/placet/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var values struct {
		Config string
		Files  map[string]string
	}
	if err := yaml.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	values.Files["placet.yaml"] = values.Config
	for name, text := range values.Files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := config.Load(filepath.Join(dir, "placet.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"PLACET_STORE": "postgres://placet@db.example/placet", "PLACET_SECRET": strings.Repeat("s", 44)}
	look := func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	if dsn, shared, err := c.Database(look, os.ReadFile); dsn != env["PLACET_STORE"] || !shared || err != nil {
		t.Errorf("the store is %q, shared %t: %v", dsn, shared, err)
	}
	if secret, err := c.Secret.Read(look, os.ReadFile); secret != env["PLACET_SECRET"] || err != nil {
		t.Errorf("the secret cannot be read: %v", err)
	}
	if c.Keys != "" {
		t.Errorf("keys are in %s, which nobody can write", c.Keys)
	}
}
