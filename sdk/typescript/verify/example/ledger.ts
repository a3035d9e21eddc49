import { appendFileSync } from "node:fs";

import { dispatched } from "@placet-dev/verify";

/** Whose tokens a server takes, and where it writes what it did. */
export const [issuer = "", audience = "", file = ""] = process.argv.slice(2);

/** The effect: one line, with whom it was for. Without a verified call it throws and writes nothing. */
export function refund(order: string, amount: number): string {
  const { tenant, principal, agent, run, call, attempt, targets, key } = dispatched();
  appendFileSync(file, `${JSON.stringify({ order, amount, tenant, principal, agent, run, call, attempt, targets, key })}\n`);
  return `refunded ${amount} for ${order}`;
}
