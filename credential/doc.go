// Package credential makes what calls carry to tool servers: dispatch tokens, and
// what servers authenticate a call by.
//
// A dispatch token ([Signer]) is a signed statement, for one server and a minute at
// most, of which call Placet dispatches for whom. Package verify checks it at the
// other end. It promises that a token is for one audience, one tool and one text of
// arguments; that it ends no later than the attempt's lease (rule E5); that no two
// tokens have one ID; that its key lies in a file that only its owner can read, and
// is replaced every day, with the next key published before it signs and the last
// one after it stopped. It promises that nothing a caller sent, and no credential
// of a caller's, is in a token, but for the values of declared targets.
//
// Profiles ([Profiles]) obtain what a call is made with: a static secret, or a token
// of an issuer's. They promise that a caller's token goes to its own issuer alone
// and never comes back out; that a token obtained for one tenant, person, agent,
// login, purpose or scope is never used for another (rule I2); that an answer with
// more than was asked for is refused; and that of an issuer's words nobody sees more
// than an error code.
//
// Delegations ([Delegations]) keep the authority of callers who are away, sealed, and
// promise that it is worth nothing without its issuer's answer of now (rule C2).
//
// It may import record, canon, go-jose and the standard library.
package credential
