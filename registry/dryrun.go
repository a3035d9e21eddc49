package registry

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/yamlfile"
)

// DryRunEntry says how the effect of a call is previewed: by another tool, which only
// reads, or by this one with an argument that makes it only read.
type DryRunEntry struct {
	Tool      string                   `yaml:"tool" doc:"A read tool that shows what would change. It is called with the same arguments."`
	Arguments yamlfile.Entries[string] `yaml:"arguments" doc:"With tool: its arguments, each with the argument of this tool whose value it takes, in place of the same ones."`
	Argument  string                   `yaml:"argument" doc:"An argument of this tool: the entry states that with it the tool changes nothing."`
	Value     string                   `yaml:"value" doc:"With argument: the text that it is given. Without it, true."`
}

// Hints names what people write for a key.
func (*DryRunEntry) Hints() map[string]string {
	return map[string]string{"name": "tool", "with": "argument", "map": "arguments", "flag": "argument"}
}

// DryRun is how the effect of a call is previewed. One of Tool and Argument is given.
type DryRun struct {
	Tool      string
	Arguments map[string]string // of Tool, by its argument the one of this tool; nil: the same
	Argument  string
	Value     json.RawMessage // of Argument
}

// Preview is the call that shows what a call with these canonical arguments would
// change: a tool that only reads, and its arguments. ok is false where the entry
// names none.
func (t *Tool) Preview(s *Snapshot, arguments []byte) (tool *Tool, with []byte, ok bool) {
	d := t.DryRun
	if d == nil {
		return nil, nil, false
	}
	members := map[string]json.RawMessage{}
	for name, value := range canon.Members(arguments) {
		members[name] = value
	}
	tool = t.previews
	switch {
	case d.Argument != "":
		members[d.Argument] = d.Value
	default:
		if tool, ok = s.Tool(d.Tool); !ok || !tool.Read {
			return nil, nil, false
		}
		if d.Arguments != nil {
			given := members
			members = map[string]json.RawMessage{}
			for name, from := range d.Arguments {
				if value, ok := given[from]; ok {
					members[name] = value
				}
			}
		}
	}
	with, err := canon.Marshal(members)
	return tool, with, err == nil && tool != nil
}

func (b *builder) dryRun(t *Tool, e DryRunEntry, place yamlfile.Place, path string) {
	if e.Tool == "" && e.Argument == "" && e.Value == "" && e.Arguments == nil {
		return
	}
	path += ".dry_run"
	d := &DryRun{Tool: e.Tool, Argument: e.Argument, Value: json.RawMessage("true")}
	switch {
	case (e.Tool == "") == (e.Argument == ""):
		b.fail(place, path, "needs either a tool or an argument")
	case t.Read:
		b.fail(place, path, "is for tools that change something; this one is marked read: true")
	case e.Argument == "" && e.Value != "":
		b.fail(place, path+".value", "goes with argument")
	case e.Tool == "" && e.Arguments != nil:
		b.fail(place, path+".arguments", "goes with tool")
	case e.Argument != "" && (!argumentName.MatchString(e.Argument) || e.Argument == t.IdempotencyArgument || slices.Contains(t.Targets, e.Argument)):
		b.fail(place, path+".argument", "wants the name of an argument that is no target and is not filled by Placet")
	}
	for _, a := range e.Arguments {
		if !argumentName.MatchString(a.Key) || !argumentName.MatchString(a.Value) {
			b.fail(a.Place, path+".arguments", "wants names of arguments")
		}
		if d.Arguments == nil {
			d.Arguments = map[string]string{}
		}
		d.Arguments[a.Key] = a.Value
	}
	if e.Value != "" {
		value, err := canon.Marshal(e.Value)
		if err != nil {
			b.fail(place, path+".value", "cannot be written as JSON")
		}
		d.Value = value
	}
	t.DryRun = d
}

// dryRuns checks the dry runs once all tools are known: whatever makes one only reads.
func (b *builder) dryRuns() {
	all := b.snapshot.all
	for _, n := range b.mentions {
		t, path := n.tool, n.path+".dry_run"
		switch {
		case all[t.Name] != t || t.DryRun == nil: // refused itself, or has none
		case t.DryRun.Argument != "":
			t.previews = onlyReads(t)
		default:
			b.previewer(n, t, all[t.DryRun.Tool], path)
		}
	}
}

func (b *builder) previewer(n mention, t, other *Tool, path string) {
	switch {
	case other == nil:
		b.fail(n.place, path+".tool", "there is no tool %q%s", t.DryRun.Tool, meant(t.DryRun.Tool, sortedKeysOf(b.snapshot.all)))
		return
	case !other.Read || other.Sink:
		b.fail(n.place, path+".tool", "%s must be marked read: true and not sink: true, since it runs before anybody has said yes", other.Name)
		return
	case other.input == nil || t.input == nil:
		return // quarantined: nothing can be previewed
	}
	names, open := other.input.known.listed(other.input.compiled)
	own, ownOpen := t.input.known.listed(t.input.compiled)
	for _, name := range sortedKeysOf(t.DryRun.Arguments) {
		if from := t.DryRun.Arguments[name]; !open && !slices.Contains(names, name) {
			b.fail(n.place, path+".arguments", "there is no argument %s of %s; its arguments are %s", name, other.Name, strings.Join(names, ", "))
		} else if !ownOpen && !slices.Contains(own, from) {
			b.fail(n.place, path+".arguments", "there is no argument %s of %s; its arguments are %s", from, t.Name, strings.Join(own, ", "))
		}
	}
}

// onlyReads is a tool as it is with the argument that makes it a preview. The call
// that it previews was decided by everything else the entry says.
func onlyReads(t *Tool) *Tool {
	p := *t
	p.Read, p.Write, p.Destructive, p.Financial, p.Sink, p.Privacy = true, false, false, false, false, false
	p.Sources = []record.Source{record.Direct, record.Vouched, record.Witnessed}
	p.Approval = Approval{When: Asked}
	p.SameEffect, p.AutonomousLimit, p.Cost, p.DryRun, p.Reconcile, p.Retry, p.Taint = nil, nil, nil, nil, nil, RetryNever, TaintNone
	p.Guards = slices.Clone(t.Guards)
	for i := range p.Guards {
		p.Guards[i].Lookup = nil // asked for the call itself, in the same evaluation
	}
	return &p
}
