// Command bench measures what Placet costs, as ratios to what the same machine
// does without it. Run it at the top of the module:
//
//	go run ./bench            everything, a few minutes; exit code 1 when a ratio misses its target
//	go run ./bench -short     a smoke run of some seconds each; nothing is asserted
//	go run ./bench -only decision_vs_opa
//
// Both sides of a ratio are measured in turn within one run, so that whatever else
// the machine does falls on both. Records are durable: SQLite with
// synchronous=FULL, on the disk that -dir names. Every call that is counted was
// answered by the tool, whose own counter is compared with the calls made.
//
// docs/benchmarks.md says what each ratio compares. The package may import
// everything; nothing imports it.
package main
