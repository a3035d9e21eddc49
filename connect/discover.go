package connect

import (
	"context"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"github.com/placet-dev/placet/record"
)

// challenge is what a refusal asks for (RFC 6750 section 3, RFC 9728 section 5.1).
type challenge struct {
	metadata string   // where the resource's metadata is; may be empty
	scopes   []string // wanted
	more     bool     // the token is good and its scopes do not suffice
}

// challengeOf reads a refusal that a token can change; ok is false for all else.
func challengeOf(resp *http.Response) (c challenge, ok bool) {
	if resp.StatusCode != http.StatusUnauthorized && resp.StatusCode != http.StatusForbidden {
		return c, false
	}
	all, err := oauthex.ParseWWWAuthenticate(resp.Header.Values("WWW-Authenticate"))
	if err != nil {
		all = nil
	}
	for _, one := range all {
		if one.Scheme != "bearer" {
			continue
		}
		c.metadata = one.Params["resource_metadata"]
		c.scopes = strings.Fields(one.Params["scope"])
		c.more = one.Params["error"] == "insufficient_scope"
		break
	}
	if resp.StatusCode == http.StatusForbidden {
		return c, c.more
	}
	c.more = false
	return c, true
}

// found is what the server and its issuer say of themselves.
type found struct {
	resource string   // as tokens name the server (RFC 8707)
	scopes   []string // that the server names
	issuer   *oauthex.AuthServerMeta
}

// discover finds the issuer that the server's metadata names, and its metadata.
// What does not match exactly is refused: with another's metadata, the user would
// sign in where an attacker wants.
func (a *account) discover(ctx context.Context, c challenge) (found, error) {
	resource, err := a.resource(ctx, c.metadata)
	if err != nil {
		return found{}, err
	}
	if len(resource.AuthorizationServers) == 0 {
		return found{}, record.Errorf(record.Unavailable, "%s names no issuer in its metadata (RFC 9728); its operator must configure one", a.server)
	}
	issuer, err := a.issuer(ctx, resource.AuthorizationServers[0])
	return found{resource.Resource, resource.ScopesSupported, issuer}, err
}

// resource reads the server's metadata (RFC 9728 section 3): where the refusal
// said, else at the well-known places for the path and for the host.
func (a *account) resource(ctx context.Context, named string) (*oauthex.ProtectedResourceMetadata, error) {
	const wellKnown = "/.well-known/oauth-protected-resource"
	host := &url.URL{Scheme: a.server.Scheme, Host: a.server.Host}
	places := []struct{ at, of string }{{named, a.server.String()}}
	if strings.Trim(a.server.Path, "/") != "" {
		places = append(places, struct{ at, of string }{host.String() + wellKnown + a.server.EscapedPath(), a.server.String()})
	}
	places = append(places, struct{ at, of string }{host.String() + wellKnown, host.String()})
	for _, p := range places {
		if p.at == "" {
			continue
		}
		m, err := document[oauthex.ProtectedResourceMetadata](ctx, a.http, p.at)
		if err != nil {
			return nil, err
		}
		if m == nil {
			continue
		}
		if !same(m.Resource, p.of) {
			return nil, record.Errorf(record.Forbidden, "the metadata at %s is that of %q and not of %s (RFC 9728 section 3.3): nobody is signed in", p.at, m.Resource, p.of)
		}
		return m, nil
	}
	return nil, record.Errorf(record.Unavailable, "%s refuses to work without a token and does not say who issues one (RFC 9728); is this the address of an MCP server?", a.server)
}

// same compares identifiers of resources: byte for byte, but that an empty path is
// the root (RFC 3986 section 6.2.3).
func same(a, b string) bool {
	root := func(s string) string {
		if u, err := url.Parse(s); err == nil && u.Path == "/" && u.RawQuery == "" {
			return strings.TrimSuffix(s, "/")
		}
		return s
	}
	return root(a) == root(b)
}

// issuer reads an authorization server's metadata, in the order that MCP gives:
// RFC 8414, then OpenID Connect Discovery, with the path in front and behind.
func (a *account) issuer(ctx context.Context, name string) (*oauthex.AuthServerMeta, error) {
	u, err := endpoint(name)
	if err != nil {
		return nil, record.Errorf(record.Forbidden, "%s names an issuer that is not an https URL: nobody is signed in", a.server)
	}
	const oauth, openid = "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"
	host, path := u.Scheme+"://"+u.Host, strings.TrimSuffix(u.EscapedPath(), "/")
	places := []string{host + oauth + path, host + openid + path}
	if path != "" {
		places = append(places, host+path+openid)
	}
	for _, at := range places {
		m, err := document[oauthex.AuthServerMeta](ctx, a.http, at)
		if err != nil {
			return nil, err
		}
		if m != nil {
			return m, sound(m, name, at)
		}
	}
	return nil, record.Errorf(record.Unavailable, "the issuer %s publishes no metadata (RFC 8414)", name)
}

// sound checks what the issuer says of itself.
func sound(m *oauthex.AuthServerMeta, name, at string) error {
	if m.Issuer != name {
		return record.Errorf(record.Forbidden, "the metadata at %s is that of the issuer %q and not of %q (RFC 8414 section 3.3): nobody is signed in", at, m.Issuer, name)
	}
	if !slices.Contains(m.CodeChallengeMethodsSupported, "S256") {
		return record.Errorf(record.Forbidden, "the issuer %s does not say that it checks PKCE with S256: nobody is signed in", name)
	}
	for _, required := range []string{m.AuthorizationEndpoint, m.TokenEndpoint} {
		if _, err := endpoint(required); err != nil {
			return record.Errorf(record.Forbidden, "the issuer %s names an endpoint that is not an https URL: nobody is signed in", name)
		}
	}
	for _, optional := range []string{m.RegistrationEndpoint, m.RevocationEndpoint} {
		if _, err := endpoint(optional); optional != "" && err != nil {
			return record.Errorf(record.Forbidden, "the issuer %s names an endpoint that is not an https URL: nobody is signed in", name)
		}
	}
	return nil
}

// document reads a metadata document; nil where there is none.
func document[T any](ctx context.Context, c *http.Client, at string) (*T, error) {
	if _, err := endpoint(at); err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	resp, err := c.Do(req)
	if err != nil {
		return nil, record.Because(record.Unavailable, err, "%s cannot be reached", at)
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 400 && resp.StatusCode < 500 {
		return nil, nil
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode != http.StatusOK || kind != "application/json" {
		return nil, record.Errorf(record.Unavailable, "%s answers HTTP status %d and not a JSON document", at, resp.StatusCode)
	}
	var out T
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err == nil {
		err = json.Unmarshal(text, &out) // names in their exact case, and once
	}
	if err != nil {
		return nil, record.Errorf(record.Unavailable, "%s is not a JSON document that can be read", at)
	}
	return &out, nil
}
