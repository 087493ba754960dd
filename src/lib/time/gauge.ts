import type { Amount } from '../text/amount.ts';

/** Speed is that of the last one to two such spans, in milliseconds: steady enough to read, and soon right after a change. */
const SPAN_MS = 2000;

/** The shortest time from which a speed is computed, in milliseconds. */
const LEAST_MS = 200;

interface Mark {
  readonly atMs: number;
  readonly doneBytes: number;
}

/** Measures how far some work on bytes is, and how fast it goes. */
export class Gauge {
  readonly #now: () => number;
  #doneBytes = 0;
  #totalBytes: number | null;
  #isEstimate: boolean;
  #older: Mark;
  #newer: Mark;

  /**
   * @param totalBytes null where nobody knows
   * @param isEstimate whether the total is only what it was the last time
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

  /** Says how much is done in all. @param totalBytes where it is known by now how much there is to do */
  reach(doneBytes: number, totalBytes: number | null = null): void {
    const atMs = this.#now();
    // What is begun anew, or goes on where another try broke off, was not done in this moment.
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
