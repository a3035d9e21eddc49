// Package postgres is the store for several replicas: one PostgreSQL database,
// shared by any number of processes.
//
// It promises what dispatch.Store asks: a nil from Apply means that COMMIT was
// answered, a *record.Refusal that nothing was written, and any other error that it
// is not known. Each process has one committer. It takes what is waiting as one
// transaction in two round trips: the first takes every lock of the batch, in the
// order of rule C3, and reads what its changes rest on; the second writes and
// commits. In between the changes are decided here, by the same arithmetic as on
// every store, against what nobody else can change before the end: what is refused
// was never written. Every write names what it expects to find, so that something
// that went around the locks fails the batch and not a promise.
//
// The committer runs under its own context (rule J1). What failed before COMMIT was
// sent is tried again; where the answer to COMMIT is lost, it is not known, and is
// not. Nothing that another replica may change is kept in memory.
//
// Every row names its tenant, every read does, and the database shows and takes only
// rows of the tenants that a transaction named before (row level security).
//
// It may import dispatch, record and canon.
package postgres
