// Package dispatch is the boundary: the only code that can invoke a tool.
//
// It promises, for every call on every route, that no tool is invoked unless an
// executing event for that attempt is durable (P1), that nothing but its own
// records gives a call authority (P2), and that where it cannot decide the answer
// is no, recorded (P6). The ten steps of the design, section 4, are the files
// steps.go (1 to 8), reserve.go (9) and invoke.go (10).
//
// A tool implementation takes a [Ticket], which only step 9 mints, which works
// once, and whose zero value never works.
//
// It may import record, canon, identity, label, registry, policy and approval. It knows
// no store, no edge, no evaluator and no tool protocol: it declares the small
// interfaces it needs of them.
package dispatch
