import type { KeyObject } from "node:crypto";

import { compactVerify } from "jose";

import { Call, type Facts, type Target } from "./call.js";
import { canonical, decode, isObject } from "./canonical.js";
import { matches, matchesValue } from "./digest.js";
import { fetchedKeys, givenKeys, type Keys } from "./keys.js";
import { refusalOf, Refused } from "./refused.js";
import type { Seen } from "./seen.js";

const tokenType = "placet-dispatch+jwt";
const tokenChars = 16 << 10;
const tokenLife = 60_000;
// How far this server's clock may be behind the issuer's. There is no grace at the
// other end: a token's end bounds when its effect may happen.
const early = 10_000;

/** Where an issuer publishes its keys. */
export const keysPath = "/.well-known/placet-dispatch-jwks.json";

/** Whose tokens are taken. */
export interface Options {
  issuer: string; // Placet's public_url
  audience: string; // this server's url in Placet's tools.yaml, without its query; for a command its name there
  seen: Seen; // remembers used tokens, such as perProcess()

  tenants?: readonly string[]; // whose calls this server takes; default: every tenant's
  jwks?: string; // URL of the keys; default: issuer + keysPath
  keys?: string; // the keys themselves, the text of a JWKS, in place of a URL
  fetch?: typeof fetch; // fetches them; default: the global one
  clock?: () => number; // milliseconds; default: Date.now
  maxBody?: number; // how many bytes of a message the guards read; default: 4 MiB
}

/** Checks tokens. One for each server is enough. */
export class Verifier {
  /** How many bytes of a message the guards read. */
  readonly maxBody: number;
  readonly #issuer: string;
  readonly #audience: string;
  readonly #tenants: readonly string[];
  readonly #seen: Seen;
  readonly #clock: () => number;
  readonly #keys: Keys;

  /** Fetches nothing yet. */
  constructor(o: Options) {
    if (!o.issuer || !o.audience) {
      throw new TypeError("verify: issuer and audience are required");
    }
    if (typeof o.seen?.use !== "function") {
      throw new TypeError("verify: seen is required; perProcess() remembers used tokens in this process alone");
    }
    if (o.jwks !== undefined && o.keys !== undefined) {
      throw new TypeError("verify: jwks and keys exclude each other");
    }
    this.#issuer = o.issuer;
    this.#audience = o.audience;
    this.#tenants = [...(o.tenants ?? [])];
    this.#seen = o.seen;
    this.#clock = o.clock ?? Date.now;
    this.#keys = o.keys !== undefined ? givenKeys(o.keys) : fetchedKeys(o.jwks ?? o.issuer + keysPath, o.fetch ?? fetch, this.#clock);
    this.maxBody = o.maxBody ?? 4 << 20;
  }

  /**
   * Verifies a token for a call of tool, by its name at this server, with the arguments
   * that were received: the text as it came, or its bytes. A token is used up only when
   * everything else is right. Every error is a {@link Refused}.
   */
  check(token: string, tool: string, received: string | Uint8Array): Promise<Call> {
    return this.#check(token, tool, (digest) => matches(received, digest));
  }

  /**
   * The same for arguments of which only the parsed value is left. What the text said
   * twice, or with more digits than a double has, is not in it: use the value that was
   * checked, and no other copy of the request. Values that do not tell what was received
   * are refused, integers beyond 2^53-1 among them. {@link Verifier.check} has the text.
   */
  checkValue(token: string, tool: string, value: unknown): Promise<Call> {
    return this.#check(token, tool, (digest) => matchesValue(value, digest));
  }

  async #check(token: string, tool: string, fitting: (digest: string) => boolean): Promise<Call> {
    try {
      const c = await this.#claims(token);
      this.#fits(c, tool, fitting);
      await this.#useUp(`${c.iss} ${c.jti}`, new Date(c.exp * 1000));
      return new Call(factsOf(c), c.input_digest);
    } catch (e) {
      throw refusalOf(e);
    }
  }

  /** Verifies the signature and reads what was signed. */
  async #claims(token: string): Promise<Claims> {
    if (token === "") {
      throw new Refused("no_token", "this server takes calls from Placet only, and there is no token");
    }
    // The key is one that the issuer published; keys that a token brings along or
    // points to are not looked at.
    const key = await this.#keys.get(keyIdOf(token));
    return readClaims(await payloadOf(token, key));
  }

  /** Compares what was signed with where it arrived. */
  #fits(c: Claims, tool: string, fitting: (digest: string) => boolean): void {
    const now = this.#clock();
    const begins = c.iat * 1000;
    const ends = c.exp * 1000;
    if (c.iss !== this.#issuer) {
      throw new Refused("other_issuer", "it is of another issuer");
    }
    if (c.aud !== this.#audience) {
      throw new Refused("other_audience", "it is for another server");
    }
    if (c.jti === "" || c.call === "" || c.tenant === "" || c.principal.subject === "" || c.agent === "") {
      throw new Refused("bad_token", "it lacks what a token must say");
    }
    if (this.#tenants.length > 0 && !this.#tenants.includes(c.tenant)) {
      throw new Refused("other_tenant", "it is for a tenant that this server does not serve");
    }
    if (ends - begins > tokenLife) {
      throw new Refused("bad_token", "it lasts longer than a token may");
    }
    if (!(now < ends)) {
      throw new Refused("expired", "it has ended");
    }
    if (begins - now > early) {
      throw new Refused("expired", "it begins in the future; compare the clocks");
    }
    if (c.tool !== tool) {
      throw new Refused("other_tool", "it is for another tool");
    }
    if (!fitting(c.arguments_digest)) {
      throw new Refused("other_arguments", "it is for other arguments");
    }
  }

  async #useUp(id: string, until: Date): Promise<void> {
    let first: unknown;
    try {
      first = await this.#seen.use(id, until);
    } catch (e) {
      throw new Refused("cannot_check", "whether it was used before cannot be checked", e);
    }
    if (first === false) {
      throw new Refused("replayed", "it was used before");
    }
    if (first !== true) {
      throw new Refused("cannot_check", "whether it was used before cannot be checked");
    }
  }
}

const bad = (cause?: unknown) => new Refused("bad_token", "it is not a token of this issuer", cause);

/**
 * The ID of the key that a token is said to be signed with. The token must be three
 * parts in base64url, each in its only spelling (RFC 7515, section 7.1): what decoders
 * forgive differs. Its header must be strict JSON, of this type and algorithm, and
 * demand nothing else.
 */
function keyIdOf(token: string): string {
  const parts = token.split(".");
  if (token.length > tokenChars || parts.length !== 3 || !parts.every((p) => Buffer.from(p, "base64url").toString("base64url") === p)) {
    throw bad();
  }
  const text = canonical(decode(Buffer.from(parts[0]!, "base64url")) ?? "");
  const head: unknown = text === undefined ? undefined : JSON.parse(text);
  if (!isObject(head) || head["alg"] !== "EdDSA" || head["typ"] !== tokenType || "crit" in head) {
    throw bad();
  }
  const kid = head["kid"];
  if (typeof kid !== "string" || kid === "") {
    throw bad();
  }
  return kid;
}

async function payloadOf(token: string, key: KeyObject): Promise<Uint8Array> {
  try {
    return (await compactVerify(token, key, { algorithms: ["EdDSA"] })).payload;
  } catch (e) {
    throw bad(e);
  }
}

/** The payload of a token. */
interface Claims {
  iss: string;
  aud: string;
  iat: number;
  exp: number;
  jti: string;
  principal: { issuer: string; subject: string };
  tenant: string;
  agent: string;
  run: string;
  call: string;
  attempt: number;
  tool: string;
  arguments_digest: string;
  input_digest: string;
  targets: Target[];
  key: string;
}

function readClaims(payload: Uint8Array): Claims {
  let all: unknown;
  try {
    all = JSON.parse(decode(payload) ?? "");
  } catch {
    throw bad();
  }
  const c = objectOf(all);
  const principal = objectOf(c["principal"]);
  return {
    iss: stringOf(c["iss"]),
    aud: stringOf(c["aud"]),
    iat: integerOf(c["iat"]),
    exp: integerOf(c["exp"]),
    jti: stringOf(c["jti"]),
    principal: { issuer: stringOf(principal["issuer"]), subject: stringOf(principal["subject"]) },
    tenant: stringOf(c["tenant"]),
    agent: stringOf(objectOf(c["act"])["sub"]),
    run: stringOf(c["run"]),
    call: stringOf(c["call"]),
    attempt: integerOf(c["attempt"]),
    tool: stringOf(c["tool"]),
    arguments_digest: stringOf(c["arguments_digest"]),
    input_digest: stringOf(c["input_digest"]),
    targets: targetsOf(c["targets"]),
    key: stringOf(c["key"]),
  };
}

function factsOf(c: Claims): Facts {
  const { principal, tenant, agent, run, call, attempt, tool, targets, key } = c;
  return { token: c.jti, principal, tenant, agent, run, call, attempt, tool, targets, key, expires: new Date(c.exp * 1000) };
}

function targetsOf(value: unknown): Target[] {
  if (value === undefined || value === null) {
    return [];
  }
  if (!Array.isArray(value)) {
    throw bad();
  }
  return value.map((each) => {
    const t = objectOf(each);
    const target: Target = { argument: stringOf(t["argument"]) };
    if (t["value"] !== undefined) {
      target.value = t["value"];
    }
    if (t["digest"] !== undefined) {
      target.digest = stringOf(t["digest"]);
    }
    return target;
  });
}

// A claim that is absent or null counts as empty; one of another kind makes the token bad.

function stringOf(value: unknown): string {
  if (typeof (value ?? "") !== "string") {
    throw bad();
  }
  return (value ?? "") as string;
}

function integerOf(value: unknown): number {
  if (!Number.isSafeInteger(value ?? 0)) {
    throw bad();
  }
  return (value ?? 0) as number;
}

function objectOf(value: unknown): Record<string, unknown> {
  if (!isObject(value ?? {})) {
    throw bad();
  }
  return (value ?? {}) as Record<string, unknown>;
}
