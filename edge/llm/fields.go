package llm

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// fields are the members of an object, raw.
type fields map[string]jsontext.Value

// fieldsOf decodes an object strictly: names occur once, text is UTF-8, nothing
// follows. Of anything else there are no fields, and ok is false.
func fieldsOf(raw []byte) (fields, bool) {
	if len(raw) == 0 || jsontext.Value(raw).Kind() != '{' {
		return nil, false
	}
	var f fields
	if err := json.Unmarshal(raw, &f); err != nil {
		return nil, false
	}
	return f, true
}

// listOf are the elements of an array; of anything else there are none.
func listOf(raw []byte) (out []jsontext.Value) {
	if len(raw) == 0 || jsontext.Value(raw).Kind() != '[' || json.Unmarshal(raw, &out) != nil {
		return nil
	}
	return out
}

// textOf is the text of a string; of anything else "".
func textOf(raw []byte) (s string) {
	if len(raw) == 0 || jsontext.Value(raw).Kind() != '"' || json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// given reports whether a member is there and says something.
func (f fields) given(name string) bool {
	v, ok := f[name]
	return ok && v.Kind() != 'n'
}

func (f fields) text(name string) string           { return textOf(f[name]) }
func (f fields) list(name string) []jsontext.Value { return listOf(f[name]) }
func (f fields) yes(name string) bool              { return f[name].Kind() == 't' }

// object is a member that is an object; of anything else it has no fields.
func (f fields) object(name string) fields {
	o, _ := fieldsOf(f[name])
	return o
}

// number is a member that is a whole number; -1: it is not.
func (f fields) number(name string) int {
	n := -1
	if f[name].Kind() != '0' || json.Unmarshal(f[name], &n) != nil {
		return -1
	}
	return n
}

// variant is a member that differs from a known one by case only: a provider whose
// reader ignores case would take it (package history, case_variant).
func (f fields) variant(known []string) string {
	for name := range f {
		if slices.Contains(known, name) {
			continue
		}
		if slices.ContainsFunc(known, func(k string) bool { return strings.EqualFold(k, name) }) {
			return name
		}
	}
	return ""
}
