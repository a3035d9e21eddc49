package guard

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/record"
)

// Folder is a root that a tool may reach: one for all, or one for each tenant or
// principal where its name says so. What fills the name is verified identity,
// never an argument.
type Folder struct{ template string }

// ParseFolder reads an absolute path in which {tenant} and {principal} stand for
// the caller's.
func ParseFolder(text string) (Folder, error) {
	plain := strings.NewReplacer("{tenant}", "t", "{principal}", "p").Replace(text)
	switch {
	case !filepath.IsAbs(plain) || filepath.Clean(plain) != plain:
		return Folder{}, errors.New("wants an absolute path without . and .. and without a slash at its end")
	case strings.ContainsAny(plain, "{}"):
		return Folder{}, errors.New("knows {tenant} and {principal} only")
	case plain == "/":
		return Folder{}, errors.New("must not be the whole file system")
	case strings.ContainsFunc(plain, unprintable):
		return Folder{}, errors.New("holds a character that cannot be seen")
	}
	return Folder{text}, nil
}

// String is the folder as it is written.
func (f Folder) String() string { return f.template }

// Fixed is the part that is the same for everybody.
func (f Folder) Fixed() string {
	before, _, varies := strings.Cut(f.template, "{")
	if !varies {
		return f.template
	}
	return filepath.Clean(filepath.Dir(before + "x"))
}

// segment is what a tenant's name must be to stand in a path as it is.
var segment = regexp.MustCompile(`^[A-Za-z0-9_@+=-][A-Za-z0-9_.@+=-]{0,127}$`)

// For is the folder of one caller. A tenant whose name is no plain file name has
// none.
func (f Folder) For(o record.Owner) (string, error) {
	if strings.Contains(f.template, "{tenant}") && !segment.MatchString(string(o.Tenant)) {
		return "", record.Errorf(record.Invalid, "the tenant's name cannot stand in a path")
	}
	if strings.Contains(f.template, "{principal}") && o.Principal.Subject == "" {
		return "", record.Errorf(record.Invalid, "there is no principal to stand in a path")
	}
	return strings.NewReplacer("{tenant}", string(o.Tenant), "{principal}", PrincipalFolder(o.Principal)).Replace(f.template), nil
}

// PrincipalFolder is a principal's name in a path: the subject as far as it is
// plain, and a digest of issuer and subject, since a subject alone is a different
// person at each issuer (rule I1).
func PrincipalFolder(p record.Principal) string {
	plain := regexp.MustCompile(`[^A-Za-z0-9_-]+`).ReplaceAllString(p.Subject, "_")
	digest := canon.Of("placet/folder/1", []byte(p.Issuer), []byte(p.Subject))
	return plain[:min(len(plain), 48)] + "-" + hex.EncodeToString(digest[:8])
}

// Open opens the caller's folder. Whatever is opened through the result lies
// below it: no symbolic link leads out, not even one that appears meanwhile. own
// are the files and folders of Placet itself, which no tool may reach (rule K2).
func (f Folder) Open(o record.Owner, own []string) (*os.Root, error) {
	dir, err := f.For(o)
	if err != nil {
		return nil, err
	}
	real, err := filepath.EvalSymlinks(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, record.Errorf(record.NotFound, "the folder of this caller is not there")
	case err != nil:
		return nil, record.Errorf(record.Unavailable, "the folder of this caller cannot be used")
	}
	if Meets(real, own) {
		return nil, record.Errorf(record.Forbidden, "the folder reaches files of Placet itself")
	}
	root, err := os.OpenRoot(real)
	if err != nil {
		return nil, record.Errorf(record.Unavailable, "the folder of this caller cannot be opened")
	}
	return root, nil
}

// Meets reports whether a folder holds one of the named files or folders, is one
// of them or lies below one. Symbolic links are followed where they can be.
func Meets(dir string, own []string) bool {
	dir = followed(dir)
	for _, o := range own {
		if o = followed(o); below(dir, o) || below(o, dir) {
			return true
		}
	}
	return false
}

// followed is a path with the symbolic links of the part that exists resolved.
func followed(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	rest := ""
	for at := path; ; at = filepath.Dir(at) {
		if real, err := filepath.EvalSymlinks(at); err == nil {
			return filepath.Join(real, rest)
		}
		if at == filepath.Dir(at) {
			return path
		}
		rest = filepath.Join(filepath.Base(at), rest)
	}
}

// below reports whether path is dir or lies below it, as texts.
func below(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// Stat looks a name up below an opened root, links and all, and reports why it
// cannot be used: nil when it is there or could be made.
func stat(root *os.Root, name string) error {
	_, err := root.Stat(name)
	if err == nil || errors.Is(err, fs.ErrNotExist) && !escapes(err) {
		return nil
	}
	return fmt.Errorf("cannot be followed: %w", err)
}

// escapes recognises os.Root's answer to a link that leads out. It is no
// fs.ErrNotExist in any release so far; a name that is both counts as leading out.
func escapes(err error) bool { return strings.Contains(err.Error(), "escapes") }
