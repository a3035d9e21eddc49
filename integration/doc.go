// Package integration holds a test and nothing else: clients that people use, from npm in
// exact versions, with their own agent loops, against a provider that says what a test tells
// it to say. Models are asked and tools are called through a real placet.
//
// Each conversation is read from the ledger of the tools, never from an answer. Where a
// client's own runtime runs what a stale or forged history holds, a test first shows that it
// does, with a tool of its own, and then that through Placet nothing ran; beside it stands
// the call that is legitimate, which runs once.
//
// The clients are not fetched by go test: make integration does that. Nothing imports this
// package.
package integration
