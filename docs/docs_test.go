// Package docs_test keeps the documents true of the tree they lie in.
package docs_test

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

const root = ".."

// documents are the texts for people: those at the root, and everything in docs.
func documents(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	read := func(name string) {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		out[name] = string(text)
	}
	read("README.md")
	read("CHANGELOG.md")
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && filepath.Ext(name) != ".go" {
			read(path.Join("docs", filepath.ToSlash(name)))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 10 {
		t.Fatalf("only %d documents: the test looks in the wrong place", len(out))
	}
	return out
}

// prose removes code blocks and code spans, in which nothing is a link.
func prose(text string) string {
	text = regexp.MustCompile("(?s)```.*?```").ReplaceAllString(text, "")
	return regexp.MustCompile("`[^`\n]*`").ReplaceAllString(text, "")
}

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// TestLinksResolve follows every relative link to its file, and to its heading.
func TestLinksResolve(t *testing.T) {
	all, followed := documents(t), 0
	for name, text := range all {
		if path.Ext(name) != ".md" {
			continue
		}
		for _, m := range link.FindAllStringSubmatch(prose(text), -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			followed++
			file, heading, _ := strings.Cut(m[1], "#")
			target := name
			if file != "" {
				target = path.Join(path.Dir(name), file)
			}
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(target))); err != nil || strings.HasPrefix(target, "../") {
				t.Errorf("%s: the link %s leads nowhere", name, m[1])
				continue
			}
			if heading != "" && !headings(all[target])[heading] {
				t.Errorf("%s: %s has no heading for the link %s", name, target, m[1])
			}
		}
	}
	if followed < 20 {
		t.Fatalf("only %d links were followed", followed)
	}
}

// headings are a document's headings as links spell them.
func headings(text string) map[string]bool {
	out := map[string]bool{}
	for line := range strings.Lines(text) {
		if title := strings.TrimLeft(line, "#"); title != line {
			out[strings.Map(func(r rune) rune {
				switch {
				case r == ' ':
					return '-'
				case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
					return unicode.ToLower(r)
				}
				return -1
			}, strings.TrimSpace(title))] = true
		}
	}
	return out
}

// TestEveryDocumentIsLinked: what is written is found from the README, directly
// or through another document.
func TestEveryDocumentIsLinked(t *testing.T) {
	all := documents(t)
	reached, next := map[string]bool{"README.md": true}, []string{"README.md"}
	for len(next) > 0 {
		name := next[0]
		next = next[1:]
		for _, m := range link.FindAllStringSubmatch(prose(all[name]), -1) {
			file, _, _ := strings.Cut(m[1], "#")
			if target := path.Join(path.Dir(name), file); all[target] != "" && !reached[target] {
				reached[target] = true
				next = append(next, target)
			}
		}
	}
	for name := range all {
		if path.Ext(name) == ".md" && !reached[name] && path.Dir(name) != "docs/sample" {
			t.Errorf("no way leads from README.md to %s", name)
		}
	}
}

// source is the text of the tree's Go files.
func source(t *testing.T) (tests, everything string) {
	t.Helper()
	var a, b strings.Builder
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "node_modules"):
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(name) != ".go":
			return nil
		}
		text, err := os.ReadFile(name)
		if strings.HasSuffix(name, "_test.go") {
			a.Write(text)
		}
		b.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return a.String(), b.String()
}

// TestNamedTestsExist: a guarantee does not rest on a test that is gone. A name
// after a slash is that of a subtest.
func TestNamedTestsExist(t *testing.T) {
	tests, everything := source(t)
	named := regexp.MustCompile(`\b((?:Test|Fuzz)[A-Z][A-Za-z0-9_]*)(?:/([A-Za-z0-9_]+))?`)
	count := 0
	for name, text := range documents(t) {
		if path.Ext(name) != ".md" {
			continue
		}
		for _, m := range named.FindAllStringSubmatch(text, -1) {
			count++
			if !strings.Contains(tests, "func "+m[1]+"(") {
				t.Errorf("%s: there is no test %s", name, m[1])
			}
			if m[2] != "" && !strings.Contains(everything, `"`+m[2]+`"`) {
				t.Errorf("%s: there is no subtest %s", name, m[0])
			}
		}
	}
	if count < 50 {
		t.Fatalf("only %d tests are named", count)
	}
	text := documents(t)["docs/guarantees.md"]
	for _, promise := range []string{"P1 ", "P2 ", "P3 ", "P4 ", "P5 ", "P6 ", "P7 ", "P8 ", "P9 ", "P10 "} {
		if !strings.Contains(text, "\n## "+promise) {
			t.Errorf("guarantees.md says nothing of %s", promise)
		}
	}
}

// TestNamedFilesExist: the files that documents name in code spans are there.
func TestNamedFilesExist(t *testing.T) {
	file := regexp.MustCompile("`((?:[a-z]+/)*[a-z]+/[a-z_0-9]+\\.(?:go|sql|md|yml))`")
	count := 0
	for name, text := range documents(t) {
		for _, m := range file.FindAllStringSubmatch(text, -1) {
			count++
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(m[1]))); err != nil {
				t.Errorf("%s names %s, which is not there", name, m[1])
			}
		}
	}
	if count < 40 {
		t.Fatalf("only %d files are named", count)
	}
}

// TestDependenciesHaveANote: a library that is linked has its line, with a reason.
func TestDependenciesHaveANote(t *testing.T) {
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	note, count := documents(t)["docs/decisions/0001-dependencies.md"], 0
	for line := range strings.Lines(string(mod)) {
		name, version, ok := strings.Cut(strings.TrimSpace(strings.TrimPrefix(line, "require ")), " ")
		if !ok || !strings.HasPrefix(version, "v") || strings.Contains(version, "// indirect") {
			continue
		}
		count++
		if !strings.Contains(note, "`"+name+"`") {
			t.Errorf("docs/decisions/0001-dependencies.md says nothing of %s", name)
		}
	}
	if count < 5 {
		t.Fatalf("only %d direct dependencies were found", count)
	}
}

// TestReadmeIsOneScreen: whoever comes by reads all of it.
func TestReadmeIsOneScreen(t *testing.T) {
	text := documents(t)["README.md"]
	if n := strings.Count(text, "\n"); n > 60 {
		t.Errorf("README.md has %d lines, 60 at most", n)
	}
	for _, command := range []string{"go run ./cmd/placet demo", "go test ./..."} {
		if !strings.Contains(text, "\n    "+command+"\n") {
			t.Errorf("README.md does not show %q", command)
		}
	}
}

// TestNoPathsOfOneMachine: a path that exists on the author's machine only helps
// nobody.
func TestNoPathsOfOneMachine(t *testing.T) {
	machine := regexp.MustCompile(`(?:^|[\s"'` + "`" + `(=:])(/(?:home|root|work|tmp|Users|private|mnt|var/folders)/|[A-Z]:\\|file:///)`)
	for name, text := range documents(t) {
		n := 0
		for line := range strings.Lines(text) {
			n++
			if m := machine.FindString(line); m != "" {
				t.Errorf("%s:%d: a path of one machine: %s", name, n, strings.TrimSpace(m))
			}
		}
	}
	for _, bad := range []string{"see /home/me/x", "(/tmp/y)", "`/root/z`", `C:\x`, "file:///x"} {
		if !machine.MatchString(bad) {
			t.Errorf("the test does not see %q", bad)
		}
	}
}
