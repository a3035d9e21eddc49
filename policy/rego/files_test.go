package rego_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/placet-dev/placet/policy/rego"
)

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestReadFiles(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"main.rego": "x", "sub/more.rego": "x", "sub/data.yaml": "x", "main_test.rego": "x", "fixtures/a.yaml": "x",
		"README.md": "x", "other.json": "x", ".hidden.rego": "x", ".git/x.rego": "x", "..data/main.rego": "x",
	})
	// Mounted configuration is a link to a file in a hidden directory.
	if err := os.Symlink("..data/main.rego", filepath.Join(dir, "linked.rego")); err != nil {
		t.Fatal(err)
	}
	files, err := rego.ReadFiles(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"fixtures/a.yaml", "linked.rego", "main.rego", "main_test.rego", "sub/data.yaml", "sub/more.rego"}
	if got := slices.Sorted(maps.Keys(files)); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	one, err := rego.ReadFiles(filepath.Join(dir, "main.rego"))
	if err != nil || len(one) != 1 || string(one["main.rego"]) != "x" {
		t.Errorf("one file: %v, %v", one, err)
	}
}

// What looks like part of a policy and cannot be read is an error.
func TestReadFilesRefuses(t *testing.T) {
	for name, prepare := range map[string]func(dir string) error{
		"a dangling link":       func(dir string) error { return os.Symlink("nowhere.rego", filepath.Join(dir, "deny.rego")) },
		"a link to a directory": func(dir string) error { return os.Symlink(".hidden", filepath.Join(dir, "sub")) },
		"a huge file": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "big.rego"), []byte(strings.Repeat("#", 9<<20)), 0o644)
		},
	} {
		dir := t.TempDir()
		write(t, dir, map[string]string{"main.rego": "x", ".hidden/a.rego": "x"})
		if err := prepare(dir); err != nil {
			t.Fatal(err)
		}
		if _, err := rego.ReadFiles(dir); err == nil {
			t.Errorf("%s was passed over", name)
		}
	}
	for _, name := range []string{"no-such-directory", "files_test.go"} {
		if _, err := rego.ReadFiles(name); err == nil {
			t.Errorf("%s was read", name)
		}
	}
}
