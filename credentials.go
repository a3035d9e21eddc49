package placet

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/placet-dev/placet/config"
	"github.com/placet-dev/placet/credential"
	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/issuer"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
	toolmcp "github.com/placet-dev/placet/tool/mcp"
)

// credentials obtains what the boundary's calls are made with.
type credentials struct{ profiles *credential.Profiles }

var _ dispatch.Credentials = credentials{}

// Obtain implements dispatch.Credentials. A command has its credential in its
// environment since it was started; its calls carry nothing.
func (c credentials) Obtain(ctx context.Context, who identity.Caller, s *registry.Server, t *registry.Tool) (dispatch.Credential, error) {
	if s.Kind == registry.KindQueries {
		return c.connection(s)
	}
	a, err := c.profiles.Obtain(ctx, s.Credential, credential.Ask{Owner: who.Owner(), Subject: subjectOf(who), Scope: t.Scope})
	if err != nil {
		return dispatch.Credential{}, err
	}
	own, err := sendable(s, a)
	return own.Credential, err
}

// own is what this program is known by at a server, for what it sends without a caller.
func (c credentials) own(ctx context.Context, s *registry.Server) (toolmcp.Own, error) {
	a, err := c.profiles.Own(ctx, s.Credential)
	if err != nil {
		return toolmcp.Own{}, err
	}
	return sendable(s, a)
}

// Own is what this program is known by at a server: for whoever asks servers what
// they offer without serving.
func (c *Checked) Own(ctx context.Context, s *registry.Server) (toolmcp.Own, error) {
	return credentials{c.placet.profiles}.own(ctx, s)
}

// sendable holds together what the profile gives and what the server can take. The
// check of the files has done so already; here it fails closed.
func sendable(s *registry.Server, a credential.Attachment) (toolmcp.Own, error) {
	command := len(s.Command) > 0
	if command && a.Header != "" || !command && a.Variable != "" {
		return toolmcp.Own{}, record.Errorf(record.Forbidden, "credential profile %q does not fit server %s", s.Credential, s.Name)
	}
	if command {
		return toolmcp.Own{Variable: a.Variable, Value: a.Value.Reveal()}, nil
	}
	return toolmcp.Own{Credential: dispatch.Credential{Header: a.Header, Value: a.Value.Reveal(), Expires: a.Expires, Refused: a.Refused}}, nil
}

func subjectOf(c identity.Caller) credential.Subject {
	p := c.Presented()
	if p.None() {
		return credential.Subject{}
	}
	return credential.Subject{Token: credential.Secret(p.Reveal()), Session: p.Session(), Scopes: c.Scopes(), Expires: p.Expires()}
}

// openProfiles reads the secrets that the profiles refer to.
func (o Options) openProfiles() (*credential.Profiles, error) {
	var list []credential.Profile
	for _, e := range o.Config.Credentials {
		p, err := o.profile(e.Key, e.Value)
		if err != nil {
			return nil, record.Errorf(record.Invalid, "%s: credentials.%s: %w", e.Place, e.Key, err)
		}
		list = append(list, p)
	}
	return credential.NewProfiles(list, o.profileOptions())
}

func (o Options) profileOptions() credential.ProfileOptions {
	return credential.ProfileOptions{Clock: o.Clock, Random: o.Random, HTTP: o.HTTP, Log: o.Log}
}

func (o Options) profile(name string, c config.Credential) (credential.Profile, error) {
	p := credential.Profile{
		Name: name, Type: credential.Type(c.Type), Header: c.Header, Variable: c.Variable, Audience: c.Audience, Resource: c.Resource,
		Scope: c.Scope, AlsoScopes: c.AlsoScopes, MaxAge: c.MaxAge, Actor: c.Actor, Listing: c.Listing,
	}
	for _, s := range c.Scopes {
		if p.Scopes == nil {
			p.Scopes = map[string][]string{}
		}
		p.Scopes[s.Key] = s.Value
	}
	if !c.Value.IsZero() {
		value, err := c.Value.Read(o.LookupEnv, o.ReadFile)
		if err != nil {
			return p, fmt.Errorf("value: %w", err)
		}
		p.Value = credential.Secret(value)
	}
	if c.Type == config.CredentialNone || c.Type == config.CredentialStatic {
		return p, nil
	}
	var err error
	p.Client, err = o.tokenClient(c.TokenClient)
	p.Client.Issuer, p.Client.TokenURL = c.Issuer, c.TokenURL
	return p, err
}

// tokenClient reads this server's secret or key at an issuer.
func (o Options) tokenClient(c config.TokenClient) (credential.Client, error) {
	out := credential.Client{ID: c.ClientID, Post: c.ClientAuth == "post", KeyID: c.KeyID, Audience: c.AssertionAudience}
	ref, into, key := c.ClientSecret, &out.Secret, "client_secret"
	if !c.PrivateKey.IsZero() {
		ref, into, key = c.PrivateKey, &out.Key, "private_key"
	}
	value, err := ref.Read(o.LookupEnv, o.ReadFile)
	if err != nil {
		return out, fmt.Errorf("%s: %w", key, err)
	}
	*into = credential.Secret(value)
	return out, nil
}

// checkCredentials refuses a registry whose servers name profiles that are not
// there, or that cannot serve for them.
func (p *Placet) checkCredentials(snapshot *registry.Snapshot) error {
	for s := range snapshot.Servers() {
		if s.Credential == "" {
			continue
		}
		if problem := p.credentialProblem(s); problem != "" {
			return record.Errorf(record.Invalid, "%s: servers.%s.credential: %s", s.Place, s.Name, problem)
		}
	}
	for t := range snapshot.Tools() {
		if problem := p.operatorsProblem(snapshot, t); problem != "" {
			return record.Errorf(record.Invalid, "%s: tools.%s.reconcile.operators: %s", t.Place, t.Name, problem)
		}
		s, ok := snapshot.Server(t.Server)
		if !ok || s.Credential == "" {
			continue
		}
		if profile, ok := p.profiles.Profile(s.Credential); ok && profile.ForCaller() {
			if _, ok := profile.Wants(t.Scope); !ok {
				return record.Errorf(record.Invalid, "%s: tools.%s.scope: credential profile %q has no scopes for it; add them to its scopes", t.Place, t.Name, s.Credential)
			}
		}
	}
	return nil
}

// operatorsProblem says why operators cannot ask the tool that an entry reconciles
// with: they have no token of a user that could be exchanged, and use nobody else's.
func (p *Placet) operatorsProblem(snapshot *registry.Snapshot, t *registry.Tool) string {
	if t.Reconcile == nil || !t.Reconcile.Operators {
		return ""
	}
	other, _ := snapshot.Tool(t.Reconcile.Tool)
	if other == nil {
		return "" // quarantined: nobody asks it
	}
	s, _ := snapshot.Server(other.Server)
	if s == nil || s.Credential == "" {
		return ""
	}
	if profile, ok := p.profiles.Profile(s.Credential); ok && profile.ForCaller() {
		return fmt.Sprintf("%s is called with credential profile %q, which exchanges its user's token; operators have none, so its callers alone can ask", other.Name, s.Credential)
	}
	return ""
}

func (p *Placet) credentialProblem(s *registry.Server) string {
	profile, ok := p.profiles.Profile(s.Credential)
	command := len(s.Command) > 0
	switch {
	case !ok:
		return fmt.Sprintf("there is no profile %q; profiles are credentials in %s", s.Credential, p.o.Config.File())
	case s.Kind == registry.KindQueries:
		return connectionProblem(profile)
	case profile.Type == credential.None:
		return ""
	case command && (profile.Type != credential.Static || profile.Variable == ""):
		return fmt.Sprintf("a command takes its credential from its environment: profile %q must be static, with a variable", s.Credential)
	case command && slices.Contains(s.Env, profile.Variable):
		return fmt.Sprintf("the variable %s is in env too; remove it there", profile.Variable)
	case !command && profile.Variable != "":
		return fmt.Sprintf("profile %q is for commands (variable); a url needs one with a header", s.Credential)
	}
	return ""
}

// describe is what the configuration says of the profiles, without a secret, so
// that a change of it is a new version of what decides.
func describe(list config.Credentials) []byte {
	var b strings.Builder
	for _, e := range list {
		fmt.Fprintf(&b, "%s %+v\n", e.Key, e.Value)
	}
	return []byte(b.String())
}

// delegations is the live source of those who are away.
type delegations struct {
	sources  *credential.Delegations
	verifier *identity.Verifier
}

var _ dispatch.Delegations = delegations{}

// Grant implements dispatch.Delegations.
func (d delegations) Grant(ctx context.Context, c identity.Caller, until time.Time) (record.Delegation, error) {
	return d.sources.Grant(ctx, c.Owner(), subjectOf(c), until)
}

// Caller implements dispatch.Delegations. The token that the issuer answers with is
// verified like any caller's. What replaces the delegation is returned beside an
// error too: the issuer may have used up the one before.
func (d delegations) Caller(ctx context.Context, owner record.Owner, given record.Delegation) (identity.Caller, record.Delegation, error) {
	now, err := d.sources.Refresh(ctx, owner, given)
	if err != nil {
		return identity.Caller{}, given, err
	}
	c, err := d.verifier.Delegated(ctx, now.Token.Reveal(), owner, now.Scopes)
	return c, now.Delegation, err
}

// Withdraw implements dispatch.Delegations.
func (d delegations) Withdraw(ctx context.Context, given record.Delegation) error {
	return d.sources.Withdraw(ctx, given)
}

// openDelegations returns nil when no issuer is a live source. Its key lies beside
// the store, as those of dispatch tokens do.
func (o Options) openDelegations(dev *issuer.Issuer) (*credential.Delegations, error) {
	var list []credential.Source
	if dev != nil {
		// Its sessions end with the process, and with them what they back.
		id, secret := dev.Self()
		list = append(list, credential.Source{Audience: []string{o.Config.Audience()}, Max: 12 * time.Hour,
			Client: credential.Client{Issuer: LocalIssuer, TokenURL: dev.URL() + "/token", ID: id, Secret: credential.Secret(secret)}})
	}
	for _, i := range o.Config.Issuers {
		if i.Delegation == nil {
			continue
		}
		client, err := o.tokenClient(i.Delegation.TokenClient)
		if err != nil {
			return nil, record.Errorf(record.Invalid, "issuers: delegation of %s: %w", i.Issuer, err)
		}
		client.Issuer = i.Issuer
		list = append(list, credential.Source{Client: client, Audience: i.Audience[:1], Max: i.Delegation.Max})
	}
	if len(list) == 0 {
		return nil, nil
	}
	return credential.OpenDelegations(o.Config.StorePath()+".delegation-key", list, o.profileOptions())
}
