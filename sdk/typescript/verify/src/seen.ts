/** Remembers used tokens. */
export interface Seen {
  /**
   * Notes a token's ID, to be kept until the given time at least, and says whether it
   * was not there before. Of many callers with one ID exactly one may be told true.
   * If it throws, nobody knows, and the call is refused.
   */
  use(id: string, until: Date): boolean | Promise<boolean>;
}

export interface PerProcessOptions {
  clock?: () => number; // milliseconds; default: Date.now
  limit?: number; // how many are kept at most; default: 100,000
}

/**
 * Remembers used tokens in this process alone, and in this worker of it. A token works
 * once in each process: with several replicas behind one address, or across a restart
 * within a token's minute, that is more than once. Share a table where that matters:
 * insert the ID where it is unique, and say whether a row came in.
 *
 * It keeps a bounded number. When so many tokens are in their minute, further calls are
 * refused: a used one is never forgotten for a new one.
 */
export function perProcess(options: PerProcessOptions = {}): Seen {
  const { clock = Date.now, limit = 100_000 } = options;
  const until = new Map<string, number>(); // in the order of use
  return {
    use(id, end) {
      if (until.has(id)) {
        return false;
      }
      if (until.size >= limit) {
        forget(until, clock());
      }
      if (until.size >= limit) {
        throw new Error("too many tokens were used in a minute");
      }
      until.set(id, end.getTime());
      return true;
    },
  };
}

function forget(until: Map<string, number>, now: number): void {
  for (const [id, end] of until) {
    if (end <= now) {
      until.delete(id);
    }
  }
}
