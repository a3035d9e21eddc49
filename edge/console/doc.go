// Package console is the pages that people open: approvers to answer questions,
// readers and operators to look at records. Pages are made here; scripts only keep
// them current.
//
// It promises that
//   - who somebody is comes from the access token of their sign-in, which identity
//     verifies at every request: a session holds that token and gives nothing of
//     its own (rule D4);
//   - a person sees the questions they may answer, and a reader the tenant; what is
//     not theirs answers like what does not exist (rule I3);
//   - an answer carries the binding that its page showed (rule D6);
//   - no form counts that another site sent, no page can be framed, and nothing that
//     was not served here runs in one;
//   - what an agent wrote is shown as data: escaped, with what cannot be seen or
//     deceives made visible, folded where it is long, never cut without saying so.
//
// Sessions are in memory: after a restart people sign in again. Without a login in
// the configuration there is one page, which says how to answer in a terminal.
//
// It may import dispatch, edge/question, identity, registry, record and canon,
// go-oidc and oauth2.
package console
