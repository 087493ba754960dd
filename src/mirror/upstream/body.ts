import type { Readable } from 'node:stream';

import type { MirrorError } from '../../lib/errors/errors.ts';

/**
 * How slowly a body may come. `stallTimeoutMs` alone lets one byte at a time keep a pass busy for ever; so JSON has this
 * many times that in all, and a download must bring some bytes in every such time: an archive of gigabytes over a slow
 * line is all right, however long it takes.
 */
export const STALLS_IN_ALL = 10;

/**
 * The share of such a period in which the receiver was not ready to take bytes, from which on a download's speed is not judged:
 * the little time that is left may be no more than the delay of timers.
 */
const UNJUDGED_SHARE = 0.9;

/**
 * The bytes that a download must bring in each period of `STALLS_IN_ALL` stall timeouts, about a hundred bytes a second with the
 * default settings, and the bytes that a try must bring to count as one that got further.
 */
export const LEAST_PROGRESS_BYTES = 64 * 1024;

export interface BodyBounds {
  /** Most bytes, after decoding. */
  readonly maxBytes: number;
  readonly stallTimeoutMs: number;
  /** Called whenever bytes come. */
  readonly onProgress?: (() => void) | undefined;
  readonly tooLarge: () => MirrorError;
  readonly tooSlow: (durationMs: number) => MirrorError;
}

/** Watches a download while it comes. */
export interface Meter {
  /** To be called with the number of bytes that came. @throws MirrorError as the bounds say, when they are too many */
  readonly came: (moreBytes: number) => void;
  /** Waits for something of our own, such as a slow disk: the service is not to blame for that time. */
  readonly excuse: (wait: Promise<unknown>) => Promise<void>;
  readonly stop: () => void;
}

/**
 * Watches a body that is downloaded: one that is too great or hardly moves is stopped. What it must bring shrinks with the time in
 * which nobody was ready to take it, and is nothing where that was nearly all of it.
 * @param beforeBytes what came in the tries before, which counts for the greatest size
 */
export function watchBody(body: Readable, bounds: BodyBounds, beforeBytes = 0): Meter {
  const periodMs = bounds.stallTimeoutMs * STALLS_IN_ALL;
  let sizeBytes = beforeBytes;
  let sizeAtStartBytes = beforeBytes;
  let excusedMs = 0;
  let excusedSinceMs: number | null = null;
  const settle = (nowMs: number): void => {
    if (excusedSinceMs === null) return;
    excusedMs += nowMs - excusedSinceMs;
    excusedSinceMs = nowMs;
  };
  const timer = setInterval(() => {
    settle(performance.now());
    const excusedShare = excusedMs / periodMs;
    const leastBytes = excusedShare >= UNJUDGED_SHARE ? 0 : LEAST_PROGRESS_BYTES * (1 - excusedShare);
    if (sizeBytes - sizeAtStartBytes < leastBytes) body.destroy(bounds.tooSlow(periodMs));
    sizeAtStartBytes = sizeBytes;
    excusedMs = 0;
  }, periodMs);
  return {
    came: (moreBytes) => {
      bounds.onProgress?.();
      sizeBytes += moreBytes;
      if (sizeBytes > bounds.maxBytes) throw bounds.tooLarge();
    },
    excuse: async (wait) => {
      excusedSinceMs = performance.now();
      try {
        await wait;
      } finally {
        settle(performance.now());
        excusedSinceMs = null;
      }
    },
    stop: () => clearInterval(timer),
  };
}
