package registry

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/guard"
	"github.com/placet-dev/placet/yamlfile"
)

// maxCompleted bounds what a user typed of a value that is to be completed.
const maxCompleted = 1000

// Argument is one argument of a prompt.
type Argument struct {
	Name, Title, Description string
	Required                 bool
}

// argumentsSchema describes arguments that are all texts, so that they are checked,
// guarded and linted like those of a tool.
func argumentsSchema(arguments []Argument) (json.RawMessage, error) {
	type property struct {
		Type        string `json:"type"`
		Title       string `json:"title,omitempty"`
		Description string `json:"description,omitempty"`
	}
	properties, required := map[string]property{}, []string{}
	for _, a := range arguments {
		if _, twice := properties[a.Name]; twice || a.Name == "" || len(a.Name) > 128 {
			return nil, fmt.Errorf("has arguments without names of their own")
		}
		properties[a.Name] = property{"string", a.Title, a.Description}
		if a.Required {
			required = append(required, a.Name)
		}
	}
	slices.Sort(required)
	return json.Marshal(struct {
		Type       string              `json:"type"`
		Properties map[string]property `json:"properties"`
		Required   []string            `json:"required,omitempty"`
		Additional bool                `json:"additionalProperties"`
	}{"object", properties, required, false})
}

// PromptOffer is what a server says about a prompt.
func PromptOffer(name, title, description string, arguments []Argument) (Offer, error) {
	schema, err := argumentsSchema(arguments)
	return Offer{Method: MethodPrompt, Name: name, Title: title, Description: description, InputSchema: schema}, err
}

// ResourceOffer is what a server says about a resource, or about all those of a
// template. Annotations that change with every edit of the resource are no part of it.
func ResourceOffer(uri, title, description, mimeType string, annotations json.RawMessage) (Offer, error) {
	t, err := ParseTemplate(uri)
	if err != nil {
		return Offer{}, err
	}
	var arguments []Argument
	for _, name := range t.names {
		arguments = append(arguments, Argument{Name: name, Required: true})
	}
	o := Offer{Method: MethodResource, Name: uri, Title: title, Description: description, MimeType: mimeType}
	if o.InputSchema, err = argumentsSchema(arguments); err != nil {
		return Offer{}, err
	}
	var said map[string]json.RawMessage
	if json.Unmarshal(annotations, &said) == nil {
		if delete(said, "lastModified"); len(said) > 0 {
			o.Annotations, err = json.Marshal(said)
		}
	}
	return o, err
}

// reach reads by which method an entry is reached. A resource, a prompt and a
// completion read, by the protocol; an entry that says otherwise is refused.
func (b *builder) reach(t *Tool, e Entry, place yamlfile.Place, path string) {
	var given []string
	for _, k := range []struct {
		key, value string
	}{{"tool", e.Tool}, {"resource", e.Resource}, {"prompt", e.Prompt}, {"completes", e.Completes}} {
		if k.value != "" {
			given = append(given, k.key)
		}
	}
	if len(given) > 1 {
		b.fail(place, path, "names more than one thing: %s", strings.Join(given, " and "))
		return
	}
	switch {
	case e.Resource != "":
		var err error
		t.Method, t.Upstream = MethodResource, e.Resource
		if t.Template, err = ParseTemplate(e.Resource); err != nil {
			b.fail(place, path+".resource", "%s", err)
		}
	case e.Prompt != "":
		t.Method, t.Upstream = MethodPrompt, e.Prompt
	case e.Completes != "":
		t.Method, t.Upstream = MethodCompletion, e.Completes
	default:
		return
	}
	for _, k := range []struct {
		key string
		set bool
	}{{"write", e.Write}, {"destructive", e.Destructive}, {"financial", e.Financial}, {"idempotency_argument", e.IdempotencyArgument != ""},
		{"results.only", e.Results.Only != nil}, {"results.fields", e.Results.Fields != nil}, {"results.records", e.Results.Records != ""},
		{"results.name", e.Results.Name != nil}, {"results.format", e.Results.Format != ""}, {"cost.result", e.Cost != nil && e.Cost.Result != ""}} {
		if k.set {
			b.fail(place, path+"."+k.key, "is for tools; a resource, a prompt and a completion only read, and have no structured result")
		}
	}
	t.Read = true
}

// completion is an entry for completions, finished once what it completes is known.
type completion struct {
	tool  *Tool
	lock  *Lock
	place yamlfile.Place
}

// complete finishes the entries for completions. Each is bound to one prompt or
// template: it has that one's pin, its declared arguments, and its guards on the
// values that are chosen already.
func (b *builder) complete() {
	for _, c := range b.completions {
		t, path := c.tool, "tools."+c.tool.Name
		of := b.snapshot.all[t.Upstream]
		switch {
		case of == nil:
			b.fail(c.place, path+".completes", "there is no entry %q%s", t.Upstream, meant(t.Upstream, sortedKeysOf(b.snapshot.all)))
			continue
		case of.Method != MethodPrompt && (of.Method != MethodResource || of.Template.Fixed()):
			b.fail(c.place, path+".completes", "%s is neither a prompt nor a resource template", of.Name)
			continue
		case of.Server != t.Server:
			b.fail(c.place, path+".server", "is %s, and %s is of %s", t.Server, of.Name, of.Server)
			continue
		}
		t.Completes, t.Upstream = of, of.Upstream
		for _, g := range of.Guards {
			s := g.Spec
			s.Argument = "context." + s.Argument
			if rule, err := guard.New(s); err == nil {
				t.Guards, t.rules = append(t.Guards, Guard{Spec: s, rule: rule}), append(t.rules, rule)
			} else {
				b.fail(c.place, path+".completes", "%s has a guard that does not hold for values chosen before: %s", of.Name, err)
			}
		}
		b.pinTool(t, c.lock)
		if why, held := b.snapshot.quarantined[of.Name]; held {
			b.snapshot.quarantined[t.Name] = "what it completes is quarantined: " + why
		}
		b.finish(t)
	}
}

// completionSchema describes the arguments of a completion: which argument, what
// was typed of it, and what was chosen for the others. An argument with a guard is
// left out unless the entry guards what was typed: the guard is about whole values.
func completionSchema(t *Tool) (json.RawMessage, error) {
	names := []string{}
	properties := map[string]any{}
	for _, n := range propertiesOf(t.Pin.InputSchema) {
		properties[n] = map[string]any{"type": "string"}
		if t.Guard("value") != nil || !slices.ContainsFunc(t.Completes.Guards, func(g Guard) bool { return guard.Top(g.Argument) == n }) {
			names = append(names, n)
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("has no argument that may be completed: every one has a guard; give value a guard here")
	}
	return canon.Marshal(map[string]any{"type": "object", "additionalProperties": false, "required": []string{"argument", "value"},
		"properties": map[string]any{
			"argument": map[string]any{"type": "string", "enum": names},
			"value":    map[string]any{"type": "string", "maxLength": maxCompleted},
			"context":  map[string]any{"type": "object", "additionalProperties": false, "properties": properties},
		}})
}

// MimeType is what a server says a resource is; "" when it says nothing.
func (t *Tool) MimeType() string {
	if t.Pin == nil {
		return ""
	}
	return t.Pin.MimeType
}

// PromptArguments are the arguments of a prompt, as they were pinned.
func (t *Tool) PromptArguments() []Argument {
	var schema struct {
		Properties map[string]struct{ Title, Description string }
		Required   []string
	}
	if json.Unmarshal(t.listed, &schema) != nil {
		return nil
	}
	var out []Argument
	for _, name := range sortedKeysOf(schema.Properties) {
		p := schema.Properties[name]
		out = append(out, Argument{name, p.Title, p.Description, slices.Contains(schema.Required, name)})
	}
	return out
}
