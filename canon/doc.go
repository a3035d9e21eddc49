// Package canon reads JSON strictly, writes it in one form only, and digests it.
//
// It promises that a text it accepts has exactly one meaning: no name occurs
// twice in an object, every string is Unicode, every number is finite, and an
// integral number is the number its canonical form denotes. What it returns is
// the RFC 8785 form of the value. Two accepted values are equal if and only if
// their forms are equal byte for byte, so whoever decides on, digests and sends
// the form has decided on what is sent. Text is never normalised.
//
// Errors say what is wrong and where. They never hold a value.
//
// It may import the standard library and go-json-experiment, nothing else.
package canon
