// What docs/dispatch-token.md shows beside the servers.
import { createHash } from "node:crypto";

import { fromHeaders, guardTransport, type Call, type Seen, type Transport, type Verifier } from "@placet-dev/verify";

/** A server over HTTP whose body is the arguments. */
export async function received(tokens: Verifier, request: Request): Promise<Call> {
  const body = new Uint8Array(await request.arrayBuffer());
  const call = await tokens.check(fromHeaders(request.headers), "refund.create", body);
  return call;
}

/** A server on a transport of its own. */
export async function connected(tokens: Verifier, server: { connect(t: Transport): Promise<void> }, transport: Transport): Promise<void> {
  await server.connect(guardTransport(tokens, transport));
}

/** What of a database's client is needed, such as the pool of pg. */
export interface Database {
  query(text: string, values: unknown[]): Promise<{ rowCount: number | null }>;
}

/** Used tokens in a table that all processes share. */
export function shared(db: Database): Seen {
  const insert = "INSERT INTO placet_used_tokens (id, ends) VALUES ($1, $2) ON CONFLICT DO NOTHING";
  return {
    async use(id, until) {
      const key = createHash("sha256").update(id).digest("hex");
      const { rowCount } = await db.query(insert, [key, until.getTime() / 1000]);
      return rowCount === 1;
    },
  };
}
