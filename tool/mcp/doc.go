// Package mcp reaches tools on MCP servers, over Streamable HTTP and over stdio.
//
// It promises that what goes upstream is the call as it was decided: the canonical
// arguments byte for byte, a request ID of its own, and nothing of the caller's
// message. It promises that a call is sent at most once per ticket, that
// [dispatch.Reached].Sent is false only if no byte of it left this process, and
// that a result comes back as the server wrote it.
//
// It speaks the protocol itself. A client library would decode results into Go
// values (large numbers and unknown members do not survive that), would hide
// whether bytes left, and would resend where it sees fit. The tests run against
// real servers of the Go SDK in both eras of the protocol:
//
//   - modern, revision 2026-07-28: no sessions; each call is one POST.
//   - legacy, before that: an initialize handshake and a session. A session
//     belongs to one tenant, principal and lineage unless the registry entry
//     says stateless (rule I2). So does the child process of a stdio server, in
//     either era.
//
// A call's credential goes with every request of that call, in one header, and with
// nothing else; what is sent without a call carries our own. A command has its
// credential in its environment.
//
// Discovery, which backs Offer, uses sessions of its own that belong to nobody
// and only ever list. Servers are not trusted: every message is bounded and read
// strictly, redirects are not followed, and what a server asks of us is refused.
//
// It may import dispatch, guard, registry, record, mcphttp, canon, the standard library and
// jsontext.
package mcp
