// Package metrics counts what the log says, for Prometheus: how well control works,
// not how much is called. It follows the log as alerts do, so that a number and the
// events behind it never disagree; what it counts begins with the process.
//
// It promises that no metric carries a name that a caller chose, an identity, an
// argument or a tenant: labels have few values, all of them this program's own.
//
// It may import record, dispatch and history, and Prometheus's client.
package metrics
