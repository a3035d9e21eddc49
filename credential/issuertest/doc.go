// Package issuertest is an identity provider for tests: that of a real library
// (zitadel/oidc), in process, with users who can leave and lose groups, clients that
// may exchange tokens, and refresh tokens that rotate.
//
// It promises that what it issues is what the library issues; a test alters answers
// only where it says so ([Provider.Alter], [Provider.Before]). Nothing but tests
// imports it. It may import the standard library, go-jose and zitadel/oidc.
package issuertest
