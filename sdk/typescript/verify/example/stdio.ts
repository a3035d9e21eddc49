// A tool server on the newer MCP packages over standard input and output.
import { McpServer } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { GuardedStdio, perProcess, Verifier } from "@placet-dev/verify";
import * as z from "zod";

import { audience, issuer, refund } from "./ledger.js";

function newServer(): McpServer {
  const server = new McpServer({ name: "desk", version: "1" });
  server.registerTool("refund.create", { inputSchema: z.object({ order: z.string(), amount: z.number() }) }, async ({ order, amount }) => ({
    content: [{ type: "text", text: refund(order, amount) }],
  }));
  return server;
}

const tokens = new Verifier({ issuer, audience, seen: perProcess() });

serveStdio(newServer, { transport: new GuardedStdio(tokens) });
