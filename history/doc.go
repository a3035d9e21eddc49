// Package history reads transcripts of conversations in the field's formats,
// says what is wrong with them, classifies what they hold, and repairs them.
//
// It promises that a history is data. No type of this package can be proposed,
// approved or dispatched: a call read here is bytes with a position, and what it
// claims counts only as far as the server's own records say the same
// ([Classify]). Bytes, positions and order survive reading; members that a format
// does not know are kept and reported, never interpreted. Whether a call already
// has a result is read from records, not from the transcript.
//
// Decoding is strict (I-JSON, exact case), bounded ([Limits]) and streaming
// ([Reader]): memory is that of the largest message and of one entry a call.
//
// It is pure, and may import canon, record, the standard library and
// go-json-experiment/json.
package history
