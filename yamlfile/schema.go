package yamlfile

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Schema returns the JSON Schema (2020-12) of the file that into's struct type
// describes, for editors: keys, types, choices, defaults and sentences. Nested
// structs are closed, since an unknown key is an error.
func Schema(id, title string, root any) ([]byte, error) {
	t := reflect.TypeOf(root)
	s := schemaOf(t)
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["$id"] = id
	s["title"] = title
	b, err := json.MarshalIndent(s, "", "  ")
	return append(b, '\n'), err
}

// Keys lists the keys of a struct that a file may use, without those that are
// for later, for tests and documents.
func Keys(of any) []string { return keysOf(reflect.TypeOf(of)) }

func schemaOf(t reflect.Type) map[string]any {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == reflect.TypeFor[Later]():
		return map[string]any{"not": map[string]any{}, "description": "Not supported yet."}
	case t == reflect.TypeFor[Strings]():
		text := map[string]any{"type": "string"}
		return map[string]any{"anyOf": []any{text, map[string]any{"type": "array", "items": text}}}
	case isScalar(t):
		return scalarSchema(t)
	case isEntries(t):
		value, _ := t.Elem().FieldByName("Value")
		return map[string]any{"type": "object", "additionalProperties": schemaOf(value.Type)}
	case t.Kind() == reflect.Slice:
		return map[string]any{"type": "array", "items": schemaOf(t.Elem())}
	default:
		return structSchema(t)
	}
}

func scalarSchema(t reflect.Type) map[string]any {
	switch {
	case reflect.PointerTo(t).Implements(reflect.TypeFor[Number]()):
		return map[string]any{"type": []any{"number", "string"}}
	case t == reflect.TypeFor[SecretRef]():
		return map[string]any{"type": "string", "pattern": "^(env|file):.+"}
	case t == reflect.TypeFor[time.Duration]():
		return map[string]any{"type": "string", "pattern": `^([0-9.]+(ns|us|µs|ms|s|m|h))+$|^0$`}
	case t.Kind() == reflect.Bool:
		return map[string]any{"type": "boolean"}
	case t.Kind() == reflect.Int, t.Kind() == reflect.Int64:
		return map[string]any{"type": "integer", "minimum": 0}
	case len(choices(t)) > 0:
		return map[string]any{"enum": choices(t)}
	default:
		return map[string]any{"type": "string", "minLength": 1}
	}
}

func structSchema(t reflect.Type) map[string]any {
	properties, required := map[string]any{}, []string{}
	for _, f := range fieldsOf(t) {
		s := schemaOf(f.typ)
		if beside, ok := t.FieldByName(f.mapping); ok && f.mapping != "" {
			s = map[string]any{"anyOf": []any{s, schemaOf(beside.Type)}}
		}
		if f.doc != "" {
			s["description"] = strings.TrimSpace(f.doc)
			if f.typ == reflect.TypeFor[Later]() {
				s["description"] = "Not supported yet. " + f.doc
			}
		}
		if f.fallback != "" {
			s["default"] = defaultValue(f)
		}
		properties[f.key] = s
		if f.required {
			required = append(required, f.key)
		}
	}
	s := map[string]any{"type": "object", "additionalProperties": false, "properties": properties}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

func defaultValue(f field) any {
	t := f.typ
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return f.fallback
	case t.Kind() == reflect.Bool:
		return f.fallback == "true"
	case t.Kind() == reflect.Int, t.Kind() == reflect.Int64:
		n, err := strconv.Atoi(f.fallback)
		if err == nil {
			return n
		}
	case t.Kind() == reflect.Slice:
		var list []string
		for part := range strings.SplitSeq(f.fallback, ",") {
			list = append(list, strings.TrimSpace(part))
		}
		return list
	}
	return f.fallback
}
