package mcp

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
)

const metadataPath = "/.well-known/oauth-protected-resource"

// identify verifies what this request presents. Nothing else ever says who is
// calling: no session, no message, no earlier request.
func (h *Handler) identify(r *http.Request) (identity.Caller, identity.Credentials, *refusal) {
	creds, err := identity.CredentialsOf(r)
	if err == nil {
		var caller identity.Caller
		if caller, err = h.Verifier.Caller(r.Context(), creds); err == nil && caller.Valid() {
			return caller, creds, nil
		}
		if err == nil {
			err = record.Errorf(record.Unauthenticated, "nobody is calling")
		}
	}
	f := surfaced(err)
	f.code = 0 // below JSON-RPC: nothing of the body was read
	if w, permission, ok := identity.Lacking(err); ok {
		f.header = http.Header{"Www-Authenticate": {h.challenge(true, string(permission))}}
		if err := h.Boundary.RefuseWorkload(context.WithoutCancel(r.Context()), w, err.Error()); err != nil {
			h.Log.ErrorContext(r.Context(), "a refusal was not recorded", "error", err)
		}
	}
	switch record.KindOf(err) {
	case record.Unauthenticated:
		f.header = http.Header{"Www-Authenticate": {h.challenge(creds.Bearer != "" || r.Header.Get("Authorization") != "", "")}}
		if dpop := identity.DPoPChallenge(err); dpop != "" {
			if url := h.metadataURL(); url != "" {
				dpop += `, resource_metadata="` + url + `"`
			}
			f.header.Set("Www-Authenticate", dpop)
		}
	case record.Internal, record.Unavailable:
		h.Log.ErrorContext(r.Context(), "cannot verify a caller", "error", err)
	}
	return identity.Caller{}, identity.Credentials{}, f
}

// challenge is the WWW-Authenticate value (RFC 6750 section 3, RFC 9728 section 5.1).
func (h *Handler) challenge(presented bool, scope string) string {
	var params []string
	switch {
	case scope != "":
		params = append(params, `error="insufficient_scope"`, `scope="`+quotable(scope)+`"`)
	case presented:
		params = append(params, `error="invalid_token"`)
	}
	if url := h.metadataURL(); url != "" {
		params = append(params, `resource_metadata="`+url+`"`)
	}
	return strings.TrimSpace("Bearer " + strings.Join(params, ", "))
}

// quotable drops what cannot stand in a quoted scope (RFC 6750 section 3).
func quotable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r > 0x7e || r == '"' || r == '\\' {
			return -1
		}
		return r
	}, s)
}

// metadataURL is where the metadata is, or empty if there is none to give.
func (h *Handler) metadataURL() string {
	if h.PublicURL == "" || len(h.Issuers) == 0 {
		return ""
	}
	return strings.TrimRight(h.PublicURL, "/") + metadataPath + "/mcp"
}

// metadata serves RFC 9728's document: which resource this is, and who issues
// tokens for it.
func (h *Handler) metadata(w http.ResponseWriter, r *http.Request) {
	if h.metadataURL() == "" {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "public, max-age=300")
	w.Header().Set("Access-Control-Allow-Origin", "*") // public by definition
	_ = json.NewEncoder(w).Encode(struct {
		Resource string   `json:"resource"`
		Servers  []string `json:"authorization_servers"`
		Methods  []string `json:"bearer_methods_supported"`
	}{strings.TrimRight(h.PublicURL, "/") + "/mcp", h.Issuers, []string{"header"}})
}
