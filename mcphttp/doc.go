// Package mcphttp is what this module's MCP clients read and write over Streamable
// HTTP: server-sent events, bodies, and what goes into headers.
//
// It promises that nothing it reads outgrows the bound it was given, that what a
// stream's end cuts off is not taken for an event or a body, and that no value can
// break out of its header. It sends nothing and knows no messages: JSON-RPC, eras
// and sessions are its users' affair.
//
// It may import canon and the standard library.
package mcphttp
