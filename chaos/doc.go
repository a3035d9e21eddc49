// Command chaos breaks running servers on purpose and then asks the tool server's own
// account, and the event log, whether anything was lost or done twice.
//
// It builds cmd/placet with failpoints (build.go), runs three replicas on one
// PostgreSQL cluster and one server on SQLite (side.go, replica.go), a tool server that
// writes each effect to the disk before it answers (tools.go), callers and approvers
// that keep asking whoever is alive (clients.go), an issuer that speaks for those who are
// away (issuer.go), and breaks what it can reach (faults.go); restore.go puts each store back
// to an earlier state of itself. judge.go compares the two accounts afterwards. docs/chaos.md says what
// that shows and what it does not.
//
// It may import everything: it is a program beside the house, and nothing imports it.
package main
