// Package api is the HTTP front door: /v1, described by OpenAPI 3.1, with problems
// after RFC 9457. It translates, authenticates and calls the boundary; it decides
// nothing.
//
// It promises that
//   - tenant, principal and agent come from the verified token of the very request,
//     never from its path, query or body (rules B2, I1);
//   - a token that may propose cannot answer an approval, and the attempt is
//     recorded (rule D4);
//   - what belongs to somebody else answers byte for byte like what does not exist
//     (rule I3);
//   - a body is read in one way only: duplicate names, case variants of names,
//     unknown members, trailing data and rounded numbers are refused (rule C6);
//   - no error echoes a value of the request, and operators' reasons do not reach
//     callers.
//
// It may import audit, dispatch, identity, registry, record, canon, edge/feed, edge/oauth,
// edge/question, and huma.
package api
