/** Why a call was refused. The list is closed, and the same in every language. */
export type Reason =
  | "no_token" // there is none
  | "bad_token" // not a token of this issuer's keys, or not of this kind
  | "other_issuer" // of another Placet
  | "other_audience" // for another server
  | "other_tenant" // for a tenant that this server does not serve
  | "expired" // ended, or begins in the future
  | "other_tool" // for another tool
  | "other_arguments" // for other arguments than those received
  | "replayed" // used before
  | "cannot_check"; // keys or the store of used tokens cannot be read

/**
 * The error of every refusal. Its message holds nothing of the token or the
 * arguments, so a caller may read it; the cause is for operators.
 */
export class Refused extends Error {
  override readonly name = "Refused";

  constructor(
    readonly reason: Reason,
    text: string,
    cause?: unknown,
  ) {
    super(`dispatch token: ${text}`, cause === undefined ? undefined : { cause });
  }
}

/** The refusal that an error is, or stands for: what is not one cannot be checked. */
export function refusalOf(error: unknown): Refused {
  return error instanceof Refused ? error : new Refused("cannot_check", "it cannot be checked", error);
}
