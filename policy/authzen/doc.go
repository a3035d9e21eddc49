// Package authzen asks an external decision point whether a subject may do an
// action on resources, by the OpenID Authorization API 1.0 (AuthZEN).
//
// It promises that a question is answered with yes only when the decision point
// said true, as a JSON boolean, for each resource, and attached no obligation.
// Everything else that is no clear no is an error, and an error denies: another
// type, a missing or surplus answer, another status than 200, a redirect, a name
// that occurs twice, an answer that is too long or too late, or somebody else's.
// It keeps no answer: a decision is asked for at every request, because authority
// that was withdrawn a moment ago is gone (promise P4), and a cache would be the
// place where it lives on.
//
// It may import canon, policy (whose texts it bounds alike), record and the
// standard library. It knows neither calls nor callers: the root package says what
// a call means as subject, action and resource.
package authzen
