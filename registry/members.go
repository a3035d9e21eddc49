package registry

import (
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// members answers which members a schema knows. JSON Schema itself lets every
// member pass that a schema does not mention; a tool call must not carry what
// nobody described and no approver would look for. So:
//
//   - at the top, a member passes only if some applied part of the schema names
//     it, by properties or patternProperties;
//   - deeper, the same holds for an object whose schema names any member; one
//     that names none is free-form by intention and passes;
//   - a schema that says additionalProperties or unevaluatedProperties, true or
//     with a schema of its own, has said that others may come: they pass.
//
// Parts that apply to one place (allOf, anyOf, oneOf, if, $ref and the like)
// are taken together, whether or not they match: which alternative fits is
// validation's business, which has passed by now.
type members struct {
	mu   sync.Mutex
	sets map[*jsonschema.Schema][]*jsonschema.Schema // a schema with all that it applies in place
}

func newMembers() *members {
	return &members{sets: map[*jsonschema.Schema][]*jsonschema.Schema{}}
}

// unknown returns the pointer to the first member, in the order of names, that
// the schema does not know.
func (m *members) unknown(root *jsonschema.Schema, value any) (pointer string, found bool) {
	return m.at(m.applied(root), value, nil, true)
}

// applied returns s with everything it applies in place. Schemas are few and
// fixed, so the answers are kept.
func (m *members) applied(s *jsonschema.Schema) []*jsonschema.Schema {
	m.mu.Lock()
	defer m.mu.Unlock()
	if set, ok := m.sets[s]; ok {
		return set
	}
	set := []*jsonschema.Schema{s}
	for i := 0; i < len(set); i++ {
		for p := range inPlace(set[i]) {
			if p != set[i].Not && !slices.Contains(set, p) {
				set = append(set, p)
			}
		}
	}
	m.sets[s] = set
	return set
}

func (m *members) at(set []*jsonschema.Schema, value any, path []string, top bool) (string, bool) {
	switch v := value.(type) {
	case map[string]any:
		return m.object(set, v, path, top)
	case []any:
		for i, e := range v {
			if at, found := m.at(m.elements(set, i), e, append(path, strconv.Itoa(i)), false); found {
				return at, true
			}
		}
	}
	return "", false
}

func (m *members) object(set []*jsonschema.Schema, v map[string]any, path []string, top bool) (string, bool) {
	names, open := top, false
	for _, s := range set {
		names = names || len(s.Properties)+len(s.PatternProperties) > 0
		open = open || admitsOthers(s)
	}
	if !names && !open || len(v) == 0 {
		return "", false
	}
	for _, name := range sortedKeys(v) {
		here := append(path, name)
		if names && !open && !namedIn(set, name) {
			return pointerOf(here), true
		}
		if !holdsMembers(v[name]) {
			continue
		}
		children := m.named(set, name)
		if at, found := m.at(children, v[name], here, false); found {
			return at, true
		}
	}
	return "", false
}

func admitsOthers(s *jsonschema.Schema) bool {
	switch a := s.AdditionalProperties.(type) {
	case bool:
		if a {
			return true
		}
	case *jsonschema.Schema:
		if a.Bool == nil || *a.Bool {
			return true
		}
	}
	u := s.UnevaluatedProperties
	return u != nil && (u.Bool == nil || *u.Bool)
}

// namedIn reports whether a schema of the set names a member.
func namedIn(set []*jsonschema.Schema, name string) bool {
	for _, s := range set {
		if _, ok := s.Properties[name]; ok {
			return true
		}
		for pattern := range s.PatternProperties {
			if pattern.MatchString(name) {
				return true
			}
		}
	}
	return false
}

func holdsMembers(value any) bool {
	switch value.(type) {
	case map[string]any, []any:
		return true
	}
	return false
}

// named returns what applies to a member.
func (m *members) named(set []*jsonschema.Schema, name string) (children []*jsonschema.Schema) {
	add := func(s *jsonschema.Schema) {
		for _, p := range m.applied(s) {
			if !slices.Contains(children, p) {
				children = append(children, p)
			}
		}
	}
	for _, s := range set {
		here := false
		if p, ok := s.Properties[name]; ok {
			here = true
			add(p)
		}
		for pattern, p := range s.PatternProperties {
			if pattern.MatchString(name) {
				here = true
				add(p)
			}
		}
		if a, ok := s.AdditionalProperties.(*jsonschema.Schema); ok && !here {
			add(a)
		}
		if s.UnevaluatedProperties != nil && !here {
			add(s.UnevaluatedProperties)
		}
	}
	return children
}

// elements returns what applies to an array's element.
func (m *members) elements(set []*jsonschema.Schema, i int) (children []*jsonschema.Schema) {
	add := func(s *jsonschema.Schema) {
		for _, p := range m.applied(s) {
			if !slices.Contains(children, p) {
				children = append(children, p)
			}
		}
	}
	for _, s := range set {
		listed := s.PrefixItems
		rest := []any{s.Items2020, s.UnevaluatedItems}
		switch items := s.Items.(type) {
		case []*jsonschema.Schema:
			listed, rest = items, append(rest, s.AdditionalItems)
		case *jsonschema.Schema:
			rest = append(rest, items)
		}
		if i < len(listed) {
			add(listed[i])
			continue
		}
		for _, r := range rest {
			if p, ok := r.(*jsonschema.Schema); ok && p != nil {
				add(p)
			}
		}
	}
	return children
}

func sortedKeys(v map[string]any) []string {
	keys := make([]string, 0, len(v))
	for k := range v {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// pointerOf is an RFC 6901 pointer, quoted and cut: names come from callers.
func pointerOf(path []string) string {
	var b strings.Builder
	for _, p := range path {
		b.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(p))
	}
	text := []rune(escapeUnprintable(b.String()))
	if len(text) > 100 {
		return string(text[:100]) + "…"
	}
	return string(text)
}

// listed returns the names that the schema's top knows; open means others may come.
func (m *members) listed(root *jsonschema.Schema) (names []string, open bool) {
	for _, s := range m.applied(root) {
		open = open || admitsOthers(s) || len(s.PatternProperties) > 0
		for n := range s.Properties {
			if !slices.Contains(names, n) {
				names = append(names, n)
			}
		}
	}
	slices.Sort(names)
	return names, open
}
