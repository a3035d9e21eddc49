// Package policy says what a policy is asked, what it may answer, and how the
// answers of several layers become one.
//
// It promises that a verdict is allow only when every layer that applies said
// exactly that. Whatever else a layer does (an unknown word, an error, a panic,
// silence until the deadline, an obligation nobody here can keep) denies, and
// the operator sees which layer it was and where. A layer can only make a
// decision stricter, never looser.
//
// It imports record, canon and the standard library. It knows no policy
// language: evaluators such as policy/rego implement [Layer].
package policy
