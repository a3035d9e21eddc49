package placet

import (
	"context"
	"encoding/json"
	"slices"
	"sync/atomic"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/edge/oauth"
	"github.com/placet-dev/placet/identity"
)

// oauth is what clients are told of tokens for this server.
func (p *Placet) oauth() *oauth.Resource {
	c := p.o.Config
	o := oauth.Options{PublicURL: c.PublicURL, Resource: c.Audience(), Scopes: p.knownScopes(), Clock: p.o.Clock, Log: p.o.Log}
	o.ProofAlgorithms, o.ProofRequired, o.Certificates = identity.ProofAlgorithms(), len(c.Issuers) > 0, c.TLS != nil
	for _, i := range c.Issuers {
		o.Issuers = append(o.Issuers, i.Issuer)
		o.ProofRequired = o.ProofRequired && i.Sender == "dpop"
		if i.Client != nil {
			o.Client = &oauth.Client{ID: i.Client.ID, Port: i.Client.CallbackPort, Scopes: i.Client.Scopes,
				Provider: func(ctx context.Context) (json.RawMessage, error) { return p.verifier.Document(ctx, i.Issuer) }}
		}
	}
	if p.issuer != nil {
		o.Issuers = append(o.Issuers, p.issuer.URL())
	}
	return oauth.New(o)
}

// knownScopes are the scopes that anybody may know of: those of active tools that
// everyone with the scope may call. A tool kept to some callers is not hinted at.
func (p *Placet) knownScopes() func() []string {
	type known struct {
		of     *dispatch.Active
		scopes []string
	}
	var last atomic.Pointer[known] // a challenge costs no walk through the registry
	return func() []string {
		now := p.boundary.Current()
		if now == nil {
			return nil
		}
		if k := last.Load(); k != nil && k.of == now {
			return k.scopes
		}
		k := known{of: now}
		for t := range now.Registry.Tools() {
			if c := t.Callers; t.Scope != "" && c.Principals == nil && c.Tenants == nil && c.Agents == nil && c.Groups == nil {
				k.scopes = append(k.scopes, t.Scope)
			}
		}
		slices.Sort(k.scopes)
		k.scopes = slices.Compact(k.scopes)
		last.Store(&k)
		return k.scopes
	}
}
