package credential

import (
	"slices"
	"time"

	"github.com/placet-dev/placet/record"
)

// Type says where a profile's credentials come from.
type Type string

const (
	None              Type = "none"
	Static            Type = "static"
	ClientCredentials Type = "client_credentials" // RFC 6749 section 4.4
	TokenExchange     Type = "token_exchange"     // RFC 8693
	OnBehalfOf        Type = "on_behalf_of"       // RFC 7523 with requested_token_use, as Entra has it
)

// Profile is how servers are called, as the operator configured it.
type Profile struct {
	Name string
	Type Type

	Value    Secret // static
	Header   string // static: carries Value as it is; "": Authorization, as a bearer token
	Variable string // static: for commands

	Client   Client
	Audience []string
	Resource []string
	// Scope is what is asked for, for every tool. Scopes is that by the tool's own
	// scope. Where both are nil, a token for a caller has the tool's own scope.
	Scope      []string
	Scopes     map[string][]string
	AlsoScopes []string      // may be there although nobody asked for them
	MaxAge     time.Duration // 0: as the issuer says, and it must say
	Actor      string        // profile whose token is the actor_token
	Listing    string        // profile for what is sent without a caller
}

// ForCaller reports whether each caller gets tokens of their own.
func (p Profile) ForCaller() bool { return p.Type == TokenExchange || p.Type == OnBehalfOf }

// Wants returns the scopes to ask for, for a tool with a scope of its own. ok is
// false when the profile has no answer for that tool.
func (p Profile) Wants(tool string) (scopes []string, ok bool) {
	switch {
	case p.Scopes != nil:
		scopes, ok = p.Scopes[tool]
		return scopes, ok
	case p.Scope != nil || !p.ForCaller() || tool == "":
		return p.Scope, true
	}
	return []string{tool}, true
}

// Subject is the access token of a caller, and what its issuer says of it. The
// zero value is none.
type Subject struct {
	Token   Secret
	Session string // the issuer's name for the login, or a digest of the token
	Scopes  []string
	Expires time.Time
}

// Ask is whose call a credential is for.
type Ask struct {
	Owner   record.Owner
	Subject Subject
	Scope   string // the tool's own
}

// Attachment is what a call carries. The zero value is nothing. Whoever holds it
// holds a secret.
type Attachment struct {
	Header   string
	Variable string // in place of Header, for commands
	Value    Secret // of the header or variable, whole
	Expires  time.Time
	Refused  func() // tells that the server did not take it; nil: it makes no difference
}

// Key is what one token is cached under (rule I2): never two callers, agents,
// logins or purposes. A token of this server's own has a profile, audience and
// scope only.
type Key struct {
	Owner    record.Owner
	Session  string
	Held     string // the scopes of the caller's token
	Profile  string
	Audience string
	Scope    string
}

// joined makes one text of a set of names, none of which holds a line break.
func joined(names []string) string {
	sorted := slices.Sorted(slices.Values(names))
	n := 0
	for _, s := range sorted {
		n += len(s) + 1
	}
	out := make([]byte, 0, n)
	for _, s := range sorted {
		out = append(append(out, s...), '\n')
	}
	return string(out)
}
