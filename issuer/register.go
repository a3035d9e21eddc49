package issuer

import (
	"cmp"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"

	"github.com/placet-dev/placet/record"
)

// registered starts the IDs of clients that registered themselves.
const registered = "client_"

// registration is what a client states of itself (RFC 7591 section 2).
type registration struct {
	Redirects  []string `json:"redirect_uris"`
	Name       string   `json:"client_name,omitempty"`
	Scope      string   `json:"scope,omitempty"`
	AuthMethod string   `json:"token_endpoint_auth_method"`
	Grants     []string `json:"grant_types"`
	Responses  []string `json:"response_types"`
	ID         string   `json:"client_id,omitempty"`
	Issued     int64    `json:"client_id_issued_at,omitempty"`
}

// register takes any program of this machine as a public client that acts for
// people (RFC 7591). It never gets one that approves, exchanges or acts alone:
// those the operator writes down.
func (i *Issuer) register(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		refuseRegistration(w, http.StatusMethodNotAllowed, "invalid_client_metadata", "this takes a POST")
		return
	}
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	var m registration
	if err == nil && kind == "application/json" {
		var text []byte
		if text, err = io.ReadAll(r.Body); err == nil {
			err = json.Unmarshal(text, &m)
		}
	}
	if err != nil || kind != "application/json" || len(m.Name) > 100 || strings.ContainsFunc(m.Name, func(c rune) bool { return !unicode.IsGraphic(c) }) {
		refuseRegistration(w, http.StatusBadRequest, "invalid_client_metadata", "send the client's metadata as JSON")
		return
	}
	c := Client{Name: cmp.Or(m.Name, "A program that gave no name") + " (registered itself)", Scopes: strings.Fields(m.Scope)}
	for _, to := range m.Redirects {
		if u, err := url.Parse(to); err == nil && isLoopback(u) && redirectProblem(to) == "" && len(c.Redirects) < 10 {
			c.Redirects = append(c.Redirects, to)
		}
	}
	if len(c.Redirects) == 0 {
		refuseRegistration(w, http.StatusBadRequest, "invalid_redirect_uri", "a login returns to this machine only; write other clients into the users file")
		return
	}
	if m.ID, err = i.keep(c); err != nil {
		refuseRegistration(w, http.StatusInternalServerError, "server_error", "the client could not be registered")
		return
	}
	m.Redirects, m.AuthMethod, m.Issued = c.Redirects, "none", i.o.Clock().Unix()
	m.Grants, m.Responses = []string{"authorization_code", "refresh_token"}, []string{"code"}
	writeJSON(w, http.StatusCreated, m)
}

func (i *Issuer) keep(c Client) (string, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := i.o.Clock()
	id, err := record.NewID("client", now, i.o.Random)
	if err == nil {
		i.registered.put(id, c, now, now.Add(30*24*time.Hour))
	}
	return id, err
}

func refuseRegistration(w http.ResponseWriter, status int, code, description string) {
	writeJSON(w, status, map[string]string{"error": code, "error_description": description})
}

func writeJSON(w http.ResponseWriter, status int, what any) {
	text, err := json.Marshal(what)
	if err != nil {
		http.Error(w, "the answer could not be made", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(text)
}
