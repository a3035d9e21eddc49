// Package registry is what tools exist and what each may be used for.
//
// tools.yaml is the only place where a tool gets authority: a tool that is not
// named there is not listed and not callable. tools.lock beside it is generated
// and holds whole texts of what each server offered when a person reviewed it;
// a tool without a matching pin is quarantined, which for callers is the same
// as not being there. What a server says about itself is a hint, never a right.
//
// A [Snapshot] is one loaded state of all of it. It is immutable and safe for
// concurrent use; a reload makes another one. Loading is all or nothing: any
// problem in any file, and there is no snapshot.
//
// Tools of an embedding Go program are declared in code ([Declared]) with the
// same keys, and need no pin: their schema is compiled into the program.
//
// It may import record, canon, guard, label, yamlfile, the standard library, the JSON Schema
// library and jsontext. It reads files and nothing else: no network, no process.
package registry
