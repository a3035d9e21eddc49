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

// arguments checks the names of arguments as far as they can be checked without
// the pinned schema; finish does the rest.
func (b *builder) arguments(t *Tool, e Entry, place yamlfile.Place, path string) {
	for _, list := range []struct {
		key   string
		names []string
	}{{"targets", t.Targets}, {"same_effect", t.SameEffect}} {
		for i, n := range list.names {
			if !argumentName.MatchString(n) || slices.Contains(list.names[:i], n) {
				b.fail(place, fmt.Sprintf("%s.%s[%d]", path, list.key, i), "wants the name of an argument, once")
			}
		}
	}
	if t.SameEffect != nil && len(t.SameEffect) == 0 {
		b.fail(place, path+".same_effect", "is empty, which would make every two calls the same; list arguments or remove the key")
	}
	effect, err := ParseEffect(e.Effect)
	if err != nil {
		b.fail(place, path+".effect", "%s", err)
	}
	t.Effect = effect
	if n := t.IdempotencyArgument; n != "" && (slices.Contains(t.SameEffect, n) || slices.Contains(t.Targets, n)) {
		b.fail(place, path+".idempotency_argument", "is filled by Placet and cannot be a target or part of same_effect")
	}
}

// pinTool attaches the lock's pin. Without it the tool is quarantined.
func (b *builder) pinTool(t *Tool, lock *Lock) {
	hold := func(format string, args ...any) {
		b.snapshot.quarantined[t.Name] = fmt.Sprintf(format, args...)
	}
	pin, ok := lock.Tools[t.Name]
	switch {
	case !ok:
		hold("it is not in tools.lock; review it with: placet tools add %s --only %s", t.Server, t.Upstream)
	case pin.Server != t.Server || pin.Pin.Key() != t.Offered():
		hold("tools.lock holds %s of server %s under this name, tools.yaml says %s of %s", pin.Pin.Key(), pin.Server, t.Offered(), t.Server)
	default:
		t.Pin = &pin.Pin
	}
	if why, held := b.snapshot.held[t.Server]; held {
		hold("%s", why)
	}
}

// finish compiles what the pin holds and puts the tool in the snapshot.
func (b *builder) finish(t *Tool) {
	place, path := yamlfile.Place(t.Place), "tools."+t.Name
	before := len(b.problems)
	if t.Pin != nil {
		if err := b.compile(t); err != nil {
			if b.snapshot.servers[t.Server].Inproc {
				b.fail(place, path, "%s", err)
				return
			}
			b.snapshot.quarantined[t.Name] = err.Error()
		} else {
			b.checkNames(t, place, path)
		}
	}
	if len(b.problems) > before {
		return
	}
	t.normal = normalForm(t)
	var pinned canon.Digest
	if t.Pin != nil {
		pinned = t.Pin.Digest
	}
	server := b.snapshot.servers[t.Server].Digest
	t.Digest = canon.Of("placet/tool/1", t.normal, server[:], pinned[:])
	b.snapshot.all[t.Name] = t
	if why, held := b.snapshot.quarantined[t.Name]; held {
		b.warn(place, path, "is quarantined: %s", why)
	}
}

func (b *builder) compile(t *Tool) error {
	if t.Pin.InputSchema == nil {
		return fmt.Errorf("the server offers no input schema")
	}
	visible, err := without(t.Pin.InputSchema, t.IdempotencyArgument)
	if t.Completes != nil {
		visible, err = completionSchema(t)
	}
	if err != nil {
		return err
	}
	if t.input, err = b.schema(visible, true); err != nil {
		return fmt.Errorf("the input schema %w", err)
	}
	t.listed = visible
	if t.Pin.OutputSchema != nil {
		if t.output, err = b.schema(t.Pin.OutputSchema, false); err != nil {
			return fmt.Errorf("the output schema %w", err)
		}
	}
	return nil
}

// schema compiles a schema once for all tools that pin the same: many do, and a
// registry of thousands loads faster and stays smaller for it.
func (b *builder) schema(raw json.RawMessage, closed bool) (*schema, error) {
	key := canon.Of(fmt.Sprintf("placet/schema/%t", closed), raw)
	if s, ok := b.schemas[key]; ok {
		return s, nil
	}
	s, err := compile(raw, closed)
	if err == nil {
		b.schemas[key] = s
	}
	return s, err
}

// without takes a property out of an object schema, for the argument that
// Placet fills: the model neither sees nor gives it.
func without(raw json.RawMessage, name string) (json.RawMessage, error) {
	if name == "" {
		return raw, nil
	}
	var root map[string]json.RawMessage
	var properties map[string]json.RawMessage
	var required []string
	fault := fmt.Errorf("idempotency_argument: the input schema has no plain property %s", name)
	if json.Unmarshal(raw, &root) != nil || json.Unmarshal(root["properties"], &properties) != nil || properties[name] == nil {
		return nil, fault
	}
	delete(properties, name)
	var err error
	if root["properties"], err = json.Marshal(properties); err != nil {
		return nil, fault
	}
	if root["required"] != nil {
		if json.Unmarshal(root["required"], &required) != nil {
			return nil, fault
		}
		required = slices.DeleteFunc(required, func(r string) bool { return r == name })
		if root["required"], err = json.Marshal(required); err != nil {
			return nil, fault
		}
		if len(required) == 0 {
			delete(root, "required")
		}
	}
	out, err := json.Marshal(root)
	if err != nil {
		return nil, fault
	}
	return sorted(out)
}

// checkNames compares the names in an entry with the pinned schema, where that
// lists all its members. A target that no call can have would protect nothing.
func (b *builder) checkNames(t *Tool, place yamlfile.Place, path string) {
	names, open := t.input.known.listed(t.input.compiled)
	if open {
		return
	}
	check := func(key string, used ...string) {
		for _, n := range used {
			if !slices.Contains(names, n) {
				b.fail(place, path+"."+key, "there is no argument %q%s; the arguments are %s", n, meant(n, names), strings.Join(names, ", "))
			}
		}
	}
	for _, target := range t.Targets {
		first, _, _ := strings.Cut(target, ".")
		check("targets", first)
	}
	check("names", t.Origins.Names...)
	check("directory", sortedKeysOf(t.Origins.Lookups)...)
	check("same_effect", t.SameEffect...)
	for _, g := range t.Guards {
		if !slices.Contains(names, g.Argument) { // a name may hold dots itself
			check("guards", guard.Top(g.Argument))
		}
	}
	check("effect", t.Effect.Arguments()...)
	if t.AutonomousLimit != nil {
		check("autonomous_limit.argument", t.AutonomousLimit.Argument)
	}
	if d := t.DryRun; d != nil && d.Argument != "" {
		check("dry_run.argument", d.Argument)
	}
	if c := t.Cost; c != nil && c.Argument != "" {
		check("cost.argument", c.Argument)
	}
	if c := t.Cost; c != nil && c.Holds != "" {
		check("cost.currency", c.Holds)
	}
}

// meant is a suggestion in the middle of a sentence.
func meant(word string, candidates []string) string {
	if c := yamlfile.Closest(word, candidates); c != "" {
		return "; did you mean " + c + "?"
	}
	return ""
}
