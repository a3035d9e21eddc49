package registry

import (
	"path/filepath"
	"strings"

	"github.com/placet-dev/placet/guard"
	"github.com/placet-dev/placet/yamlfile"
)

// Kind is how a server's tools run.
type Kind string

const (
	KindMCP        Kind = ""           // another program, over MCP
	KindQueries    Kind = "queries"    // named SQL queries (tool/query)
	KindOperations Kind = "operations" // HTTP operations (tool/http)
	KindFiles      Kind = "files"      // a folder (tool/file)
	KindLease      Kind = "lease"      // a framework, which runs them itself (tool/lease)
)

// kind finds out how a server's tools run: by the one key that says so.
func (b *builder) kind(place yamlfile.Place, path string, s *Server, e ServerEntry) {
	given := 0
	for _, k := range []struct {
		is   bool
		kind Kind
	}{{e.URL != "", KindMCP}, {len(e.Command) > 0, KindMCP}, {e.Queries != "", KindQueries}, {e.Operations != "", KindOperations}, {e.Files != "", KindFiles}, {e.Lease, KindLease}} {
		if k.is {
			given++
			s.Kind = k.kind
		}
	}
	if given != 1 {
		b.fail(place, path, "needs exactly one of url, command, queries, operations, files and lease")
		return
	}
	if s.Kind != KindMCP {
		// Nothing is kept between calls that one principal could leave for another.
		s.Stateless = true
		for key, is := range map[string]bool{"env": len(e.Env) > 0, "input_required": e.InputRequired, "sampling": e.Sampling, "dispatch_token": e.DispatchToken && s.Kind != KindOperations && s.Kind != KindLease,
			"credential": e.Credential != "" && (s.Kind == KindFiles || s.Kind == KindLease)} {
			if is {
				b.fail(place, path+"."+key, "is for other kinds of server")
			}
		}
	}
	file, sqlite := strings.CutPrefix(e.Database, "sqlite:")
	switch {
	case s.Kind != KindQueries && e.Database != "":
		b.fail(place, path+".database", "is for servers with queries")
	case s.Kind == KindQueries && e.Database == "postgres" && e.Credential == "":
		b.fail(place, path+".credential", "is needed: a static profile whose value is the connection string")
	case s.Kind == KindQueries && e.Database != "postgres" && (!sqlite || !filepath.IsAbs(file)):
		b.fail(place, path+".database", "wants postgres, or sqlite: and an absolute path")
	case s.Kind == KindQueries && sqlite && e.Credential != "":
		b.fail(place, path+".credential", "is for postgres; an SQLite file needs none")
	case s.Kind == KindQueries && sqlite && guard.Meets(file, b.options.Own):
		b.fail(place, path+".database", "reaches files of Placet itself")
	}
	if s.Kind == KindFiles {
		var err error
		if s.Files, err = guard.ParseFolder(e.Files); err != nil {
			b.fail(place, path+".files", "%s", err)
		} else if guard.Meets(s.Files.Fixed(), b.options.Own) {
			b.fail(place, path+".files", "reaches files of Placet itself")
		}
	}
}

// beside is a path as a registry file means it: from the file's own folder.
func beside(folder, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(folder, path)
}
