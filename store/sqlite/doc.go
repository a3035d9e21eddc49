// Package sqlite is the embedded store: one SQLite file, owned by one process.
//
// It promises what dispatch.Store asks: a nil from Apply means durable (WAL,
// synchronous FULL), a *record.Refusal means that nothing was written, and any
// other error means that it is not known. One writer goroutine applies every
// change; it commits what is waiting as one transaction and answers nobody before
// COMMIT succeeded (rule J1). It runs under its own context: no caller's
// cancellation reaches a statement. A COMMIT that fails breaks the store for good;
// the process that owns it must end, and reads the truth when it starts again.
//
// Being the only writer, it is also the authority fence of rule C3: every change
// is before or after every other one.
//
// It may import dispatch, record and canon.
package sqlite
