import type { Amount } from '../text/amount.ts';

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
  readonly #now: () => number;
  #doneBytes = 0;
  #totalBytes: number | null;
  #isEstimate: boolean;
  #older: Mark;
  #newer: Mark;

  /**
   * @param totalBytes null if unknown
   * @param isEstimate whether the total is only the last known one
   * @param now milliseconds on a clock that only goes forward
   */
  constructor(totalBytes: number | null, isEstimate = false, now: () => number = () => performance.now()) {
    this.#now = now;
    this.#totalBytes = totalBytes;
    this.#isEstimate = isEstimate;
    this.#older = this.#newer = { atMs: now(), doneBytes: 0 };
  }

  add(bytes: number): void {
    this.reach(this.#doneBytes + bytes);
  }

  /** Records how much is done in all. @param totalBytes the total, if known by now */
  reach(doneBytes: number, totalBytes: number | null = null): void {
    const atMs = this.#now();
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
    const ms = this.#now() - this.#older.atMs;
    return {
      doneBytes: this.#doneBytes,
      totalBytes: this.#totalBytes,
      isEstimate: this.#isEstimate,
      bytesPerSecond: ms < LEAST_MS ? null : (1000 * (this.#doneBytes - this.#older.doneBytes)) / ms,
    };
  }
}
