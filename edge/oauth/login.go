package oauth

import "net/http"

// Login is where people sign in to answer with a program of their own, such as a
// terminal: what they answer at is a protected resource beside the one that agents
// propose to (rule D4).
type Login struct {
	Resource string // what its tokens are made for
	Issuer   string
	Client   string   // public, registered for answering, with a redirect URI on loopback
	Scopes   []string // to ask for
	Ask      string   // the parameter that names the resource: resource, audience, or none
}

// consolePath is where its metadata is, below the public URL (RFC 9728 section 3.1).
const consolePath = metadataPath + "/console"

// Mount registers the metadata. The client and how to ask are members of our own,
// as RFC 9728 section 2 lets us have them.
func (l *Login) Mount(mux *http.ServeMux) {
	if l == nil {
		return
	}
	mux.HandleFunc("GET "+consolePath, func(w http.ResponseWriter, _ *http.Request) {
		give(w, http.StatusOK, struct {
			Resource string   `json:"resource"`
			Servers  []string `json:"authorization_servers"`
			Methods  []string `json:"bearer_methods_supported"`
			Scopes   []string `json:"scopes_supported,omitempty"`
			Name     string   `json:"resource_name"`
			Client   string   `json:"placet_client_id,omitempty"`
			Ask      string   `json:"placet_ask"`
		}{l.Resource, []string{l.Issuer}, []string{"header"}, l.Scopes, "Placet, for people who answer", l.Client, l.Ask})
	})
	mux.HandleFunc("OPTIONS "+consolePath, preflight)
}
