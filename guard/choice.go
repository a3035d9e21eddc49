package guard

import (
	"encoding/json"
	"regexp"
	"slices"

	"github.com/placet-dev/placet/canon"
)

// choice is the rule for enum, whose value is one of a fixed set, and for query,
// whose value is one of a fixed set of names.
type choice struct {
	values []string
	text   bool // only texts
}

// queryName is the form of a named query: what cannot be taken for a query's text.
var queryName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,127}$`)

func newChoice(s Spec) (rule, error) {
	if len(s.Values) == 0 {
		return nil, wrong("values", "is needed: what the argument may be")
	}
	for i, v := range s.Values {
		switch {
		case slices.Contains(s.Values[:i], v):
			return nil, wrong("values", "holds %q twice", v)
		case s.Type == Query && !queryName.MatchString(v):
			return nil, wrong("values", "holds %q, which is no name of a query: letters, digits and _ . -", v)
		}
	}
	return choice{s.Values, s.Type == Query}, nil
}

func (c choice) accept(v value) (json.RawMessage, *Refusal) {
	text, ok := canon.Text(v.raw)
	if !ok && !c.text {
		text = string(v.raw) // a number or a boolean as canonical JSON writes it
	}
	if !ok && c.text || !slices.Contains(c.values, text) {
		if c.text {
			return nil, refuse("is not one of the named queries")
		}
		return nil, refuse("is not one of the values that this tool may be given")
	}
	return v.raw, nil
}
