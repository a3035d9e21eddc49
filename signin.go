package placet

import (
	"context"
	"slices"

	"github.com/placet-dev/placet/issuer"
	"github.com/placet-dev/placet/record"
)

// withSignIn adds the tenants of those who may sign in to those that the
// development issuer may name. Tenants that a file gets later need a new start.
func (o Options) withSignIn(ctx context.Context) (Options, error) {
	if o.Users == nil {
		return o, nil
	}
	if o.Local == nil {
		return o, record.Errorf(record.Invalid, "only the development issuer has users of its own; real people sign in at a real issuer")
	}
	d, err := o.Users.Directory(ctx)
	if err != nil {
		return o, err
	}
	o.Tenants = append(slices.Clone(o.Tenants), d.Tenants()...)
	slices.Sort(o.Tenants)
	o.Tenants = slices.Compact(o.Tenants)
	return o, nil
}

// openIssuer makes the development issuer that people sign in at, if there is one.
func (o Options) openIssuer() (*issuer.Issuer, error) {
	if o.Users == nil {
		return nil, nil
	}
	return issuer.New(issuer.Options{
		Local: o.Local, PublicURL: o.Config.PublicURL, Users: o.Users, Audience: o.Config.Audience(), ConsoleAudience: o.Config.ConsoleAudience(),
		Clock: o.Clock, Random: o.Random, Log: o.Log,
	})
}

// Issuer is the development issuer that people sign in at; nil where there is none.
func (p *Placet) Issuer() *issuer.Issuer { return p.issuer }
