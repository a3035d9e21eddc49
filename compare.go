package placet

import (
	"context"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/edge/api"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/policy/rego"
	"github.com/placet-dev/placet/version"
)

func orderOf(o api.ReloadOrder) Order {
	out := Order{Planned: o.Version, After: o.After}
	if of := o.Of; of != nil {
		out.Files, out.Digest, out.Generation = of.Files, of.Version, of.Generation
	}
	return out
}

// standing is by which version this process decides, and why it reserves nothing.
func (p *Placet) standing() (int64, error) {
	return p.boundary.Generation(), p.boundary.Ready()
}

// compare judges recorded calls of the operator's tenant by two versions. It leaves one
// event: that it was asked.
func (p *Placet) compare(ctx context.Context, o identity.Operator, order api.CompareOrder) (dispatch.Comparison, error) {
	// What is loaded only to compare has an engine of its own, which goes with it.
	beside := &Placet{beside: true, o: p.o, engine: rego.New(), verifier: p.verifier, profiles: p.profiles, store: p.store, passkeys: p.passkeys}
	from, err := beside.versionOf(ctx, order.From)
	if err != nil {
		return dispatch.Comparison{}, err
	}
	to, err := beside.versionOf(ctx, order.To)
	if err != nil {
		return dispatch.Comparison{}, err
	}
	c, err := dispatch.Compare(ctx, p.store, o.Tenant(), order.Since, order.Limit, from, to)
	if err != nil {
		return c, err
	}
	return c, p.boundary.Compared(ctx, o, from.Digest, to.Digest, c)
}

// versionOf loads what an order names; nothing: what is active.
func (p *Placet) versionOf(ctx context.Context, o api.VersionOrder) (dispatch.Active, error) {
	if o.Files != nil {
		return p.load(ctx, version.Stored(p.o.Config.Folder(), o.Files))
	}
	order := Order{Digest: o.Version, Generation: o.Generation}
	if order.Digest == "" && order.Generation == 0 {
		_, digest, err := p.store.Generation(ctx)
		if err != nil {
			return dispatch.Active{}, err
		}
		order.Digest = digest
	}
	files, err := p.earlier(ctx, order)
	if err != nil {
		return dispatch.Active{}, err
	}
	return p.load(ctx, files)
}
