// Package passkey is what people sign answers with: WebAuthn credentials that they
// enrolled here (W3C Web Authentication, Level 3).
//
// It promises that
//   - an assertion counts only for the challenge, the domain and the origin that it
//     was made for, with the person verified by their device ([Site.Verify]); that
//     needs no network, no clock and no state;
//   - a passkey counts only with this server's signature over its enrolment, by a key
//     in a file beside the store that only its owner can read ([Keys]): a row written
//     into the store enrols nothing, and the row of a removed one, put back, neither;
//   - the same for answers: groups, note and time of a counted yes are as they were
//     when it was given;
//   - what it read of a browser is bounded and strict, and never part of an error.
//
// It does not judge what device somebody uses: attestation is neither asked for nor
// kept.
//
// It may import record, canon and go-webauthn's protocol.
package passkey
