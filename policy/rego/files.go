package rego

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/record"
)

// Files are the texts of one layer: slash-separated path within the layer to
// content. A layer's version is the digest of those that decide.
type Files map[string][]byte

// fixtureDir holds fixtures for [Test] inside a layer's directory.
const fixtureDir = "fixtures"

const (
	maxFile  = 8 << 20
	maxFiles = 1000
)

// ReadFiles reads a layer from a directory, or from one .rego file. It takes
// .rego files, data files (data.json, data.yaml, data.yml; the directories
// above one are the path of its data) and fixtures, and leaves out the rest
// and everything hidden.
func ReadFiles(name string) (Files, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, record.Errorf(record.Invalid, "read policy: %w", err)
	}
	if !info.IsDir() {
		dir, base := filepath.Split(name)
		if !isPolicy(base) {
			return nil, record.Errorf(record.Invalid, "read policy: %q is neither a directory nor a .rego file", name)
		}
		return readFS(os.DirFS(filepath.Clean(dir+".")), base)
	}
	return ReadFS(os.DirFS(name))
}

// ReadFS is ReadFiles for a file system, such as an embedded one.
func ReadFS(fsys fs.FS) (Files, error) { return readFS(fsys, ".") }

func readFS(fsys fs.FS, root string) (Files, error) {
	files := Files{}
	err := fs.WalkDir(fsys, root, func(p string, d fs.DirEntry, err error) error {
		hidden := p != "." && strings.HasPrefix(path.Base(p), ".")
		switch {
		case err != nil:
			return err
		case hidden && d.IsDir():
			return fs.SkipDir
		case hidden || d.IsDir():
			return nil
		}
		return files.take(fsys, p)
	})
	if err != nil {
		return nil, record.Errorf(record.Invalid, "read policy: %w", err)
	}
	return files, nil
}

// take reads one file if it belongs to a layer. What looks as if it belonged
// and cannot be read is an error: a denial must not get lost silently.
func (f Files) take(fsys fs.FS, p string) error {
	info, err := fs.Stat(fsys, p) // follows a link: mounted configuration is often one
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return fmt.Errorf("%s is a link to a directory; put the files themselves there", p)
	case !belongs(p):
		return nil
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a file", p)
	case info.Size() > maxFile || len(f) == maxFiles:
		return fmt.Errorf("%s: a layer holds at most %d files of %d MiB", p, maxFiles, maxFile>>20)
	}
	f[p], err = fs.ReadFile(fsys, p)
	return err
}

func belongs(p string) bool { return isPolicy(p) || isTest(p) || isData(p) || isFixture(p) }

func isTest(p string) bool { return strings.HasSuffix(p, "_test.rego") }

func isPolicy(p string) bool { return path.Ext(p) == ".rego" && !isTest(p) && !inFixtures(p) }

func isData(p string) bool {
	switch path.Base(p) {
	case "data.json", "data.yaml", "data.yml":
		return !inFixtures(p)
	}
	return false
}

func inFixtures(p string) bool { return strings.HasPrefix(p, fixtureDir+"/") }

func isFixture(p string) bool {
	switch path.Ext(p) {
	case ".json", ".yaml", ".yml":
		return inFixtures(p)
	}
	return false
}

// pick returns the paths for which keep holds, sorted.
func (f Files) pick(keep func(string) bool) []string {
	var out []string
	for _, p := range slices.Sorted(maps.Keys(f)) {
		if keep(p) {
			out = append(out, p)
		}
	}
	return out
}

// version digests what decides: policy and data, not tests and fixtures.
func (f Files) version(query string) canon.Digest {
	parts := [][]byte{[]byte(query)}
	for _, p := range f.pick(func(p string) bool { return isPolicy(p) || isData(p) }) {
		parts = append(parts, []byte(p), f[p])
	}
	return canon.Of("placet/rego/1", parts...)
}
