// Package audit makes the event log tamper-evident (rule J4): a Merkle tree over its
// events (RFC 6962 hashes), checkpoints of it that are signed and chained, and the proofs
// that follow from them.
//
// It promises that an event once sealed cannot be changed, moved or removed without
// [Verify] telling, given the key and a checkpoint that lies outside the store; and that
// what a tenant is shown of other tenants' events says nothing of them: their leaves are
// salted. What was not sealed yet, and what an operator who holds the key seals anew
// where nobody kept a checkpoint, it cannot tell: docs/audit.md says more.
//
// A line of an export that holds an event is a leaf of the tree, byte for byte:
// its hash is SHA-256 of a zero byte and the line.
//
// It may import record, canon and golang.org/x/mod/sumdb.
package audit
