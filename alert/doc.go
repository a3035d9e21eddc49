// Package alert watches the event log with fixed rules and raises alerts for
// operators. docs/alerts.md says what each rule means and what to do.
//
// It promises that
//   - an alert names its evidence, events and calls, and holds no argument's value;
//   - it is an event of the log itself: durable before anybody is told, and raised
//     once for its subject within a window, also over a restart;
//   - what the rules know follows from the log alone. A restart reads the last
//     window of it again;
//   - it moves no call and no call waits for it.
//
// It may import dispatch and record.
package alert
