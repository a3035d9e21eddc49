package dispatch

import (
	"encoding/json"

	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/registry"
)

// Resource finds the entry by which a caller reads a URI, and the arguments that
// the URI stands for; "" when there is none, or when it fits more than one. A
// resource that is named by itself goes before templates that fit it too. It
// decides nothing: the call does.
func (b *Boundary) Resource(c identity.Caller, uri string) (entry string, arguments json.RawMessage) {
	found := make(map[string]json.RawMessage)
	pick := func(fixed bool) string {
		return b.only(c, registry.MethodResource, func(t *registry.Tool) bool {
			if t.Template.Fixed() != fixed {
				return false
			}
			arguments, ok := t.Template.Match(uri)
			found[t.Name] = arguments
			return ok
		})
	}
	name := pick(true)
	if name == "" {
		name = pick(false)
	}
	return name, found[name]
}

// Completion finds the entry by which a caller has arguments completed: of a prompt
// by its name here, or of a resource template by its text.
func (b *Boundary) Completion(c identity.Caller, of registry.Method, ref string) (entry string) {
	return b.only(c, registry.MethodCompletion, func(t *registry.Tool) bool {
		name := t.Completes.Name
		if of == registry.MethodResource {
			name = t.Completes.Upstream
		}
		return t.Completes.Method == of && name == ref
	})
}

// only is the one entry that fits and that the caller may have. Where there is none,
// it is the one whose scope the user lacks, so that the call says which that is.
// Two are none: which of them is meant would be a guess.
func (b *Boundary) only(c identity.Caller, m registry.Method, fits func(*registry.Tool) bool) string {
	a := b.now.Load()
	if a == nil || !c.Valid() {
		return ""
	}
	var admitted, lacking []string
	for _, t := range a.Registry.Reached(m) {
		scope, ok := a.admits(t, c)
		if !ok && scope == "" || !fits(t) {
			continue
		}
		if ok {
			admitted = append(admitted, t.Name)
		} else {
			lacking = append(lacking, t.Name)
		}
	}
	switch {
	case len(admitted) == 1:
		return admitted[0]
	case len(admitted) == 0 && len(lacking) == 1:
		return lacking[0]
	}
	return ""
}
