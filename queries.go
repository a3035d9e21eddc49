package placet

import (
	"github.com/placet-dev/placet/credential"
	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
	"github.com/placet-dev/placet/tool/query"
)

// connection is the connection string of a server's database: a static secret, as it
// is. It is no header, and nobody's token.
func (c credentials) connection(s *registry.Server) (dispatch.Credential, error) {
	p, ok := c.profiles.Profile(s.Credential)
	if !ok || connectionProblem(p) != "" {
		return dispatch.Credential{}, record.Errorf(record.Forbidden, "credential profile %q does not fit server %s", s.Credential, s.Name)
	}
	return dispatch.Credential{Value: p.Value.Reveal()}, nil
}

func connectionProblem(p credential.Profile) string {
	if p.Type != credential.Static || p.Header != "" || p.Variable != "" {
		return "a database takes a connection string: the profile must be static, without header and variable"
	}
	return ""
}

// checkQueries refuses tools whose pinned query is not what the registry says of it,
// and lists those that are not bound to a tenant.
func checkQueries(snapshot *registry.Snapshot) ([]registry.Override, error) {
	var weak []registry.Override
	for t := range snapshot.Tools() {
		s, ok := snapshot.Server(t.Server)
		if !ok || s.Kind != registry.KindQueries {
			continue
		}
		everyTenant, err := query.Weakens(s, t)
		if err != nil {
			return nil, record.Errorf(record.Invalid, "%s: tools.%s: %w", t.Place, t.Name, err)
		}
		if everyTenant {
			weak = append(weak, registry.Override{Setting: "tenant", Subject: "tool " + t.Name, Detail: "its query is not bound to the caller's tenant", Place: t.Place})
		}
	}
	return weak, nil
}
