package placet

import (
	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/passkey"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
)

var _ dispatch.Passkeys = (*passkey.Keys)(nil)

// passkeySite is where people use passkeys, or why nobody can.
func (o Options) passkeySite() (passkey.Site, error) {
	if o.Users == nil && o.Config.Console == nil {
		return passkey.Site{}, record.Errorf(record.Invalid, "passkeys are added and used in the console, where nobody can sign in here; set console")
	}
	return passkey.SiteOf(o.Config.PublicURL)
}

// openPasskeys reads the key that seals passkeys, which lies beside the store, or
// derives it. nil where nobody can use one.
func (o Options) openPasskeys(s secret) (*passkey.Keys, error) {
	site, err := o.passkeySite()
	if err != nil {
		return nil, nil // a rule that demands one is refused when it is loaded
	}
	path := o.Config.StorePath() + ".passkey-key"
	key, err := s.instead(path, "passkeys")
	switch {
	case err != nil:
		return nil, err
	case key == nil:
		return passkey.Open(path, site, o.Random)
	}
	return passkey.New(key, site)
}

// sealed is what the boundary signs with; an interface that holds nothing is none.
func (p *Placet) sealed() dispatch.Passkeys {
	if p.passkeys == nil {
		return nil
	}
	return p.passkeys
}

// evidence makes what proves who signed an answer; nil where nobody signs.
func (p *Placet) evidence() func(record.Call, record.Approval) passkey.Evidence {
	if p.passkeys == nil {
		return nil
	}
	return p.passkeys.Evidence
}

// checkPasskeys refuses rules that nobody could ever meet.
func (p *Placet) checkPasskeys(s *registry.Snapshot) error {
	_, why := p.o.passkeySite()
	if why == nil {
		return nil
	}
	for t := range s.Tools() {
		if t.Approval.Passkey {
			return record.Errorf(record.Invalid, "%s: approval.passkey: nobody could ever say yes: %w", t.Place, why)
		}
	}
	if d := p.o.Config.Approvals.Default; d != nil && d.Passkey {
		return record.Errorf(record.Invalid, "approvals.default.passkey: nobody could ever say yes: %w", why)
	}
	return nil
}
