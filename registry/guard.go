package registry

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/placet-dev/placet/guard"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/yamlfile"
)

// GuardEntry is a semantic rule on one argument as the file gives it.
type GuardEntry struct {
	Type    GuardType `yaml:"type,required" doc:"What the argument is."`
	Instead string    `yaml:"instead" doc:"What the model is told to do instead when this guard refuses; default: the entry's own."`

	MaxItems  int `yaml:"max_items" doc:"How many values a list may hold. Default: 50; for size, no bound."`
	MaxLength int `yaml:"max_length" doc:"path, url, identifier, name, text: characters of one value. Default: 4096, 2048, 200, 200, 10000."`

	Pattern  string `yaml:"pattern" doc:"identifier: regular expression (RE2) that the whole value must match. Default: letters, digits and _ @ . : + = -"`
	Resource string `yaml:"resource" doc:"Kind of thing that it names, for policy and decision points. The argument must be one of targets."`
	Lookup   string `yaml:"lookup" doc:"Read tool that is asked, as the same user, whether the thing is there for them. The argument must be one of targets."`

	LookupArgument string `yaml:"lookup_argument" doc:"The look-up's argument that takes the value. Default: the one of the same name, else its only required one."`
	LookupFound    string `yaml:"lookup_found" doc:"Member of the look-up's result that must be there and not be null, false or empty; dots go into objects. Default: any result that is no error."`
	LookupTenant   string `yaml:"lookup_tenant" doc:"Member of the look-up's result that must name the caller's tenant; dots go into objects."`

	Root     string `yaml:"root" doc:"path: absolute folder that no path leaves; {tenant} and {principal} stand for the caller's."`
	Relative bool   `yaml:"relative" doc:"path: the tool starts at the root itself, so paths are sent as they are below it. Default: the whole path is sent."`

	Schemes  []string `yaml:"schemes" doc:"url: https, http. Default: https."`
	Hosts    []string `yaml:"hosts" doc:"url, host: names that may be reached; *.example.com is every name below. Default: every public host."`
	Ports    []int    `yaml:"ports" doc:"url: ports that may be named. Default: the scheme's own."`
	Networks []string `yaml:"networks" doc:"url, host: private networks that may be reached beside the public one, such as 10.20.0.0/16."`

	Domains   []string `yaml:"domains" doc:"email: domains that may be sent to; *.example.com is every name below. Default: all."`
	Addresses []string `yaml:"addresses" doc:"email: single addresses that may be sent to, beside those of domains."`

	Values []string `yaml:"values" doc:"enum, query: what the argument may be."`

	Currency string  `yaml:"currency" doc:"amount: a code such as EUR, or {argument} for the argument beside it that holds the code."`
	Min      Decimal `yaml:"min" doc:"amount: the least that may be given. Default: 0."`
	Max      Decimal `yaml:"max" doc:"amount: the most that may be given."`
	Decimals *int    `yaml:"decimals" doc:"amount: most digits after the point. Default: those of the currency."`

	OneLine bool      `yaml:"one_line" doc:"text: no line breaks."`
	Secrets OnSecrets `yaml:"secrets" doc:"text: deny: what looks like a key, a token or a password is refused."`

	MaxMembers int `yaml:"max_members" doc:"size: members of objects, in all."`
	MaxBytes   int `yaml:"max_bytes" doc:"size: bytes of the value in canonical form."`
	MaxDepth   int `yaml:"max_depth" doc:"size: how deep objects and lists go into each other."`
}

// Hints names what people write for a key.
func (*GuardEntry) Hints() map[string]string {
	return map[string]string{"regex": "pattern", "folder": "root", "directory": "root", "allow": "hosts, domains or values", "choices": "values",
		"names": "values", "allowed_hosts": "hosts", "private": "networks", "length": "max_length", "single_line": "one_line"}
}

// GuardType is what an argument is.
type GuardType string

const Identifier = GuardType(guard.Identifier)

func (GuardType) Choices() []string {
	var out []string
	for _, t := range guard.Types() {
		out = append(out, string(t))
	}
	return out
}

// OnSecrets is what is done about what looks like a secret.
type OnSecrets string

func (OnSecrets) Choices() []string { return []string{"deny"} }

// Guard is a semantic rule on one argument, or on values within one. Its fields
// must not be changed.
type Guard struct {
	guard.Spec
	Resource string
	Lookup   *Lookup // nil: nobody is asked

	rule *guard.Guard
}

// Lookup is a read tool that is asked whether a thing is there for the caller.
type Lookup struct {
	Tool     string
	Argument string // the look-up's argument that takes the value
	Found    string // member of its result that must be there; "" for any result
	Tenant   string // member of its result that must name the caller's tenant; "" for none
}

// Guard returns the guard of an argument, or nil. Guards of values within an
// argument are none of the argument.
func (t *Tool) Guard(argument string) *Guard {
	for i := range t.Guards {
		if t.Guards[i].Argument == argument {
			return &t.Guards[i]
		}
	}
	return nil
}

// AcceptArguments asks every guard about canonical arguments and returns them in
// normal form. It reads nothing but them.
func (t *Tool) AcceptArguments(canonical []byte, o record.Owner) ([]byte, *guard.Refusal) {
	out, refusal := guard.Accept(t.rules, canonical, o)
	return out, t.instead(refusal)
}

// ExamineArguments looks whether accepted arguments may be used in the world as
// it is now.
func (t *Tool) ExamineArguments(ctx context.Context, accepted []byte, o record.Owner, w guard.World) *guard.Refusal {
	w.Zones = t.Network
	return t.instead(guard.Examine(ctx, t.rules, accepted, o, w))
}

// instead fills in what the entry says to do where the guard itself says nothing.
func (t *Tool) instead(r *guard.Refusal) *guard.Refusal {
	if r != nil {
		r.Instead = cmp.Or(r.Instead, t.Instead)
	}
	return r
}

// guards checks an entry's guards as far as they can be checked without other entries.
func (b *builder) guards(t *Tool, e Entry, path string) {
	for _, entry := range e.Guards {
		g, path := entry.Value, path+".guards."+entry.Key
		made := Guard{Spec: b.spec(t, entry.Key, g), Resource: g.Resource}
		switch {
		case (g.Resource != "" || g.Lookup != "") && !slices.Contains(t.Targets, entry.Key):
			b.fail(entry.Place, path, "names a thing the call acts on, so %s must be one of targets", entry.Key)
		case g.Lookup == "" && (g.LookupArgument != "" || g.LookupFound != "" || g.LookupTenant != ""):
			b.fail(entry.Place, path, "says how to read a look-up, and names none; set lookup")
		case g.Resource != "" && !toolName.MatchString(g.Resource):
			b.fail(entry.Place, path+".resource", "is lower-case letters, digits and _ . -, and starts with a letter")
		}
		var err error
		var wrong *guard.SpecError
		if made.rule, err = guard.New(made.Spec); errors.As(err, &wrong) {
			b.fail(entry.Place, strings.TrimSuffix(path+"."+wrong.Key, "."), "%s", wrong.Message)
		}
		if g.Root != "" && err == nil && b.ownFiles(g.Root) {
			b.fail(entry.Place, path+".root", "reaches files of Placet itself; no tool may (its store, keys, configuration, registry and policy)")
		}
		if g.Lookup != "" {
			made.Lookup = &Lookup{g.Lookup, g.LookupArgument, g.LookupFound, g.LookupTenant}
			b.asked = append(b.asked, asked{t, entry.Key, entry.Place, path})
		}
		t.Guards = append(t.Guards, made)
	}
	slices.SortFunc(t.Guards, func(a, b Guard) int { return strings.Compare(a.Argument, b.Argument) })
	for _, g := range t.Guards {
		t.rules = append(t.rules, g.rule)
	}
}

// spec is what the guard package wants to know.
func (b *builder) spec(t *Tool, argument string, g GuardEntry) guard.Spec {
	s := b.snapshot.servers[t.Server]
	return guard.Spec{
		Argument: argument, Type: guard.Type(g.Type), Pattern: g.Pattern, Instead: g.Instead, MaxItems: g.MaxItems, MaxLength: g.MaxLength,
		Root: g.Root, Relative: g.Relative, Local: g.Root != "" && (s == nil || s.URL == ""),
		Schemes: g.Schemes, Hosts: g.Hosts, Ports: g.Ports, Networks: g.Networks, Domains: g.Domains, Addresses: g.Addresses,
		Values: g.Values, Currency: g.Currency, Min: g.Min.String(), Max: g.Max.String(), Decimals: g.Decimals,
		OneLine: g.OneLine, Secrets: g.Secrets != "", MaxMembers: g.MaxMembers, MaxBytes: g.MaxBytes, MaxDepth: g.MaxDepth,
	}
}

// ownFiles reports whether a root reaches files of Placet itself (rule K2).
func (b *builder) ownFiles(root string) bool {
	f, err := guard.ParseFolder(root)
	return err == nil && guard.Meets(f.Fixed(), b.options.Own)
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
		case other.Method != MethodTool:
			b.fail(a.place, a.path+".lookup", "%s is no tool", l.Tool)
			continue
		case !other.Read:
			b.fail(a.place, a.path+".lookup", "%s is not marked read: true, and a look-up must change nothing", l.Tool)
			continue
		case b.leased(other):
			b.fail(a.place, a.path+".lookup", "a framework runs %s itself; a look-up is asked by Placet", l.Tool)
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
