// Package issuer is an OpenID provider for development and tests: people sign in
// at a page by a click, and clients get by the real flows what `placet dev token`
// prints.
//
// It promises that what it signs is for one audience: a token that proposes is
// never for the console, and only a client registered for approving gets the
// console's, after an interactive login (rule D4). An exchange only narrows. What
// it says of a session it reads from its directory at that moment: whoever was
// edited out has none.
//
// It must never stand before real people: whoever reaches its page is anybody in
// its directory. It answers this machine only, and only under its own address.
//
// The protocol's forms, parameters and errors are zitadel/oidc's; tokens are
// identity.Local's. It may import identity, record, yamlfile, zitadel/oidc,
// go-jose, rs/cors and the standard library.
package issuer
