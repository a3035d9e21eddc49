package config

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/placet-dev/placet/yamlfile"
)

// Credentials are profiles: what tool servers are called with.
type Credentials = yamlfile.Entries[Credential]

// Credential is one profile.
type Credential struct {
	Type CredentialType `yaml:"type,required" doc:"Where it comes from."`

	Value    yamlfile.SecretRef `yaml:"value" doc:"static: reference to the secret, env:NAME or file:PATH."`
	Header   string             `yaml:"header" doc:"static: header that carries the value as it is. Default: Authorization, with Bearer before the value."`
	Variable string             `yaml:"variable" doc:"static: environment variable that gives the value to a server that is a command."`

	Issuer   string `yaml:"issuer" doc:"Who issues the token; its token endpoint is discovered. token_exchange and on_behalf_of: also whose tokens are exchanged."`
	TokenURL string `yaml:"token_url" doc:"The token endpoint, in place of discovery."`
	TokenClient
	Audience   yamlfile.Strings                   `yaml:"audience" doc:"Audience that is asked for (RFC 8693)."`
	Resource   yamlfile.Strings                   `yaml:"resource" doc:"Resource that is asked for, a URL (RFC 8707)."`
	Scope      yamlfile.Strings                   `yaml:"scope" doc:"Scopes that are asked for. token_exchange: default the tool's own scope."`
	Scopes     yamlfile.Entries[yamlfile.Strings] `yaml:"scopes" doc:"token_exchange, on_behalf_of: scopes that are asked for, by the tool's own scope."`
	AlsoScopes yamlfile.Strings                   `yaml:"also_scopes" doc:"Scopes that the issuer adds unasked and that may be there. Any other that was not asked for is refused."`
	MaxAge     time.Duration                      `yaml:"max_age" doc:"How long a token is used at most; needed where the issuer does not say when it ends."`
	Actor      string                             `yaml:"actor" doc:"token_exchange: profile whose token is sent as actor_token."`
	Listing    string                             `yaml:"listing" doc:"token_exchange, on_behalf_of: profile for what is sent without a caller, such as tools/list. Default: client credentials of this client."`
}

// TokenClient is this server as a client of an issuer.
type TokenClient struct {
	ClientID          string             `yaml:"client_id" doc:"This server's name at the issuer."`
	ClientSecret      yamlfile.SecretRef `yaml:"client_secret" doc:"Reference to its secret."`
	ClientAuth        ClientAuth         `yaml:"client_auth" default:"basic" doc:"How the secret is sent: in a header, or post: in the form."`
	PrivateKey        yamlfile.SecretRef `yaml:"private_key" doc:"In place of a secret: reference to a PEM key that signs assertions (private_key_jwt, RFC 7523)."`
	KeyID             string             `yaml:"key_id" doc:"Name of that key (kid)."`
	AssertionAudience string             `yaml:"assertion_audience" doc:"Audience of the assertions. Default: the token endpoint."`
}

// Delegation is the live source of an issuer: a client of it that may refresh.
type Delegation struct {
	TokenClient
	Max time.Duration `yaml:"max" default:"24h" doc:"How long a run's delegation lasts at most."`
}

// CredentialType says where a credential comes from.
type CredentialType string

const (
	CredentialNone     CredentialType = "none"
	CredentialStatic   CredentialType = "static"
	CredentialClient   CredentialType = "client_credentials"
	CredentialExchange CredentialType = "token_exchange"
	CredentialOnBehalf CredentialType = "on_behalf_of"
)

func (CredentialType) Choices() []string {
	return []string{string(CredentialNone), string(CredentialStatic), string(CredentialClient), string(CredentialExchange), string(CredentialOnBehalf)}
}

// ForCaller reports whether each caller's calls get a token of their own.
func (t CredentialType) ForCaller() bool { return t == CredentialExchange || t == CredentialOnBehalf }

// ClientAuth is how a client's secret is sent.
type ClientAuth string

func (ClientAuth) Choices() []string { return []string{"basic", "post"} }

// stated lists the keys that the file gives, without those that every type has.
func (c *Credential) stated() []string {
	var out []string
	for _, k := range []struct {
		key   string
		given bool
	}{
		{"value", !c.Value.IsZero()}, {"header", c.Header != ""}, {"variable", c.Variable != ""},
		{"issuer", c.Issuer != ""}, {"token_url", c.TokenURL != ""},
		{"client_id", c.ClientID != ""}, {"client_secret", !c.ClientSecret.IsZero()}, {"client_auth", c.ClientAuth == "post"},
		{"private_key", !c.PrivateKey.IsZero()}, {"key_id", c.KeyID != ""}, {"assertion_audience", c.AssertionAudience != ""},
		{"audience", c.Audience != nil}, {"resource", c.Resource != nil}, {"scope", c.Scope != nil}, {"scopes", c.Scopes != nil},
		{"also_scopes", c.AlsoScopes != nil}, {"max_age", c.MaxAge != 0}, {"actor", c.Actor != ""}, {"listing", c.Listing != ""},
	} {
		if k.given {
			out = append(out, k.key)
		}
	}
	return out
}

var credentialKeys = func() map[CredentialType][]string {
	client := []string{"issuer", "token_url", "client_id", "client_secret", "client_auth", "private_key", "key_id", "assertion_audience", "scope", "also_scopes", "max_age"}
	user := append(slices.Clone(client), "scopes", "listing")
	return map[CredentialType][]string{
		CredentialNone:     {},
		CredentialStatic:   {"value", "header", "variable"},
		CredentialClient:   append(slices.Clone(client), "audience", "resource"),
		CredentialExchange: append(slices.Clone(user), "audience", "resource", "actor"),
		CredentialOnBehalf: user,
	}
}()

// Check is the rules of a profile.
func (c *Credential) Check(fail func(key, message string)) {
	for _, key := range c.stated() {
		if !slices.Contains(credentialKeys[c.Type], key) {
			fail(key, "does not go with type "+string(c.Type))
		}
	}
	switch c.Type {
	case CredentialNone:
	case CredentialStatic:
		c.checkStatic(fail)
	default:
		c.checkIssued(fail)
	}
}

// ownHeaders are set by the client of tool servers, or by the connection.
var ownHeaders = regexp.MustCompile(`(?i)^(host|connection|keep-alive|te|trailer|transfer-encoding|upgrade|proxy-.*|content-.*|accept|accept-.*|expect|last-event-id|idempotency-key|mcp-.*|placet-.*)$`)

var (
	headerName   = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}$")
	variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

func (c *Credential) checkStatic(fail func(key, message string)) {
	if c.Value.IsZero() {
		fail("value", "is needed: a reference to the secret, env:NAME or file:PATH")
	}
	switch {
	case c.Header != "" && c.Variable != "":
		fail("variable", "goes with commands and header with URLs; make a profile for each")
	case c.Header != "" && (!headerName.MatchString(c.Header) || ownHeaders.MatchString(c.Header)):
		fail("header", "is not the name of a header that a credential may have")
	case c.Variable != "" && (!variableName.MatchString(c.Variable) || slices.Contains([]string{"PATH", "HOME"}, c.Variable) || strings.HasPrefix(c.Variable, "LD_")):
		fail("variable", "is not the name of a variable that a credential may have")
	}
}

func (c *Credential) checkIssued(fail func(key, message string)) {
	switch {
	case c.Issuer == "" && c.Type.ForCaller():
		fail("issuer", "is needed: it says whose tokens are exchanged")
	case c.Issuer == "" && c.TokenURL == "":
		fail("issuer", "is needed, or token_url")
	}
	for _, address := range [][2]string{{"issuer", c.Issuer}, {"token_url", c.TokenURL}} {
		if problem := endpointProblem(address[1]); problem != "" {
			fail(address[0], problem)
		}
	}
	c.checkClient(fail)
	switch {
	case c.Scope != nil && c.Scopes != nil:
		fail("scopes", "and scope exclude one another")
	case c.Type == CredentialOnBehalf && c.Scope == nil && c.Scopes == nil:
		fail("scope", "is needed, such as api://…/.default")
	}
	for _, list := range append([]yamlfile.Strings{c.Scope, c.AlsoScopes}, values(c.Scopes)...) {
		if slices.ContainsFunc(list, func(s string) bool { return s == "" || strings.ContainsAny(s, " \t\"\\") }) {
			fail("scope", "wants a list with one scope in each place")
		}
	}
}

func values(entries yamlfile.Entries[yamlfile.Strings]) []yamlfile.Strings {
	var out []yamlfile.Strings
	for _, e := range entries {
		out = append(out, e.Value)
	}
	return out
}

// endpointProblem says why a secret must not be sent to an address, or nothing.
func endpointProblem(address string) string {
	if address == "" {
		return ""
	}
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.Fragment != "" || u.Scheme != "https" && u.Scheme != "http":
		return "wants a URL"
	case u.Scheme == "http" && !loopbackHost(u.Hostname()):
		return "must be https beyond this machine: secrets travel to it"
	}
	return ""
}

func (c *TokenClient) checkClient(fail func(key, message string)) {
	if c.ClientID == "" {
		fail("client_id", "is needed: this server's name at the issuer")
	}
	switch {
	case c.ClientSecret.IsZero() == c.PrivateKey.IsZero():
		fail("client_secret", "or private_key is needed, exactly one of the two")
	case c.PrivateKey.IsZero() && (c.KeyID != "" || c.AssertionAudience != ""):
		fail("private_key", "is needed where key_id or assertion_audience is given")
	}
}

// Check is the rules of a delegation.
func (d *Delegation) Check(fail func(key, message string)) {
	d.checkClient(fail)
	if d.Max < time.Minute || d.Max > 30*24*time.Hour {
		fail("max", "must be at least 1m and at most 720h")
	}
}

// checkCredentials is what ties profiles to one another and to issuers.
func (c *Config) checkCredentials(fail func(key, message string)) {
	types := map[string]CredentialType{}
	variable := map[string]bool{}
	for _, p := range c.Credentials {
		if !layerName.MatchString(p.Key) {
			fail("credentials", "a name is lower-case letters, digits and _ . -, and starts with a letter")
		}
		types[p.Key], variable[p.Key] = p.Value.Type, p.Value.Variable != ""
	}
	for _, p := range c.Credentials {
		for _, ref := range [][2]string{{"actor", p.Value.Actor}, {"listing", p.Value.Listing}} {
			key, name := ref[0], ref[1]
			kind, ok := types[name]
			switch {
			case name == "":
			case !ok:
				fail("credentials", fmt.Sprintf("%s: %s of %s names no profile: %q", p.Place, key, p.Key, name))
			case kind.ForCaller() || variable[name] || key == "actor" && kind == CredentialNone:
				fail("credentials", fmt.Sprintf("%s: %s of %s names a profile that cannot serve for it; use one of type static or client_credentials", p.Place, key, p.Key))
			}
		}
		if p.Value.Type.ForCaller() && len(c.Issuers) > 0 && !slices.ContainsFunc(c.Issuers, func(i Issuer) bool { return i.Issuer == p.Value.Issuer }) {
			fail("credentials", fmt.Sprintf("%s: %s exchanges tokens of an issuer that is not among issuers, so nobody has one", p.Place, p.Key))
		}
	}
}

// resolveCredentials makes paths of secrets absolute.
func (c *Config) resolveCredentials() {
	in := func(k *TokenClient) {
		k.ClientSecret, k.PrivateKey = k.ClientSecret.In(c.folder), k.PrivateKey.In(c.folder)
	}
	for i := range c.Credentials {
		p := &c.Credentials[i].Value
		p.Value = p.Value.In(c.folder)
		in(&p.TokenClient)
	}
	for i := range c.Issuers {
		if d := c.Issuers[i].Delegation; d != nil {
			in(&d.TokenClient)
		}
	}
}
