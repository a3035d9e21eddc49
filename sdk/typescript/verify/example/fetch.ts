// A tool server on the newer MCP packages (@modelcontextprotocol/server), which answer
// Fetch requests. Where a platform does not take those itself, an adapter such as this
// one stands in front.
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

import { createMcpHandler, McpServer } from "@modelcontextprotocol/server";
import { guardFetch, perProcess, Verifier } from "@placet-dev/verify";
import * as z from "zod";

import { audience, issuer, refund } from "./ledger.js";

const handler = createMcpHandler(() => {
  const server = new McpServer({ name: "desk", version: "1" });
  server.registerTool("refund.create", { inputSchema: z.object({ order: z.string(), amount: z.number() }) }, async ({ order, amount }) => ({
    content: [{ type: "text", text: refund(order, amount) }],
  }));
  return server;
});

const tokens = new Verifier({ issuer, audience, seen: perProcess() });
const serve = guardFetch(tokens, (request) => handler.fetch(request));

const http = createServer(async (request, response) => {
  const parts: Uint8Array[] = [];
  for await (const part of request) {
    parts.push(part as Uint8Array);
  }
  const headers = Object.entries(request.headersDistinct).flatMap(([name, all]) => (all ?? []).map((value): [string, string] => [name, value]));
  const answer = await serve(
    new Request(`http://${request.headers.host}${request.url}`, {
      method: request.method ?? "",
      headers,
      ...(request.method === "POST" ? { body: Buffer.concat(parts) } : {}),
    }),
  );
  response.writeHead(answer.status, Object.fromEntries(answer.headers));
  for await (const part of answer.body ?? []) {
    response.write(part);
  }
  response.end();
});
http.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`));
