// Package rego evaluates policy layers written in Rego, with OPA as a library.
//
// It promises that a layer is compiled alone, with its own data and without
// any built-in function that reads a clock, a random source, the network or
// the process; that errors of built-in functions are errors of the layer; that
// a result is either an answer in the documented shape or an error; and that
// evaluation stops when its context ends. package policy turns every error
// into a denial.
//
// It imports policy, record, canon, OPA's v1 packages, the YAML parser and the
// strict JSON tokens of go-json-experiment.
package rego
