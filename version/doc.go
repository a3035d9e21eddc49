// Package version holds what decides as files: registry files with their locks, policy
// layers, and the files that HTTP operations and named queries stand in.
//
// It promises that [Reader] gives loading code either what is on disk, and remembers
// it, or what a version was made of, and nothing else; and that [Encode] writes equal
// files as equal bytes. Secrets are never in files that decide: those refer to them.
//
// It may import canon and record.
package version
