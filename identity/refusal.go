package identity

import "github.com/placet-dev/placet/record"

// The checks of a token, in the order in which they are made.
const (
	checkFormat    = "format"
	checkIssuer    = "issuer"
	checkAlgorithm = "algorithm"
	checkType      = "type"
	checkKey       = "key"
	checkSignature = "signature"
	checkLifetime  = "lifetime"
	checkSubject   = "subject"
	checkTenant    = "tenant"
	checkScopes    = "scopes"
	checkGroups    = "groups"
	checkAudience  = "audience"
	checkAgent     = "agent"
	checkPerson    = "person"
	checkWorkload  = "workload"
	checkBinding   = "binding" // last: whoever sends the token is whom it is bound to
)

// refusal is an error that knows which check it comes from.
type refusal struct {
	check string
	err   *record.Error
}

func (r *refusal) Error() string { return r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

func refuse(check string, k record.Kind, format string, args ...any) error {
	return &refusal{check, record.Errorf(k, format, args...)}
}

func refuseBecause(check string, k record.Kind, cause error, format string, args ...any) error {
	return &refusal{check, record.Because(k, cause, format, args...)}
}
