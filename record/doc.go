// Package record is Placet's domain: the types of runs, calls, approvals and
// events, the tables of what may follow what, and the constructors of changes.
//
// It is pure: no clock, no randomness, no input or output. Whatever it needs of
// these is passed in. It promises that an illegal change cannot be written down:
// a [Change] is made only by the constructors here, from the transition tables
// here, and a store has nothing to do but enforce it.
//
// It may import canon and the standard library, nothing else.
package record
