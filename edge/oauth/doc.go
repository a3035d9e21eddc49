// Package oauth tells clients how to get a token for this server: which resource
// it is and who issues tokens for it (RFC 9728), what a refused request lacked
// (RFC 6750 section 3), and, where the provider registers no clients, which client
// the operator registered for everybody (RFC 7591, RFC 8414).
//
// It promises to give away nothing: no document depends on who asks, a registered
// client has no secret, and its redirect URI is on loopback at the configured port.
// It issues no tokens and trusts none; what counts is identity's to say.
//
// It may import canon.
package oauth
