package version

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/placet-dev/placet/record"
)

// Reader gives loading code its files.
type Reader struct {
	folder string // of placet.yaml: where paths of a version start
	read   func(string) ([]byte, error)
	stored Files // nil: they are read from disk
	seen   Files
}

// Disk reads what is on disk now, by a function such as os.ReadFile, for a
// configuration in a folder.
func Disk(folder string, read func(string) ([]byte, error)) *Reader {
	return &Reader{folder: folder, read: read, seen: Files{}}
}

// Stored reads what a version is made of, as if it lay in the folder. Nothing of the
// disk is looked at.
func Stored(folder string, files Files) *Reader {
	if files == nil {
		files = Files{}
	}
	return &Reader{folder: folder, stored: files, seen: Files{}}
}

// name is what a version calls a path of this machine.
func (r *Reader) name(path string) string {
	if rel, err := filepath.Rel(r.folder, path); err == nil && filepath.IsLocal(rel) {
		return filepath.ToSlash(rel)
	}
	return filepath.ToSlash(path)
}

// ReadFile gives one file. What is not there is fs.ErrNotExist.
func (r *Reader) ReadFile(path string) ([]byte, error) {
	name := r.name(path)
	if r.stored != nil {
		text, ok := r.stored[name]
		if !ok {
			return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
		}
		r.seen[name] = text
		return []byte(text), nil
	}
	text, err := r.read(path)
	if err == nil {
		r.seen[name] = string(text)
	}
	return text, err
}

// ReadTree gives the files of a folder, or one file, by their paths below it; read
// reads them from disk.
func (r *Reader) ReadTree(path string, read func(string) (map[string][]byte, error)) (map[string][]byte, error) {
	if r.stored != nil {
		return r.storedTree(path)
	}
	files, err := read(path)
	if err != nil {
		return nil, err
	}
	below := r.name(path) + "/"
	if info, err := os.Stat(path); err == nil && !info.IsDir() {
		below = strings.TrimSuffix(r.name(path), filepath.Base(path))
	}
	for name, text := range files {
		r.seen[strings.TrimPrefix(below, "./")+name] = string(text)
	}
	return files, nil
}

func (r *Reader) storedTree(path string) (map[string][]byte, error) {
	out, name := map[string][]byte{}, r.name(path)
	if text, ok := r.stored[name]; ok {
		r.seen[name] = text
		out[filepath.Base(path)] = []byte(text)
		return out, nil
	}
	below := strings.TrimPrefix(name+"/", "./")
	for _, p := range r.stored.Paths() {
		if rest, ok := strings.CutPrefix(p, below); ok {
			r.seen[p] = r.stored[p]
			out[rest] = []byte(r.stored[p])
		}
	}
	if len(out) == 0 {
		return nil, record.Errorf(record.Invalid, "the version holds no files of %s", name)
	}
	return out, nil
}

// Seen are the files that were given out: those that decide.
func (r *Reader) Seen() Files { return r.seen }

// Unread names files of the version that nobody asked for.
func (r *Reader) Unread() []string {
	return slices.DeleteFunc(r.stored.Paths(), func(p string) bool { _, ok := r.seen[p]; return ok })
}
