import { shareWork, type SharedWork } from '../concurrency/shared-work.ts';

/** The failures of a {@link SharedFlush} up to a moment. */
export type FlushMark = number;

/**
 * Flushes a file system for many callers: one that comes during a flush shares the next flush, which begins when that one has
 * ended. The kernel reports a failed write to an open file once (syncfs(2), Linux 5.8), at the next flush of any caller: so a failure
 * counts for all who had begun to write before it, in whichever flush they take part.
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

  /** Marks a moment; call it before the first byte is written. */
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
