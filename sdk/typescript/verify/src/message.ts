import { canonical, decode, maxDepth, membersOf, type Member } from "./canonical.js";
import type { Call } from "./call.js";
import { Refused } from "./refused.js";
import type { Verifier } from "./verifier.js";

/** What of a JSON-RPC message matters here. Values are canonical texts, "" where there are none. */
export interface Message {
  id: string;
  method: string; // "" for a response
  tool: string;
  arguments: string;
  input: string; // the answers to the server's own questions
  meta: string;
}

/** A message that is not read at all. */
export class NotRead extends Error {
  constructor() {
    super("this server takes one JSON-RPC message at a time, in strict JSON");
  }
}

/** How many levels a message adds around the arguments. */
const around = 2;

/**
 * Reads one message. Readers that fold case or take the last of equal names would see
 * another message than this one, so such texts are refused, and so are batches.
 */
export function readMessage(received: string | Uint8Array): Message {
  const text = canonical(typeof received === "string" ? received : (decode(received) ?? ""), maxDepth + around);
  const all = membersIn(text, "jsonrpc", "id", "method", "params", "result", "error");
  if (all === undefined) {
    throw new NotRead();
  }
  const of = (name: string) => all.find((m) => m.name === name)?.value ?? "";
  const response = of("result") !== "" || of("error") !== "";
  const method = textOf(of("method"));
  if (method === "" ? of("method") !== "" || !response : response) {
    throw new NotRead();
  }
  return { id: of("id"), method, ...readParams(of("params")) };
}

function readParams(text: string): Omit<Message, "id" | "method"> {
  if (!text.startsWith("{")) {
    return { tool: "", arguments: "", input: "", meta: "" }; // no call has such params
  }
  const all = membersIn(text, "name", "arguments", "inputResponses", "requestState", "_meta");
  if (all === undefined) {
    throw new NotRead();
  }
  const of = (name: string) => all.find((m) => m.name === name)?.value ?? "";
  const answers = all.filter((m) => m.name === "inputResponses" || m.name === "requestState");
  const input = answers.length === 0 ? "" : `{${answers.map((m) => `${JSON.stringify(m.name)}:${m.value}`).join(",")}}`;
  return { tool: textOf(of("name")), arguments: of("arguments"), input, meta: of("_meta") };
}

/** The members of an object, none of which has one of these names in another case. */
function membersIn(text: string | undefined, ...names: string[]): Member[] | undefined {
  const all = text === undefined ? undefined : membersOf(text, maxDepth + around);
  const inAnyCase = new RegExp(`^(?:${names.join("|")})$`, "iu");
  return all?.every((m) => names.includes(m.name) || !inAnyCase.test(m.name)) ? all : undefined;
}

function textOf(value: string): string {
  return value.startsWith('"') ? (JSON.parse(value) as string) : "";
}

/**
 * Whether a method of MCP runs nothing. All others need a token, so that one which a
 * later revision adds is closed until somebody looked at it.
 */
export function harmless(method: string): boolean {
  return free.has(method) || method.startsWith("notifications/");
}

const free = new Set(["initialize", "ping", "server/discover", "tools/list", "subscriptions/listen"]);

/** Whether a message needs a token. */
export function guarded(m: Message): boolean {
  return m.method !== "" && !harmless(m.method);
}

/** Verifies a guarded message with its token. Throws a {@link Refused}. */
export async function admit(tokens: Verifier, m: Message, token: string): Promise<Call> {
  if (m.method !== "tools/call") {
    throw noSuch(m.method);
  }
  const call = await tokens.check(token, m.tool, m.arguments);
  call.checkInput(m.input);
  return call;
}

/** The refusal of a method that no token is made for. */
export function noSuch(method: string): Refused {
  return new Refused("no_token", `this server takes no ${short(method)}: there is no token for it`);
}

/** A method, which is a caller's text, cut short. */
function short(method: string): string {
  return JSON.stringify(method.length > 64 ? `${method.slice(0, 64).toWellFormed()}…` : method);
}

/** The JSON-RPC error of a refusal. */
export function errorOf(why: Refused): { code: number; message: string; data: { reason: string } } {
  return { code: -32602, message: why.message, data: { reason: why.reason } };
}
