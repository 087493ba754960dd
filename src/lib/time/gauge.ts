import { roughDuration, roughSize } from '../text/humanize.ts';

/** The progress of some work on bytes. */
export interface Amount {
  readonly doneBytes: number;
  /** Null if unknown. */
  readonly totalBytes: number | null;
  /** Whether the total is only the last known one. */
  readonly isEstimate: boolean;
  /** The speed of the last seconds; null if too little was done to tell. */
  readonly bytesPerSecond: number | null;
}

/** The remaining time at the present speed, in milliseconds; null if unknown. */
export function leftMs({ doneBytes, totalBytes, bytesPerSecond }: Amount): number | null {
  if (totalBytes === null || bytesPerSecond === null || bytesPerSecond <= 0) return null;
  return (1000 * Math.max(0, totalBytes - doneBytes)) / bytesPerSecond;
}

/** Progress as a clause: `512 MB of 2.1 GB, 41 MB/s, 38 s left`. */
export function describeAmount(amount: Amount): string {
  const { doneBytes, totalBytes, isEstimate, bytesPerSecond } = amount;
  const left = leftMs(amount);
  const isBeyond = totalBytes !== null && doneBytes > totalBytes;
  const total =
    totalBytes === null || isBeyond ? '' : ` of ${isEstimate ? 'about ' : ''}${roughSize(totalBytes)}`;
  return [
    `${roughSize(doneBytes)}${total}`,
    ...(bytesPerSecond === null ? [] : [`${roughSize(bytesPerSecond)}/s`]),
    ...(left === null || isBeyond ? [] : [`${roughDuration(left)} left`]),
  ].join(', ');
}

/** Speed is measured over the last one to two such spans, in milliseconds: steady enough to read, and quick to follow a change. */
const SPAN_MS = 2000;

/** The shortest time from which a speed is computed, in milliseconds. */
const LEAST_MS = 200;

interface Mark {
  readonly atMs: number;
  readonly doneBytes: number;
}

/** Measures the progress and speed of some work on bytes. */
export class Gauge {
  #doneBytes = 0;
  #totalBytes: number | null;
  #isEstimate: boolean;
  #older: Mark;
  #newer: Mark;

  /**
   * @param totalBytes null if unknown
   * @param isEstimate whether the total is only the last known one
   */
  constructor(totalBytes: number | null, isEstimate = false) {
    this.#totalBytes = totalBytes;
    this.#isEstimate = isEstimate;
    this.#older = this.#newer = { atMs: performance.now(), doneBytes: 0 };
  }

  add(bytes: number): void {
    this.reach(this.#doneBytes + bytes);
  }

  /** Records how much is done in all. @param totalBytes the total, if known by now */
  reach(doneBytes: number, totalBytes: number | null = null): void {
    const atMs = performance.now();
    // Work that restarts, or continues after an interruption, was not done in this moment.
    if (doneBytes < this.#doneBytes) this.#older = this.#newer = { atMs, doneBytes };
    this.#doneBytes = doneBytes;
    if (totalBytes !== null) {
      this.#totalBytes = totalBytes;
      this.#isEstimate = false;
    }
    if (atMs - this.#newer.atMs < SPAN_MS) return;
    this.#older = this.#newer;
    this.#newer = { atMs, doneBytes };
  }

  amount(): Amount {
    const ms = performance.now() - this.#older.atMs;
    return {
      doneBytes: this.#doneBytes,
      totalBytes: this.#totalBytes,
      isEstimate: this.#isEstimate,
      bytesPerSecond: ms < LEAST_MS ? null : (1000 * (this.#doneBytes - this.#older.doneBytes)) / ms,
    };
  }
}
