// The guards under both generations of MCP's TypeScript SDK.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { createInterface } from "node:readline";
import { PassThrough } from "node:stream";
import { after, test } from "node:test";

import { InMemoryTransport as OldInMemory } from "@modelcontextprotocol/sdk/inMemory.js";
import { McpServer as OldServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import type { Transport as OldTransport } from "@modelcontextprotocol/sdk/shared/transport.js";
import { InMemoryTransport, McpServer } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import * as z from "zod";

import { dispatched, GuardedStdio, guardNode, guardTransport, metaKey } from "../src/index.js";
import { Issuer, refund } from "./issuer.js";

const schema = { amount: z.number(), order: z.string() };

/** The tool of a server: it writes for whom it acted. */
function act(ledger: string[]): (args: { amount: number; order: string }) => Promise<{ content: { type: "text"; text: string }[] }> {
  return async ({ amount, order }) => {
    await new Promise(setImmediate);
    const call = dispatched();
    ledger.push(`${call.tenant} ${call.principal.subject} ${amount} ${order}`);
    return { content: [{ type: "text", text: "done" }] };
  };
}

function older(ledger: string[]): OldServer {
  const s = new OldServer({ name: "desk", version: "1" });
  s.registerTool("refund", { inputSchema: schema }, act(ledger));
  return s;
}

function newer(ledger: string[]): McpServer {
  const s = new McpServer({ name: "desk", version: "1" });
  s.registerTool("refund", { inputSchema: z.object(schema) }, act(ledger));
  return s;
}

interface Answer {
  id: unknown;
  result?: { isError?: boolean };
  error?: { code: number; data?: { reason: string } };
}

const initialize = { jsonrpc: "2.0", id: 1, method: "initialize", params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "test", version: "1" } } };
const initialized = { jsonrpc: "2.0", method: "notifications/initialized" };

function callText(id: number, token: string | undefined, args = refund, name = "refund"): string {
  const meta = token === undefined ? "" : `"_meta":{${JSON.stringify(metaKey)}:${JSON.stringify(token)}},`;
  return `{"jsonrpc":"2.0","id":${id},"method":"tools/call","params":{${meta}"name":${JSON.stringify(name)},"arguments":${args}}}`;
}

/** Sends lines to a server over pipes; each request is answered before the next is sent. */
function pipes(start: (stdio: GuardedStdio) => void, i: Issuer): (line: string, answered?: boolean) => Promise<Answer> {
  const stdin = new PassThrough();
  const stdout = new PassThrough();
  start(new GuardedStdio(i.verifier(), { stdin, stdout }));
  after(() => stdin.end());
  const lines = createInterface(stdout)[Symbol.asyncIterator]();
  return async (line, answered = true) => {
    stdin.write(`${line}\n`);
    return answered ? (JSON.parse((await lines.next()).value as string) as Answer) : { id: undefined };
  };
}

const overStdio: Record<string, (ledger: string[]) => (stdio: GuardedStdio) => void> = {
  "@modelcontextprotocol/sdk": (ledger) => (stdio) => void older(ledger).connect(stdio as OldTransport),
  "@modelcontextprotocol/server": (ledger) => (stdio) => void serveStdio(() => newer(ledger), { transport: stdio }),
};

for (const [sdk, start] of Object.entries(overStdio)) {
  test(`stdio under ${sdk}: a dispatched call runs once, and nothing else`, async () => {
    const i = await Issuer.make();
    const ledger: string[] = [];
    const send = pipes(start(ledger), i);
    assert.ok((await send(JSON.stringify(initialize))).result);
    await send(JSON.stringify(initialized), false);
    assert.ok((await send('{"jsonrpc":"2.0","id":2,"method":"tools/list"}')).result);
    const token = await i.token();
    const first = await send(callText(3, token));
    assert.deepEqual([first.id, first.result?.isError ?? false, ledger], [3, false, ["acme anna 60.5 ord_1"]]);
    const fresh = () => i.token();
    const odd: [string, string, string][] = [
      ["replayed", callText(4, token), "replayed"],
      ["no token", callText(4, undefined), "no_token"],
      ["other arguments", callText(4, await fresh(), '{"amount":605,"order":"ord_1"}'), "other_arguments"],
      ["an argument twice", callText(4, await fresh(), '{"amount":605,"order":"ord_1","amount":60.5}'), ""],
      ["other tool", callText(4, await fresh(), refund, "wipe"), "other_tool"],
      ["another method", callText(4, await fresh()).replace("tools/call", "resources/read"), "no_token"],
      ["answers nobody signed", callText(4, await fresh()).replace('"name"', '"requestState":"s","name"'), "other_arguments"],
      ["a batch", `[${callText(4, await fresh())}]`, ""],
      ["method twice", callText(4, undefined).replace('"method"', '"method":"ping","method"'), ""],
    ];
    for (const [name, line, why] of odd) {
      const answer = await send(line);
      assert.ok(answer.error, name);
      assert.deepEqual([answer.error.data?.reason ?? "", answer.error.code], [why, why === "" ? -32600 : -32602], name);
    }
    await send(callText(5, token).replace('"id":5,', ""), false); // nobody waits for an answer
    const last = await send(callText(6, await fresh()));
    assert.deepEqual([last.id, ledger], [6, ["acme anna 60.5 ord_1", "acme anna 60.5 ord_1"]]);
  });
}

test("stdio: a line without an end closes the server, and what came before has run", async () => {
  const i = await Issuer.make();
  const stdin = new PassThrough();
  const got: string[] = [];
  const t = new GuardedStdio(i.verifier({ maxBody: 1000 }), { stdin, stdout: new PassThrough() });
  const closed = new Promise<void>((done) => (t.onclose = done));
  t.onmessage = (m) => got.push(m.method);
  t.onerror = (e) => got.push(e.message);
  await t.start();
  const ping = '{"jsonrpc":"2.0","id":1,"method":"ping"}\n';
  stdin.write(ping.slice(0, 20));
  stdin.write(`${ping.slice(20)}\r\n${ping}`);
  for (let n = 0; n < 3; n++) {
    stdin.write("x".repeat(500));
  }
  await closed;
  stdin.write(`\n${ping}`);
  await new Promise(setImmediate);
  assert.deepEqual(got, ["ping", "ping", "a message is too large"]);
});

const inMemory: Record<string, (i: Issuer, ledger: string[]) => Promise<InMemoryTransport | OldInMemory>> = {
  async "@modelcontextprotocol/sdk"(i, ledger) {
    const [client, server] = OldInMemory.createLinkedPair();
    await older(ledger).connect(guardTransport(i.verifier(), server));
    return client;
  },
  async "@modelcontextprotocol/server"(i, ledger) {
    const [client, server] = InMemoryTransport.createLinkedPair();
    await newer(ledger).connect(guardTransport(i.verifier(), server));
    return client;
  },
};

for (const [sdk, start] of Object.entries(inMemory)) {
  test(`a transport that parses, under ${sdk}: a dispatched call runs once, and nothing else`, async () => {
    const i = await Issuer.make();
    const ledger: string[] = [];
    const client = await start(i, ledger);
    let take: (a: Answer) => void = () => {};
    client.onmessage = (m: unknown) => take(m as Answer);
    await client.start();
    const send = (message: object) => {
      const answer = new Promise<Answer>((done) => (take = done));
      void client.send(message as never);
      return answer;
    };
    assert.ok((await send(initialize)).result);
    await client.send(initialized as never);
    const token = await i.token();
    const call = (token: string | undefined, args = refund, name = "refund") => send(JSON.parse(callText(3, token, args, name)) as object);
    assert.ok((await call(token)).result);
    assert.deepEqual(ledger, ["acme anna 60.5 ord_1"]);
    const large = '{"amount":9007199254740992,"order":"ord_1"}';
    for (const [why, ask] of [
      ["replayed", () => call(token)],
      ["no_token", () => call(undefined)],
      ["other_arguments", async () => call(await i.token(), '{"amount":605,"order":"ord_1"}')],
      ["other_arguments", async () => call(await i.token({}, large), large)],
      ["other_tool", async () => call(await i.token(), refund, "wipe")],
      ["no_token", () => send({ jsonrpc: "2.0", id: 3, method: "prompts/get", params: { name: "x" } })],
      ["other_arguments", async () => send(JSON.parse(callText(3, await i.token()).replace('"name"', '"requestState":"s","name"')) as object)],
    ] as [string, () => Promise<Answer>][]) {
      const answer = await ask();
      assert.deepEqual([answer.id, answer.error?.code, answer.error?.data?.reason], [3, -32602, why]);
    }
    assert.ok((await call(await i.token())).result);
    assert.equal(ledger.length, 2);
  });
}

test("a session over HTTP: each call in it needs its own token", async () => {
  const i = await Issuer.make();
  const ledger: string[] = [];
  const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: () => "session" });
  await older(ledger).connect(transport as OldTransport);
  const http = createServer(guardNode(i.verifier(), (request, response) => transport.handleRequest(request, response))).listen(0, "127.0.0.1");
  await new Promise((done) => http.once("listening", done));
  after(() => {
    http.closeAllConnections();
    http.close();
  });
  const post = async (body: string, token?: string) => {
    const answer = await fetch(`http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`, {
      method: "POST",
      body,
      headers: {
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
        "mcp-protocol-version": "2025-11-25",
        "mcp-session-id": "session",
        ...(token === undefined ? {} : { "placet-dispatch-token": token }),
      },
    });
    return { status: answer.status, body: await answer.text() };
  };
  assert.equal((await post(JSON.stringify(initialize))).status, 200);
  assert.equal((await post(JSON.stringify(initialized))).status, 202);
  const token = await i.token();
  assert.match((await post(callText(2, undefined), token)).body, /done/);
  for (const [body, t] of [
    [callText(3, undefined), token],
    [callText(3, undefined), undefined],
    [callText(3, await i.token()), undefined], // over HTTP the header counts
    [callText(3, undefined, '{"amount":605,"order":"ord_1"}'), await i.token()],
  ] as [string, string | undefined][]) {
    assert.equal((await post(body, t)).status, 401);
  }
  assert.match((await post(callText(4, undefined), await i.token())).body, /done/);
  assert.deepEqual(ledger, ["acme anna 60.5 ord_1", "acme anna 60.5 ord_1"]);
});
