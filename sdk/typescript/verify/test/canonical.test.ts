import assert from "node:assert/strict";
import { test } from "node:test";

import { canonical, canonicalOf, decode } from "../src/canonical.js";
import { matches, matchesValue } from "../src/digest.js";
import { digest } from "./issuer.js";

/** Numbers that repeat. */
function dice(seed: number): (n: number) => number {
  return (n) => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return Math.floor((seed / 2 ** 32) * n);
  };
}

test("what is not UTF-8 or not well formed matches no digest", () => {
  assert.equal(decode(Uint8Array.of(0x22, 0xff, 0x22)), undefined);
  const replacement = digest('{"a":"\ufffd"}');
  assert.ok(matches('{"a":"\ufffd"}', replacement));
  assert.ok(!matches('{"a":"\ud800"}', replacement));
  assert.ok(!matches(Uint8Array.of(...Buffer.from('{"a":"'), 0xff, ...Buffer.from('"}')), replacement));
  assert.ok(!matches('\ufeff{"a":1}', digest('{"a":1}')));
});

test("blank arguments stand for {} and nothing else", () => {
  for (const blank of ["", " \t\r\n", new Uint8Array()]) {
    assert.ok(matches(blank, digest("{}")));
  }
  assert.ok(!matches('{"a":1}', "") && !matches("\u00a0", digest("{}")) && !matches("", ""));
});

test("a value matches if it tells what was received", () => {
  for (const text of ['{"amount":60.5,"n":9007199254740991,"u":"ü\u2028","z":[{},[],null,true]}', "{}", '{"a":1e-7}', '{"__proto__":{"a":1}}']) {
    assert.equal(canonicalOf(JSON.parse(text)), canonical(text), text);
    assert.ok(matchesValue(JSON.parse(text), digest(canonical(text)!)), text);
  }
  assert.ok(matchesValue(undefined, digest("{}")));
});

test("a value that may have been another is refused", () => {
  const loop: Record<string, unknown> = {};
  loop["loop"] = loop;
  const hole = [1, 2, 3];
  delete hole[1];
  class Kind {
    a = 1;
  }
  const odd: Record<string, unknown> = {
    "a large integer": JSON.parse('{"n":9007199254740993}'),
    "one that a double holds": JSON.parse('{"n":9007199254740992}'),
    "a number too large": JSON.parse('{"n":1e400}'),
    "no number": { n: NaN },
    "a lone surrogate": { s: "\ud800" },
    "a lone surrogate as name": { "\udc00": 1 },
    "nothing": { a: undefined },
    "a function": { a: () => 1 },
    "a bigint": { a: 1n },
    "a symbol": { a: Symbol("a") },
    "a name that is a symbol": { [Symbol("a")]: 1 },
    "a date": { a: new Date(0) },
    "a map": new Map([["a", 1]]),
    "bytes": Buffer.from("a"),
    "an object of a class": new Kind(),
    "what writes itself": { a: { toJSON: () => 1 } },
    "what is computed": { get a() { return 1; } },
    "a hidden member": Object.defineProperty({}, "a", { value: 1 }),
    "a hole": hole,
    "a list with more": Object.assign([1], { more: 1 }),
    "a loop": loop,
    "too deep": JSON.parse("[".repeat(65) + "]".repeat(65)),
  };
  for (const [name, value] of Object.entries(odd)) {
    assert.equal(canonicalOf(value), undefined, name);
  }
  assert.notEqual(canonicalOf(JSON.parse("[".repeat(64) + "]".repeat(64))), undefined);
});

test("canonical forms are stable, and read by JSON.parse as the text is", () => {
  const roll = dice(1);
  const value = (depth: number): string => {
    switch (roll(depth > 4 ? 4 : 6)) {
      case 0:
        return ["true", "false", "null", '""'][roll(4)]!;
      case 1:
        return String((roll(2 ** 31) - 2 ** 30) / 10 ** roll(9));
      case 2:
        return `${roll(10)}.${roll(1000)}e-${roll(20)}`;
      case 3:
        return JSON.stringify(String.fromCodePoint(...Array.from({ length: roll(5) }, () => [roll(128), 0x80 + roll(0x700), 0xe000 + roll(0x1000), 0x10000 + roll(0xfffff)][roll(4)]!)));
      case 4:
        return `[ ${Array.from({ length: roll(4) }, () => value(depth + 1)).join(" , ")}]`;
      default:
        return `{${Array.from({ length: roll(4) }, (_, i) => `"${String.fromCodePoint(0x20ac - 77 * i * roll(9))}${i}" :${value(depth + 1)}`).join(",\n")} }`;
    }
  };
  for (let i = 0; i < 20_000; i++) {
    const text = value(0);
    const form = canonical(text);
    assert.notEqual(form, undefined, text);
    assert.equal(canonical(form!), form, text);
    assert.equal(canonicalOf(JSON.parse(text)), form, text);
    // One character more or less: whatever is still taken, JSON.parse takes and reads alike.
    const at = roll(text.length + 1);
    const other = text.slice(0, at) + ['"', "\\", "{", "]", ",", "0", "-", "e", " ", "\u0000", "\ud800"][roll(11)] + text.slice(at + roll(2));
    const taken = canonical(other);
    if (taken !== undefined) {
      assert.deepEqual(JSON.parse(taken), JSON.parse(other), other);
    }
  }
});

test("large texts are read in one go", () => {
  const long = `{"text":"${"x\\n".repeat(1 << 20)}"}`;
  assert.equal(canonical(long), long);
  assert.equal(canonical(`"${"x".repeat(1 << 22)}`), undefined);
  assert.equal(canonical("9".repeat(1 << 20)), undefined);
  assert.equal(canonical(`0.${"0".repeat(1 << 20)}1`), "0");
  assert.equal(canonical(`1${"0".repeat(300)}`), "1e+300");
});
