// Package mcp is the front door for MCP clients: one endpoint for revision
// 2026-07-28, which is stateless, and for the older ones, which have sessions.
//
// It promises that identity comes only from the verified token of the very
// request, that a request is decoded once and strictly, and that nothing reaches
// a tool but what was decoded and then decided by the boundary. It keeps no
// authority of its own: whoever can forge a message, a session ID or a request
// state gains nothing that their token does not give them.
//
// A request passes, in this order: Host and Origin, method and size (guard.go);
// the token (identify.go); one strict decode (decode.go, params.go); agreement of
// headers and body (agree.go); then tools/list (list.go) and tools/call (call.go,
// hold.go). The SDK serves the rest, and all of it for sessions (sdk.go).
//
// It may import canon, record, registry, identity, dispatch, edge/oauth and the MCP SDK.
package mcp
