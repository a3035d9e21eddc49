// Package guard is what an argument of a tool must mean, beyond its schema: that
// a path stays below its root, that a URL leads to a public host, that an amount
// is a decimal within bounds.
//
// A [Guard] is compiled once from a [Spec] and judges in two steps. Accept reads
// values alone: it touches no disk and no network, refuses, or returns the value
// in its normal form, which is what is then decided, digested, shown and
// executed; accepting a normal form again returns it unchanged. Examine looks at
// the world as it is now: where symbolic links lead, which addresses a name has.
// A [Refusal] names the argument and the rule, never a value.
//
// For tools that are part of this program it has the means to keep at the moment
// of the effect what was checked at the decision: [Folder] opens a root that
// nothing under it can leave, [Dialer] connects to the very addresses it checked.
// Tools that are other programs get a checked text, and fetch on their own.
//
// It knows nothing of registries, stores and doors. It may import canon, record,
// the standard library, golang.org/x/net/idna, golang.org/x/text and the WHATWG
// URL parser.
package guard
