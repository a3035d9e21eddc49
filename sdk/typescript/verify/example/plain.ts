// A tool server over HTTP without an SDK.
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { json } from "node:stream/consumers";

import { guardNode, perProcess, Verifier } from "@placet-dev/verify";

import { audience, issuer, refund } from "./ledger.js";

interface Message {
  id?: number | string;
  method?: string;
  params?: { name?: string; protocolVersion?: string; arguments?: { order: string; amount: number } };
}

const inputSchema = { type: "object", properties: { order: { type: "string" }, amount: { type: "number" } }, required: ["order", "amount"] };

function answer({ method, params }: Message): object | undefined {
  switch (method) {
    case "initialize":
      return { protocolVersion: "2025-11-25", capabilities: { tools: {} }, serverInfo: { name: "desk", version: "1" } };
    case "tools/list":
      return { tools: [{ name: "refund.create", inputSchema }] };
    case "tools/call":
      return { content: [{ type: "text", text: refund(params!.arguments!.order, params!.arguments!.amount) }] };
  }
  return undefined;
}

const tokens = new Verifier({ issuer, audience, seen: perProcess() });

const http = createServer(
  guardNode(tokens, async (request, response) => {
    const message = (await json(request)) as Message;
    if (message.id === undefined) {
      response.writeHead(202).end();
      return;
    }
    const result = answer(message);
    const error = { code: -32601, message: "there is no such method" };
    response.writeHead(200, { "content-type": "application/json" });
    response.end(JSON.stringify({ jsonrpc: "2.0", id: message.id, ...(result ? { result } : { error }) }));
  }),
);
http.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`));
