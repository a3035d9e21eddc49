// Package verify checks dispatch tokens. It is for the authors of tool servers
// that stand behind Placet: whoever reaches the server on another way has no
// token, and is refused near the effect.
//
// It promises that [Verifier.Check] returns a call only if the token was signed by
// the named issuer for this server, has not ended, is for the named tool and for
// exactly the arguments that were received, and was not used before, as far as the
// store of used tokens reaches. It promises to refuse whenever it cannot tell. What
// it returns is what Placet verified: tenant, principal and agent, not what a
// caller wrote.
//
// It may import go-jose and the standard library, and nothing else: a tool server
// that uses it links no other part of Placet.
package verify
