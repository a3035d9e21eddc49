package measure

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/placet-dev/placet/registry"
)

// client puts a package client of our own on the PATH: what it prints, and how it
// ends, is up to the test.
func client(t *testing.T, name, script string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the client of this test is a shell script")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}

func TestPackagesAreAskedOfTheirOwnClient(t *testing.T) {
	client(t, "npm", `test "$*" = "view --json @a/b@1.2.3 dist.integrity" || exit 1; echo '"sha512-AAAA"'`)
	client(t, "go", `test "$*" = "mod download -json example.com/m@v1.2.3" || exit 1; echo '{"Path":"example.com/m","Version":"v1.2.3","Sum":"h1:AAAA="}'`)
	client(t, "uv", `read spec; test "$spec" = "pkg==1.2.3" || exit 1; echo "pkg==1.2.3 --hash=sha256:`+strings.Repeat("ab", 32)+`"`)
	for _, c := range []struct {
		command []string
		want    registry.ServerPin
	}{
		{[]string{"npx", "-y", "@a/b@1.2.3", "/srv"}, registry.ServerPin{Package: "@a/b", Version: "1.2.3", Integrity: "sha512-AAAA"}},
		{[]string{"go", "run", "example.com/m/cmd@v1.2.3"}, registry.ServerPin{Package: "example.com/m/cmd", Version: "v1.2.3", Integrity: "example.com/m h1:AAAA="}},
		{[]string{"uvx", "pkg==1.2.3"}, registry.ServerPin{Package: "pkg", Version: "1.2.3", Integrity: "sha256:" + strings.Repeat("ab", 32)}},
	} {
		got, err := Command(t.Context(), c.command)
		if err != nil || got != c.want {
			t.Errorf("%q is %+v, %v; want %+v", c.command, got, err, c.want)
		}
	}
}

// A plain command is its bytes: a byte more is another program.
func TestProgramIsItsBytes(t *testing.T) {
	client(t, "desk", "exit 0\n")
	before, err := Command(t.Context(), []string{"desk"})
	if err != nil || before.Executable.IsZero() {
		t.Fatalf("%+v, %v", before, err)
	}
	client(t, "desk", "exit 0\n#\n")
	after, err := Command(t.Context(), []string{"desk"})
	if err != nil || after == before {
		t.Errorf("%+v, %v", after, err)
	}
}

func TestNothingIsKnown(t *testing.T) {
	for _, c := range []struct{ name, script, want string }{
		{"fails", "echo 'E404 not there' >&2; echo more >&2; exit 1", "npm failed (exit status 1): E404 not there"},
		{"no hash", "echo '\"\"'", "npm states no single hash"},
		{"several", "echo '[\"sha512-A\",\"sha512-B\"]'", "npm states no single hash"},
		{"much", "yes 0123456789012345678901234567890123456789 | head -c 9000000", "npm"},
	} {
		t.Run(c.name, func(t *testing.T) {
			client(t, "npm", c.script)
			_, err := Command(t.Context(), []string{"npx", "a@1.2.3"})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
	t.Run("not installed", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir())
		for command, want := range map[string]string{"npx": "npm is not installed here", "desk": "find the program"} {
			if _, err := Command(t.Context(), []string{command, "a@1.2.3"}); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		}
	})
	t.Run("hangs", func(t *testing.T) {
		client(t, "npm", "exec sleep 600")
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := Command(ctx, []string{"npx", "a@1.2.3"}); err == nil || !strings.Contains(err.Error(), "no answer in time") {
			t.Errorf("%v", err)
		}
	})
}

// A package client has no business with secrets that a configuration refers to.
func TestClientsSeeNoSecrets(t *testing.T) {
	got := clientEnvironment([]string{"PATH=/bin", "HOME=/root", "PLACET_TOKEN=secret", "WAREHOUSE_DSN=secret", "npm_config_registry=https://r",
		"GOPROXY=off", "AWS_SECRET_ACCESS_KEY=secret", "GOOGLE_API_KEY=secret", "HTTPS_PROXY=http://p", "=odd", "none"})
	want := []string{"PATH=/bin", "HOME=/root", "npm_config_registry=https://r", "GOPROXY=off", "HTTPS_PROXY=http://p"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
