// Package local runs tools that are Go functions of the embedding program.
//
// It promises that a handler runs at most once per ticket, that a panic in one
// is an outcome nobody knows and not the end of the process, and that Invoke
// returns when its context ends even if the handler does not. A handler that has
// started counts as sent: what it did by then is its own affair.
//
// It may import dispatch, registry, record, the standard library and jsontext.
package local
