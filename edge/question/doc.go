// Package question is what a person reads of a question, whatever shows it: the
// console's pages, the API and a terminal say the same of one call.
//
// It promises that
//   - what somebody else wrote is shown as data: every character that cannot be
//     seen, changes the direction of others or passes for another one is followed
//     or replaced by its number ([Mark]);
//   - an earlier call's values are told only to who may see that call ([Since]).
//
// It reads and decides nothing else. It may import canon, dispatch and record.
package question
