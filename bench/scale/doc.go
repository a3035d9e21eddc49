// Command scale measures what an allowed call costs when a store holds few calls and
// when it holds millions.
//
// For each size it makes a store with the program's own schema, has the real boundary
// record one call there, and copies that call's rows in bulk, slim, under other names,
// runs, effects and principals (fill.go). Then it lets the real boundary run allowed
// calls on every store in turn (measure.go), and prints their cost relative to the
// smallest store's. docs/benchmarks.md has figures.
//
// It may import everything: it is a program beside the house, and nothing imports it.
package main
