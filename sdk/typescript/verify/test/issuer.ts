import { createHash, generateKeyPairSync, randomUUID } from "node:crypto";

import { CompactSign, exportJWK } from "jose";

import { perProcess, Verifier, type Options } from "@placet-dev/verify";

export const audience = "https://desk.example/mcp";
export const refund = '{"amount":60.5,"order":"ord_1"}';
const begin = Date.UTC(2026, 10, 30, 12);

export function digest(text: string): string {
  return `sha256:${createHash("sha256").update(text).digest("hex")}`;
}

/** An issuer whose keys are fetched with its fetch, at a time that tests move. */
export class Issuer {
  readonly url = "https://placet.example";
  now = begin;
  down = false;
  fetched = 0;
  #keys = new Map<string, ReturnType<typeof generateKeyPairSync>["privateKey"]>();
  #published: object[] = [];
  #kid = "";

  static async make(): Promise<Issuer> {
    const i = new Issuer();
    await i.rotate();
    return i;
  }

  /** Makes a key and signs with it from now on. */
  async rotate(publish = true): Promise<void> {
    const { publicKey, privateKey } = generateKeyPairSync("ed25519");
    this.#kid = randomUUID();
    this.#keys.set(this.#kid, privateKey);
    if (publish) {
      this.#published.push({ ...(await exportJWK(publicKey)), kid: this.#kid, use: "sig", alg: "EdDSA" });
    }
  }

  readonly clock = () => this.now;

  readonly fetch: typeof fetch = async () => {
    this.fetched++;
    if (this.down) {
      return new Response("no", { status: 503 });
    }
    return Response.json({ keys: this.#published });
  };

  verifier(options: Partial<Options> = {}): Verifier {
    return new Verifier({ issuer: this.url, audience, seen: perProcess({ clock: this.clock }), fetch: this.fetch, clock: this.clock, ...options });
  }

  token(edits: Record<string, unknown> = {}, args = refund): Promise<string> {
    const iat = Math.floor(this.now / 1000);
    const claims = {
      iss: this.url,
      aud: audience,
      iat,
      exp: iat + 60,
      jti: randomUUID(),
      principal: { issuer: "https://login.example", subject: "anna" },
      tenant: "acme",
      act: { sub: "support-bot" },
      run: "run_1",
      call: "call_1",
      attempt: 1,
      tool: "refund",
      arguments_digest: digest(args),
      targets: [{ argument: "order", value: "ord_1" }],
      key: "key-1",
      ...edits,
    };
    return new CompactSign(Buffer.from(JSON.stringify(claims)))
      .setProtectedHeader({ alg: "EdDSA", kid: this.#kid, typ: "placet-dispatch+jwt" })
      .sign(this.#keys.get(this.#kid)!);
  }
}

/** The reason for which something was refused, or "". */
export async function reason(check: Promise<unknown>): Promise<string> {
  try {
    await check;
    return "";
  } catch (e) {
    return (e as { reason?: string }).reason ?? `another error: ${e}`;
  }
}
