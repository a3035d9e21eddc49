// Package histories holds a test and nothing else: how agent runtimes have failed
// at approvals in public, as one table of sequences, played as a client would send
// them through every door.
//
// Each row names the kind of failure and where it was collected. It is told in
// steps of an agent, an approver and a stranger; what must come of it is read from
// the tools' own ledger and from the records, never from an answer. Its neighbour
// is the sequence next to it that is legitimate, which must run exactly once: a
// boundary that refuses everything fails here too.
//
// The tests may import anything; nothing imports this package.
package histories
