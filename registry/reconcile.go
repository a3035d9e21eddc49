package registry

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/yamlfile"
)

// ReconcileEntry says which tool knows whether a call had its effect, how it is asked,
// and which of its answers prove what. Whatever is not named there proves nothing.
type ReconcileEntry struct {
	Tool        string                   `yaml:"tool" doc:"A read tool that shows whether a call had its effect."`
	By          string                   `yaml:"by" doc:"Its argument that is given the call's idempotency key."`
	Arguments   yamlfile.Entries[string] `yaml:"arguments" doc:"Further arguments of it, each with the argument of this tool whose value it takes."`
	Records     string                   `yaml:"records" doc:"Where its answer holds the list of what it found. An empty list says that nothing happened, one record that it did; more than one proves nothing."`
	Field       string                   `yaml:"field" doc:"Where the record, or without records the answer, says how the effect stands."`
	Happened    []string                 `yaml:"happened" doc:"Values of field that prove that it happened."`
	Nothing     []string                 `yaml:"nothing" doc:"Values of field that prove that nothing happened and nothing will."`
	Echo        string                   `yaml:"echo" doc:"Where the record repeats the call's idempotency key. A record with another one proves nothing."`
	Reference   string                   `yaml:"reference" doc:"Where the record has the effect's own ID, kept with the outcome."`
	SettleAfter time.Duration            `yaml:"settle_after" doc:"How long after the attempt's end an effect may still appear. Before that, nothing proves that nothing happened."`
	Operators   bool                     `yaml:"operators" doc:"The tool answers for every principal of a tenant: operators may ask it too, as themselves."`
}

// Hints names what people write for a key.
func (*ReconcileEntry) Hints() map[string]string {
	return map[string]string{"name": "tool", "with": "tool", "key": "by", "map": "arguments", "found": "records", "values": "happened", "status": "field",
		"after": "settle_after", "id": "reference"}
}

// Reconcile is how an unknown outcome is looked into (rule C5). The zero values of its
// fields mean that the entry does not say.
type Reconcile struct {
	Tool        string
	By          string            `json:",omitempty"`
	Arguments   map[string]string `json:",omitempty"` // of Tool, by its argument the one of this tool
	Records     string            `json:",omitempty"`
	Field       string            `json:",omitempty"`
	Happened    []string          `json:",omitempty"`
	Nothing     []string          `json:",omitempty"`
	Echo        string            `json:",omitempty"`
	Reference   string            `json:",omitempty"`
	SettleAfter time.Duration
	Operators   bool `json:",omitempty"`
}

const (
	longestSettle = 7 * 24 * time.Hour
	maxReference  = 256
)

// Proof is what an answer shows of an effect.
type Proof string

const (
	CannotSay Proof = "cannot_say" // and the zero value is none of these
	Happened  Proof = "happened"
	Nothing   Proof = "nothing"
)

// Found is what a reconciling tool's answer comes to.
type Found struct {
	Proof     Proof
	Why       string // for operators: the rule, never a value of the answer
	Reference string // the effect's own ID, with Happened, where the entry names its place
}

// Asks returns the tool that knows whether a call had its effect, and what it is asked
// for a call with these canonical arguments and this key. ok is false where there is
// none, or where it cannot be asked now.
func (t *Tool) Asks(s *Snapshot, arguments []byte, key string) (tool *Tool, with []byte, ok bool) {
	r := t.Reconcile
	if r == nil || r.By != "" && key == "" {
		return nil, nil, false
	}
	tool, ok = s.Tool(r.Tool)
	if !ok || !tool.Read || tool.Sink {
		return nil, nil, false
	}
	members := map[string]json.RawMessage{}
	for name, from := range r.Arguments {
		value, given := canon.Lookup(arguments, from)
		if !given {
			return nil, nil, false // asked for less, it would speak of other effects too
		}
		members[name] = value
	}
	if r.By != "" {
		value, err := canon.Marshal(key)
		if err != nil {
			return nil, nil, false
		}
		members[r.By] = value
	}
	with, err := canon.Marshal(members)
	return tool, with, err == nil
}

// ForOperators is the tool as operators may ask it: without the scope and the callers
// of those who propose. Its entry is asked for that by the one that reconciles with it.
func (t *Tool) ForOperators() *Tool {
	open := *t
	open.Scope, open.Callers = "", Callers{}
	return &open
}

// Read says what an answer proves about the call with a key. The answer is a canonical
// object; whatever is not exactly as the entry declares it proves nothing.
func (r *Reconcile) Read(answer []byte, key string) Found {
	no := func(why string) Found { return Found{Proof: CannotSay, Why: why} }
	effect := json.RawMessage(answer)
	if r.Records != "" {
		list, ok := canon.LookupPath(answer, r.Records)
		if !ok || len(list) == 0 || list[0] != '[' {
			return no("the answer has no list " + r.Records)
		}
		var found []json.RawMessage
		for v := range canon.Elements(list) {
			found = append(found, v)
		}
		switch len(found) {
		case 0:
			return Found{Proof: Nothing, Why: r.Records + " is empty"}
		case 1:
			effect = found[0]
		default:
			return no("the answer has more than one record")
		}
		if effect[0] != '{' && (r.Field != "" || r.Echo != "" || r.Reference != "") {
			return no("the record is no object")
		}
	}
	at := func(path string) string {
		value, _ := canon.LookupPath(effect, path)
		return plainText(value)
	}
	if r.Echo != "" && at(r.Echo) != key {
		return no("the record's " + r.Echo + " is not this call's key")
	}
	out := Found{Proof: Happened, Why: "there is one record"}
	if r.Field != "" {
		switch value := at(r.Field); {
		case value != "" && slices.Contains(r.Happened, value):
			out.Why = r.Field + " is one of happened"
		case value != "" && slices.Contains(r.Nothing, value):
			return Found{Proof: Nothing, Why: r.Field + " is one of nothing"}
		default:
			return no("the value of " + r.Field + " is none that proves anything")
		}
	}
	if r.Reference != "" {
		if ref := at(r.Reference); len(ref) <= maxReference && printable(ref) {
			out.Reference = ref
		}
	}
	return out
}

// plainText is a JSON text, or a number or boolean as it is written; "" for all else.
func plainText(value json.RawMessage) string {
	if text, ok := canon.Text(value); ok {
		return text
	}
	if len(value) == 0 || strings.ContainsRune(`{["n`, rune(value[0])) {
		return ""
	}
	return string(value)
}

func printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}

func (b *builder) reconcile(t *Tool, e ReconcileEntry, place yamlfile.Place, path string) {
	path += ".reconcile"
	if e.Tool == "" && e.By == "" && e.Arguments == nil && e.Records == "" && e.Field == "" && e.SettleAfter == 0 {
		return
	}
	r := &Reconcile{Tool: e.Tool, By: e.By, Records: e.Records, Field: e.Field, Happened: e.Happened, Nothing: e.Nothing,
		Echo: e.Echo, Reference: e.Reference, SettleAfter: e.SettleAfter, Operators: e.Operators}
	for _, a := range e.Arguments {
		if r.Arguments == nil {
			r.Arguments = map[string]string{}
		}
		r.Arguments[a.Key] = a.Value
	}
	switch {
	case t.Read:
		b.fail(place, path, "is for tools that change something; this one is marked read: true")
	case e.Tool == "":
		b.fail(place, path+".tool", "is missing: the read tool that shows whether a call had its effect")
	case r.By == "" && len(r.Arguments) == 0:
		b.fail(place, path, "needs by (the argument that takes the call's key), or arguments")
	case r.Arguments[r.By] != "":
		b.fail(place, path+".arguments", "gives %s, which by fills", r.By)
	case r.Records == "" && r.Field == "":
		b.fail(place, path, "needs records or field: which answer proves what is declared, not guessed")
	case (r.Field == "") != (len(r.Happened)+len(r.Nothing) == 0):
		b.fail(place, path+".field", "goes with happened and nothing: the values that prove something")
	case slices.ContainsFunc(r.Happened, func(v string) bool { return v == "" || slices.Contains(r.Nothing, v) }), slices.Contains(r.Nothing, ""):
		b.fail(place, path+".happened", "has an empty value, or one that nothing lists too")
	case r.Echo != "" && r.By == "":
		b.fail(place, path+".echo", "goes with by")
	case r.SettleAfter <= 0 || r.SettleAfter > longestSettle:
		b.fail(place, path+".settle_after", "must be more than 0 and at most 168h: how long after the attempt's end an effect may still appear")
	}
	t.Reconcile = r
}

// proves reports whether some answer can prove that nothing happened.
func (r *Reconcile) provesNothing() bool { return r != nil && (r.Records != "" || len(r.Nothing) > 0) }

// reconciles checks the reconciling tools once all tools are known: they only read,
// Placet asks them itself, and what they are asked with is in the pinned schemas.
func (b *builder) reconciles() {
	all := b.snapshot.all
	for _, n := range b.mentions {
		t, path := n.tool, n.path+".reconcile"
		if all[t.Name] != t || t.Reconcile == nil {
			continue // refused itself, or has none
		}
		switch other := all[t.Reconcile.Tool]; {
		case other == nil:
			b.fail(n.place, path+".tool", "there is no tool %q%s", t.Reconcile.Tool, meant(t.Reconcile.Tool, sortedKeysOf(all)))
		case other.Method != MethodTool:
			b.fail(n.place, path+".tool", "%s is no tool", other.Name)
		case !other.Read || other.Sink:
			b.fail(n.place, path+".tool", "%s must be marked read: true and not sink: true, since it must change nothing", other.Name)
		case b.leased(other):
			b.fail(n.place, path+".tool", "a framework runs %s itself, and what it reports is its word; a reconciling tool is asked by Placet", other.Name)
		case other.input != nil && t.input != nil: // else quarantined: nothing can be asked
			b.asksWith(n, t, other, path)
		}
	}
}

func (b *builder) asksWith(n mention, t, other *Tool, path string) {
	r := t.Reconcile
	names, open := other.input.known.listed(other.input.compiled)
	own, ownOpen := t.input.known.listed(t.input.compiled)
	given := sortedKeysOf(r.Arguments)
	for _, name := range given {
		if from := r.Arguments[name]; !open && !slices.Contains(names, name) {
			b.fail(n.place, path+".arguments", "there is no argument %s of %s; its arguments are %s", name, other.Name, strings.Join(names, ", "))
		} else if !ownOpen && !slices.Contains(own, from) {
			b.fail(n.place, path+".arguments", "there is no argument %s of %s; its arguments are %s", from, t.Name, strings.Join(own, ", "))
		}
	}
	if r.By != "" && !open && !slices.Contains(names, r.By) {
		b.fail(n.place, path+".by", "there is no argument %s of %s; its arguments are %s", r.By, other.Name, strings.Join(names, ", "))
	}
	var shape struct {
		Required []string `json:"required"`
	}
	_ = json.Unmarshal(other.listed, &shape) // compiled before: it is an object
	for _, name := range shape.Required {
		if name != r.By && !slices.Contains(given, name) {
			b.fail(n.place, path+".arguments", "%s needs its argument %s", other.Name, name)
		}
	}
}

// SettlesAt is from when on an answer may prove that nothing happened (rule E3), if
// the call's last attempt was over at a time.
func (r *Reconcile) SettlesAt(over time.Time) time.Time { return over.Add(r.SettleAfter) }

// Retries reports whether proof that nothing happened lets a call be tried again
// (rule E2).
func (t *Tool) Retries(c record.Call) bool {
	return t.Retry == RetryReconcile && t.Reconcile != nil && c.Attempt < c.Attempts
}
