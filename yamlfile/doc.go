// Package yamlfile reads the configuration files people write: YAML, strictly,
// into Go structs, with errors that say where and what to write instead.
//
// It promises: an unknown key is an error, and so is a repeated one, a value of
// another type, a second document, an anchor, an alias, a merge key or a tag. A
// key whose feature is not built yet is known and refused, never ignored. All
// errors of a file are reported at once, each with file, line and column. Size
// and nesting are bounded before the parser sees the text. Nothing read here is
// executed or expanded: a secret is a reference (see [SecretRef]).
//
// The structs are the only description of a file: [Schema] derives the JSON
// Schema for editors from the same tags.
//
// Tags of a field:
//
//	yaml:"key"            the key; "-" is not read
//	yaml:"key,required"   its absence is an error
//	default:"20s"         what an absent key means, in the file's own notation
//	mapping:"Kinds"       a list of names that may be a mapping, which the field Kinds then takes
//	doc:"…"               one sentence for people, also the schema's description
//
// It may import the standard library and goccy/go-yaml, nothing else.
package yamlfile
