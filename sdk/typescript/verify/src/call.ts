import { AsyncLocalStorage } from "node:async_hooks";
import type { IncomingHttpHeaders } from "node:http";

import { matches } from "./digest.js";
import { Refused } from "./refused.js";

/** Where a token travels in an MCP tools/call: this member of `_meta`. */
export const metaKey = "dev.placet/dispatch_token";

/** Where a token travels over HTTP: this header. */
export const header = "Placet-Dispatch-Token";

/** On whose behalf a call is made. A subject means nothing without its issuer. */
export interface Principal {
  issuer: string;
  subject: string;
}

/** A thing that a call acts on: the argument that names it, and its value or, where that is long, its digest. */
export interface Target {
  argument: string;
  value?: unknown;
  digest?: string;
}

/** What a verified token says. */
export interface Facts {
  token: string; // the token's ID
  principal: Principal;
  tenant: string;
  agent: string;
  run: string;
  call: string;
  attempt: number;
  tool: string; // its name at this server
  targets: readonly Target[];
  key: string; // the idempotency key, one for all attempts of the call
  expires: Date; // until when the effect may happen
}

/** A call that Placet dispatched: what its token says, which was verified. */
export interface Call extends Readonly<Facts> {}

export class Call {
  readonly #input: string;

  /** Only the verifier makes calls. */
  constructor(facts: Facts, input: string) {
    Object.assign(this, facts);
    this.#input = input;
  }

  /**
   * Compares the answers to this server's own questions, which come with a call beside
   * its arguments, with those that the token was made for. `input` is the text of an
   * object of the members inputResponses and requestState as received; empty when there
   * are none.
   */
  checkInput(input: string | Uint8Array): void {
    if (input.length === 0 && this.#input === "") {
      return;
    }
    if (input.length === 0 || !matches(input, this.#input)) {
      throw new Refused("other_arguments", "the answers that came with the call are not those that the token was made for");
    }
  }
}

/** The token in an MCP request's `_meta`, or "". */
export function fromMeta(meta: unknown): string {
  const token = typeof meta === "object" && meta !== null && Object.hasOwn(meta, metaKey) ? (meta as Record<string, unknown>)[metaKey] : "";
  return typeof token === "string" ? token : "";
}

/** The token in the headers of a request, or "". Several come out as one text that is no token. */
export function fromHeaders(headers: Headers | IncomingHttpHeaders): string {
  const found = headers instanceof Headers ? headers.get(header) : headers[header.toLowerCase()];
  return found === null || found === undefined ? "" : String(found);
}

const current = new AsyncLocalStorage<Call>();

/** Runs f so that {@link dispatched} is this call in it, and in all that it waits for. */
export function inside<T>(call: Call, f: () => T): T {
  return current.run(call, f);
}

/** The call that this code runs for, as a guard verified it. Throws a {@link Refused} if there is none. */
export function dispatched(): Call {
  const call = current.getStore();
  if (call === undefined) {
    throw new Refused("no_token", "this code runs for no call that Placet dispatched");
  }
  return call;
}
