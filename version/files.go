package version

import (
	"encoding/json"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/record"
)

// Files are the texts of a version, by path: slash-separated, from the folder of
// placet.yaml where they are below it.
type Files map[string]string

const (
	// MaxBytes and MaxFiles bound a version.
	MaxBytes = 8 << 20
	MaxFiles = 4000
)

// Paths are those of the files, sorted.
func (f Files) Paths() []string { return slices.Sorted(maps.Keys(f)) }

// Encode writes files in the one form that a version is stored in.
func Encode(f Files) ([]byte, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	return canon.Marshal(f)
}

// Decode reads what Encode wrote, and refuses everything else.
func Decode(content []byte) (Files, error) {
	if len(content) > 8*MaxBytes {
		return nil, record.Errorf(record.TooLarge, "a version's files are larger than %d MiB", MaxBytes>>20)
	}
	var f Files
	if err := json.Unmarshal(content, &f); err != nil {
		return nil, record.Errorf(record.Invalid, "the stored files of a version cannot be read")
	}
	again, err := Encode(f)
	if err != nil {
		return nil, err
	}
	if string(again) != string(content) {
		return nil, record.Errorf(record.Invalid, "the stored files of a version are not in the form in which this program writes them")
	}
	return f, nil
}

func (f Files) check() error {
	if len(f) > MaxFiles {
		return record.Errorf(record.Invalid, "a version holds at most %d files, not %d", MaxFiles, len(f))
	}
	size := 0
	for path, text := range f {
		if !utf8.ValidString(path) || !utf8.ValidString(text) {
			return record.Errorf(record.Invalid, "the file %q is not UTF-8 text", path)
		}
		size += len(path) + len(text)
	}
	if size > MaxBytes {
		return record.Errorf(record.TooLarge, "a version's files are larger than %d MiB", MaxBytes>>20)
	}
	return nil
}
