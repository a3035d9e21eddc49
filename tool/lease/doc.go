// Package lease is tools that their caller runs itself: a framework, such as
// LangGraph, the Agents SDK or a program of one's own, that has the tool in its own
// process and asks Placet whether it may run.
//
// It promises that a ticket becomes one lease: what may run, word for word, and what
// its holder shows to report. It reaches nothing, and what the tool does is not seen
// from here. A lease whose dispatch token cannot be signed is not handed out.
//
// It may import dispatch, record, registry, tool/local and the standard library.
package lease
