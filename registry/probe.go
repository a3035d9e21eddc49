package registry

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/guard"
	"github.com/placet-dev/placet/record"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Probed is how one argument did against one kind of abuse.
type Probed struct {
	Argument string            `json:"argument"`
	Guard    guard.Type        `json:"guard,omitempty"` // "" where the argument has none
	Kind     string            `json:"kind"`
	Tried    int               `json:"tried"`
	Refused  int               `json:"refused"`
	Passed   []json.RawMessage `json:"passed,omitempty"`
}

// Probe tries the hostile corpus on a tool's arguments: on each guard that of its
// type, and on arguments whose name or format a guard is for, and that have none,
// the schema alone. No tool is called, no name resolved and no link followed.
func (t *Tool) Probe(o record.Owner) []Probed {
	var out []Probed
	for _, g := range t.Guards {
		out = append(out, t.probeGuard(g, o)...)
	}
	if t.input == nil {
		return out
	}
	set := t.input.known.applied(t.input.compiled)
	for _, name := range propertyNames(set) {
		of := Suspect(name, "")
		if slices.ContainsFunc(t.Guards, func(g Guard) bool { return guard.Top(g.Argument) == name }) || !of.serious() {
			continue
		}
		out = append(out, tally(name, "", guard.Corpus(guard.Type(of)), func(value json.RawMessage) bool {
			return admits(set, name, value)
		})...)
	}
	return out
}

// admits reports whether a schema alone lets a member have a value. Only this
// member is looked at: what else a call needs is not there.
func admits(set []*jsonschema.Schema, name string, value json.RawMessage) bool {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
	if err != nil {
		return false
	}
	return !slices.ContainsFunc(set, func(s *jsonschema.Schema) bool {
		p, ok := s.Properties[name]
		return ok && p.Validate(v) != nil
	})
}

func (t *Tool) probeGuard(g Guard, o record.Owner) []Probed {
	corpus := slices.DeleteFunc(guard.Corpus(g.Type), func(h guard.Hostile) bool { return g.declared(h) })
	root := ""
	if f, err := guard.ParseFolder(g.Root); err == nil {
		root, _ = f.For(o)
	}
	return tally(g.Argument, g.Type, corpus, func(value json.RawMessage) bool {
		value = json.RawMessage(strings.ReplaceAll(string(value), "{root}", root))
		arguments, err := canon.Canonical(t.around(g, value), canon.Limits{})
		if err != nil {
			return false
		}
		_, refusal := g.rule.Accept(arguments, o)
		return refusal == nil
	})
}

// declared reports whether an entry allows on purpose what the corpus holds to be
// hostile.
func (g Guard) declared(h guard.Hostile) bool {
	text, _ := canon.Text(h.Value)
	return g.Type == guard.URL && slices.Contains(g.Schemes, "http") && strings.HasPrefix(strings.ToLower(text), "http://example.com") ||
		(g.Type == guard.Enum || g.Type == guard.Query) && (slices.Contains(g.Values, text) || slices.Contains(g.Values, string(h.Value)))
}

// around puts a value where the guard looks for it, beside a currency where the
// guard wants one.
func (t *Tool) around(g Guard, value json.RawMessage) []byte {
	steps := strings.Split(strings.ReplaceAll(g.Argument, "[]", ""), ".")
	beside := ""
	if name := strings.Trim(g.Currency, "{}"); name != g.Currency {
		code := "EUR"
		if c := t.Guard(name); c != nil && len(c.Values) > 0 {
			code = c.Values[0]
		}
		beside = `,` + string(canon.AppendText(nil, name)) + `:` + string(canon.AppendText(nil, code))
	}
	out := "{" + string(canon.AppendText(nil, steps[len(steps)-1])) + ":" + string(value) + beside + "}"
	for i := len(steps) - 2; i >= 0; i-- {
		out = "{" + string(canon.AppendText(nil, steps[i])) + ":" + out + "}"
	}
	return []byte(out)
}

// tally counts by kind, in the order of the corpus.
func tally(argument string, of guard.Type, corpus []guard.Hostile, passes func(json.RawMessage) bool) []Probed {
	var out []Probed
	for _, h := range corpus {
		if len(out) == 0 || out[len(out)-1].Kind != h.Kind {
			out = append(out, Probed{Argument: argument, Guard: of, Kind: h.Kind})
		}
		p := &out[len(out)-1]
		if p.Tried++; passes(h.Value) {
			p.Passed = append(p.Passed, h.Value)
		} else {
			p.Refused++
		}
	}
	return out
}
