// Package front stands before every door of the server.
//
// It promises that what is routed is what was sent: a path that two readers could
// read in two ways is refused before anything looks at it ([Plain]). And it counts
// what callers send that looks like identity and is none ([Ignored]); nothing reads
// such headers, here or behind.
//
// It may import the standard library only.
package front
