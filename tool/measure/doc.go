// Package measure finds out what a server's command would fetch or run now, so
// that it can be pinned, or compared with its pin.
//
// It promises never to start the command itself: for packages it asks the
// ecosystem's own client (npm, go, uv) for the integrity hash, for anything else
// it digests the program's bytes. It answers within [Limit], and an error means
// that nothing is known.
//
// It may import registry and the standard library.
package measure
