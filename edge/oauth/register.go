package oauth

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/placet-dev/placet/canon"
)

// Client is the public client that the operator registered at a provider which
// registers none by itself.
type Client struct {
	ID     string
	Port   int      // of its redirect URI, on loopback
	Scopes []string // what clients are told to ask for; empty: the scopes of the tools

	// Provider returns the provider's own document, verified to be its own (OpenID
	// Connect Discovery section 4.3), in canonical form.
	Provider func(context.Context) (json.RawMessage, error)
}

// provider stands before a real one for clients that register: its document is the
// real one's, with our endpoint for registration. Authorization and tokens are
// between client and provider; nothing of them comes through here.
type provider struct {
	client    Client
	publicURL string
	clock     func() time.Time
	log       *slog.Logger

	mu      sync.Mutex
	made    map[string]json.RawMessage
	madeAt  time.Time
	triedAt time.Time
}

const (
	documentFresh = 10 * time.Minute
	documentPause = 5 * time.Second // between two attempts, whoever asks
)

// copied are the members of the provider's document that clients need.
var copied = []string{
	"authorization_endpoint", "token_endpoint", "jwks_uri", "revocation_endpoint", "response_types_supported", "response_modes_supported",
	"grant_types_supported", "code_challenge_methods_supported", "scopes_supported", "subject_types_supported", "id_token_signing_alg_values_supported",
}

// document is RFC 8414's: issuer must be the address at which it is found, hence
// ours (section 3.3).
func (p *provider) document(w http.ResponseWriter, r *http.Request) {
	document := p.current(r.Context())
	if document == nil {
		w.Header().Set("Retry-After", "5")
		give(w, http.StatusServiceUnavailable, problem{"temporarily_unavailable", "the identity provider's own document could not be read"})
		return
	}
	give(w, http.StatusOK, document)
}

// current reads the provider's document anew when it is old. One that cannot be
// read anew is still good: it holds addresses, not keys.
func (p *provider) current(ctx context.Context) map[string]json.RawMessage {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock()
	if p.made != nil && now.Sub(p.madeAt) < documentFresh || !p.triedAt.IsZero() && now.Sub(p.triedAt) < documentPause {
		return p.made
	}
	p.triedAt = now
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), documentPause)
	defer cancel()
	text, err := p.client.Provider(ctx)
	if err != nil {
		p.log.WarnContext(ctx, "the document of the provider with a configured client could not be read", "error", err)
		return p.made
	}
	p.made, p.madeAt = p.rewrite(text), now
	return p.made
}

func (p *provider) rewrite(text []byte) map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	for _, name := range copied {
		if value, ok := canon.Lookup(text, name); ok {
			out[name] = json.RawMessage(value)
		}
	}
	// Some providers support PKCE and do not say so. Whoever configures a public
	// client here states that its provider does: there is no other safe kind.
	if _, ok := out["code_challenge_methods_supported"]; !ok {
		out["code_challenge_methods_supported"] = json.RawMessage(`["S256"]`)
	}
	out["token_endpoint_auth_methods_supported"] = json.RawMessage(`["none"]`)
	out["issuer"] = quoted(p.publicURL)
	out["registration_endpoint"] = quoted(p.publicURL + registerPath)
	return out
}

func quoted(s string) json.RawMessage {
	text, err := json.Marshal(s)
	if err != nil {
		return json.RawMessage(`""`) // cannot be: a string always marshals
	}
	return text
}

// problem is an error of RFC 7591 section 3.2.2.
type problem struct {
	Error       string `json:"error"`
	Description string `json:"error_description"`
}

const (
	maxRegistration = 64 << 10
	maxRedirects    = 10
)

// register answers with the one client that there is (RFC 7591 section 3.2.1).
// Nothing is made and nothing kept: the operator registered it at the provider,
// which has the last word on redirect URIs.
func (p *provider) register(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRegistration))
	if err != nil {
		give(w, http.StatusBadRequest, problem{"invalid_client_metadata", "the request could not be read, or is too large"})
		return
	}
	object, _, err := canon.Object(body, canon.Limits{Bytes: maxRegistration})
	if err != nil {
		give(w, http.StatusBadRequest, problem{"invalid_client_metadata", "the request is not one JSON object"})
		return
	}
	redirects, ok := p.redirects(object)
	if !ok {
		give(w, http.StatusBadRequest, problem{"invalid_redirect_uri",
			"redirect_uris must be http on loopback (127.0.0.1, [::1] or localhost) at port " + strconv.Itoa(p.client.Port) + ", as the operator registered; set your client's callback port to it"})
		return
	}
	give(w, http.StatusCreated, struct {
		ID        string   `json:"client_id"`
		Redirects []string `json:"redirect_uris"`
		Method    string   `json:"token_endpoint_auth_method"`
		Grants    []string `json:"grant_types"`
		Responses []string `json:"response_types"`
	}{p.client.ID, redirects, "none", []string{"authorization_code", "refresh_token"}, []string{"code"}})
}

func (p *provider) redirects(object []byte) ([]string, bool) {
	list, ok := canon.Lookup(object, "redirect_uris")
	if !ok || list[0] != '[' {
		return nil, false
	}
	var out []string
	for element := range canon.Elements(list) {
		text, ok := canon.Text(element)
		if !ok || !p.mayRedirect(text) || len(out) == maxRedirects {
			return nil, false
		}
		out = append(out, text)
	}
	return out, len(out) > 0
}

// mayRedirect admits addresses that only a program on the user's own machine can
// listen at (RFC 8252 section 7.3).
func (p *provider) mayRedirect(address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" || u.Opaque != "" || u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.HasSuffix(address, "#") {
		return false
	}
	host, port, err := net.SplitHostPort(u.Host)
	if err != nil || port != strconv.Itoa(p.client.Port) {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback() && ip.Zone() == ""
}
