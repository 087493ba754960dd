/** The longest time that a timer of Node can wait, in milliseconds: a little under 25 days. A longer one fires at once. */
export const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** How waiting grows from one failure to the next. */
export interface BackOffPolicy {
  /** Wait after the first failure, in milliseconds. */
  readonly firstDelayMs: number;
  readonly maxDelayMs: number;
}

/**
 * How long to wait before the next attempt: doubling, with the upper half jittered, so that many clients that failed
 * together do not come back together.
 * @param attempts failures in a row, at least 1
 * @param random a number from 0 up to 1
 * @param retryAfterMs the time that the service asked for, at least (RFC 9110, section 10.2.3)
 */
export function backOffDelayMs(
  policy: BackOffPolicy,
  attempts: number,
  random: number,
  retryAfterMs = 0,
): number {
  const grown = Math.min(policy.maxDelayMs, policy.firstDelayMs * 2 ** Math.min(attempts - 1, 40));
  return Math.max(retryAfterMs, Math.round(grown / 2 + (grown / 2) * random));
}

/** A service that asks for more than a day, or for ever, is asked again after a day. */
export const MAX_RETRY_AFTER_MS = 24 * 60 * 60 * 1000;

/**
 * Reads a Retry-After header: seconds or an HTTP date (RFC 9110, section 10.2.3).
 * @returns milliseconds from now, from 0 to a day; undefined if the header says nothing useful
 */
export function retryAfterMs(header: string | undefined, nowMs: number): number | undefined {
  if (header === undefined) return undefined;
  const text = header.trim();
  if (/^\d+$/.test(text)) return Math.min(MAX_RETRY_AFTER_MS, Number(text) * 1000);
  const date = Date.parse(text);
  return Number.isNaN(date) ? undefined : Math.min(MAX_RETRY_AFTER_MS, Math.max(0, date - nowMs));
}
