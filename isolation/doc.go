// Package isolation holds a test and nothing else: who may do what, as one matrix
// of every operation, MCP method and command by every kind of caller, played
// against the running program.
//
// The rows are found, not listed: operations in the OpenAPI document that the
// server serves, MCP methods in the source of edge/mcp, commands in the program's
// own completion. One that has no row fails the test. Each caller knows the ID of
// the object it asks for. What must come of it is a small table; what did come of
// it is read from the object with other credentials, from the tool server's own
// ledger, and from a comparison with the answer for an ID that nobody has, which
// must be the same byte for byte (rule I3).
//
// The tests may import anything; nothing imports this package.
package isolation
