// Package storetest is the suite that every store must pass. [Run] exercises
// dispatch.Store, dispatch.Reader and audit.Log through changes that record's constructors
// made, sequentially and in races, with pauses between what a writer read and what
// it writes.
//
// It may import audit, dispatch, record, canon and the testing packages.
package storetest
