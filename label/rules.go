package label

import "slices"

// Labels that a lineage carries. A class of data is the label "class:" and its name.
const (
	Untrusted = "untrusted" // it read what others can write
	Sensitive = "sensitive" // it read what must not get out
	Unseen    = "unseen"    // nobody shows what its model reads (rule F3)
	ClassOf   = "class:"
)

// Rules are what the registry declares of a tool's arguments.
type Rules struct {
	Targets  []Target            `json:"targets,omitempty"`   // what a call acts on
	Names    []string            `json:"names,omitempty"`     // arguments that name a new thing
	AskedFor []string            `json:"asked_for,omitempty"` // words of which the user must have typed one
	Folded   []string            `json:"folded,omitempty"`    // arguments typed text or name: compared without case
	Lookups  map[string][]string `json:"directory,omitempty"` // by argument: look-ups whose values count as the operator's
	Links    []string            `json:"links_from,omitempty"`
	GivenAny bool                `json:"given_any,omitempty"` // given values count for targets of other names

	Financial   bool `json:"financial,omitempty"`
	Destructive bool `json:"destructive,omitempty"`
}

// Target is an argument that names what a call acts on; dots go into objects, and
// lists are walked.
type Target struct {
	Argument string   `json:"argument"`
	Kind     string   `json:"kind"`
	Values   []string `json:"values,omitempty"` // stated by the operator
}

// folded reports whether case does not matter: only for arguments typed text or name.
func (r Rules) folded(t Target) bool {
	return t.Kind == "text" || t.Kind == "name" || slices.Contains(r.Folded, t.Argument)
}

// Origins of declared fields.
const (
	Clean  = "clean"  // nobody outside can cause the value
	Minted = "minted" // an ID that the server made
	Given  = "given"  // structural, and others can set it
)

// Formats of a result's text.
const (
	JSON = "json"
	YAML = "yaml"
)

// Results are what the registry declares of what a tool returns.
type Results struct {
	Untrusted bool     `json:"untrusted,omitempty"`
	Sensitive bool     `json:"sensitive,omitempty"`
	Classes   []string `json:"classes,omitempty"`
	Format    string   `json:"format,omitempty"`
	Records   string   `json:"records,omitempty"` // where the list of records is; dots go into objects
	Name      []string `json:"name,omitempty"`    // fields that a user calls a record by
	Fields    []Field  `json:"fields,omitempty"`
	Only      []string `json:"only,omitempty"` // the fields that are returned; all others are left out

	// Listed says that another tool's directory names this one, and Linked that its
	// links may be fetched: then those values are indexed too.
	Listed bool `json:"listed,omitempty"`
	Linked bool `json:"linked,omitempty"`
}

// Field is one declared field of a record.
type Field struct {
	Name   string            `json:"name"`
	Origin string            `json:"origin"`
	Kind   string            `json:"kind"`
	Also   []string          `json:"also,omitempty"` // other words for it
	When   map[string]string `json:"when,omitempty"` // other fields' values that make this one count
}

// Labels are what a call of the tool brings to its lineage.
func (r Results) Labels() []string {
	var out []string
	if r.Untrusted {
		out = append(out, Untrusted)
	}
	if r.Sensitive {
		out = append(out, Sensitive)
	}
	for _, c := range r.Classes {
		out = append(out, ClassOf+c)
	}
	return out
}

// Taints reports whether a label makes a lineage a labelled one.
func Taints(label string) bool { return label == Untrusted || label == Sensitive }
