import { IncomingMessage, type ServerResponse } from "node:http";

import { fromHeaders, inside, type Call } from "./call.js";
import { admit, errorOf, guarded, NotRead, readMessage, type Message } from "./message.js";
import { refusalOf, Refused } from "./refused.js";
import type { Verifier } from "./verifier.js";

/**
 * Guards an MCP server over Streamable HTTP that answers Fetch requests. It lets
 * greeting and listing through, and a tools/call only with a token for it in the
 * header; {@link dispatched} is then the call. Everything else that could run something
 * is refused. It reads each body once, strictly, and hands the same bytes on: what the
 * handler decodes is what was checked.
 *
 * A refusal is HTTP status 401 with a JSON-RPC error. Placet takes that as proof that
 * nothing happened.
 */
export function guardFetch(tokens: Verifier, handler: (request: Request) => Response | Promise<Response>): (request: Request) => Promise<Response> {
  return async (request) => {
    if (carriesNothing(request.method)) {
      return handler(request);
    }
    const { method, headers, bodyUsed: read } = request;
    const body = method === "POST" && !read ? await readAll(request, tokens.maxBody) : undefined;
    const verdict = await judge(tokens, { method, headers, body, read });
    if ("status" in verdict) {
      return new Response(verdict.body, { status: verdict.status, headers: verdict.headers });
    }
    const again = new Request(request, { body: body as Uint8Array<ArrayBuffer> });
    return verdict.call === undefined ? handler(again) : inside(verdict.call, () => handler(again));
  };
}

/**
 * The same for node:http, and for Express in front of any body parser. The handler gets
 * a request whose body is there to read.
 */
export function guardNode(
  tokens: Verifier,
  handler: (request: IncomingMessage, response: ServerResponse) => unknown,
): (request: IncomingMessage, response: ServerResponse) => Promise<void> {
  return async (request, response) => {
    const method = request.method ?? "";
    if (carriesNothing(method)) {
      await handler(request, response);
      return;
    }
    const read = request.readableDidRead || request.readableEnded;
    const body = method === "POST" && !read ? await readStream(request, tokens.maxBody) : undefined;
    const verdict = await judge(tokens, { method, headers: request.headers, body, read });
    if ("status" in verdict) {
      response.writeHead(verdict.status, { ...verdict.headers, connection: "close" }).end(verdict.body);
      return;
    }
    const again = repeat(request, body!);
    await (verdict.call === undefined ? handler(again, response) : inside(verdict.call, () => handler(again, response)));
  };
}

/** Methods of HTTP that carry no message. */
function carriesNothing(method: string): boolean {
  return ["GET", "HEAD", "DELETE", "OPTIONS"].includes(method);
}

interface Arrived {
  method: string;
  headers: Headers | IncomingMessage["headers"];
  body: Uint8Array | undefined; // undefined: too large, cut short, or not there
  read: boolean; // somebody read it before
}

interface Answer {
  status: number;
  headers: Record<string, string>;
  body: string;
}

async function judge(tokens: Verifier, r: Arrived): Promise<Answer | { call: Call | undefined }> {
  if (r.method !== "POST") {
    return plain(405, "POST a message");
  }
  if (r.read) {
    return refusal("", new Refused("cannot_check", "the message was read before it came to the check, which belongs in front of body parsers"));
  }
  const encoding = r.headers instanceof Headers ? r.headers.get("content-encoding") : r.headers["content-encoding"];
  if (r.body === undefined || encoding) {
    return plain(400, "the message is too large, was cut short, or is encoded");
  }
  let m: Message;
  try {
    m = readMessage(r.body);
  } catch (e) {
    if (e instanceof NotRead) {
      return plain(400, e.message);
    }
    throw e;
  }
  if (!guarded(m)) {
    return { call: undefined };
  }
  try {
    return { call: await admit(tokens, m, fromHeaders(r.headers)) };
  } catch (e) {
    return refusal(m.id, refusalOf(e));
  }
}

function plain(status: number, text: string): Answer {
  return { status, headers: { "content-type": "text/plain; charset=utf-8" }, body: `${text}\n` };
}

/** The status is for whoever looks at that, and the error for whoever reads the body. */
function refusal(id: string, why: Refused): Answer {
  return {
    status: 401,
    headers: { "content-type": "application/json", "www-authenticate": "Placet-Dispatch" },
    body: `{"jsonrpc":"2.0","id":${id === "" ? "null" : id},"error":${JSON.stringify(errorOf(why))}}`,
  };
}

async function readAll(request: Request, max: number): Promise<Uint8Array | undefined> {
  const parts: Uint8Array[] = [];
  let size = 0;
  try {
    for await (const part of request.body ?? []) {
      size += part.length;
      if (size > max) {
        return undefined; // leaving the loop cancels the rest
      }
      parts.push(part);
    }
  } catch {
    return undefined;
  }
  return Buffer.concat(parts);
}

/** Reads a request without ending its connection, on which the answer goes back. */
function readStream(request: IncomingMessage, max: number): Promise<Buffer | undefined> {
  return new Promise((done) => {
    const parts: Buffer[] = [];
    let size = 0;
    request.on("data", (part: Buffer) => {
      size += part.length;
      if (size > max) {
        parts.length = 0;
        done(undefined);
      } else {
        parts.push(part);
      }
    });
    request.on("end", () => done(size > max ? undefined : Buffer.concat(parts)));
    request.on("error", () => done(undefined));
    request.on("close", () => done(undefined));
  });
}

/** A request like one that was read, with these bytes to read. */
function repeat(request: IncomingMessage, body: Buffer | Uint8Array): IncomingMessage {
  const again = new IncomingMessage(request.socket);
  again.method = request.method;
  again.url = request.url;
  again.httpVersion = request.httpVersion;
  again.httpVersionMajor = request.httpVersionMajor;
  again.httpVersionMinor = request.httpVersionMinor;
  again.rawHeaders = request.rawHeaders;
  again.headers = request.headers;
  again.headersDistinct = request.headersDistinct;
  for (const [name, value] of Object.entries(request)) {
    if (!(name in again) && name !== "body" && name !== "rawBody") {
      Object.assign(again, { [name]: value }); // what a framework noted, but for other copies of the body
    }
  }
  again.push(body);
  again.push(null);
  again.complete = true;
  return again;
}

