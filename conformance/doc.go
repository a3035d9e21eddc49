// Package conformance runs the MCP conformance suite through Placet.
//
// run.sh starts the Go SDK's everything-server once as a stateless and once as a
// session server, puts a gateway that admits all its tools in front of each, and
// runs the suite's server legs directly and through the gateway. compare then
// fails for every check that passes directly and not through, unless baseline.yml
// names it with a reason.
//
// client is an MCP client over package connect, for the suite's client scenarios
// auth/*: the suite plays server and issuer, and looks at what the OAuth client
// sends. No baseline excuses any of these.
package conformance
