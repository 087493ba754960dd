import { setTimeout as sleep } from 'node:timers/promises';

import { backOffDelayMs, MAX_RETRY_AFTER_MS } from '../../lib/time/back-off.ts';
import { type ErrorCode, MirrorError } from '../../lib/errors/errors.ts';
import { utcTime } from '../../lib/text/humanize.ts';

/** How often a request is tried again, and after how long. */
export interface RetryPolicy {
  /** Further attempts after a failed one. */
  readonly retries: number;
  /** Longest wait before an attempt, whether the service asked for it or not, in milliseconds. */
  readonly maxRetryDelayMs: number;
}

/** A request each of whose tries goes on where the one before broke off. */
export interface Continuation {
  /** Headers of the next try, besides those of every request. */
  readonly headers: () => Readonly<Record<string, string>>;
  /** Where the next try goes on, in bytes; 0 where it starts anew. */
  readonly resumesAtBytes: () => number;
}

/** The bytes that a try must bring to count as one that got further, and that a download must bring while it is waited for. */
export const LEAST_PROGRESS_BYTES = 64 * 1024;

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

/** The tries of one request. One that gets further than all before it does not use up the retries. */
export class Tries {
  private readonly policy: RetryPolicy;
  private readonly continuation: Continuation | undefined;
  /** In a row, without getting any further. */
  private failures = 0;
  private furthestBytes = 0;

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
    const fromBytes = this.continuation?.resumesAtBytes() ?? 0;
    this.failures = fromBytes >= this.furthestBytes + LEAST_PROGRESS_BYTES ? 0 : this.failures + 1;
    this.furthestBytes = Math.max(this.furthestBytes, fromBytes);
    if (!(error instanceof MirrorError) || !RETRYABLE.has(error.code)) return null;
    if (retries === 0 || this.failures > retries) return null;
    const wishMs = error.retryAfterMs ?? 0;
    if (wishMs > maxRetryDelayMs) return null;
    const policy = { firstDelayMs: FIRST_RETRY_DELAY_MS, maxDelayMs: maxRetryDelayMs };
    return { delayMs: backOffDelayMs(policy, Math.max(1, this.failures), random, wishMs), fromBytes };
  }
}

/** Until when the service asked to be left alone; outlives the process where it is remembered. */
export interface PauseMemory {
  /** Milliseconds since the epoch; absent or null while nothing was asked. */
  pausedUntilMs?: number | null;
}

/**
 * The rest of a pause, in milliseconds; 0 for none. A pause ends at most a day ahead (see `retryAfterMs`), so one that ends
 * later was computed with a wrong clock, and does not count.
 */
export function pauseLeftMs({ pausedUntilMs }: PauseMemory, nowMs: number): number {
  const leftMs = (pausedUntilMs ?? 0) - nowMs;
  return leftMs > 0 && leftMs <= MAX_RETRY_AFTER_MS ? leftMs : 0;
}

/** Makes a pause last at least so long from now; gives whether it lasts longer than before. */
export function extendPause(memory: PauseMemory, waitMs: number, nowMs: number): boolean {
  if (waitMs <= pauseLeftMs(memory, nowMs)) return false;
  memory.pausedUntilMs = nowMs + waitMs;
  return true;
}

/**
 * Waits until the pause is over, which may be made longer meanwhile.
 * @param longestMs a pause that lasts longer is not waited for
 * @throws MirrorError `service.busy` when the pause lasts longer, `pass.abandoned`
 */
export async function waitOut(
  memory: PauseMemory,
  longestMs: number,
  url: URL,
  signal: AbortSignal,
): Promise<void> {
  for (let leftMs = pauseLeftMs(memory, Date.now()); leftMs > 0; leftMs = pauseLeftMs(memory, Date.now())) {
    if (leftMs > longestMs) throw paused(url, Date.now() + leftMs, leftMs);
    await waitFor(leftMs, signal);
  }
}

/** Waits. @throws MirrorError `pass.abandoned` */
export async function waitFor(delayMs: number, signal: AbortSignal): Promise<void> {
  try {
    await sleep(delayMs, undefined, { signal });
  } catch (cause) {
    throw new MirrorError('pass.abandoned', 'The pass was abandoned while waiting for the service.', {
      cause,
    });
  }
}

function paused(url: URL, untilMs: number, leftMs: number): MirrorError {
  return new MirrorError(
    'service.busy',
    `${url.origin} asked for no requests until ${utcTime(untilMs)} (Retry-After); ${url.pathname} was not asked for.`,
    {
      retryAfterMs: leftMs,
      hint: 'Nothing is asked before that time.',
    },
  );
}

/** How much may be saved up while no bytes come, as time. */
const BURST_MS = 250;

/**
 * When bytes that came are within a limit. Times in milliseconds, on one clock.
 * @param freeAtMs when all bytes before them are within it
 */
export function withinLimitAtMs(
  freeAtMs: number,
  bytesPerSecond: number,
  sizeBytes: number,
  nowMs: number,
): number {
  return Math.max(freeAtMs, nowMs - BURST_MS) + (sizeBytes * 1000) / bytesPerSecond;
}

/**
 * How many bytes downloads may take, all together. Each asks for one piece of the same greatest size after the other, so that they get
 * equal shares.
 */
export class Bandwidth {
  readonly #bytesPerSecond: number;
  #freeAtMs = 0;

  constructor(bytesPerSecond: number) {
    this.#bytesPerSecond = bytesPerSecond;
  }

  /**
   * Waits until bytes that came are within the limit.
   * @throws MirrorError `pass.abandoned` when `signal` says so
   */
  async take(sizeBytes: number, signal: AbortSignal): Promise<void> {
    const nowMs = performance.now();
    this.#freeAtMs = withinLimitAtMs(this.#freeAtMs, this.#bytesPerSecond, sizeBytes, nowMs);
    const delayMs = this.#freeAtMs - nowMs;
    if (delayMs > 0 || signal.aborted) await waitFor(Math.ceil(delayMs), signal);
  }
}
