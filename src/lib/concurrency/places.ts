/** A limit on how much work is under way at once; the rest waits in the order it came. One place makes a queue. */
export class Places {
  private readonly waiting = new Set<() => void>();
  private free: number;

  /** @param count how much runs at once, at least 1 */
  constructor(count: number) {
    this.free = count;
  }

  /**
   * Waits for a place.
   * @returns gives the place back; to be called once
   * @throws the reason of `signal`
   */
  async take(signal?: AbortSignal): Promise<() => void> {
    signal?.throwIfAborted();
    if (this.free > 0) this.free -= 1;
    else await this.wait(signal);
    return () => this.leave();
  }

  /** Does work in a place; never before the caller goes on. @throws what the work throws */
  async run<T>(work: () => Promise<T>): Promise<T> {
    const leave = await this.take();
    try {
      return await work();
    } finally {
      leave();
    }
  }

  private wait(signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const giveUp = (): void => {
        this.waiting.delete(enter);
        reject(signal?.reason);
      };
      const enter = (): void => {
        signal?.removeEventListener('abort', giveUp);
        resolve();
      };
      this.waiting.add(enter);
      signal?.addEventListener('abort', giveUp, { once: true });
    });
  }

  private leave(): void {
    const [next] = this.waiting;
    if (next === undefined) {
      this.free += 1;
      return;
    }
    // The place is handed over, so `free` is not touched here.
    this.waiting.delete(next);
    next();
  }
}
