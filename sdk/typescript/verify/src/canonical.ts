// The canonical form of RFC 8785 over text, strict where readers differ: no
// duplicate names, no lone surrogates, UTF-8 only, and no integral number that a
// double does not hold. JSON.parse takes all of these and says nothing, so the text
// is read here. It takes and refuses the same texts as package verify in Go; the
// vectors hold both to it.

/** How deep arguments may be nested, as at Placet's own doors. */
export const maxDepth = 64;

/** What is thrown for a text or a value that has no canonical form. */
class NotStrict extends Error {}

/** The canonical form of exactly one JSON value, or undefined if it has none. */
export function canonical(text: string, depth = maxDepth): string | undefined {
  return attempt(() => {
    const r = new Reader(text, depth);
    const out = r.value(0);
    r.end();
    return out;
  });
}

/** One member of an object, its value in canonical form. */
export interface Member {
  name: string;
  value: string;
}

/** The members of an object that has a canonical form; undefined for everything else. */
export function membersOf(text: string, depth: number): Member[] | undefined {
  return attempt(() => {
    const r = new Reader(text, depth);
    r.need("{");
    const all = r.members(1);
    r.end();
    return all;
  });
}

/** The text of bytes, or undefined if they are not UTF-8. A byte order mark stays in it. */
export function decode(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/**
 * The canonical form of a value that JSON.parse made, or undefined if it does not
 * tell what was received: an integer beyond 2^53-1 may have been another one, and
 * Infinity any number that is too large. Equal names have become one, which cannot
 * be seen here. What JSON does not know is refused, and not left out.
 */
export function canonicalOf(value: unknown, depth = maxDepth): string | undefined {
  return attempt(() => write(value, depth));
}

function attempt<T>(f: () => T): T | undefined {
  try {
    return f();
  } catch (e) {
    if (e instanceof NotStrict) {
      return undefined;
    }
    throw e;
  }
}

class Reader {
  private at = 0;

  constructor(
    private readonly text: string,
    private readonly depth: number, // how deep it may go
  ) {
    if (!text.isWellFormed()) {
      throw new NotStrict();
    }
  }

  end(): void {
    this.space();
    if (this.at !== this.text.length) {
      throw new NotStrict();
    }
  }

  private space(): void {
    while (this.at < this.text.length && " \t\n\r".includes(this.text[this.at]!)) {
      this.at++;
    }
  }

  /** Skips space and then c, if it is there. */
  private take(c: string): boolean {
    this.space();
    if (this.text[this.at] !== c) {
      return false;
    }
    this.at++;
    return true;
  }

  need(c: string): void {
    if (!this.take(c)) {
      throw new NotStrict();
    }
  }

  value(depth: number): string {
    this.space();
    const c = this.text[this.at];
    if (c === "{" || c === "[") {
      if (depth === this.depth) {
        throw new NotStrict();
      }
      this.at++;
      return c === "{" ? this.object(depth + 1) : this.array(depth + 1);
    }
    if (c === '"') {
      return JSON.stringify(this.string());
    }
    for (const word of ["true", "false", "null"]) {
      if (this.text.startsWith(word, this.at)) {
        this.at += word.length;
        return word;
      }
    }
    return this.number();
  }

  private array(depth: number): string {
    const all: string[] = [];
    if (!this.take("]")) {
      do {
        all.push(this.value(depth));
      } while (this.take(","));
      this.need("]");
    }
    return `[${all.join(",")}]`;
  }

  private object(depth: number): string {
    const all = this.members(depth);
    // Strings compare by UTF-16 code units, as RFC 8785, section 3.2.3 sorts.
    all.sort((a, b) => (a.name < b.name ? -1 : 1));
    return `{${all.map((m) => `${JSON.stringify(m.name)}:${m.value}`).join(",")}}`;
  }

  /** Reads what follows an opening brace, up to the closing one. */
  members(depth: number): Member[] {
    const all: Member[] = [];
    if (this.take("}")) {
      return all;
    }
    const names = new Set<string>();
    do {
      this.space();
      const name = this.string();
      if (names.has(name)) {
        throw new NotStrict();
      }
      names.add(name);
      this.need(":");
      all.push({ name, value: this.value(depth) });
    } while (this.take(","));
    this.need("}");
    return all;
  }

  /** Reads a string and decodes it. Where it ends is found here; its escapes are JSON.parse's. */
  private string(): string {
    const begin = this.at;
    if (this.text[begin] !== '"') {
      throw new NotStrict();
    }
    let c: number;
    while ((c = this.text.charCodeAt(++this.at)) !== 0x22) {
      if (c === 0x5c) {
        this.at++;
      } else if (!(c >= 0x20)) {
        throw new NotStrict(); // a control character, or the text's end
      }
    }
    this.at++;
    return parseString(this.text.slice(begin, this.at));
  }

  /** Reads a number and writes it as ECMAScript does (RFC 8785, section 3.2.2.3). */
  private number(): string {
    numberToken.lastIndex = this.at;
    const found = numberToken.exec(this.text);
    if (found === null) {
      throw new NotStrict();
    }
    this.at = numberToken.lastIndex;
    const literal = found[0];
    const n = Number(literal);
    if (!Number.isFinite(n)) {
      throw new NotStrict();
    }
    const text = String(n);
    const read = decimal(literal);
    if (read.exponent >= read.digits.length) { // integral
      const written = decimal(text);
      if (written.digits !== read.digits || written.exponent !== read.exponent) {
        throw new NotStrict();
      }
    }
    return text;
  }
}

function parseString(literal: string): string {
  let s: unknown;
  try {
    s = JSON.parse(literal);
  } catch {
    throw new NotStrict();
  }
  if (typeof s !== "string" || !s.isWellFormed()) {
    throw new NotStrict();
  }
  return s;
}

/** A number by the grammar of RFC 8259, section 6. */
const numberToken = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;

/** far is beyond the exponent of any double, whatever the digits are. */
const far = 2 ** 27;

/** 0.digits × 10^exponent, digits without zeros at either end. */
function decimal(literal: string): { digits: string; exponent: number } {
  const [mantissa = "", power = "0"] = literal.replace(/^-/, "").toLowerCase().split("e");
  const [whole = "", fraction = ""] = mantissa.split(".");
  const all = whole + fraction;
  const digits = all.replace(/^0+/, "");
  const exponent = Math.min(Math.max(Number(power), -far), far) + whole.length - (all.length - digits.length);
  const trimmed = trimZeros(digits);
  return trimmed === "" ? { digits: "", exponent: 0 } : { digits: trimmed, exponent };
}

/** trimZeros is linear, which a pattern for zeros at an end is not. */
function trimZeros(s: string): string {
  let end = s.length;
  while (end > 0 && s[end - 1] === "0") {
    end--;
  }
  return s.slice(0, end);
}

function write(value: unknown, depth: number): string {
  switch (typeof value) {
    case "boolean":
      return String(value);
    case "string":
      if (!value.isWellFormed()) {
        throw new NotStrict();
      }
      return JSON.stringify(value);
    case "number":
      if (!Number.isFinite(value) || (Number.isInteger(value) && !Number.isSafeInteger(value))) {
        throw new NotStrict();
      }
      return String(value);
    case "object":
      break;
    default: // undefined, bigint, symbol, function
      throw new NotStrict();
  }
  if (value === null) {
    return "null";
  }
  if (depth === 0) {
    throw new NotStrict(); // also what holds itself
  }
  return Array.isArray(value) ? writeArray(value, depth - 1) : writeObject(value, depth - 1);
}

function writeArray(value: unknown[], depth: number): string {
  if (Reflect.ownKeys(value).length !== value.length + 1) {
    throw new NotStrict(); // a hole, or a property beside the items
  }
  return `[${Array.from({ length: value.length }, (_, i) => write(own(value, String(i)), depth)).join(",")}]`;
}

function writeObject(value: object, depth: number): string {
  const kind: unknown = Object.getPrototypeOf(value);
  const names = Reflect.ownKeys(value);
  if ((kind !== Object.prototype && kind !== null) || !names.every((n) => typeof n === "string")) {
    throw new NotStrict();
  }
  return `{${names.sort().map((n) => `${write(n, depth)}:${write(own(value, n), depth)}`).join(",")}}`;
}

/** A property that is there and is a value, not a function that makes one. */
function own(of: object, name: string): unknown {
  const found = Object.getOwnPropertyDescriptor(of, name);
  if (found === undefined || !found.enumerable || !("value" in found)) {
    throw new NotStrict();
  }
  return found.value;
}
