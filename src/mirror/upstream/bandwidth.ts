import { MirrorError } from '../../lib/errors/errors.ts';

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
