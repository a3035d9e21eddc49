package registry

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/guard"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/yamlfile"
)

// Options say how to read a registry.
type Options struct {
	Environment string // tools for other environments are as if not listed
	// Group and Principal say who a reference in callers means: group:NAME,
	// group:NAME@ISSUER, SUBJECT, SUBJECT@ISSUER. Without them only references
	// that name an issuer can be read.
	Group     func(ref string) (record.Group, error)
	Principal func(ref string) (record.Principal, error)
	Declared  []Declared                        // tools of the embedding program
	ReadFile  func(path string) ([]byte, error) // os.ReadFile if nil
	// Measure says what a server's command would fetch or run now; a command that
	// differs from its pin, or cannot be measured, is quarantined. Nil: not compared.
	Measure func(command []string) (ServerPin, error)
	Own     []string // files and folders of Placet itself, which no tool may reach (rule K2)
}

// Declared is a tool whose handler and schema are Go code.
type Declared struct {
	Name  string
	Entry Entry // Server names the group of handlers; "" means "inproc"
	Offer Offer // Name may be empty
}

// Source is one registry file with its lock.
type Source struct {
	Name string // what problems call it
	Text []byte
	Lock []byte // nil when there is no lock yet

	Folder string // that relative paths in the file start from
}

// Load reads registry files, each with the lock beside it, and everything that
// is declared in code. The error is yamlfile.Problems when a file is at fault.
func Load(files []string, o Options) (*Snapshot, error) {
	read := o.ReadFile
	if read == nil {
		read = os.ReadFile
	}
	var sources []Source
	var ps yamlfile.Problems
	for _, f := range files {
		text, err := read(f)
		if err != nil {
			ps = append(ps, yamlfile.Problem{File: f, Message: "cannot be read: " + reason(err)})
			continue
		}
		lock, err := read(LockPath(f))
		if err != nil && !isMissing(err) {
			ps = append(ps, yamlfile.Problem{File: LockPath(f), Message: "cannot be read: " + reason(err)})
		}
		sources = append(sources, Source{Name: shortName(f, files), Text: text, Lock: lock, Folder: filepath.Dir(f)})
	}
	if len(ps) > 0 {
		return nil, ps
	}
	return Parse(sources, o)
}

// shortName is a file's name without its folder, unless another has the same.
func shortName(file string, all []string) string {
	base, same := filepath.Base(file), 0
	for _, f := range all {
		if filepath.Base(f) == base {
			same++
		}
	}
	if same > 1 {
		return file
	}
	return base
}

func reason(err error) string {
	if e, ok := err.(*fs.PathError); ok {
		return e.Err.Error()
	}
	return err.Error()
}

func isMissing(err error) bool { return os.IsNotExist(err) }

// LockPath is where the lock of a registry file lies: beside it, under the same
// name with the extension lock.
func LockPath(file string) string {
	return strings.TrimSuffix(file, filepath.Ext(file)) + ".lock"
}

// Parse is Load for texts that are already read.
func Parse(sources []Source, o Options) (*Snapshot, error) {
	b := &builder{options: o, snapshot: newSnapshot(o.Environment), tools: map[string]string{}, schemas: map[canon.Digest]*schema{}, zones: map[string]guard.Zone{}}
	files, locks := make([]File, len(sources)), make([]*Lock, len(sources))
	for i, s := range sources {
		b.problems = append(b.problems, yamlfile.Decode(s.Name, s.Text, &files[i])...)
		lock, ps := ReadLock(LockPath(s.Name), s.Lock)
		b.problems = append(b.problems, ps...)
		locks[i] = lock
	}
	if len(b.problems) > 0 {
		return nil, b.problems
	}
	for _, f := range files {
		b.networks(f)
	}
	for i, f := range files {
		b.servers(f, locks[i], sources[i].Folder)
	}
	for i, f := range files {
		b.fileTools(f, locks[i], sources[i].Folder)
	}
	for _, d := range o.Declared {
		b.declared(d)
	}
	b.complete()
	b.lookups()
	b.others()
	b.dryRuns()
	b.reconciles()
	if len(b.problems) > 0 {
		return nil, b.problems.Sorted()
	}
	b.snapshot.seal()
	return b.snapshot, nil
}

// builder gathers one snapshot and everything that is wrong on the way.
type builder struct {
	options  Options
	snapshot *Snapshot
	problems yamlfile.Problems
	tools    map[string]string        // name to place, also of tools for other environments
	schemas  map[canon.Digest]*schema // compiled, by text
	zones    map[string]guard.Zone
	asked    []asked   // guards whose look-ups are checked at the end
	mentions []mention // entries that name other tools, checked at the end

	completions []completion // entries that complete others, finished at the end
}

func (b *builder) fail(place yamlfile.Place, path, format string, args ...any) {
	b.problems = append(b.problems, problemAt(place, path, fmt.Sprintf(format, args...)))
}

func (b *builder) warn(place yamlfile.Place, path, format string, args ...any) {
	b.snapshot.warnings = append(b.snapshot.warnings, problemAt(place, path, fmt.Sprintf(format, args...)))
}

func problemAt(place yamlfile.Place, path, message string) yamlfile.Problem {
	p := yamlfile.Problem{File: string(place), Path: path, Message: message}
	if i := strings.LastIndex(p.File, ":"); i > 0 {
		if _, err := fmt.Sscanf(p.File[i+1:], "%d", &p.Line); err == nil {
			p.File = p.File[:i]
		}
	}
	return p
}

var (
	// toolName is rule G3's form of a name.
	toolName     = regexp.MustCompile(`^[a-z][a-z0-9_.-]{0,63}$`)
	argumentName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,127}$`)
	envName      = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)
