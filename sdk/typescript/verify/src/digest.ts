import { createHash, timingSafeEqual } from "node:crypto";

import { canonical, canonicalOf, decode } from "./canonical.js";

/**
 * Whether a digest is that of these arguments. Placet signs and sends the canonical
 * text (RFC 8785), which is compared first; what was written anew on the way is
 * brought into that form.
 */
export function matches(received: string | Uint8Array, digest: string): boolean {
  let text = typeof received === "string" ? received : decode(received);
  if (text === undefined || !text.isWellFormed()) {
    return false;
  }
  if (/^[ \t\r\n]*$/.test(text)) {
    text = "{}";
  }
  return same(text, digest) || same(canonical(text), digest);
}

/** The same of a value that JSON.parse made; undefined stands for no arguments. */
export function matchesValue(value: unknown, digest: string): boolean {
  return same(value === undefined ? "{}" : canonicalOf(value), digest);
}

function same(text: string | undefined, digest: string): boolean {
  if (text === undefined) {
    return false;
  }
  const ours = Buffer.from(`sha256:${createHash("sha256").update(text, "utf8").digest("hex")}`);
  const theirs = Buffer.from(digest);
  return ours.length === theirs.length && timingSafeEqual(ours, theirs);
}
