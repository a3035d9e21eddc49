// Package label is what a lineage has read and been told, and where the values of
// a call come from.
//
// It promises that a value counts as trusted only by the rules B5, F4, F5 and F7:
// typed by the user, stated by the operator, or taken from a declared field of a
// selected record; that trust never rests on a normalised form; and that decoding
// serves only to find what must ask. Where it cannot tell, the value is not trusted.
//
// A [Lineage] is an index and not a copy: of results it holds salted digests of
// tokens and of declared fields, at most [MaxTokens] and [MaxFields] of them; of
// what the user typed it holds the text, at most [MaxTyped] bytes, since a value
// is matched as a span of any length. What no longer fits is not forgotten: the
// lineage is then full, and everything that the index would have to clear asks.
//
// It may import canon, record, the standard library and the YAML library. It knows
// no store, no door and no registry: the registry gives it [Rules] and [Results].
package label
