package rego

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/goccy/go-yaml"
)

// data joins a layer's data files into one object. Two files that set the same
// path are an error, as is a duplicate name within one.
func (f Files) data() (map[string]any, error) {
	root := map[string]any{}
	for _, p := range f.pick(isData) {
		v, err := decode(p, f[p])
		if err != nil {
			return nil, err
		}
		at := root
		if dir := path.Dir(p); dir != "." {
			for _, step := range strings.Split(dir, "/") {
				next, ok := at[step].(map[string]any)
				if !ok && at[step] != nil {
					return nil, fmt.Errorf("%s: data at %q is set twice", p, step)
				}
				if !ok {
					next = map[string]any{}
					at[step] = next
				}
				at = next
			}
		}
		object, ok := v.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%s: data must be an object", p)
		}
		if err := merge(at, object); err != nil {
			return nil, fmt.Errorf("%s: %w", p, err)
		}
	}
	return root, nil
}

func merge(into, from map[string]any) error {
	for k, v := range from {
		have, taken := into[k]
		if !taken {
			into[k] = v
			continue
		}
		a, aok := have.(map[string]any)
		b, bok := v.(map[string]any)
		if !aok || !bok {
			return fmt.Errorf("data at %q is set twice", k)
		}
		if err := merge(a, b); err != nil {
			return err
		}
	}
	return nil
}

// decode reads JSON or YAML into plain values; numbers stay as written.
func decode(name string, text []byte) (any, error) {
	if path.Ext(name) != ".json" {
		j, err := yamlToJSON(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		text = j
	}
	// jsontext refuses duplicate names and invalid UTF-8, encoding/json does not.
	if !jsontext.Value(text).IsValid() {
		return nil, fmt.Errorf("%s: not strict JSON; are two names in one object equal?", name)
	}
	var v any
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return v, nil
}

// yamlToJSON goes through plain values, so that anchors and the forms of YAML
// are gone. The parser refuses duplicate keys.
func yamlToJSON(text []byte) ([]byte, error) {
	var v any
	if err := yaml.Unmarshal(text, &v); err != nil {
		return nil, err
	}
	return json.Marshal(v)
}
