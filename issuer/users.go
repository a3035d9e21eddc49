package issuer

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/placet-dev/placet/record"
)

// Users is where the directory comes from. It is asked at every decision.
type Users interface {
	Directory(ctx context.Context) (*Directory, error)
}

// Directory implements [Users]: the directory is what it is.
func (d *Directory) Directory(context.Context) (*Directory, error) { return d, nil }

// maxFile bounds a users file.
const maxFile = 1 << 20

// File is a users file that is read at every decision, so that whoever was edited
// out is gone at once. While it cannot be read, or is wrong, nobody has a session:
// what was edited out is not known then.
func File(path string) Users { return &file{path: path} }

type file struct {
	path string

	mu   sync.Mutex
	text []byte // what dir was read from
	dir  *Directory
}

// Directory implements [Users].
func (f *file) Directory(context.Context) (*Directory, error) {
	text, err := readFile(f.path)
	if err != nil {
		return nil, record.Because(record.Unavailable, err, "the users file %s cannot be read", f.path)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dir != nil && bytes.Equal(text, f.text) {
		return f.dir, nil
	}
	dir, err := Parse(filepath.Base(f.path), text)
	if err != nil {
		return nil, err
	}
	f.text, f.dir = text, dir
	return dir, nil
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = record.Errorf(record.Invalid, "it is longer than %d bytes", maxFile)
	}
	return text, err
}
