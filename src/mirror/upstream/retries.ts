import { backOffDelayMs } from '../../lib/time/back-off.ts';
import { type ErrorCode, MirrorError } from '../../lib/errors/errors.ts';

/** How often a request is tried again, and after how long. */
export interface RetryPolicy {
  /** Further attempts after a failed one. */
  readonly retries: number;
  /** Longest wait before an attempt, whether the service asked for it or not, in milliseconds. */
  readonly maxRetryDelayMs: number;
}

/** A request each of whose tries goes on where the one before broke off. */
export interface Continuation {
  /** What the next try asks with, besides the headers of every request. */
  readonly headers: () => Readonly<Record<string, string>>;
  /** Where the next try goes on, in bytes; 0 where it starts anew. */
  readonly resumesAtBytes: () => number;
  /** How many tries have brought the request forward so far: they do not use up the retries. */
  readonly gains: () => number;
}

const FIRST_RETRY_DELAY_MS = 500;

const RETRYABLE: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'service.unreachable',
  'service.timeout',
  'service.busy',
  'service.failed',
  'contents.interrupted',
]);

/** The next try of a request that failed. */
export interface NextTry {
  readonly delayMs: number;
  /** Where it goes on, in bytes; 0 where it begins anew. */
  readonly fromBytes: number;
}

/** The tries of one request. */
export class Tries {
  private readonly policy: RetryPolicy;
  private readonly continuation: Continuation | undefined;
  /** In a row, without getting any further. */
  private failures = 0;
  private gains = 0;

  constructor(policy: RetryPolicy, continuation?: Continuation) {
    this.policy = policy;
    this.continuation = continuation;
  }

  /**
   * Decides what follows a try that failed; null where none does.
   * @param random a number from 0 up to 1
   */
  next(error: unknown, random: number): NextTry | null {
    const { retries, maxRetryDelayMs } = this.policy;
    const gains = this.continuation?.gains() ?? 0;
    this.failures = gains > this.gains ? 0 : this.failures + 1;
    this.gains = gains;
    if (!(error instanceof MirrorError) || !RETRYABLE.has(error.code)) return null;
    if (retries === 0 || this.failures > retries) return null;
    const wishMs = error.retryAfterMs ?? 0;
    if (wishMs > maxRetryDelayMs) return null;
    const policy = { firstDelayMs: FIRST_RETRY_DELAY_MS, maxDelayMs: maxRetryDelayMs };
    return {
      delayMs: backOffDelayMs(policy, Math.max(1, this.failures), random, wishMs),
      fromBytes: this.continuation?.resumesAtBytes() ?? 0,
    };
  }
}
