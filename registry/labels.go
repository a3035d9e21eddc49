package registry

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/placet-dev/placet/label"
	"github.com/placet-dev/placet/yamlfile"
)

// Taint is what a labelled lineage gets (rules F2 and F5).
type Taint string

const (
	TaintAsk       Taint = "ask"
	TaintDeny      Taint = "deny"
	TaintAskUnless Taint = "ask_unless_trusted_targets"
	TaintNone      Taint = "" // labels change nothing
)

func (Taint) Choices() []string {
	return []string{string(TaintAskUnless), string(TaintAsk), string(TaintDeny)}
}

// TargetEntry is a target in the mapping form.
type TargetEntry struct {
	Kind   string   `yaml:"kind" doc:"Kind of thing that it names; values of declared fields count only for targets of their kind. Default: the guard's resource, else the argument's name."`
	Values []string `yaml:"values" doc:"Values that the operator states: they are always trusted."`
}

// ResultsEntry is what a tool's results hold.
type ResultsEntry struct {
	Untrusted bool     `yaml:"untrusted" doc:"Others can write what it returns."`
	Trusted   bool     `yaml:"trusted" doc:"For resources, prompts and completions: nobody outside can write what it returns. Default: it is untrusted."`
	Sensitive bool     `yaml:"sensitive" doc:"What it returns must not get out."`
	Classes   []string `yaml:"classes" doc:"Data classes that it returns."`

	Format  ResultFormat                 `yaml:"format" doc:"How its text is written. Default: json, or yaml where it is not and fields are declared."`
	Records string                       `yaml:"records" doc:"Where in it the list of records is; dots go into objects. Default: the whole."`
	Name    yamlfile.Strings             `yaml:"name" doc:"Fields that a user calls a record by."`
	Fields  yamlfile.Entries[FieldEntry] `yaml:"fields" doc:"Fields of a record that count when the user selected it."`
	Only    []string                     `yaml:"only" doc:"Fields of a record that are returned; all others are left out."`
}

// ResultFormat is how a result's text is written.
type ResultFormat string

func (ResultFormat) Choices() []string { return []string{label.JSON, label.YAML} }

// FieldEntry is one declared field.
type FieldEntry struct {
	Origin FieldOrigin              `yaml:"origin,required" doc:"clean: nobody outside can cause the value. minted: an ID that the server made. given: structural, but others can set it."`
	Kind   string                   `yaml:"kind" doc:"Kind of thing that it names. Default: the field's name."`
	Also   []string                 `yaml:"also" doc:"Other words that a user calls it by, and arguments that take it."`
	When   yamlfile.Entries[string] `yaml:"when" doc:"Values that other fields of the record must have for it to count."`
}

// FieldOrigin is who can cause a field's value.
type FieldOrigin string

func (FieldOrigin) Choices() []string { return []string{label.Clean, label.Minted, label.Given} }

// DirectoryEntry names the look-ups of an argument.
type DirectoryEntry struct {
	Lookup yamlfile.Strings `yaml:"lookup,required" doc:"Read tools whose values count for the argument."`
}

// GivenMode says for which targets given values count.
type GivenMode string

func (GivenMode) Choices() []string { return []string{"any"} }

// origins reads what an entry says of labels, results and the origins of values.
func (b *builder) origins(t *Tool, e Entry, place yamlfile.Place, path string) {
	t.Privacy, t.Feeds, t.Unseen, t.Data = e.Privacy, e.Feeds, e.Unseen, e.Data
	strict := t.strict()
	if t.Taint = e.Taint; t.Taint == TaintNone && strict {
		t.Taint = TaintAsk
	}
	t.taintStated = e.Taint != TaintNone && (e.Taint != TaintAsk || !strict)
	r := label.Rules{Names: e.Names, AskedFor: e.AskedFor, Links: e.LinksFrom, GivenAny: e.Given == "any",
		Financial: t.Financial, Destructive: t.Destructive}
	kinds := map[string]TargetEntry{}
	for _, k := range e.TargetKinds {
		kinds[k.Key] = k.Value
	}
	for _, name := range t.Targets {
		kind := kinds[name].Kind
		if g := t.Guard(name); g != nil && kind == "" {
			kind = g.Resource
		}
		r.Targets = append(r.Targets, label.Target{Argument: name, Kind: cmp.Or(kind, name), Values: kinds[name].Values})
	}
	for _, g := range t.Guards {
		if g.Type == "text" || g.Type == "name" {
			r.Folded = append(r.Folded, g.Argument)
		}
	}
	for _, d := range e.Directory {
		if r.Lookups == nil {
			r.Lookups = map[string][]string{}
		}
		r.Lookups[d.Key] = d.Value.Lookup
	}
	t.Origins = r
	for _, list := range []struct {
		key   string
		names []string
	}{{"names", e.Names}, {"asked_for", e.AskedFor}, {"data", e.Data}, {"results.classes", e.Results.Classes}} {
		for _, n := range list.names {
			if strings.TrimSpace(n) == "" {
				b.fail(place, path+"."+list.key, "holds an empty word")
			}
		}
	}
	b.results(t, e.Results, place, path+".results")
	b.mentions = append(b.mentions, mention{t, place, path})
}

func (b *builder) results(t *Tool, e ResultsEntry, place yamlfile.Place, path string) {
	if e.Trusted && (e.Untrusted || t.Method == MethodTool) {
		b.fail(place, path+".trusted", "is for resources, prompts and completions that are not untrusted; a tool is untrusted only where its entry says so")
	}
	r := label.Results{Untrusted: e.Untrusted || t.Method != MethodTool && !e.Trusted, Sensitive: e.Sensitive, Classes: e.Classes, Format: string(e.Format),
		Records: e.Records, Name: e.Name, Only: e.Only}
	for _, f := range e.Fields {
		field := label.Field{Name: f.Key, Origin: string(f.Value.Origin), Kind: cmp.Or(f.Value.Kind, f.Key), Also: f.Value.Also}
		for _, w := range f.Value.When {
			if field.When == nil {
				field.When = map[string]string{}
			}
			field.When[w.Key] = w.Value
		}
		r.Fields = append(r.Fields, field)
	}
	if len(r.Name) > 0 && len(r.Fields) == 0 {
		b.fail(place, path+".name", "names records of which no field counts; declare fields")
	}
	t.Results = r
}

// mention is an entry that names other tools, checked once all are known.
type mention struct {
	tool  *Tool
	place yamlfile.Place
	path  string
}

// others checks the tools that entries name, and tells look-ups that their values
// are asked for.
func (b *builder) others() {
	all := b.snapshot.all
	for _, n := range b.mentions {
		t := n.tool
		if all[t.Name] != t {
			continue // refused itself
		}
		check := func(key string, names []string) (known []*Tool) {
			for _, name := range names {
				other := all[name]
				if other == nil {
					b.fail(n.place, n.path+"."+key, "there is no tool %q%s", name, meant(name, sortedKeysOf(all)))
					continue
				}
				known = append(known, other)
			}
			return known
		}
		check("feeds", t.Feeds)
		if t.Compensate != "" {
			for _, other := range check("compensate.tool", []string{t.Compensate}) {
				if other == t || other.Read {
					b.fail(n.place, n.path+".compensate.tool", "%s undoes nothing: it is the tool itself, or is marked read: true", other.Name)
				}
			}
		}
		for _, other := range check("links_from", t.Origins.Links) {
			if b.leased(other) {
				b.fail(n.place, n.path+".links_from", "a framework runs %s itself, and what it reports is its word", other.Name)
			}
			other.Results.Linked = true
		}
		for _, argument := range sortedKeysOf(t.Origins.Lookups) {
			for _, other := range check("directory."+argument+".lookup", t.Origins.Lookups[argument]) {
				if b.leased(other) {
					b.fail(n.place, n.path+".directory."+argument+".lookup", "a framework runs %s itself, and what it reports is its word", other.Name)
				}
				if !other.Read {
					b.fail(n.place, n.path+".directory."+argument+".lookup", "%s is not marked read: true", other.Name)
				}
				other.Results.Listed = true
			}
		}
	}
}

// Tainted reports whether labels make a lineage a labelled one for this tool.
func (t *Tool) Tainted(labels []string) bool {
	return slices.ContainsFunc(labels, func(l string) bool { return label.Taints(l) || l == label.Unseen && t.Unseen })
}

// Indexed reports whether the tool's results are kept in the lineage's index.
func (t *Tool) Indexed() bool {
	r := t.Results
	return r.Untrusted || r.Sensitive || r.Listed || r.Linked || len(r.Fields)+len(r.Classes) > 0
}

// Forbids returns the data class among the labels that the tool may not take, if any.
func (t *Tool) Forbids(labels []string) (class string, forbidden bool) {
	if t.Data == nil {
		return "", false
	}
	for _, l := range labels {
		if c, ok := strings.CutPrefix(l, label.ClassOf); ok && !slices.Contains(t.Data, c) {
			return c, true
		}
	}
	return "", false
}

// labelForm is what the digest of an entry covers of all this; nil where the entry
// says nothing of it, so that such an entry keeps its digest.
func (t *Tool) labelForm() any {
	r := t.Origins
	plain := !slices.ContainsFunc(r.Targets, func(target label.Target) bool {
		return len(target.Values) > 0 || target.Kind != target.Argument && (t.Guard(target.Argument) == nil || t.Guard(target.Argument).Resource != target.Kind)
	})
	results := t.Results
	results.Listed, results.Linked = false, false // those are other entries' words
	said := t.taintStated || t.Privacy || t.Unseen || len(t.Feeds)+len(t.Data)+len(r.Names)+len(r.AskedFor)+len(r.Links)+len(r.Lookups) > 0 ||
		r.GivenAny || !plain || results.Untrusted || results.Sensitive || len(results.Classes)+len(results.Fields)+len(results.Only)+len(results.Name) > 0 ||
		results.Format != "" || results.Records != ""
	if !said {
		return nil
	}
	return struct {
		Taint   Taint         `json:"taint,omitempty"`
		Privacy bool          `json:"privacy,omitempty"`
		Unseen  bool          `json:"unseen,omitempty"`
		Feeds   []string      `json:"feeds,omitempty"`
		Data    []string      `json:"data,omitempty"`
		Rules   label.Rules   `json:"rules"`
		Results label.Results `json:"results"`
	}{t.Taint, t.Privacy, t.Unseen, t.Feeds, t.Data, r, results}
}

// labelOverrides are the settings here that weaken a default (rules F7 and H7).
func (t *Tool) labelOverrides(add func(when bool, setting, detail string)) {
	strict := t.strict()
	add(strict && t.Taint == TaintAskUnless, "taint", "after text from outside was read it runs without a question if what it acts on comes from the user")
	add(len(t.Origins.Lookups) > 0, "directory", "what "+strings.Join(lookupsOf(t), ", ")+" return counts as stated by the operator")
	add(len(t.Origins.Links) > 0, "links_from", "links in what "+strings.Join(t.Origins.Links, ", ")+" return may be fetched")
	add(t.Method != MethodTool && !t.Results.Untrusted, "results.trusted", "what it returns does not label the conversation")
	add(t.Origins.GivenAny, "given", "values that others can set count for targets of other names")
	for _, target := range t.Origins.Targets {
		add(len(target.Values) > 0, "targets."+target.Argument+".values", "its stated values are always trusted")
	}
}

func lookupsOf(t *Tool) []string {
	var out []string
	for _, argument := range sortedKeysOf(t.Origins.Lookups) {
		out = append(out, t.Origins.Lookups[argument]...)
	}
	return out
}

// labels tells what changed of all this between two loads of an entry.
func (p *planner) labels(a, b *Tool) {
	rank := func(t Taint) int { return slices.Index([]Taint{TaintNone, TaintAskUnless, TaintAsk, TaintDeny}, t) }
	if a.Taint != b.Taint {
		p.add(direction(rank(b.Taint) < rank(a.Taint)), b, "taint is "+orNone(string(b.Taint))+", was "+orNone(string(a.Taint)))
	}
	for _, f := range []struct {
		name     string
		was, now bool
	}{{"privacy", a.Privacy, b.Privacy}, {"unseen", a.Unseen, b.Unseen}, {"results.untrusted", a.Results.Untrusted, b.Results.Untrusted},
		{"results.sensitive", a.Results.Sensitive, b.Results.Sensitive}} {
		if f.was != f.now {
			p.add(direction(f.was), b, f.name+map[bool]string{true: " is set", false: " is no longer set"}[f.now])
		}
	}
	set(p, b, "data", a.Data, b.Data, true)
	if was, now := originsText(a), originsText(b); was != now {
		p.add(Changed, b, "what counts of arguments and results (targets, names, asked_for, results, opt-ins) is another")
	}
}

func originsText(t *Tool) string {
	form := *t
	form.Taint, form.Privacy, form.Unseen, form.Data, form.taintStated = TaintNone, false, false, nil, true
	form.Results.Untrusted, form.Results.Sensitive = false, false
	return fmt.Sprintf("%+v", form.labelForm())
}
