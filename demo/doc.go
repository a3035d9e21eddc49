// Package demo plays one scene on one machine: an agent, its approver, somebody
// else's stored chat, and a gateway that is killed between a person's yes and the
// effect. In its second act a ticket tells an agent to make forty refunds.
//
// Nothing in it is pretended. The help desk is an MCP server in a process of its
// own, with its own ledger. The gateway is this program in another process, opened
// as any embedding program opens it. The agent is a client of the MCP SDK, the
// people use the HTTP API. What the scene claims is read from the help desk's own
// file, read-only, and compared with the gateway's records; no answer is believed.
// Interactively, whoever signs in at the console answers in place of the approver's
// client, and the ledger is compared with what they said.
//
// It promises that nothing leaves the machine, that both processes have ended and
// the folder is gone when [Run] returns, also after an error or an interrupt, and
// that both processes end when this one is killed.
//
// It is a program, not a library: it may import everything but cmd, and only cmd
// imports it.
package demo
