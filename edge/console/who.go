package console

import (
	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/identity"
)

// viewer is who looks at a page: a verified person and the session they came with.
type viewer struct {
	person  identity.Person
	session *session
}

// In reports whether somebody is signed in.
func (v viewer) In() bool { return v.person.Valid() }

// Name is for the head of each page.
func (v viewer) Name() string { return v.person.Principal().Subject }

// Reads reports whether the viewer may see the tenant's records.
func (v viewer) Reads() bool { return v.person.Reads() }

// may reports whether a question is theirs to answer.
func (v viewer) may(l dispatch.Loaded) bool {
	return v.person.Valid() && l.Approval != nil && l.Call.Tenant != "" && l.Call.Tenant == v.person.Tenant() &&
		l.Approval.Rule.Eligible(v.person.Principal(), v.person.Groups(), l.Call.Principal)
}

// sees reports whether a call may be shown. Its tenant is compared too, although
// the query named it: two locks for the line between tenants.
func (v viewer) sees(l dispatch.Loaded) bool {
	if !v.person.Valid() || l.Call.Tenant == "" || l.Call.Tenant != v.person.Tenant() {
		return false
	}
	return v.person.Reads() || v.may(l)
}
