package issuer

import (
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/placet-dev/placet/yamlfile"
)

// Directory is who may sign in, through which clients, and for what. It is the
// shape of a users file.
type Directory struct {
	Version   int                      `yaml:"version,required" doc:"Version of this file's format: 1."`
	Users     yamlfile.Entries[User]   `yaml:"users,required" doc:"People, by the subject of their tokens."`
	Clients   yamlfile.Entries[Client] `yaml:"clients" doc:"Programs, by client ID. Default: dev-agent, and dev-approver for answering."`
	Resources []Resource               `yaml:"resources" doc:"Audiences beside this server's own, such as tool servers."`
}

// User is a person.
type User struct {
	Name     string   `yaml:"name" doc:"How the sign-in page shows them. Default: the subject."`
	Password string   `yaml:"password" doc:"Made up, never a real one. Without it a click signs in."`
	Tenant   string   `yaml:"tenant" default:"dev" doc:"Their tenant."`
	Groups   []string `yaml:"groups" doc:"Their groups."`
	Scopes   []string `yaml:"scopes" doc:"Scopes they may have; a client that asks for none gets all. * stands for every scope that a tool needs."`
}

// Client is a program that asks for tokens: an agent, a service, an approver's tool.
type Client struct {
	Name        string           `yaml:"name" doc:"How the sign-in page shows it. Default: the client ID."`
	Secret      string           `yaml:"secret" doc:"Made up, never a real one. Without it the client is public."`
	Redirects   yamlfile.Strings `yaml:"redirects" doc:"Where a login may return to; on 127.0.0.1, [::1] or localhost with any port."`
	Scopes      []string         `yaml:"scopes" doc:"Scopes that it may have. Default: its user's; none of its own."`
	Tenant      string           `yaml:"tenant" default:"dev" doc:"Its tenant when it acts for itself."`
	Approves    bool             `yaml:"approves" doc:"Its logins are for answering approvals, and never for proposing."`
	ActsAlone   bool             `yaml:"acts_alone" doc:"It may have tokens of its own (client credentials)."`
	Exchanges   bool             `yaml:"exchanges" doc:"It may exchange a user's token for a narrower one (RFC 8693)."`
	Introspects bool             `yaml:"introspects" doc:"It may ask what a token is worth now (RFC 7662)."`
}

// Resource is something that tokens are for.
type Resource struct {
	Audience string   `yaml:"audience,required" doc:"What its tokens name as aud: an absolute URI."`
	Scopes   []string `yaml:"scopes" doc:"Scopes that mean something there; others are left out. Default: all."`
}

// self is the client ID under which the server itself asks.
const self = "placet"

// console is the client ID of the server's own console.
const console = "placet-console"

// terminal is the client ID of placet login.
const terminal = "placet-terminal"

var (
	subjects  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@+-]{0,127}$`)
	clientIDs = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)
	scopes    = regexp.MustCompile(`^[\x21\x23-\x5B\x5D-\x7E]{1,200}$`) // RFC 6749 section 3.3
)

// protocol names scopes that are OpenID Connect's: they open no tool.
var protocol = []string{"openid", "offline_access", "profile", "email", "phone", "address"}

// Parse reads a users file. The error names everything that is wrong with it.
func Parse(name string, text []byte) (*Directory, error) {
	d := new(Directory)
	if err := yamlfile.Decode(name, text, d).Err(); err != nil {
		return nil, err
	}
	if len(d.Clients) == 0 {
		d.Clients = defaultClients()
	}
	return d, nil
}

// Cast is the directory without a file: three people of the tenant dev, and the
// clients that a file has by default.
func Cast() *Directory {
	user := func(subject, name string, groups, scopes []string) yamlfile.Entry[User] {
		return yamlfile.Entry[User]{Key: subject, Value: User{Name: name, Tenant: "dev", Groups: groups, Scopes: scopes}}
	}
	return &Directory{
		Version: 1,
		Users: yamlfile.Entries[User]{
			user("anna", "Anna, support", []string{"support"}, []string{everyScope}),
			user("lena", "Lena, leads support", []string{"support", "leads"}, []string{everyScope}),
			user("otto", "Otto, runs the platform", []string{"platform"}, nil),
		},
		Clients: defaultClients(),
	}
}

func defaultClients() yamlfile.Entries[Client] {
	loopback := yamlfile.Strings{"http://127.0.0.1/callback", "http://localhost/callback"}
	return yamlfile.Entries[Client]{
		{Key: "dev-agent", Value: Client{Name: "An agent", Tenant: "dev", Redirects: loopback}},
		{Key: "dev-approver", Value: Client{Name: "An approver's tool", Tenant: "dev", Redirects: loopback, Approves: true}},
	}
}

// Tenants are those of its people and clients, sorted.
func (d *Directory) Tenants() []string {
	var out []string
	for _, u := range d.Users {
		out = append(out, u.Value.Tenant)
	}
	for _, c := range d.Clients {
		if c.Value.ActsAlone {
			out = append(out, c.Value.Tenant)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (d *Directory) user(subject string) (User, bool) {
	for _, u := range d.Users {
		if u.Key == subject {
			return u.Value, true
		}
	}
	return User{}, false
}

// everyScope is what a person has who may have all that tools need.
const everyScope = "*"

// with writes out what everyScope stands for.
func (d *Directory) with(needed func() []string) *Directory {
	if !slices.ContainsFunc(d.Users, func(e yamlfile.Entry[User]) bool { return slices.Contains(e.Value.Scopes, everyScope) }) {
		return d
	}
	out := *d
	out.Users = slices.Clone(d.Users)
	var all []string
	if needed != nil {
		all = needed()
	}
	for n := range out.Users {
		if u := &out.Users[n].Value; slices.Contains(u.Scopes, everyScope) {
			u.Scopes = append(slices.DeleteFunc(slices.Clone(u.Scopes), func(s string) bool { return s == everyScope }), all...)
		}
	}
	return &out
}

// scopes are all that its people and clients may have.
func (d *Directory) scopes() []string {
	var out []string
	for _, u := range d.Users {
		out = append(out, u.Value.Scopes...)
	}
	for _, c := range d.Clients {
		out = append(out, c.Value.Scopes...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Check is the rules that tie keys together.
func (d *Directory) Check(fail func(key, message string)) {
	if d.Version != 1 {
		fail("version", "is not known to this program; it reads version 1")
	}
	if len(d.Users) == 0 {
		fail("users", "lists nobody")
	}
	taken := map[string]bool{}
	for _, u := range d.Users {
		taken[u.Key] = true
		if !subjects.MatchString(u.Key) {
			fail("users", fmt.Sprintf("a subject is letters, digits and . _ @ + -, at most 128; %q is not", u.Key))
		}
	}
	for _, c := range d.Clients {
		switch {
		case !clientIDs.MatchString(c.Key) || c.Key == self || c.Key == console || c.Key == terminal || strings.HasPrefix(c.Key, registered):
			fail("clients", fmt.Sprintf("a client ID is lower-case letters, digits and . _ -, not %s, %s, %s or %s…; %q is not", self, console, terminal, registered, c.Key))
		case taken[c.Key]:
			// A token whose subject is its client is a program's (RFC 9068 section 2.2).
			fail("clients", fmt.Sprintf("%q is a user too; a program must not be taken for a person", c.Key))
		}
	}
	for _, r := range d.Resources {
		if taken[r.Audience] {
			fail("resources", "lists "+r.Audience+" twice")
		}
		taken[r.Audience] = true
	}
}

// Check is the rules of a user.
func (u *User) Check(fail func(key, message string)) {
	checkText(fail, "name", u.Name)
	checkText(fail, "tenant", u.Tenant)
	for _, g := range u.Groups {
		if g == "" {
			fail("groups", "has an empty name")
		}
		checkText(fail, "groups", g)
	}
	checkScopes(fail, u.Scopes)
}

// Check is the rules of a client.
func (c *Client) Check(fail func(key, message string)) {
	checkText(fail, "name", c.Name)
	checkText(fail, "tenant", c.Tenant)
	checkScopes(fail, c.Scopes)
	for _, r := range c.Redirects {
		if problem := redirectProblem(r); problem != "" {
			fail("redirects", problem)
		}
	}
	privileged := c.ActsAlone || c.Exchanges || c.Introspects
	switch {
	case privileged && c.Secret == "":
		fail("secret", "is needed by a client that acts alone, exchanges or introspects")
	case privileged && c.Approves:
		fail("approves", "is for a person's tool alone: it does not act alone, exchange or introspect (rule D4)")
	case c.Approves && len(c.Redirects) == 0:
		fail("redirects", "is needed: answering takes an interactive login")
	}
}

// Check is the rules of a resource.
func (r *Resource) Check(fail func(key, message string)) {
	if !isResource(r.Audience) {
		fail("audience", "wants an absolute URI without a fragment (RFC 8707), such as https://tools.example.com/mcp")
	}
	checkScopes(fail, r.Scopes)
}

func checkText(fail func(key, message string), key, text string) {
	if len(text) > 200 || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsGraphic(r) }) {
		fail(key, "must be at most 200 bytes without control characters")
	}
}

func checkScopes(fail func(key, message string), list []string) {
	for _, s := range list {
		if !scopes.MatchString(s) || slices.Contains(protocol, s) {
			fail("scopes", "a scope is printable ASCII without spaces, quotes and backslashes, and none of OpenID Connect's own")
		}
	}
}

// isResource reports whether a text can name a resource (RFC 8707 section 2).
func isResource(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.IsAbs() && (u.Host != "" || u.Opaque != "") && !strings.Contains(text, "#") && len(text) <= 500
}

// redirectProblem says why a URI cannot be registered for returning from a login.
func redirectProblem(text string) string {
	u, err := url.Parse(text)
	switch {
	case err != nil || !u.IsAbs() || len(text) > 500 || strings.Contains(text, "#") || u.User != nil:
		return "wants absolute URIs without a fragment, such as http://127.0.0.1/callback"
	case u.Scheme == "http" && !isLoopback(u):
		return "takes http on this machine only: a code travels there"
	case u.Scheme == "https" && u.Host == "", slices.Contains([]string{"javascript", "data", "vbscript", "file", "blob", "about"}, u.Scheme):
		return "takes http, https and the schemes of native programs"
	}
	return ""
}

func isLoopback(u *url.URL) bool {
	return u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback()
}

// mayReturn reports whether a login may return to a URI: one that is registered,
// byte for byte, or that differs from one on this machine in the port alone
// (RFC 8252 section 7.3).
func (c Client) mayReturn(asked string) bool {
	if slices.Contains(c.Redirects, asked) {
		return true
	}
	a, err := url.Parse(asked)
	if err != nil || a.Scheme != "http" || !isLoopback(a) || a.User != nil || strings.Contains(asked, "#") {
		return false
	}
	return slices.ContainsFunc(c.Redirects, func(registered string) bool {
		r, err := url.Parse(registered)
		return err == nil && r.Scheme == "http" && isLoopback(r) && r.Hostname() == a.Hostname() &&
			r.EscapedPath() == a.EscapedPath() && r.RawQuery == a.RawQuery && r.ForceQuery == a.ForceQuery
	})
}
