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

/** Statuses whose Retry-After is about the service and not about one request (RFC 9110, 15.6.4; RFC 6585, section 4). */
export function pausesOrigin(status: number): boolean {
  return status === 429 || status === 503;
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

/** How many bytes downloads may take, all together. */
export interface Bandwidth {
  /** Whether there is a limit at all. */
  readonly isLimited: boolean;
  /**
   * Waits until bytes that came are within the limit. Those who wait get equal shares, piece by piece, in turns.
   * @throws MirrorError `pass.abandoned` when `signal` says so
   */
  readonly take: (sizeBytes: number, signal: AbortSignal) => Promise<void>;
}

/** How much may be saved up while nobody takes anything, as time. */
const BURST_MS = 250;
/** The share of each turn: no more than comes at once, or who gets little at a time would get less in all. */
const PIECE_BYTES = 4 * 1024;

/** A limit as a value: a bucket that fills steadily, and from which pieces are taken. Times in milliseconds. */
export interface Bucket {
  readonly bytesPerSecond: number;
  readonly savedBytes: number;
  readonly atMs: number;
}

/** A bucket that nobody has taken anything from yet. */
export function fullBucket(bytesPerSecond: number, nowMs: number): Bucket {
  return { bytesPerSecond, savedBytes: burstBytes(bytesPerSecond), atMs: nowMs };
}

/** The bucket at a later time. A clock that went backwards fills nothing. */
export function refill(bucket: Bucket, nowMs: number): Bucket {
  const cameBytes = (Math.max(0, nowMs - bucket.atMs) * bucket.bytesPerSecond) / 1000;
  const savedBytes = Math.min(burstBytes(bucket.bytesPerSecond), bucket.savedBytes + cameBytes);
  return { ...bucket, savedBytes, atMs: nowMs };
}

/** How many of the bytes that somebody wants are given in one turn. */
export function pieceBytes({ bytesPerSecond }: Bucket, wantedBytes: number): number {
  return Math.min(wantedBytes, PIECE_BYTES, burstBytes(bytesPerSecond));
}

function burstBytes(bytesPerSecond: number): number {
  return Math.max(1, (bytesPerSecond * BURST_MS) / 1000);
}

interface Waiter {
  leftBytes: number;
  readonly admit: () => void;
}

/**
 * Makes the limit that downloads share.
 * @param bytesPerSecond null for none
 */
export function createBandwidth(bytesPerSecond: number | null): Bandwidth {
  if (bytesPerSecond === null) return { isLimited: false, take: () => Promise.resolve() };
  const queue = new Set<Waiter>();
  let bucket = fullBucket(bytesPerSecond, performance.now());
  let timer: NodeJS.Timeout | undefined;

  const serve = (): void => {
    clearTimeout(timer);
    bucket = refill(bucket, performance.now());
    for (let [next] = queue; next !== undefined; [next] = queue) {
      const piece = pieceBytes(bucket, next.leftBytes);
      if (piece > bucket.savedBytes) {
        timer = setTimeout(serve, Math.ceil(((piece - bucket.savedBytes) * 1000) / bytesPerSecond));
        return;
      }
      bucket = { ...bucket, savedBytes: bucket.savedBytes - piece };
      next.leftBytes -= piece;
      // To the end of the queue, or out of it.
      queue.delete(next);
      if (next.leftBytes > 0) queue.add(next);
      else next.admit();
    }
  };

  return {
    isLimited: true,
    take: (sizeBytes, signal) =>
      new Promise((resolve, reject) => {
        if (signal.aborted) throw abandoned(signal);
        const waiter: Waiter = {
          leftBytes: sizeBytes,
          admit: () => {
            signal.removeEventListener('abort', leave);
            resolve();
          },
        };
        const leave = (): void => {
          queue.delete(waiter);
          if (queue.size === 0) clearTimeout(timer);
          reject(abandoned(signal));
        };
        signal.addEventListener('abort', leave, { once: true });
        queue.add(waiter);
        serve();
      }),
  };
}

function abandoned({ reason }: AbortSignal): MirrorError {
  return new MirrorError('pass.abandoned', 'The download was abandoned.', { cause: reason });
}
