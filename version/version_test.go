package version_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/version"
)

// What is read from disk reads alike from the version, in another folder too, and
// nothing beside it does.
func TestReader(t *testing.T) {
	here, there := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{"tools.yaml": "a", "policy/one/main.rego": "b", "policy/one/deep/data.json": "c", "single.rego": "d", "secret.txt": "s"} {
		path := filepath.Join(here, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tree := func(name string) (map[string][]byte, error) {
		if info, err := os.Stat(name); err == nil && !info.IsDir() {
			text, err := os.ReadFile(name)
			return map[string][]byte{filepath.Base(name): text}, err
		}
		out := map[string][]byte{}
		err := fs.WalkDir(os.DirFS(name), ".", func(p string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				out[p], err = os.ReadFile(filepath.Join(name, p))
			}
			return err
		})
		return out, err
	}
	use := func(r *version.Reader, folder string) map[string]string {
		t.Helper()
		got := map[string]string{}
		text, err := r.ReadFile(filepath.Join(folder, "tools.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		got["tools"] = string(text)
		if _, err := r.ReadFile(filepath.Join(folder, "tools.lock")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a lock that is not there: %v", err)
		}
		for _, path := range []string{"policy/one", "single.rego"} {
			files, err := r.ReadTree(filepath.Join(folder, path), tree)
			if err != nil {
				t.Fatal(err)
			}
			for name, text := range files {
				got[path+":"+name] = string(text)
			}
		}
		return got
	}
	disk := version.Disk(here, os.ReadFile)
	want := use(disk, here)
	content, err := version.Encode(disk.Seen())
	if err != nil {
		t.Fatal(err)
	}
	files, err := version.Decode(content)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"policy/one/deep/data.json", "policy/one/main.rego", "single.rego", "tools.yaml"}, files.Paths()); d != "" {
		t.Fatal(d)
	}
	stored := version.Stored(there, files)
	if d := cmp.Diff(want, use(stored, there)); d != "" {
		t.Error(d)
	}
	if left := stored.Unread(); len(left) != 0 {
		t.Errorf("unread: %v", left)
	}
	again, err := version.Encode(stored.Seen())
	if err != nil || string(again) != string(content) {
		t.Errorf("a version that was loaded is another one: %v", err)
	}
	if _, err := version.Stored(here, files).ReadFile(filepath.Join(here, "secret.txt")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the disk was looked at: %v", err)
	}
	if _, err := version.Stored(here, files).ReadTree(filepath.Join(here, "elsewhere"), tree); err == nil {
		t.Error("a folder that the version does not hold was read")
	}
}

func TestBounds(t *testing.T) {
	many := version.Files{}
	for i := range version.MaxFiles + 1 {
		many[strings.Repeat("x", i)] = ""
	}
	for name, c := range map[string]struct {
		files version.Files
		kind  record.Kind
	}{
		"not UTF-8":      {version.Files{"a": "\xff"}, record.Invalid},
		"too many files": {many, record.Invalid},
		"too large":      {version.Files{"a": strings.Repeat("x", version.MaxBytes)}, record.TooLarge},
	} {
		if _, err := version.Encode(c.files); record.KindOf(err) != c.kind {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := version.Encode(version.Files{}); err != nil {
		t.Errorf("a program whose tools are all its own: %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	for _, seed := range []string{`{}`, `{"a":"b"}`, `{"a":"b","a":"c"}`, `{"b":"","a":""}`, `[]`, `{"a":1}`, `null`, `{"a":"\ud800"}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		files, err := version.Decode(content)
		if err != nil {
			return
		}
		again, err := version.Encode(files)
		if err != nil || string(again) != string(content) {
			t.Errorf("%q reads as %v and writes as %q (%v)", content, files, again, err)
		}
	})
}
