/**
 * Checks dispatch tokens. It is for the authors of tool servers that stand behind
 * Placet: whoever reaches the server on another way has no token, and is refused near
 * the effect. It promises what package verify in Go does, and refuses whenever it
 * cannot tell.
 */
export { dispatched, fromHeaders, fromMeta, header, metaKey, type Call, type Principal, type Target } from "./call.js";
export { guardFetch, guardNode } from "./http.js";
export { GuardedStdio, guardTransport, type StdioOptions, type Transport } from "./mcp.js";
export { Refused, type Reason } from "./refused.js";
export { perProcess, type PerProcessOptions, type Seen } from "./seen.js";
export { keysPath, Verifier, type Options } from "./verifier.js";
