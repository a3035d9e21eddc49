package oauth

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Options say what clients are told.
type Options struct {
	PublicURL string          // what clients open, without a door
	Resource  string          // what tokens are made for; stated at every door
	Issuers   []string        // who makes them
	Scopes    func() []string // those that tools need and anybody may know of; nil: none
	Client    *Client         // nil: every client brings its own

	ProofAlgorithms []string // of DPoP proofs that are understood (RFC 9449)
	ProofRequired   bool     // every issuer's tokens must be bound to a key
	Certificates    bool     // tokens may be bound to a client certificate (RFC 8705)

	Clock func() time.Time
	Log   *slog.Logger
}

// Resource is this server as OAuth sees it. Nil tells clients nothing but that
// they need a token.
type Resource struct {
	o        Options
	provider *provider // of the configured client; nil: there is none
}

// New makes it.
func New(o Options) *Resource {
	o.PublicURL = strings.TrimRight(o.PublicURL, "/")
	r := &Resource{o: o}
	if o.Client != nil {
		r.provider = &provider{client: *o.Client, publicURL: o.PublicURL, clock: o.Clock, log: o.Log}
	}
	return r
}

const (
	metadataPath = "/.well-known/oauth-protected-resource"
	serverPath   = "/.well-known/oauth-authorization-server"
	openIDPath   = "/.well-known/openid-configuration"
	registerPath = "/register"
)

// Mount registers the documents that there are to give. With a path of its own
// after the well-known one, each door has its address (RFC 9728 section 3.1).
func (r *Resource) Mount(mux *http.ServeMux) {
	if r.tells() {
		for _, door := range []string{"", "/mcp", "/v1", "/llm"} {
			mux.HandleFunc("GET "+metadataPath+door, r.metadata)
			mux.HandleFunc("OPTIONS "+metadataPath+door, preflight)
		}
	}
	if r == nil || r.provider == nil {
		return
	}
	for _, path := range []string{serverPath, openIDPath} {
		mux.HandleFunc("GET "+path, r.provider.document)
		mux.HandleFunc("OPTIONS "+path, preflight)
	}
	mux.HandleFunc("POST "+registerPath, r.provider.register)
	mux.HandleFunc("OPTIONS "+registerPath, preflight)
}

// tells reports whether there is metadata to give.
func (r *Resource) tells() bool { return r != nil && r.o.PublicURL != "" && len(r.o.Issuers) > 0 }

func (r *Resource) scopes() []string {
	switch {
	case r == nil:
		return nil
	case r.o.Client != nil && len(r.o.Client.Scopes) > 0:
		return r.o.Client.Scopes
	case r.o.Scopes != nil:
		return r.o.Scopes()
	}
	return nil
}

// metadata is RFC 9728's document.
func (r *Resource) metadata(w http.ResponseWriter, _ *http.Request) {
	name := "Placet"
	if u, err := url.Parse(r.o.PublicURL); err == nil && u.Host != "" {
		name += " at " + u.Host
	}
	give(w, http.StatusOK, struct {
		Resource string   `json:"resource"`
		Servers  []string `json:"authorization_servers"`
		Methods  []string `json:"bearer_methods_supported"`
		Scopes   []string `json:"scopes_supported,omitempty"`
		Name     string   `json:"resource_name"`

		Certificates    bool     `json:"tls_client_certificate_bound_access_tokens,omitempty"`
		ProofAlgorithms []string `json:"dpop_signing_alg_values_supported,omitempty"`
		ProofRequired   bool     `json:"dpop_bound_access_tokens_required,omitempty"`
	}{r.o.Resource, r.servers(), []string{"header"}, r.scopes(), name, r.o.Certificates, r.o.ProofAlgorithms, r.o.ProofRequired})
}

// servers are the issuers. This server stands before the one that registers no
// clients: programs take the first, and find the configured client there.
func (r *Resource) servers() []string {
	if r.provider == nil {
		return r.o.Issuers
	}
	return append([]string{r.o.PublicURL}, r.o.Issuers...)
}

// Unauthenticated is the WWW-Authenticate value of a 401 at a door: mcp, v1 or llm. A
// request without credentials has made no error (RFC 6750 section 3.1).
func (r *Resource) Unauthenticated(door string, presented bool) string {
	var params []string
	if presented {
		params = append(params, `error="invalid_token"`)
	}
	if all := strings.Join(r.scopes(), " "); all != "" && len(all) <= maxScopes {
		params = append(params, `scope="`+quotable(all)+`"`)
	}
	return r.challenge(door, params)
}

// maxScopes bounds a header; the metadata has them all.
const maxScopes = 2000

// Insufficient is that of a 403: which scope, or which permission of this server, is lacking.
func (r *Resource) Insufficient(door, scope, why string) string {
	params := []string{`error="insufficient_scope"`}
	if scope = quotable(scope); scope != "" {
		params = append(params, `scope="`+scope+`"`)
	}
	if why != "" {
		params = append(params, `error_description="`+quotable(why)+`"`)
	}
	return r.challenge(door, params)
}

// Beside adds to a challenge of another scheme where the metadata is.
func (r *Resource) Beside(door, challenge string) string {
	if !r.tells() {
		return challenge
	}
	return challenge + `, resource_metadata="` + r.o.PublicURL + metadataPath + "/" + door + `"`
}

func (r *Resource) challenge(door string, params []string) string {
	if r.tells() {
		params = append(params, `resource_metadata="`+r.o.PublicURL+metadataPath+"/"+door+`"`)
	}
	return strings.TrimSpace("Bearer " + strings.Join(params, ", "))
}

// quotable drops what cannot stand in a quoted parameter (RFC 6750 section 3).
func quotable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r > 0x7e || r == '"' || r == '\\' {
			return -1
		}
		return r
	}, s)
}

// give writes a document. What it says is public, so that pages may read it.
func give(w http.ResponseWriter, status int, document any) {
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Content-Type", "application/json")
	if status == http.StatusOK {
		h.Set("Cache-Control", "public, max-age=300")
	} else {
		h.Set("Cache-Control", "no-store")
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(document) // the client may be gone; nothing depends on it
}

// preflight lets pages ask with the headers that MCP clients send.
func preflight(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Access-Control-Allow-Methods", "GET, POST, OPTIONS")
	h.Set("Access-Control-Allow-Headers", "Content-Type, MCP-Protocol-Version")
	h.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
}
