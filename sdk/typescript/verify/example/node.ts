// A tool server on the MCP SDK (@modelcontextprotocol/sdk) over Streamable HTTP.
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import type { Transport } from "@modelcontextprotocol/sdk/shared/transport.js";
import { guardNode, perProcess, Verifier } from "@placet-dev/verify";
import * as z from "zod";

import { audience, issuer, refund } from "./ledger.js";

function newServer(): McpServer {
  const server = new McpServer({ name: "desk", version: "1" });
  server.registerTool("refund.create", { inputSchema: { order: z.string(), amount: z.number() } }, async ({ order, amount }) => ({
    content: [{ type: "text", text: refund(order, amount) }],
  }));
  return server;
}

const tokens = new Verifier({ issuer, audience, seen: perProcess() });

const http = createServer(
  guardNode(tokens, async (request, response) => {
    const transport = new StreamableHTTPServerTransport({ enableJsonResponse: true });
    await newServer().connect(transport as Transport);
    await transport.handleRequest(request, response);
  }),
);
http.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`));
