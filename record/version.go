package record

import (
	"slices"
	"time"

	"github.com/placet-dev/placet/canon"
)

// OtherVersion is what a refusal says whose premise was a version that is not the
// active one any more (rule C3).
const OtherVersion = "another version is active"

// Version is one version of what decides, as a store keeps it: the files that it is
// made of, so that any process can load it (rule H2). It never changes.
type Version struct {
	Digest  string       // of all that decides; what an activation names
	Content []byte       // the files, in their canonical form
	Sum     canon.Digest // of Content: what the store gives back is what was given to it
	Parts   []Part       // what Digest is made of, so that a difference can be named
	Needs   []string     // what a program must know to decide by it
	Who     Who
	At      time.Time
}

// Part is a named piece of what decides, with its digest: a tool, a layer, or what
// the configuration says.
type Part struct {
	Name   string       `json:"name"`
	Digest canon.Digest `json:"digest"`
}

// NewVersion is a version with its sum.
func NewVersion(digest string, content []byte, parts []Part, needs []string, who Who, at time.Time) Version {
	return Version{Digest: digest, Content: content, Sum: ContentSum(content), Parts: parts, Needs: needs, Who: who, At: at}
}

// ContentSum is the digest of a version's files.
func ContentSum(content []byte) canon.Digest { return canon.Of("placet/version/1", content) }

// Sound says that the content is what was stored.
func (v Version) Sound() error {
	if len(v.Content) == 0 || ContentSum(v.Content) != v.Sum {
		return Errorf(Unavailable, "the stored files of version %s are not what was stored; look at the database, and activate another version", v.Digest)
	}
	return nil
}

// Binding, version and input forms that this program knows. A version that needs
// another was activated by a newer program.
var knownNeeds = []string{"binding/1", "files/1", "input/1", "states/1"}

// Needs is what a version that this program makes needs of those that load it.
func Needs() []string { return slices.Clone(knownNeeds) }

// Known says whether this program knows all that a version needs (rule H2).
func (v Version) Known() error {
	for _, n := range v.Needs {
		if !slices.Contains(knownNeeds, n) {
			return Errorf(Unavailable, "version %s was made by a newer program: it needs %q, which this one does not know; replace this program", v.Digest, n)
		}
	}
	return nil
}

// Differences names the parts that two versions have in different forms, or that one of
// them does not have.
func Differences(a, b []Part) []string {
	was := make(map[string]canon.Digest, len(a))
	for _, p := range a {
		was[p.Name] = p.Digest
	}
	var out []string
	for _, p := range b {
		if d, ok := was[p.Name]; !ok || d != p.Digest {
			out = append(out, p.Name)
		}
		delete(was, p.Name)
	}
	for name := range was {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// FilesFrom says where an activation took its files from.
type FilesFrom string

const (
	FilesOwn    FilesFrom = "server"   // those of the server that activated it
	FilesSent   FilesFrom = "operator" // an operator sent them
	FilesStored FilesFrom = "store"    // of an earlier version: going back
)

// KeepVersion stores the files of a version that is active already: a program before
// this one stored none.
func KeepVersion(v Version) (Change, error) {
	if err := v.Sound(); err != nil {
		return Change{}, err
	}
	return Change{Facts{At: v.At, Version: &v, Events: []Event{{At: v.At, Kind: EventVersionKept, Who: v.Who, Body: Body{DecidedBy: v.Digest}.encode()}}}}, nil
}

// Valid reports whether s is a state that this program knows.
func (s RunState) Valid() bool { return s == AwaitingUser || s == ModelPending || s == Terminated }

// Valid reports whether s is a state that this program knows.
func (s ApprovalState) Valid() bool { return slices.Contains(ApprovalStates(), s) }
