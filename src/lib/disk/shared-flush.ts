import { shareWork, type SharedWork } from '../concurrency/shared-work.ts';

/** The failures of a {@link SharedFlush} up to a moment. */
export type FlushMark = number;

/**
 * Flushes a file system for many at once: who comes while it is flushed shares the next flush, which begins when that one has
 * ended. The kernel tells an open file of a failed write once (syncfs(2), Linux 5.8), and at whatever flush comes next: so a failure
 * counts for all who had begun to write before it, whether they waited for that flush or wait for a later one.
 */
export class SharedFlush {
  readonly #flushOnce: SharedWork<void>;
  #failures: FlushMark = 0;
  #lastError: unknown;

  /** @param flush flushes everything that was written before it was called; never called twice at once */
  constructor(flush: () => Promise<void>) {
    this.#flushOnce = shareWork(async () => {
      try {
        await flush();
      } catch (error) {
        this.#failures += 1;
        this.#lastError = error;
        throw error;
      }
    });
  }

  /** Marks a moment; to be taken before the first byte is written. */
  mark(): FlushMark {
    return this.#failures;
  }

  /**
   * Makes everything durable that was written since a mark.
   * @throws the error of the latest flush that failed since the mark, even if only others waited for that flush: some of what was
   * written may be lost
   */
  async since(mark: FlushMark): Promise<void> {
    await this.#flushOnce();
    if (this.#failures > mark) throw this.#lastError;
  }
}
