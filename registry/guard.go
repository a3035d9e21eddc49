package registry

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/yamlfile"
)

// GuardEntry is a semantic rule on one argument as the file gives it.
type GuardEntry struct {
	Type     GuardType `yaml:"type,required" doc:"What the argument is: identifier."`
	Pattern  string    `yaml:"pattern" doc:"Regular expression (RE2) that the whole value must match."`
	Resource string    `yaml:"resource" doc:"Kind of thing that it names, for policy and decision points. The argument must be one of targets."`
	Lookup   string    `yaml:"lookup" doc:"Read tool that is asked, as the same user, whether the thing is there for them. The argument must be one of targets."`

	LookupArgument string `yaml:"lookup_argument" doc:"The look-up's argument that takes the value. Default: the one of the same name, else its only required one."`
	LookupFound    string `yaml:"lookup_found" doc:"Member of the look-up's result that must be there and not be null, false or empty; dots go into objects. Default: any result that is no error."`
	LookupTenant   string `yaml:"lookup_tenant" doc:"Member of the look-up's result that must name the caller's tenant; dots go into objects."`
}

// GuardType is what an argument is.
type GuardType string

const Identifier GuardType = "identifier"

// laterGuards are known and refused until the code that checks them is there.
var laterGuards = []GuardType{"path", "url", "email", "amount", "enum", "text", "name", "query"}

func (GuardType) Choices() []string {
	out := []string{string(Identifier)}
	for _, t := range laterGuards {
		out = append(out, string(t))
	}
	return out
}

// Guard is a semantic rule on one argument. Its fields must not be changed.
type Guard struct {
	Argument string
	Type     GuardType
	Pattern  string
	Resource string
	Lookup   *Lookup // nil: nobody is asked

	matches *regexp.Regexp // nil: every value
}

// Lookup is a read tool that is asked whether a thing is there for the caller.
type Lookup struct {
	Tool     string
	Argument string // the look-up's argument that takes the value
	Found    string // member of its result that must be there; "" for any result
	Tenant   string // member of its result that must name the caller's tenant; "" for none
}

// maxElements bounds the identifiers in one argument.
const maxElements = 50

// Guard returns the guard of an argument, or nil.
func (t *Tool) Guard(argument string) *Guard {
	for i := range t.Guards {
		if t.Guards[i].Argument == argument {
			return &t.Guards[i]
		}
	}
	return nil
}

// CheckGuards asks every guard about its argument, in canonical form. An argument
// that is not there is the schema's business. The error names argument and rule,
// never a value.
func (t *Tool) CheckGuards(canonical []byte) error {
	for i := range t.Guards {
		g := &t.Guards[i]
		value, ok := canon.Lookup(canonical, g.Argument)
		if !ok {
			continue
		}
		if _, err := g.Identifiers(value); err != nil {
			return err
		}
	}
	return nil
}

// Identifiers are what an argument's value names: one text or integer, or a list of them.
func (g *Guard) Identifiers(value json.RawMessage) ([]json.RawMessage, error) {
	elements := []json.RawMessage{value}
	if len(value) > 0 && value[0] == '[' {
		elements = nil
		for e := range canon.Elements(value) {
			elements = append(elements, e)
		}
	}
	if len(elements) > maxElements {
		return nil, record.Errorf(record.Invalid, "%s names more than %d things at once", g.Argument, maxElements)
	}
	for _, e := range elements {
		if !g.accepts(e) {
			return nil, record.Errorf(record.Invalid, "%s has not the form of an identifier of this kind", g.Argument)
		}
	}
	return elements, nil
}

func (g *Guard) accepts(value json.RawMessage) bool {
	text, ok := canon.Text(value)
	if !ok {
		text = string(value)
		if strings.Trim(strings.TrimPrefix(text, "-"), "0123456789") != "" {
			return false // neither a text nor an integer
		}
	}
	return text != "" && (g.matches == nil || g.matches.MatchString(text))
}

// guards checks an entry's guards as far as they can be checked without other entries.
func (b *builder) guards(t *Tool, e Entry, path string) {
	for _, entry := range e.Guards {
		g, path := entry.Value, path+".guards."+entry.Key
		guard := Guard{Argument: entry.Key, Type: g.Type, Pattern: g.Pattern, Resource: g.Resource}
		switch {
		case slices.Contains(laterGuards, g.Type):
			b.fail(entry.Place, path+".type", "%s is not supported yet; use identifier", g.Type)
		case !argumentName.MatchString(entry.Key):
			b.fail(entry.Place, path, "wants the name of an argument")
		case (g.Resource != "" || g.Lookup != "") && !slices.Contains(t.Targets, entry.Key):
			b.fail(entry.Place, path, "names a thing the call acts on, so %s must be one of targets", entry.Key)
		case g.Lookup == "" && (g.LookupArgument != "" || g.LookupFound != "" || g.LookupTenant != ""):
			b.fail(entry.Place, path, "says how to read a look-up, and names none; set lookup")
		case g.Resource != "" && !toolName.MatchString(g.Resource):
			b.fail(entry.Place, path+".resource", "is lower-case letters, digits and _ . -, and starts with a letter")
		}
		if g.Pattern != "" {
			var err error
			if guard.matches, err = regexp.Compile(`\A(?:` + g.Pattern + `)\z`); err != nil {
				b.fail(entry.Place, path+".pattern", "is no regular expression (RE2)")
			}
		}
		if g.Lookup != "" {
			guard.Lookup = &Lookup{g.Lookup, g.LookupArgument, g.LookupFound, g.LookupTenant}
			b.asked = append(b.asked, asked{t, entry.Key, entry.Place, path})
		}
		t.Guards = append(t.Guards, guard)
	}
	slices.SortFunc(t.Guards, func(a, b Guard) int { return strings.Compare(a.Argument, b.Argument) })
}

// asked is a guard whose look-up is checked once every tool is known.
type asked struct {
	tool     *Tool
	argument string
	place    yamlfile.Place
	path     string
}

// lookups checks that every look-up is a read tool that takes the value, and that
// asking cannot go on for ever (rule C5).
func (b *builder) lookups() {
	for _, a := range b.asked {
		l := a.tool.Guard(a.argument).Lookup
		other := b.snapshot.all[l.Tool]
		switch {
		case b.snapshot.all[a.tool.Name] == nil:
			continue // refused itself
		case other == nil:
			b.fail(a.place, a.path+".lookup", "there is no tool %q%s", l.Tool, meant(l.Tool, sortedKeysOf(b.snapshot.all)))
			continue
		case !other.Read:
			b.fail(a.place, a.path+".lookup", "%s is not marked read: true, and a look-up must change nothing", l.Tool)
			continue
		case slices.ContainsFunc(other.Guards, func(g Guard) bool { return g.Lookup != nil }):
			b.fail(a.place, a.path+".lookup", "%s has a look-up of its own; a look-up must not need another", l.Tool)
			continue
		}
		if problem := l.resolve(a.argument, other); problem != "" {
			b.fail(a.place, a.path+".lookup_argument", "%s", problem)
		}
	}
}

// resolve finds the look-up's argument that takes the value. Without a pinned
// schema the look-up is quarantined and nothing can be asked.
func (l *Lookup) resolve(argument string, other *Tool) (problem string) {
	if other.input == nil {
		return ""
	}
	names, open := other.input.known.listed(other.input.compiled)
	var shape struct {
		Required []string `json:"required"`
	}
	_ = json.Unmarshal(other.listed, &shape) // compiled before: it is an object
	switch {
	case l.Argument != "" && !open && !slices.Contains(names, l.Argument):
		return "there is no argument " + l.Argument + " of " + other.Name + "; its arguments are " + strings.Join(names, ", ")
	case l.Argument != "":
	case slices.Contains(names, argument):
		l.Argument = argument
	case len(shape.Required) == 1:
		l.Argument = shape.Required[0]
	default:
		return "say which argument of " + other.Name + " takes the value; its arguments are " + strings.Join(names, ", ")
	}
	return ""
}
