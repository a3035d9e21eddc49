package registry

import (
	"iter"
	"maps"
	"slices"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/yamlfile"
)

// Snapshot is one loaded state of the registry. It never changes.
type Snapshot struct {
	environment string
	all         map[string]*Tool // callable and quarantined
	servers     map[string]*Server
	quarantined map[string]string // tool to reason
	held        map[string]string // server to reason: all its tools are quarantined
	warnings    yamlfile.Problems

	names    []string           // of callable tools, sorted
	reached  map[Method][]*Tool // callable, by name
	upstream map[[2]string]*Tool
	digest   canon.Digest
}

func newSnapshot(environment string) *Snapshot {
	return &Snapshot{
		environment: environment, all: map[string]*Tool{}, servers: map[string]*Server{},
		quarantined: map[string]string{}, held: map[string]string{},
	}
}

// seal computes what is looked up often.
func (s *Snapshot) seal() {
	parts := [][]byte{[]byte(s.environment)}
	s.reached = map[Method][]*Tool{}
	s.upstream = make(map[[2]string]*Tool, len(s.all))
	for _, name := range sortedKeysOf(s.all) {
		t := s.all[name]
		at := [2]string{t.Server, t.Offered()}
		if s.upstream[at] == nil || s.upstream[at].Method == MethodCompletion {
			s.upstream[at] = t
		}
		parts = append(parts, s.all[name].Digest[:], []byte(s.quarantined[name]))
		if _, held := s.quarantined[name]; !held {
			s.names = append(s.names, name)
			s.reached[t.Method] = append(s.reached[t.Method], t)
		}
	}
	for _, name := range sortedKeysOf(s.servers) {
		parts = append(parts, s.servers[name].Digest[:])
	}
	s.digest = canon.Of("placet/registry/1", parts...)
	s.warnings = s.warnings.Sorted()
}

// Tool returns a tool that may be called. A quarantined tool, one for another
// environment and one that nobody named are the same: not there.
func (s *Snapshot) Tool(name string) (*Tool, bool) {
	if _, held := s.quarantined[name]; held {
		return nil, false
	}
	t, ok := s.all[name]
	return t, ok
}

// Tools yields the tools that may be called, in the order of their names.
func (s *Snapshot) Tools() iter.Seq[*Tool] {
	return func(yield func(*Tool) bool) {
		for _, n := range s.names {
			if !yield(s.all[n]) {
				return
			}
		}
	}
}

// Reached are the entries that may be called by a method, in the order of their
// names. The slice must not be changed.
func (s *Snapshot) Reached(m Method) []*Tool { return s.reached[m] }

// Len is the number of tools that may be called.
func (s *Snapshot) Len() int { return len(s.names) }

// Server returns a server by name.
func (s *Snapshot) Server(name string) (*Server, bool) {
	v, ok := s.servers[name]
	return v, ok
}

// Servers yields the servers in the order of their names.
func (s *Snapshot) Servers() iter.Seq[*Server] {
	return func(yield func(*Server) bool) {
		for _, n := range sortedKeysOf(s.servers) {
			if !yield(s.servers[n]) {
				return
			}
		}
	}
}

// Digest is equal for two snapshots exactly when they decide alike.
func (s *Snapshot) Digest() canon.Digest { return s.digest }

// Environment is the one the snapshot was loaded for.
func (s *Snapshot) Environment() string { return s.environment }

// Warnings are what an operator should know and what is no error.
func (s *Snapshot) Warnings() yamlfile.Problems { return s.warnings }

// Quarantine is a tool that is named and not callable.
type Quarantine struct {
	Tool   *Tool
	Reason string
}

// Quarantined lists the tools that are named and not callable, by name.
func (s *Snapshot) Quarantined() []Quarantine {
	var out []Quarantine
	for _, n := range sortedKeysOf(s.quarantined) {
		if t := s.all[n]; t != nil {
			out = append(out, Quarantine{t, s.quarantined[n]})
		}
	}
	return out
}

// ByUpstream returns the tool, callable or quarantined, that stands for a
// server's own name ([Offer.Key]); of several, the first by name.
func (s *Snapshot) ByUpstream(server, upstream string) (*Tool, bool) {
	t, ok := s.upstream[[2]string{server, upstream}]
	return t, ok
}

// Unlisted returns those of a server's offers that no entry names.
func (s *Snapshot) Unlisted(server string, offers []Offer) []Offer {
	return slices.DeleteFunc(slices.Clone(offers), func(o Offer) bool {
		_, named := s.ByUpstream(server, o.Key())
		return named
	})
}

func sortedKeysOf[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}
