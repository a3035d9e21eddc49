package registry

import (
	"slices"
	"strings"

	"github.com/placet-dev/placet/guard"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Finding is something about a tool's arguments that lets more pass than its
// operator may want.
type Finding struct {
	Tool     string `json:"tool"`
	Place    string `json:"place"`
	Argument string `json:"argument,omitempty"`
	Kind     string `json:"kind"`
	Advice   string `json:"advice"`
}

// Kinds of findings.
const (
	FreeText     = "free_text"        // a text without a maximum
	Unbounded    = "unbounded_number" // a number without bounds
	EndlessList  = "endless_list"     // a list without a maximum
	OpenObject   = "open_object"      // members that nobody described
	Interpreter  = "interpreter"      // an argument that says what to do
	Unguarded    = "unguarded"        // a name or format that a guard is for, and none is there
	maxLintDepth = 8
)

// Lint looks at the pinned schema beside the guards. A tool without a pin has
// nothing to look at.
func (t *Tool) Lint() []Finding {
	if t.input == nil {
		return nil
	}
	l := &linter{tool: t, known: t.input.known}
	set := l.known.applied(t.input.compiled)
	l.object(set, "", 0)
	l.interpreter(set)
	return l.found
}

type linter struct {
	tool  *Tool
	known *members
	found []Finding
}

func (l *linter) add(at, kind, advice string) {
	l.found = append(l.found, Finding{l.tool.Name, l.tool.Place, at, kind, advice})
}

// guarded reports whether a guard is about a place, and of which type.
func (l *linter) guarded(at string) (guard.Type, bool) {
	plain := func(s string) string { return strings.ReplaceAll(s, "[]", "") }
	for _, g := range l.tool.Guards {
		if plain(g.Argument) == plain(at) {
			return g.Type, true
		}
	}
	return "", false
}

func (l *linter) object(set []*jsonschema.Schema, at string, depth int) {
	if depth > maxLintDepth {
		return
	}
	kind, guarded := l.guarded(at)
	if slices.ContainsFunc(set, admitsOthers) && !(guarded && kind == guard.Size) {
		l.add(at, OpenObject, "members that nobody described pass; close the schema, or bound it with a guard of type size")
	}
	for _, name := range propertyNames(set) {
		place := name
		if at != "" {
			place = at + "." + name
		}
		l.value(l.known.named(set, name), place, name, depth+1)
	}
}

func propertyNames(set []*jsonschema.Schema) []string {
	var names []string
	for _, s := range set {
		for n := range s.Properties {
			if !slices.Contains(names, n) {
				names = append(names, n)
			}
		}
	}
	slices.Sort(names)
	return names
}

func (l *linter) value(set []*jsonschema.Schema, at, name string, depth int) {
	if depth > maxLintDepth || slices.ContainsFunc(set, func(s *jsonschema.Schema) bool { return s.Enum != nil || s.Const != nil }) {
		return
	}
	types := typesOf(set)
	_, guarded := l.guarded(at)
	has := func(bounded func(*jsonschema.Schema) bool) bool { return slices.ContainsFunc(set, bounded) }
	text := len(types) == 0 || slices.Contains(types, "string")
	if suspect := Suspect(name, ""); text && suspect.serious() && !guarded {
		l.add(at, Unguarded, "looks like a "+string(suspect)+"; give it a guard of type "+string(suspect))
	} else if text && !guarded && !has(func(s *jsonschema.Schema) bool { return s.MaxLength != nil }) {
		l.add(at, FreeText, "text without a maximum; give it a guard of type text, name or identifier")
	}
	number := slices.Contains(types, "integer") || slices.Contains(types, "number")
	if number && !guarded && !has(func(s *jsonschema.Schema) bool { return s.Maximum != nil || s.ExclusiveMaximum != nil }) {
		l.add(at, Unbounded, "a number without a maximum; bound it in the schema, or with a guard of type amount or enum")
	}
	if slices.Contains(types, "array") {
		if !guarded && !has(func(s *jsonschema.Schema) bool { return s.MaxItems != nil }) {
			l.add(at, EndlessList, "a list without a maximum; a guard bounds it, of type size if of no other")
		}
		if elements := l.known.elements(set, 0); len(elements) > 0 {
			l.value(elements, at+"[]", name, depth+1)
		}
	}
	if slices.Contains(types, "object") || has(func(s *jsonschema.Schema) bool { return len(s.Properties) > 0 }) {
		if len(propertyNames(set)) == 0 && !slices.ContainsFunc(set, admitsOthers) && !guarded {
			l.add(at, OpenObject, "an object of any form; describe it, or bound it with a guard of type size")
		}
		l.object(set, at, depth)
	}
}

func typesOf(set []*jsonschema.Schema) []string {
	var out []string
	for _, s := range set {
		if s.Types != nil {
			out = append(out, s.Types.ToStrings()...)
		}
	}
	return out
}

// interpreter finds tools that do whatever an argument says.
func (l *linter) interpreter(set []*jsonschema.Schema) {
	names := propertyNames(set)
	address, method := "", ""
	for _, n := range names {
		kind, guarded := l.guarded(n)
		words := wordsOf(n)
		if slices.ContainsFunc(words, func(w string) bool { return slices.Contains(commands, w) }) && !(guarded && (kind == guard.Query || kind == guard.Enum)) {
			l.add(n, Interpreter, "says what to do; offer named operations instead, with a guard of type query or enum")
		}
		if Suspect(n, "") == suspectURL {
			address = n
		}
		if (slices.Contains(words, "method") || slices.Contains(words, "verb")) && !guarded {
			method = n
		}
	}
	if address != "" && method != "" {
		l.add(method, Interpreter, "with "+address+" it makes any request; fix the method with a guard of type enum, and the hosts with one of type url")
	}
}

// commands are words of arguments that an interpreter reads.
var commands = []string{"sql", "command", "cmd", "shell", "script", "code", "eval", "exec", "expression", "javascript", "python", "bash", "statement"}
