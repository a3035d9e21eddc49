// Package connect carries MCP between a program that speaks it over standard
// input and output, and a server that speaks it over Streamable HTTP and wants an
// OAuth token: `placet connect URL`.
//
// It promises that messages pass as they are: what either side wrote is not
// decoded and encoded again, only line ends between tokens become spaces. Every
// request gets one answer with its own ID, from the server or, in clear words,
// from here; none is sent a second time unless the server refused the first
// before it read it.
//
// It signs the user in by browser (RFC 8252) with an authorization code and PKCE
// (S256), at the one issuer that the server's own metadata names (RFC 9728), and
// believes nothing that does not match exactly: resource, issuer, state, iss. One
// sign-in serves all requests that wait for it. A token goes to the URL that was
// given and to nowhere else, redirects are not followed, and no secret is printed
// or logged. What must outlive the process lies in a file that only its owner can
// read.
//
// It may import record, golang.org/x/oauth2, the MCP SDK's oauthex, jsontext and
// the standard library.
package connect
