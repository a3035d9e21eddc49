// Package notify tells people elsewhere that a question waits for them, and
// operators that an alert was raised: by webhooks after the Standard Webhooks
// specification, and by messages to chat rooms in the form of Slack's incoming
// webhooks.
//
// It promises that
//   - a notice cannot answer: it holds a link and no binding, and nothing that a
//     receiver sends back is read but its status;
//   - no argument's value leaves in it unless its receiver is set up so, and what
//     others wrote, agents among them, is data in it: it cannot mention, link or
//     hide anything;
//   - it is sent until it is taken or its question ends, also after a restart, and
//     again only where it is not known to be taken; every try has the same ID;
//   - receivers do not wait for one another, and no call waits for any of them.
//
// What is to be told follows from the log, and what was told is written there.
// It may import dispatch, record, canon and the library of that specification.
package notify
