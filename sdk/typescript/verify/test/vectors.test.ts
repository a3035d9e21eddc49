// The vectors of package verify in Go: both say the same of each.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { canonical } from "../src/canonical.js";
import { guarded, readMessage } from "../src/message.js";
import { perProcess, Verifier } from "../src/index.js";
import { reason } from "./issuer.js";

const root = join(import.meta.dirname, "../../../../..");

interface Vectors {
  issuer: string;
  audience: string;
  now: number;
  jwks: object;
  tokens: { name: string; token: string; now?: number; tool: string; arguments: string; twice?: boolean; input?: string; tenants?: string[]; want: string }[];
  canonical: { text: string; want: string | null }[];
  messages: { text: string; want: string; tool?: string; arguments?: string; input?: string }[];
}

const vectors = JSON.parse(readFileSync(join(root, "verify/testdata/vectors.json"), "utf8")) as Vectors;

test("every token has the verdict of the vectors", async () => {
  assert.ok(vectors.tokens.length > 50);
  for (const v of vectors.tokens) {
    const clock = () => (v.now ?? vectors.now) * 1000;
    const tokens = new Verifier({
      issuer: vectors.issuer,
      audience: vectors.audience,
      keys: JSON.stringify(vectors.jwks),
      seen: perProcess({ clock }),
      clock,
      ...(v.tenants ? { tenants: v.tenants } : {}),
    });
    // As text and as bytes; a verifier for each, since a token works once.
    for (const received of [v.arguments, Buffer.from(v.arguments)]) {
      const check = async () => {
        const call = await tokens.check(v.token, v.tool, received);
        if (v.input !== undefined) {
          call.checkInput(v.input);
        }
        return call;
      };
      if (v.twice) {
        await reason(check());
      }
      if (v.want === "" && received === v.arguments) {
        const call = await check();
        assert.deepEqual(
          [call.tenant, call.agent, call.principal, call.key, call.attempt, call.run, call.call, call.tool, call.targets],
          ["acme", "support-bot", { issuer: "https://login.example", subject: "anna" }, "key-1", 1, "run_1", "call_1", "refund", [{ argument: "order", value: "ord_1" }]],
          v.name,
        );
      } else if (v.want === "") {
        assert.equal(await reason(check()), "replayed", v.name);
      } else {
        const got = await check().then(() => new Error("taken"), (e: Error & { reason?: string }) => e);
        assert.equal((got as { reason?: string }).reason, v.input !== undefined && received !== v.arguments ? "replayed" : v.want, `${v.name}: ${got.message}`);
        assert.ok(!got.message.includes("ord_1") && (v.token === "" || !got.message.includes(v.token)), `${v.name}: the error tells too much`);
      }
    }
  }
});

test("every text has the canonical form of the vectors", () => {
  assert.ok(vectors.canonical.length > 60);
  for (const v of vectors.canonical) {
    assert.equal(canonical(v.text) ?? null, v.want, JSON.stringify(v.text));
  }
});

test("every message has the verdict of the vectors", () => {
  assert.ok(vectors.messages.length > 40);
  for (const v of vectors.messages) {
    assert.deepEqual(say(v.text), v, v.text);
  }
});

function say(text: string): Vectors["messages"][number] {
  try {
    const m = readMessage(text);
    if (!guarded(m)) {
      return { text, want: "free" };
    }
    if (m.method !== "tools/call") {
      return { text, want: "closed" };
    }
    const all = { text, want: "call", tool: m.tool, arguments: m.arguments, input: m.input };
    return Object.fromEntries(Object.entries(all).filter(([name, value]) => value !== "" || name === "text")) as ReturnType<typeof say>;
  } catch {
    return { text, want: "bad" };
  }
}

test("the vectors of RFC 8785's author", () => {
  const dir = join(root, "canon/testdata/jcs");
  const files = readdirSync(join(dir, "input"));
  assert.ok(files.length >= 5);
  for (const file of files) {
    assert.equal(canonical(readFileSync(join(dir, "input", file), "utf8")), readFileSync(join(dir, "output", file), "utf8").trim(), file);
  }
});
