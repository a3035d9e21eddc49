package registry

import (
	"iter"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// parts yields the schemas that s applies, to its own place or to places below.
func parts(s *jsonschema.Schema) iter.Seq[*jsonschema.Schema] {
	return func(yield func(*jsonschema.Schema) bool) {
		for p := range inPlace(s) {
			if !yield(p) {
				return
			}
		}
		for p := range below(s) {
			if !yield(p) {
				return
			}
		}
	}
}

// inPlace yields the schemas that s applies to its own place.
func inPlace(s *jsonschema.Schema) iter.Seq[*jsonschema.Schema] {
	return func(yield func(*jsonschema.Schema) bool) {
		single := []*jsonschema.Schema{s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else}
		if s.DynamicRef != nil {
			single = append(single, s.DynamicRef.Ref)
		}
		for _, list := range [][]*jsonschema.Schema{single, s.AllOf, s.AnyOf, s.OneOf} {
			for _, p := range list {
				if p != nil && !yield(p) {
					return
				}
			}
		}
		for _, p := range s.DependentSchemas {
			if p != nil && !yield(p) {
				return
			}
		}
		for _, d := range s.Dependencies {
			if p, ok := d.(*jsonschema.Schema); ok && !yield(p) {
				return
			}
		}
	}
}

// below yields the schemas that s applies to members and elements.
func below(s *jsonschema.Schema) iter.Seq[*jsonschema.Schema] {
	return func(yield func(*jsonschema.Schema) bool) {
		single := []*jsonschema.Schema{s.PropertyNames, s.UnevaluatedProperties, s.Contains,
			s.Items2020, s.UnevaluatedItems, s.ContentSchema}
		for _, either := range []any{s.AdditionalProperties, s.AdditionalItems, s.Items} {
			switch p := either.(type) {
			case *jsonschema.Schema:
				single = append(single, p)
			case []*jsonschema.Schema:
				single = append(single, p...)
			}
		}
		for _, list := range [][]*jsonschema.Schema{single, s.PrefixItems} {
			for _, p := range list {
				if p != nil && !yield(p) {
					return
				}
			}
		}
		for _, p := range s.Properties {
			if p != nil && !yield(p) {
				return
			}
		}
		for _, p := range s.PatternProperties {
			if p != nil && !yield(p) {
				return
			}
		}
	}
}
