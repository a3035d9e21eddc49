import type { Readable, Writable } from "node:stream";

import { fromMeta, inside, type Call } from "./call.js";
import { canonicalOf, isObject } from "./canonical.js";
import { admit, errorOf, guarded, harmless, noSuch, NotRead, readMessage, type Message } from "./message.js";
import { refusalOf, Refused } from "./refused.js";
import type { Verifier } from "./verifier.js";

/** What the transports of MCP's TypeScript SDKs have in common. */
export interface Transport {
  start(): Promise<void>;
  send(message: never, options?: never): Promise<void>;
  close(): Promise<void>;
  onmessage?: ((message: never, extra?: never) => void) | undefined;
  onclose?: (() => void) | undefined;
  onerror?: ((error: Error) => void) | undefined;
}

export interface StdioOptions {
  stdin?: Readable; // default: the process's
  stdout?: Writable; // default: the process's
}

/**
 * A transport over standard input and output for a server that checks tokens, in place
 * of the SDK's own. It reads each line strictly, as it came, before anything is
 * parsed. Each tools/call that comes through has {@link dispatched}.
 */
export class GuardedStdio {
  onmessage?: (message: any, extra?: any) => void; // each SDK has its own type of messages
  onclose?: () => void;
  onerror?: (error: Error) => void;

  readonly #tokens: Verifier;
  readonly #stdin: Readable;
  readonly #stdout: Writable;
  #rest: Buffer[] = []; // of a line whose end has not come
  #size = 0;
  #closed = false;

  constructor(tokens: Verifier, options: StdioOptions = {}) {
    this.#tokens = tokens;
    this.#stdin = options.stdin ?? process.stdin;
    this.#stdout = options.stdout ?? process.stdout;
  }

  async start(): Promise<void> {
    this.#stdin.on("data", this.#data);
    this.#stdin.on("end", this.#end);
    this.#stdin.on("error", this.#failed);
    this.#stdout.on("error", this.#failed);
  }

  async close(): Promise<void> {
    if (this.#closed) {
      return;
    }
    this.#closed = true;
    this.#stdin.off("data", this.#data).off("end", this.#end).off("error", this.#failed);
    this.#stdin.pause();
    this.onclose?.();
  }

  send(message: object): Promise<void> {
    return new Promise((done, failed) => {
      this.#stdout.write(`${JSON.stringify(message)}\n`, (e) => (e ? failed(e) : done()));
    });
  }

  readonly #end = () => void this.close();

  readonly #failed = (e: Error) => {
    this.onerror?.(e);
    void this.close();
  };

  readonly #data = (part: Buffer) => {
    for (let end = part.indexOf(0x0a); end >= 0 && !this.#closed; end = part.indexOf(0x0a)) {
      const line = Buffer.concat([...this.#rest, part.subarray(0, end)]);
      this.#rest = [];
      this.#size = 0;
      part = part.subarray(end + 1);
      if (line.length > this.#tokens.maxBody) {
        this.#failed(new Error("a message is too large"));
        return;
      }
      void this.#line(line).catch((e: unknown) => this.onerror?.(e as Error));
    }
    this.#rest.push(part);
    this.#size += part.length;
    if (this.#size > this.#tokens.maxBody) {
      this.#failed(new Error("a message is too large"));
    }
  };

  async #line(line: Buffer): Promise<void> {
    const text = line.toString("utf8");
    if (text.trim() === "") {
      return;
    }
    let m: Message;
    try {
      m = readMessage(line);
    } catch (e) {
      if (!(e instanceof NotRead)) {
        throw e;
      }
      return this.send({ jsonrpc: "2.0", id: null, error: { code: -32600, message: e.message } });
    }
    const message = JSON.parse(text) as { id?: unknown };
    if (!guarded(m)) {
      this.onmessage?.(message);
      return;
    }
    let call: Call;
    try {
      call = await admit(this.#tokens, m, fromMeta(m.meta === "" ? undefined : JSON.parse(m.meta)));
    } catch (e) {
      return m.id === "" ? undefined : this.send({ jsonrpc: "2.0", id: message.id, error: errorOf(refusalOf(e)) });
    }
    inside(call, () => this.onmessage?.(message as never));
  }
}

/**
 * Guards any other transport of an MCP SDK: connect the server to what this returns.
 * Such a transport has parsed the message, so it is the parsed arguments that are
 * checked ({@link Verifier.checkValue}). Where the text can be had, take
 * {@link guardFetch}, {@link guardNode} or {@link GuardedStdio}.
 */
export function guardTransport<T extends Transport>(tokens: Verifier, transport: T): T {
  type Receive = (message: unknown, extra?: unknown) => void;
  const guard = (receive: Receive): Receive => {
    return (message, extra) => {
      const m = isObject(message) ? message : {};
      if (typeof m["method"] !== "string" ? m["method"] === undefined && ("result" in m || "error" in m) : harmless(m["method"])) {
        receive(message, extra);
        return;
      }
      admitParsed(tokens, m).then(
        (call) => inside(call, () => receive(message, extra)),
        (e: unknown) => refuse(transport, m["id"], refusalOf(e)),
      ).catch((e: unknown) => transport.onerror?.(e as Error));
    };
  };
  return new Proxy(transport, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name);
      return typeof value === "function" && name !== "onmessage" ? value.bind(target) : value;
    },
    set(target, name, value: unknown) {
      return Reflect.set(target, name, name === "onmessage" && typeof value === "function" ? guard(value as Receive) : value);
    },
  });
}

async function admitParsed(tokens: Verifier, m: Record<string, unknown>): Promise<Call> {
  if (m["method"] !== "tools/call") {
    throw noSuch(String(m["method"]));
  }
  const params = isObject(m["params"]) ? m["params"] : {};
  const name = params["name"];
  const call = await tokens.checkValue(fromMeta(params["_meta"]), typeof name === "string" ? name : "", params["arguments"]);
  const answers = Object.fromEntries(["inputResponses", "requestState"].filter((n) => params[n] !== undefined).map((n) => [n, params[n]]));
  const input = Object.keys(answers).length === 0 ? "" : canonicalOf(answers);
  if (input === undefined) {
    throw new Refused("other_arguments", "the answers that came with the call do not tell what was received");
  }
  call.checkInput(input);
  return call;
}

async function refuse(transport: Transport, id: unknown, why: Refused): Promise<void> {
  if (id === undefined) {
    return; // nobody waits for an answer
  }
  const send = transport.send.bind(transport) as (message: unknown, options?: unknown) => Promise<void>;
  await send({ jsonrpc: "2.0", id, error: errorOf(why) }, { relatedRequestId: id });
}
