import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { after, test } from "node:test";
import { inspect } from "node:util";

import { shared, type Database } from "../example/pieces.js";
import { dispatched, fromHeaders, fromMeta, perProcess, Refused, Verifier, type Options } from "../src/index.js";
import { audience, digest, Issuer, reason, refund } from "./issuer.js";

test("keys are fetched when needed, and strangers do not make us ask more often", async () => {
  const i = await Issuer.make();
  const v = i.verifier();
  const wants = async (want: string) => assert.equal(await reason(v.check(await i.token(), "refund", refund)), want);
  for (let n = 0; n < 3; n++) {
    await wants("");
  }
  assert.equal(i.fetched, 1);
  const stranger = await Issuer.make();
  for (let n = 0; n < 100; n++) {
    assert.equal(await reason(v.check(await stranger.token(), "refund", refund)), "bad_token");
  }
  assert.ok(i.fetched <= 2, `a stranger made us fetch ${i.fetched} times`);
  i.now += 6_000;
  await i.rotate();
  await wants(""); // a key that we do not know is looked for
  i.down = true;
  i.now += 30 * 60_000;
  await wants(""); // what is known is good for an hour
  i.now += 31 * 60_000;
  await wants("cannot_check");
  i.down = false;
  i.now += 6_000;
  await wants("");
});

test("many that come at once cause one fetch", async () => {
  const i = await Issuer.make();
  const v = i.verifier();
  const all = await Promise.all(Array.from({ length: 20 }, async () => reason(v.check(await i.token(), "refund", refund))));
  assert.deepEqual([...new Set(all)], [""]);
  assert.equal(i.fetched, 1);
});

test("no keys, no call", async () => {
  const i = await Issuer.make();
  i.down = true;
  const v = i.verifier();
  for (let n = 0; n < 2; n++) {
    assert.equal(await reason(v.check(await i.token(), "refund", refund)), "cannot_check");
  }
  assert.equal(i.fetched, 1);
});

test("odd key sets give no keys", async () => {
  const i = await Issuer.make();
  const good = ((await (await i.fetch("")).json()) as { keys: Record<string, unknown>[] }).keys[0]!;
  const fine = JSON.stringify({ keys: [{ kty: "RSA", n: "AQAB", e: "AQAB", kid: "r" }, good] });
  assert.equal(await reason(i.verifier({ keys: fine }).check(await i.token(), "refund", refund)), "");
  for (const text of [
    "",
    "x",
    "[]",
    "null",
    '{"keys":[]}',
    '{"keys":{}}',
    JSON.stringify({ keys: [good, good] }),
    ...[{ kid: "" }, { kid: 7 }, { x: "AA" }, { x: 7 }, { d: "AA" }, { crv: "X25519" }, { use: "enc" }, { alg: "ES256" }, { kty: "EC" }].map((e) => JSON.stringify({ keys: [{ ...good, ...e }] })),
  ]) {
    assert.throws(() => i.verifier({ keys: text }), text);
    const fetched = i.verifier({ fetch: async () => new Response(text) });
    assert.equal(await reason(fetched.check(await i.token(), "refund", refund)), "cannot_check", text);
  }
  const endless = i.verifier({ fetch: async () => new Response(new ReadableStream({ pull: (c) => c.enqueue(new Uint8Array(10_000)) })) });
  assert.equal(await reason(endless.check(await i.token(), "refund", refund)), "cannot_check");
});

test("of a hundred that come at once with one token, one is let through", async () => {
  const i = await Issuer.make();
  const v = i.verifier();
  const token = await i.token();
  const all = await Promise.all(Array.from({ length: 100 }, () => reason(v.check(token, "refund", refund))));
  assert.equal(all.filter((r) => r === "").length, 1);
  assert.equal(all.filter((r) => r === "replayed").length, 99);
});

test("verifiers that share a store let a token through once", async () => {
  const i = await Issuer.make();
  const table = new Set<string>();
  const seen: Options["seen"] = {
    async use(id) {
      await new Promise(setImmediate);
      return !table.has(id) && !!table.add(id);
    },
  };
  const token = await i.token();
  const all = await Promise.all(Array.from({ length: 8 }, () => reason(i.verifier({ seen }).check(token, "refund", refund))));
  assert.deepEqual(all.sort(), ["", ...Array<string>(7).fill("replayed")]);
});

test("verifiers that share a table let a token through once, and refuse without it", async () => {
  const i = await Issuer.make();
  const dir = mkdtempSync(join(tmpdir(), "placet-"));
  after(() => rmSync(dir, { recursive: true }));
  const open = (): { db: DatabaseSync; table: Database } => {
    const db = new DatabaseSync(join(dir, "used.db"));
    db.exec("PRAGMA busy_timeout = 10000; CREATE TABLE IF NOT EXISTS placet_used_tokens (id VARCHAR(64) PRIMARY KEY, ends BIGINT NOT NULL)");
    const query: Database["query"] = async (text, values) => {
      await new Promise(setImmediate);
      return { rowCount: Number(db.prepare(text.replaceAll("$", "?")).run(...(values as string[])).changes) };
    };
    return { db, table: { query } };
  };
  const all = [open(), open(), open()];
  const token = await i.token();
  const said = await Promise.all(all.map(({ table }) => reason(i.verifier({ seen: shared(table) }).check(token, "refund", refund))));
  assert.deepEqual(said.sort(), ["", "replayed", "replayed"]);
  all[0]!.db.exec("DROP TABLE placet_used_tokens");
  assert.equal(await reason(i.verifier({ seen: shared(all[1]!.table) }).check(await i.token(), "refund", refund)), "cannot_check");
  all.forEach(({ db }) => db.close());
});

test("a refusal uses nothing up", async () => {
  const i = await Issuer.make();
  const v = i.verifier();
  const token = await i.token();
  for (const other of ["{}", '{"amount":1}', "x"]) {
    assert.equal(await reason(v.check(token, "refund", other)), "other_arguments");
  }
  assert.equal(await reason(v.check(token, "refund", refund)), "");
});

test("a store in doubt refuses, and its cause is not in the message", async () => {
  const i = await Issuer.make();
  for (const use of [() => Promise.reject(new Error("table is gone")), () => { throw new Error("table is gone"); }]) {
    const e: unknown = await i.verifier({ seen: { use } }).check(await i.token(), "refund", refund).catch((e: unknown) => e);
    assert.ok(e instanceof Refused && e.reason === "cannot_check" && !e.message.includes("table") && String(e.cause).includes("table"));
  }
  for (const answer of [undefined, null, 1, "true", {}]) {
    const v = i.verifier({ seen: { use: () => answer as boolean } });
    assert.equal(await reason(v.check(await i.token(), "refund", refund)), "cannot_check", String(answer));
  }
});

test("the store of one process is bounded, and forgets what ended only", async () => {
  let now = 0;
  const seen = perProcess({ clock: () => now, limit: 3 });
  const use = (id: string) => seen.use(id, new Date(now + 1000));
  assert.deepEqual([use("a"), use("b"), use("a")], [true, true, false]);
  now = 500;
  assert.equal(use("c"), true);
  assert.throws(() => use("d"));
  assert.equal(use("a"), false);
  now = 1000;
  assert.deepEqual([use("d"), use("e"), use("c")], [true, true, false]);
  const i = await Issuer.make();
  const v = i.verifier({ seen: perProcess({ clock: i.clock, limit: 1 }) });
  assert.equal(await reason(v.check(await i.token(), "refund", refund)), "");
  assert.equal(await reason(v.check(await i.token(), "refund", refund)), "cannot_check");
});

test("a parsed value is checked as a value", async () => {
  const i = await Issuer.make();
  const v = i.verifier();
  assert.equal(await reason(v.checkValue(await i.token(), "refund", JSON.parse(refund))), "");
  assert.equal(await reason(v.checkValue(await i.token(), "refund", { amount: 605, order: "ord_1" })), "other_arguments");
  const large = '{"n":9007199254740992}';
  assert.equal(await reason(v.checkValue(await i.token({}, large), "refund", JSON.parse(large))), "other_arguments"); // it may have been ...993
  assert.equal(await reason(v.check(await i.token({}, large), "refund", large)), "");
});

test("answers are bound", async () => {
  const i = await Issuer.make();
  const input = '{"inputResponses":{"a":1},"requestState":"s"}';
  const call = await i.verifier().check(await i.token({ input_digest: digest(input) }), "refund", refund);
  call.checkInput('{"requestState":"s","inputResponses":{"a":1.0}}');
  for (const other of ["", '{"requestState":"s"}', '{"requestState":"s","inputResponses":{"a":2}}']) {
    assert.throws(() => call.checkInput(other), Refused);
  }
});

test("there is no call outside a guard", () => {
  assert.throws(() => dispatched(), (e) => e instanceof Refused && e.reason === "no_token");
});

test("a token is found where it travels, and nowhere else", () => {
  assert.equal(fromMeta({ "dev.placet/dispatch_token": "t" }), "t");
  for (const odd of [undefined, null, "t", {}, { "dev.placet/dispatch_token": 7 }, Object.create({ "dev.placet/dispatch_token": "t" })]) {
    assert.equal(fromMeta(odd), "");
  }
  assert.equal(fromHeaders(new Headers({ "placet-dispatch-token": "t" })), "t");
  assert.equal(fromHeaders({ "placet-dispatch-token": "t" }), "t");
  assert.equal(fromHeaders(new Headers()) + fromHeaders({}), "");
});

test("options that cannot be right are refused", () => {
  const seen = perProcess();
  for (const [name, o] of Object.entries({
    nothing: {},
    "no audience": { issuer: "https://p", seen },
    "no issuer": { audience, seen },
    "no store": { issuer: "https://p", audience },
    "keys in the clear": { issuer: "http://p.example", audience, seen },
    "not a URL": { issuer: "p", audience, seen },
    both: { issuer: "https://p", audience, seen, jwks: "https://p/k", keys: "{}" },
  })) {
    assert.throws(() => new Verifier(o as Options), TypeError, name);
  }
  for (const issuer of ["http://127.0.0.1:8080", "http://localhost", "http://[::1]:1"]) {
    assert.ok(!inspect(new Verifier({ issuer, audience, seen })).includes("placet"));
  }
});
