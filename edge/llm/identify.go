package llm

import (
	"net/http"

	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
)

// doorName is this door's name in addresses.
const doorName = "llm"

// keys are headers in which providers' clients send what they call their API key.
// To Placet that is the user's token.
var keys = []string{"X-Api-Key", "X-Goog-Api-Key"}

// identify verifies what this request presents: the user's token, in one of the
// places where providers' clients put a key, and a program's own credential beside
// it. Two tokens are refused, since somebody before us may have looked at the other.
func (d *door) identify(r *http.Request) (identity.Caller, *refusal) {
	presented, err := credentials(r)
	var caller identity.Caller
	if err == nil {
		caller, err = d.Verifier.Caller(r.Context(), presented)
	}
	if err == nil && !caller.Valid() {
		err = record.Errorf(record.Unauthenticated, "nobody is calling")
	}
	if err == nil && d.Ingress != nil {
		err = d.Ingress.Admit(r.Context(), caller)
	}
	if err == nil {
		return caller, nil
	}
	f := surfaced(err)
	if lack, ok := identity.LackOf(err); ok {
		f.with("Www-Authenticate", d.OAuth.Insufficient(doorName, string(lack.Permission), "a permission of this server, which its operator gives"))
		if err := d.Boundary.Lacks(r.Context(), lack, doorName); err != nil {
			d.Log.ErrorContext(r.Context(), "a refusal was not recorded", "error", err)
		}
	}
	switch record.KindOf(err) {
	case record.Unauthenticated:
		f.with("Www-Authenticate", d.OAuth.Unauthenticated(doorName, presented.Bearer != "" || r.Header.Get("Authorization") != ""))
		if dpop := identity.DPoPChallenge(err); dpop != "" {
			f.with("Www-Authenticate", d.OAuth.Beside(doorName, dpop))
		}
	case record.Limited:
		f.with("Retry-After", "1")
	case record.Internal, record.Unavailable:
		d.Log.ErrorContext(r.Context(), "cannot verify a caller", "error", err)
	}
	return identity.Caller{}, f
}

func credentials(r *http.Request) (identity.Credentials, error) {
	var token string
	for _, name := range keys {
		values := r.Header.Values(name)
		if len(values) == 0 {
			continue
		}
		if len(values) > 1 || values[0] == "" || token != "" || len(r.Header.Values("Authorization")) > 0 {
			return identity.Credentials{}, record.Errorf(record.Unauthenticated, "send one token, in Authorization or in %s, and not empty", name)
		}
		token = values[0]
	}
	if token != "" {
		moved := *r
		moved.Header = r.Header.Clone()
		moved.Header.Set("Authorization", "Bearer "+token)
		r = &moved
	}
	return identity.CredentialsOf(r)
}
