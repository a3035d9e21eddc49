import { createPublicKey, type KeyObject } from "node:crypto";

import { isObject } from "./canonical.js";
import { Refused } from "./refused.js";

// How long fetched keys are good. An issuer publishes a key ten minutes before it
// signs with it, so a refresh every five knows each key in time.
const fresh = 5 * 60_000; // then they are fetched again
const stale = 60 * 60_000; // then they count no more, if they cannot be
const pause = 5_000; // between two attempts, whatever tokens come
const wait = 5_000; // for one
const maxBytes = 64 << 10;

type ById = ReadonlyMap<string, KeyObject>;

/** An issuer's public keys. */
export interface Keys {
  /** The key with this ID. Throws a {@link Refused}. */
  get(id: string): Promise<KeyObject>;
}

/** Keys that are given, as the text of a JSON Web Key Set. */
export function givenKeys(text: string): Keys {
  const set = parseKeys(text);
  return {
    async get(id) {
      return known(set.get(id));
    },
  };
}

/** Keys at a URL. They are fetched over https, or over http from this machine. */
export function fetchedKeys(url: string, fetcher: typeof fetch, clock: () => number): Keys {
  const u = URL.parse(url);
  if (u === null || (u.protocol !== "https:" && !(u.protocol === "http:" && /^(localhost|127(\.\d+){3}|\[::1\])$/.test(u.hostname)))) {
    throw new TypeError("verify: keys are fetched over https, or over http from this machine");
  }
  return new Fetched(u, fetcher, clock);
}

function known(key: KeyObject | undefined): KeyObject {
  if (key === undefined) {
    throw new Refused("bad_token", "it is signed by a key that the issuer does not publish");
  }
  return key;
}

class Fetched implements Keys {
  private byId: ById = new Map();
  private fetched = -Infinity;
  private tried = -Infinity;
  private running: Promise<void> | undefined;

  constructor(
    private readonly url: URL,
    private readonly fetcher: typeof fetch,
    private readonly clock: () => number,
  ) {}

  /**
   * Keys are fetched when this one is not known or they are old, but never more often
   * than the pause allows: anybody can send a token with an ID that nobody knows.
   */
  async get(id: string): Promise<KeyObject> {
    if (this.age() >= fresh || !this.byId.has(id)) {
      try {
        await this.refresh(id);
      } catch (e) {
        if (this.age() >= stale || !this.byId.has(id)) {
          throw new Refused("cannot_check", "the issuer's keys cannot be fetched", e);
        }
      }
    }
    return known(this.age() < stale ? this.byId.get(id) : undefined);
  }

  private age(): number {
    return this.clock() - this.fetched;
  }

  private async refresh(id: string): Promise<void> {
    while (this.running !== undefined) {
      await this.running.catch(() => {}); // somebody else's; what came of it is seen below
    }
    if (this.age() < fresh && this.byId.has(id)) {
      return;
    }
    const now = this.clock();
    if (now - this.tried < pause) {
      if (this.age() < fresh) {
        return; // the set is new, and the key is not in it
      }
      throw new Error("they were asked for a moment ago");
    }
    this.tried = now;
    this.running = this.load(now);
    try {
      await this.running;
    } finally {
      this.running = undefined;
    }
  }

  private async load(now: number): Promise<void> {
    const answer = await this.fetcher(this.url, { redirect: "error", signal: AbortSignal.timeout(wait), headers: { accept: "application/json" } });
    if (answer.status !== 200) {
      await answer.body?.cancel();
      throw new Error(`the issuer answered HTTP status ${answer.status}`);
    }
    this.byId = parseKeys(await read(answer));
    this.fetched = now;
  }
}

/** Reads an answer, and no more of it than a key set may have. */
async function read(answer: Response): Promise<string> {
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const part of answer.body ?? []) {
    size += part.length;
    if (size > maxBytes) {
      throw new Error("the key set is too large");
    }
    parts.push(part);
  }
  return new TextDecoder("utf-8", { fatal: true }).decode(Buffer.concat(parts));
}

/** Takes the Ed25519 keys of a set, which must have IDs, each its own. */
function parseKeys(text: string): ById {
  const set: unknown = JSON.parse(text);
  const all = isObject(set) && Array.isArray(set["keys"]) ? (set["keys"] as unknown[]) : [];
  const out = new Map<string, KeyObject>();
  for (const k of all) {
    if (!isObject(k) || k["kty"] !== "OKP" || k["crv"] !== "Ed25519" || "d" in k || !among(k["alg"], "EdDSA") || !among(k["use"], "sig")) {
      continue;
    }
    const { kid, x } = k;
    if (typeof kid !== "string" || kid === "" || out.has(kid)) {
      throw new Error("the key set has a key without an ID, or two with one");
    }
    if (typeof x !== "string" || Buffer.from(x, "base64url").length !== 32) {
      throw new Error("the key set has an Ed25519 key of another length");
    }
    out.set(kid, createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x }, format: "jwk" }));
  }
  if (out.size === 0) {
    throw new Error("the key set has no Ed25519 key");
  }
  return out;
}

function among(value: unknown, only: string): boolean {
  return value === undefined || value === "" || value === only;
}
