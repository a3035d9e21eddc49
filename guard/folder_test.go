package guard_test

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/placet-dev/placet/guard"
	"github.com/placet-dev/placet/record"
)

var anna = record.Owner{Tenant: "acme", Principal: record.Principal{Issuer: "https://idp.example", Subject: "anna"}, Agent: "bot"}

// tree is a folder of two tenants, and beside it what nobody may read.
func tree(t *testing.T) (dir string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("files/acme/a.txt", "acme's")
	write("files/acme/.. hidden/b.txt", "acme's")
	write("files/globex/a.txt", "globex's")
	write("placet/state.db", "placet's")
	for link, to := range map[string]string{
		"files/acme/near": "a.txt", "files/acme/other": "../globex/a.txt", "files/acme/up": "..",
		"files/acme/db": filepath.Join(dir, "placet"), "files/acme/later": filepath.Join(dir, "placet", "new.txt"),
	} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestFolderIsTheCallersAlone(t *testing.T) {
	dir := tree(t)
	f, err := guard.ParseFolder(filepath.Join(dir, "files/{tenant}"))
	if err != nil {
		t.Fatal(err)
	}
	root, err := f.Open(anna, []string{filepath.Join(dir, "placet")})
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	read := func(name string) string {
		file, err := root.Open(name)
		if err != nil {
			return ""
		}
		defer file.Close()
		text, err := io.ReadAll(file)
		if err != nil {
			return ""
		}
		return string(text)
	}
	for _, name := range []string{"a.txt", "near", ".. hidden/b.txt"} {
		if read(name) != "acme's" {
			t.Errorf("%s cannot be read", name)
		}
	}
	for _, name := range []string{"other", "../globex/a.txt", "up/globex/a.txt", "db/state.db", filepath.Join(dir, "placet/state.db")} {
		if got := read(name); got != "" {
			t.Errorf("%s reads %q", name, got)
		}
	}
	if _, err := f.Open(anna, []string{filepath.Join(dir, "files/acme/a.txt")}); record.KindOf(err) != record.Forbidden {
		t.Errorf("a root that holds Placet's own file: %v", err)
	}
	elsewhere := anna
	for _, tenant := range []record.TenantID{"", "..", ".", "acme/../globex", "a\x00", "initech", ".acme"} {
		elsewhere.Tenant = tenant
		if root, err := f.Open(elsewhere, nil); err == nil {
			root.Close()
			t.Errorf("tenant %q has a folder", tenant)
		}
	}
}

func TestFoldersOfPrincipalsNeverMeet(t *testing.T) {
	f, err := guard.ParseFolder("/srv/{tenant}/{principal}")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]record.Principal{}
	for _, p := range []record.Principal{{Issuer: "a", Subject: "anna"}, {Issuer: "b", Subject: "anna"}, {Issuer: "a", Subject: "../anna"},
		{Issuer: "a", Subject: ".."}, {Issuer: "a", Subject: "an/na"}, {Issuer: "a", Subject: "an na"}, {Issuer: "a", Subject: "ännа"}} {
		o := anna
		o.Principal = p
		dir, err := f.For(o)
		if err != nil || filepath.Dir(dir) != "/srv/acme" || filepath.Clean(dir) != dir {
			t.Fatalf("%v has %q: %v", p, dir, err)
		}
		if other, ok := seen[dir]; ok {
			t.Errorf("%v and %v share %s", p, other, dir)
		}
		seen[dir] = p
	}
	for _, bad := range []string{"", "srv", "/", "/srv/", "/srv/../x", "/srv/{user}", "/srv/{tenant", "/srv/\n"} {
		if _, err := guard.ParseFolder(bad); err == nil {
			t.Errorf("%q is a folder", bad)
		}
	}
}
