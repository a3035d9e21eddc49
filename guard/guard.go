package guard

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/record"
)

// Type is what an argument is.
type Type string

const (
	Path       Type = "path"
	URL        Type = "url"
	Host       Type = "host"
	Email      Type = "email"
	Identifier Type = "identifier"
	Query      Type = "query"
	Enum       Type = "enum"
	Amount     Type = "amount"
	Name       Type = "name"
	Text       Type = "text"
	Size       Type = "size"
)

// Types are all types, in the order of the documentation.
func Types() []Type {
	return []Type{Path, URL, Host, Email, Identifier, Query, Enum, Amount, Name, Text, Size}
}

// Spec is what an operator says of one argument. Which fields a type takes is
// told by [New]; a field that the type does not take is refused.
type Spec struct {
	Argument string // its name; a.b and items[].url go into objects and arrays
	Type     Type
	Pattern  string // identifier: RE2 that the whole value must match

	Instead   string   `json:",omitempty"` // what the model is told to do instead
	MaxItems  int      `json:",omitempty"` // how many values a list may hold; 0 means 50
	MaxLength int      `json:",omitempty"` // characters of one value; 0 means the type's own
	Root      string   `json:",omitempty"` // path: the folder that nothing may leave
	Relative  bool     `json:",omitempty"` // path: the tool starts at the root itself
	Local     bool     `json:",omitempty"` // path: the root is on this machine, so links can be followed
	Schemes   []string `json:",omitempty"` // url: default https
	Hosts     []string `json:",omitempty"` // url, host: allowed names; *.example.com is every name below
	Ports     []int    `json:",omitempty"` // url: default that of the scheme
	Networks  []string `json:",omitempty"` // url, host: private networks that may be reached
	Domains   []string `json:",omitempty"` // email: allowed domains; *.example.com is every name below
	Addresses []string `json:",omitempty"` // email: allowed addresses beside those of domains
	Values    []string `json:",omitempty"` // enum, query: the fixed set
	Currency  string   `json:",omitempty"` // amount: a code, or {argument}
	Min       string   `json:",omitempty"` // amount
	Max       string   `json:",omitempty"` // amount
	Decimals  *int     `json:",omitempty"` // amount: digits after the point; default by currency
	OneLine   bool     `json:",omitempty"` // text: no line breaks
	Secrets   bool     `json:",omitempty"` // text: what looks like a secret is refused

	MaxMembers int `json:",omitempty"` // size: members of an object, in all
	MaxBytes   int `json:",omitempty"` // size: of the canonical form
	MaxDepth   int `json:",omitempty"` // size: objects and arrays within each other
}

// Guard is a compiled Spec. It is safe for concurrent use.
type Guard struct {
	spec  Spec
	ways  [][]string
	rule  rule
	items int
}

// rule is the part of a guard that knows its type.
type rule interface {
	// accept returns the value's normal form, or the value itself, or a refusal.
	accept(v value) (json.RawMessage, *Refusal)
}

// examiner is a rule that also looks at the world.
type examiner interface {
	examine(ctx context.Context, v value, w World) *Refusal
}

// value is one value of an argument, with what stands around it.
type value struct {
	raw    json.RawMessage
	beside []byte // the object that holds it
	owner  record.Owner
}

// text is a value that must be a text.
func (v value) text() (string, *Refusal) {
	s, ok := canon.Text(v.raw)
	if !ok {
		return "", refuse("must be text")
	}
	return s, nil
}

// World is what examining may look at.
type World struct {
	Resolver  Resolver // nil: every name that must be resolved is refused
	Files     []string // files and folders of Placet itself (rule K2)
	Zones     Zones    // what the tool may reach, beside what its guards say
	Listeners []string // host:port where Placet itself listens (rule K2)
}

// maxItems is how many values one argument may hold unless the entry says otherwise.
const maxItems = 50

// SpecError says what is wrong with a spec, and in which field.
type SpecError struct {
	Key     string // as configuration spells it
	Message string
}

func (e *SpecError) Error() string { return e.Key + " " + e.Message }

func wrong(key, format string, args ...any) error {
	return &SpecError{key, fmt.Sprintf(format, args...)}
}

// New compiles a spec. The error is a *SpecError.
func New(s Spec) (*Guard, error) {
	ways, ok := waysTo(s.Argument)
	if !ok {
		return nil, wrong("", "wants the name of an argument, or a way into one such as customer.email or items[].url")
	}
	if err := s.foreign(); err != nil {
		return nil, err
	}
	if s.MaxItems < 0 || s.MaxLength < 0 {
		return nil, wrong("max_items", "and max_length must be more than 0")
	}
	g := &Guard{spec: s, ways: ways, items: s.MaxItems}
	if g.items == 0 {
		g.items = maxItems
	}
	make, ok := map[Type]func(Spec) (rule, error){
		Path: newPath, URL: newURL, Host: newHost, Email: newEmail, Identifier: newIdentifier,
		Query: newChoice, Enum: newChoice, Amount: newAmount, Name: newText, Text: newText, Size: newSize,
	}[s.Type]
	if !ok {
		return nil, wrong("type", "is none that this program knows")
	}
	var err error
	g.rule, err = make(s)
	return g, err
}

// foreign refuses fields that belong to other types: a bound that nothing reads
// would protect nothing.
func (s Spec) foreign() error {
	for _, f := range []struct {
		key   string
		set   bool
		types []Type
	}{
		{"pattern", s.Pattern != "", []Type{Identifier}},
		{"max_length", s.MaxLength != 0, []Type{Path, URL, Identifier, Name, Text}},
		{"root", s.Root != "", []Type{Path}}, {"relative", s.Relative, []Type{Path}},
		{"schemes", s.Schemes != nil, []Type{URL}}, {"ports", s.Ports != nil, []Type{URL}},
		{"hosts", s.Hosts != nil, []Type{URL, Host}}, {"networks", s.Networks != nil, []Type{URL, Host}},
		{"domains", s.Domains != nil, []Type{Email}}, {"addresses", s.Addresses != nil, []Type{Email}},
		{"values", s.Values != nil, []Type{Enum, Query}},
		{"currency", s.Currency != "", []Type{Amount}}, {"min", s.Min != "", []Type{Amount}}, {"max", s.Max != "", []Type{Amount}},
		{"decimals", s.Decimals != nil, []Type{Amount}},
		{"one_line", s.OneLine, []Type{Text}}, {"secrets", s.Secrets, []Type{Text}},
		{"max_members", s.MaxMembers != 0, []Type{Size}}, {"max_bytes", s.MaxBytes != 0, []Type{Size}}, {"max_depth", s.MaxDepth != 0, []Type{Size}},
	} {
		if f.set && !slices.Contains(f.types, s.Type) {
			return wrong(f.key, "says nothing for a guard of type %s; it belongs to %s", s.Type, names(f.types))
		}
	}
	return nil
}

func names(types []Type) string {
	var out []string
	for _, t := range types {
		out = append(out, string(t))
	}
	return strings.Join(out, ", ")
}

// Spec is what the guard was made of.
func (g *Guard) Spec() Spec { return g.spec }

// Accept asks every guard about its argument, in canonical form, and returns the
// arguments in normal form. An argument that is not there is the schema's
// business. Accepting what it returned gives the same again.
func Accept(guards []*Guard, arguments []byte, o record.Owner) ([]byte, *Refusal) {
	out := arguments
	for _, g := range guards {
		var refusal *Refusal
		if out, refusal = g.Accept(out, o); refusal != nil {
			return nil, refusal
		}
	}
	return out, nil
}

// Accept is [Accept] for one guard.
func (g *Guard) Accept(arguments []byte, o record.Owner) ([]byte, *Refusal) {
	return g.visit(arguments, o, g.rule.accept)
}

// Examine looks whether accepted arguments may be used in the world as it is now.
func Examine(ctx context.Context, guards []*Guard, arguments []byte, o record.Owner, w World) *Refusal {
	for _, g := range guards {
		if refusal := g.Examine(ctx, arguments, o, w); refusal != nil {
			return refusal
		}
	}
	return nil
}

// Examine is [Examine] for one guard.
func (g *Guard) Examine(ctx context.Context, arguments []byte, o record.Owner, w World) *Refusal {
	look, ok := g.rule.(examiner)
	if !ok {
		return nil
	}
	_, refusal := g.visit(arguments, o, func(v value) (json.RawMessage, *Refusal) {
		return v.raw, look.examine(ctx, v, w)
	})
	return refusal
}
