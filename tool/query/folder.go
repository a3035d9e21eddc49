package query

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"

	"github.com/placet-dev/placet/registry"
)

// folder holds a server's queries: on the disk, or as the active version has them.
type folder struct {
	root *os.Root
	held map[string][]byte
}

func (v *Invoker) open(s *registry.Server) (folder, error) {
	if v.held != nil {
		if held, ok := v.held(s.Queries); ok {
			return folder{held: held}, nil
		}
	}
	root, err := os.OpenRoot(s.Queries)
	return folder{root: root}, err
}

func (f folder) close() {
	if f.root != nil {
		_ = f.root.Close() // it was only read
	}
}

// names of all files, sorted.
func (f folder) names() (out []string, err error) {
	if f.root == nil {
		return slices.Sorted(maps.Keys(f.held)), nil
	}
	entries, err := fs.ReadDir(f.root.FS(), ".")
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out, err
}

// text of one file, or fs.ErrNotExist.
func (f folder) text(name string) (string, error) {
	if f.root == nil {
		text, ok := f.held[name]
		if !ok {
			return "", fs.ErrNotExist
		}
		return string(text), nil
	}
	info, err := f.root.Stat(name)
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("is no file")
	}
	if err != nil {
		return "", err
	}
	file, err := f.root.Open(name)
	if err != nil {
		return "", err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	return string(text), err
}
