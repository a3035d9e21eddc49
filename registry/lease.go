package registry

import "github.com/placet-dev/placet/yamlfile"

// Acceptance is how a person takes a weaker setting upon them.
type Acceptance string

func (Acceptance) Choices() []string { return []string{"accepted"} }

// strict reports whether a tool's effect is one that protects itself: the tools
// that labels make ask, and that are leased only to whom they check (rules F5, E6).
func (t *Tool) strict() bool {
	return t.Destructive || t.Financial || t.Sink || t.Privacy || len(t.Feeds) > 0
}

// lease checks what an entry says that a framework runs itself, or that it says
// nothing of it. What a framework reports is its word: it is never clean, and no
// field of it counts (rule E6).
func (b *builder) lease(t *Tool, s *Server, e Entry, folder string, place yamlfile.Place) {
	path := "tools." + t.Name
	if s.Kind != KindLease {
		if e.Schema != "" {
			b.fail(place, path+".schema", "is for tools of a server with lease; what other servers offer has its own")
		}
		if e.Unverified != "" {
			b.fail(place, path+".unverified_lease", "is for tools of a server with lease")
		}
		return
	}
	t.Unverified = e.Unverified != ""
	switch {
	case t.Unverified && s.DispatchToken:
		b.fail(place, path+".unverified_lease", "has nothing to accept: the server's tools verify the dispatch token")
	case !t.Unverified && !s.DispatchToken && t.strict():
		b.fail(place, path, "is leased to whoever runs it, and nothing checks that: set dispatch_token: true on server %s if the tool verifies the token, or unverified_lease: accepted here", s.Name)
	}
	schema, named := beside(folder, e.Schema), s.Schemas[t.Upstream]
	switch {
	case e.Schema == "":
		b.fail(place, path+".schema", "is needed: the file with the JSON Schema of the arguments, since there is no server to ask")
	case named != "" && named != schema:
		b.fail(place, path+".schema", "is another than that of %s in another entry", t.Upstream)
	default:
		if s.Schemas == nil {
			s.Schemas = map[string]string{}
		}
		s.Schemas[t.Upstream] = schema
	}
	if r := t.Results; len(r.Fields)+len(r.Name) > 0 {
		b.fail(place, path+".results", "declares fields that count; what the holder of a lease reports is its word, and counts for nothing")
	}
	if t.Cost != nil && len(t.Cost.Result) > 0 {
		b.fail(place, path+".cost.result", "is what the holder of a lease would say itself; use price or argument")
	}
	t.Results.Untrusted = true
}

// leased reports whether a framework runs the tool itself.
func (b *builder) leased(t *Tool) bool {
	s := b.snapshot.servers[t.Server]
	return s != nil && s.Kind == KindLease
}

// Leased reports whether a framework runs a tool of the snapshot itself, under a lease.
func (s *Snapshot) Leased(t *Tool) bool {
	v := s.servers[t.Server]
	return v != nil && v.Kind == KindLease
}
