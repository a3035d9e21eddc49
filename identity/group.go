package identity

import (
	"strings"

	"github.com/placet-dev/placet/record"
)

// ResolveGroup reads a reference group:NAME or group:NAME@ISSUER. Without an
// issuer it is taken only if one configured issuer alone asserts groups: equal
// names of two issuers are two groups (rule I1).
func (v *Verifier) ResolveGroup(ref string) (record.Group, error) {
	name, ok := strings.CutPrefix(ref, "group:")
	if !ok || !printable(name) {
		return record.Group{}, record.Errorf(record.Invalid, "%q is not a group; write group:NAME or group:NAME@ISSUER", ref)
	}
	var asserting []string
	var qualified record.Group
	for _, i := range v.issuers {
		// A name may hold @ itself, and one issuer's name may end with another's: the longest wins.
		before, suffixed := strings.CutSuffix(name, "@"+i.Issuer.Issuer)
		if suffixed && len(i.Issuer.Issuer) > len(qualified.Issuer) {
			qualified = record.Group{Issuer: i.Issuer.Issuer, Name: before}
		}
		if i.Claims.Groups != "" {
			asserting = append(asserting, i.Issuer.Issuer)
		}
	}
	if qualified.Issuer != "" {
		return v.checkedGroup(ref, qualified)
	}
	if at := strings.LastIndexByte(name, '@'); at >= 0 && strings.Contains(name[at:], "://") {
		return record.Group{}, record.Errorf(record.Invalid, "%q names an issuer that is not configured", ref)
	}
	switch len(asserting) {
	case 0:
		return record.Group{}, record.Errorf(record.Invalid, "%q: no configured issuer asserts groups; set claims.groups of the issuer", ref)
	case 1:
		return record.Group{Issuer: asserting[0], Name: name}, nil
	default:
		return record.Group{}, record.Errorf(record.Invalid, "%q: several issuers assert groups; write group:NAME@ISSUER", ref)
	}
}

func (v *Verifier) checkedGroup(ref string, g record.Group) (record.Group, error) {
	if g.Name == "" {
		return record.Group{}, record.Errorf(record.Invalid, "%q names no group", ref)
	}
	if v.issuers[g.Issuer].Claims.Groups == "" {
		return record.Group{}, record.Errorf(record.Invalid, "%q: that issuer asserts no groups; set its claims.groups", ref)
	}
	return g, nil
}

func (v *Verifier) resolveAll(refs []string) ([]record.Group, error) {
	var out []record.Group
	for _, ref := range refs {
		g, err := v.ResolveGroup(ref)
		if err != nil {
			return nil, err
		}
		out = append(out, g)
	}
	return out, nil
}
