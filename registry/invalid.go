package registry

import (
	"errors"
	"fmt"
	"strings"

	"github.com/placet-dev/placet/record"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// invalid turns the library's error into ours: at most three places, each with
// the rule that is broken. Values are left out, the schema's own words are in
// the list that the caller already has.
func invalid(what string, err error) error {
	var v *jsonschema.ValidationError
	if !errors.As(err, &v) {
		return record.Errorf(record.Invalid, "%s: %s", what, err)
	}
	var found []string
	collect(v, &found)
	return record.Errorf(record.Invalid, "%s: %s", what, strings.Join(found, "; "))
}

// collect gathers the leaves. Below a choice between schemas the leaves would
// be the faults of each alternative, so the choice itself is named.
func collect(v *jsonschema.ValidationError, found *[]string) {
	if len(*found) == 3 {
		return
	}
	switch v.ErrorKind.(type) {
	case *kind.AnyOf, *kind.OneOf:
	default:
		if len(v.Causes) > 0 {
			for _, c := range v.Causes {
				collect(c, found)
			}
			return
		}
	}
	at := pointerOf(v.InstanceLocation)
	if at == "" {
		at = "the object"
	}
	*found = append(*found, at+" "+rule(v.ErrorKind))
}

// rule says what a kind of fault means, without a value of the caller's.
func rule(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Type:
		return fmt.Sprintf("wants %s, got %s", strings.Join(k.Want, " or "), k.Got)
	case *kind.Required:
		return "needs " + pointerNames(k.Missing)
	case *kind.DependentRequired:
		return "needs " + pointerNames(k.Missing)
	case *kind.Dependency:
		return "needs " + pointerNames(k.Missing)
	case *kind.AdditionalProperties:
		return "has members the tool does not know: " + pointerNames(k.Properties)
	case *kind.Enum, *kind.Const:
		return "is none of the values the schema lists"
	case *kind.Pattern:
		return "does not match the schema's pattern"
	case *kind.Format:
		return "is not of the format the schema names"
	case *kind.MinLength:
		return fmt.Sprintf("is shorter than %d", k.Want)
	case *kind.MaxLength:
		return fmt.Sprintf("is longer than %d", k.Want)
	case *kind.MinItems:
		return fmt.Sprintf("has fewer than %d elements", k.Want)
	case *kind.MaxItems:
		return fmt.Sprintf("has more than %d elements", k.Want)
	case *kind.UniqueItems:
		return "has equal elements"
	case *kind.Minimum, *kind.ExclusiveMinimum:
		return "is below the schema's minimum"
	case *kind.Maximum, *kind.ExclusiveMaximum:
		return "is above the schema's maximum"
	case *kind.MultipleOf:
		return "is not a multiple of what the schema says"
	case *kind.AnyOf, *kind.OneOf:
		return "fits none of the schema's alternatives, or too many"
	case *kind.FalseSchema:
		return "must not be there"
	}
	if path := k.KeywordPath(); len(path) > 0 {
		return "breaks the schema's rule " + path[0]
	}
	return "breaks the schema"
}

// pointerNames lists at most five names, cut and escaped.
func pointerNames(names []string) string {
	var out []string
	for i, n := range names {
		if i == 5 {
			out = append(out, "…")
			break
		}
		out = append(out, strings.TrimPrefix(pointerOf([]string{n}), "/"))
	}
	return strings.Join(out, ", ")
}
