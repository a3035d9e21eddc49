package mcp

import (
	"context"
	"net/http"

	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
)

// door is this door's name in addresses.
const door = "mcp"

func (h *Handler) admit(ctx context.Context, c identity.Caller) error {
	if h.Ingress == nil {
		return nil
	}
	return h.Ingress.Admit(ctx, c)
}

// identify verifies what this request presents. Nothing else ever says who is
// calling: no session, no message, no earlier request.
func (h *Handler) identify(r *http.Request) (identity.Caller, identity.Credentials, *refusal) {
	creds, err := identity.CredentialsOf(r)
	if err == nil {
		var caller identity.Caller
		if caller, err = h.Verifier.Caller(r.Context(), creds); err == nil && caller.Valid() {
			if err = h.admit(r.Context(), caller); err == nil {
				return caller, creds, nil
			}
		} else if err == nil {
			err = record.Errorf(record.Unauthenticated, "nobody is calling")
		}
	}
	f := surfaced(err)
	if lack, ok := identity.LackOf(err); ok {
		f.header = http.Header{"Www-Authenticate": {h.OAuth.Insufficient(door, string(lack.Permission), "a permission of this server, which its operator gives")}}
		if err := h.Boundary.Lacks(r.Context(), lack, "mcp"); err != nil {
			h.Log.ErrorContext(r.Context(), "a refusal was not recorded", "error", err)
		}
	}
	f.code = 0 // below JSON-RPC: nothing of the body was read
	switch record.KindOf(err) {
	case record.Unauthenticated:
		f.header = http.Header{"Www-Authenticate": {h.OAuth.Unauthenticated(door, creds.Bearer != "" || r.Header.Get("Authorization") != "")}}
		if dpop := identity.DPoPChallenge(err); dpop != "" {
			f.header.Set("Www-Authenticate", h.OAuth.Beside(door, dpop))
		}
	case record.Limited:
		f.header = http.Header{"Retry-After": {"1"}}
	case record.Internal, record.Unavailable:
		h.Log.ErrorContext(r.Context(), "cannot verify a caller", "error", err)
	}
	return identity.Caller{}, identity.Credentials{}, f
}
