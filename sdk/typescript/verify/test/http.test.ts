import assert from "node:assert/strict";
import { createServer, request as connect, type IncomingMessage, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { after, test } from "node:test";
import { text } from "node:stream/consumers";

import { dispatched, fromHeaders, guardFetch, guardNode, header, type Verifier } from "../src/index.js";
import { digest, Issuer, reason, refund } from "./issuer.js";

const message = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"_meta":{"x":1},"name":"refund","arguments":${refund}}}`;

interface Sent {
  method?: string;
  body?: string | Uint8Array;
  headers?: [string, string][];
}

/** A server behind a guard, which notes what reached it. */
interface Guarded {
  send(r: Sent): Promise<{ status: number; headers: Record<string, unknown>; body: string }>;
  ledger: string[];
}

function note(ledger: string[], method: string, body: string): void {
  let who = "nobody";
  try {
    who = dispatched().principal.subject;
  } catch {}
  ledger.push(`${method} ${who} ${body}`);
}

async function listen(handler: RequestListener): Promise<number> {
  const server = createServer(handler).listen(0, "127.0.0.1");
  after(() => {
    server.closeAllConnections();
    server.close();
  });
  await new Promise((done) => server.once("listening", done));
  return (server.address() as AddressInfo).port;
}

function post(port: number, { method = "POST", body = "", headers = [] }: Sent): ReturnType<Guarded["send"]> {
  return new Promise((done, failed) => {
    const all: Record<string, string[]> = {};
    for (const [name, value] of headers) {
      (all[name] ??= []).push(value);
    }
    const r = connect({ port, method, path: "/mcp", host: "127.0.0.1", agent: false, headers: all }, (answer: IncomingMessage) => {
      text(answer).then((body) => done({ status: answer.statusCode!, headers: answer.headers, body }), failed);
    });
    r.on("error", failed);
    if (method === "GET" || method === "DELETE") {
      r.end();
    } else {
      r.end(body);
    }
  });
}

const kinds: Record<string, (tokens: Verifier) => Promise<Guarded>> = {
  async node(tokens) {
    const ledger: string[] = [];
    const port = await listen(
      guardNode(tokens, async (request, response) => {
        await new Promise(setImmediate);
        note(ledger, request.method!, await text(request));
        assert.equal(request.headers.host, `127.0.0.1:${port}`);
        assert.equal(request.url, "/mcp");
        response.end("done");
      }),
    );
    return { ledger, send: (r) => post(port, r) };
  },
  async fetch(tokens) {
    const ledger: string[] = [];
    const serve = guardFetch(tokens, async (request) => {
      await new Promise(setImmediate);
      note(ledger, request.method, await request.text());
      return new Response("done");
    });
    return {
      ledger,
      async send({ method = "POST", body, headers = [] }) {
        const init = method === "GET" || method === "DELETE" ? {} : { body: (body ?? "") as string };
        const answer = await serve(new Request("http://desk.example/mcp", { method, headers, ...init }));
        return { status: answer.status, headers: Object.fromEntries(answer.headers), body: await answer.text() };
      },
    };
  },
};

for (const [kind, start] of Object.entries(kinds)) {
  test(`${kind}: the dispatched call is let through, as it came`, async () => {
    const i = await Issuer.make();
    const g = await start(i.verifier());
    const spaced = message.replace('"arguments":', ' "arguments" : ').replace("60.5", "6.05e1");
    for (const body of [message, spaced]) {
      assert.equal((await g.send({ body, headers: [[header, await i.token()]] })).status, 200);
      assert.equal(g.ledger.pop(), `POST anna ${body}`);
    }
    for (const args of [`{"text":"${"x".repeat(1 << 20)}"}`, `{"a":${"[".repeat(63)}${"]".repeat(63)}}`]) {
      const token = await i.token({}, args);
      assert.equal((await g.send({ body: message.replace(refund, args), headers: [[header, token]] })).status, 200);
      assert.ok(g.ledger.pop()!.includes(args));
    }
    const input = '{"inputResponses":{"a":1},"requestState":"s"}';
    const answered = message.replace('"name"', '"requestState":"s","inputResponses":{"a":1},"name"');
    assert.equal((await g.send({ body: answered, headers: [[header, await i.token({ input_digest: digest(input) })]] })).status, 200);
    assert.equal(g.ledger.pop(), `POST anna ${answered}`);
    for (const body of [
      '{"jsonrpc":"2.0","id":1,"method":"tools/list"}',
      '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}',
      '{"jsonrpc":"2.0","method":"notifications/initialized"}',
      '{"jsonrpc":"2.0","id":1,"result":{}}',
    ]) {
      assert.equal((await g.send({ body })).status, 200);
      assert.equal(g.ledger.pop(), `POST nobody ${body}`); // it is nobody's call, even right after one
    }
    for (const method of ["GET", "DELETE"]) {
      assert.equal((await g.send({ method })).status, 200);
      assert.equal(g.ledger.pop(), `${method} nobody `);
    }
    assert.deepEqual(g.ledger, []);
  });

  test(`${kind}: nothing else reaches the server`, async () => {
    const i = await Issuer.make();
    const g = await start(i.verifier());
    const used = await i.token();
    assert.equal((await g.send({ body: message, headers: [[header, used]] })).status, 200);
    g.ledger.length = 0;
    const fresh = async (): Promise<[string, string][]> => [[header, await i.token()]];
    const edit = (from: string, to: string) => message.replace(from, to);
    const odd: Record<string, Sent> = {
      "no token": { body: message },
      "an empty token": { body: message, headers: [[header, ""]] },
      used: { body: message, headers: [[header, used]] },
      "other arguments": { body: edit("60.5", "605"), headers: await fresh() },
      "an argument twice": { body: edit('"amount"', '"amount":605,"amount"'), headers: await fresh() },
      "other tool": { body: edit('"refund"', '"wipe"'), headers: await fresh() },
      "several tokens": { body: message, headers: [...(await fresh()), ...(await fresh())] },
      "answers nobody signed": { body: edit('"name"', '"inputResponses":{},"name"'), headers: await fresh() },
      "another method": { body: edit("tools/call", "resources/read"), headers: await fresh() },
      "a method to come": { body: edit("tools/call", "tools/run"), headers: await fresh() },
      "method in another case": { body: edit("tools/call", "Tools/Call"), headers: await fresh() },
      "a batch": { body: `[${message}]`, headers: await fresh() },
      "two messages": { body: `{"jsonrpc":"2.0","id":1,"method":"ping"}${message}` },
      "method twice": { body: edit('"method"', '"method":"ping","method"') },
      "method twice, case": { body: edit('"method"', '"Method":"ping","method"'), headers: await fresh() },
      "arguments in another case": { body: edit('"arguments"', '"Arguments":{"amount":605},"arguments"'), headers: await fresh() },
      "name twice": { body: edit('"name"', '"name":"wipe","name"'), headers: await fresh() },
      "not JSON": { body: "x" },
      nothing: { body: "" },
      "not UTF-8": { body: Buffer.from(edit('"x":1', '"x":"\u00ff"'), "latin1"), headers: await fresh() },
      "a byte order mark": { body: `\ufeff${message}`, headers: await fresh() },
      encoded: { body: message, headers: [...(await fresh()), ["Content-Encoding", "gzip"]] },
      "too large": { body: edit(refund, `"${"x".repeat(5 << 20)}"`), headers: await fresh() },
      PUT: { method: "PUT", body: message, headers: await fresh() },
    };
    for (const [name, sent] of Object.entries(odd)) {
      const answer = await g.send(sent);
      assert.ok(answer.status >= 400 && answer.status <= 405, `${name}: ${answer.status}`);
      if (name === "too large") {
        assert.equal(answer.status, 400);
      }
      assert.deepEqual(g.ledger, [], name);
      assert.ok(!answer.body.includes(used), `${name}: the answer holds a token`);
    }
    const answer = await g.send({ body: message });
    assert.equal(answer.status, 401);
    assert.equal(answer.headers["www-authenticate"], "Placet-Dispatch");
    assert.deepEqual(JSON.parse(answer.body), {
      jsonrpc: "2.0",
      id: 7,
      error: { code: -32602, message: "dispatch token: this server takes calls from Placet only, and there is no token", data: { reason: "no_token" } },
    });
  });
}

test("behind a body parser a guard refuses, since it cannot see what came", async () => {
  const i = await Issuer.make();
  const ledger: string[] = [];
  const port = await listen(async (request, response) => {
    await text(request);
    await guardNode(i.verifier(), () => ledger.push("reached"))(request, response);
  });
  const answer = await post(port, { body: message, headers: [[header, await i.token()]] });
  assert.equal(answer.status, 401);
  assert.match(answer.body, /cannot_check/);
  const parsed = new Request("http://desk.example/mcp", { method: "POST", body: message, headers: { [header]: await i.token() } });
  await parsed.text();
  const other = await guardFetch(i.verifier(), () => new Response(String(ledger.push("reached"))))(parsed);
  assert.equal(other.status, 401);
  assert.deepEqual(ledger, []);
});

test("a request keeps what a framework noted on it, and no other copy of the body", async () => {
  const i = await Issuer.make();
  let got: Record<string, unknown> = {};
  const port = await listen((request, response) => {
    Object.assign(request, { auth: { who: "x" }, body: "other", rawBody: "other" });
    return guardNode(i.verifier(), async (again, answer) => {
      got = { ...(again as unknown as Record<string, unknown>) };
      answer.end(await text(again));
    })(request, response);
  });
  assert.equal((await post(port, { body: message, headers: [[header, await i.token()]] })).body, message);
  assert.deepEqual([got["auth"], got["body"], got["rawBody"]], [{ who: "x" }, undefined, undefined]);
});

test("a server that speaks no MCP checks the body itself", async () => {
  const i = await Issuer.make();
  const tokens = i.verifier();
  const serve = async (request: Request) => {
    const body = new Uint8Array(await request.arrayBuffer());
    return reason(tokens.check(fromHeaders(request.headers), "refund", body));
  };
  const call = async (token: string, body = refund) => serve(new Request("http://desk.example/refund", { method: "POST", body, headers: token ? { [header]: token } : {} }));
  const token = await i.token();
  assert.equal(await call(token, refund.replace("60.5", "605")), "other_arguments");
  assert.equal(await call(token), "");
  assert.equal(await call(token), "replayed");
  assert.equal(await call(""), "no_token");
});
