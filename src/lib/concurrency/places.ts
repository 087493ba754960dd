/** A limit on how much work runs at once; the rest waits in order. One place makes a queue. */
export class Places {
  private readonly waiting = new Set<() => void>();
  private free: number;

  /** @param count how much runs at once, at least 1 */
  constructor(count: number) {
    this.free = count;
  }

  /**
   * Waits for a place.
   * @returns releases the place; call it once
   * @throws the reason of `signal`
   */
  async take(signal?: AbortSignal): Promise<() => void> {
    signal?.throwIfAborted();
    if (this.free > 0) this.free -= 1;
    else await this.wait(signal);
    return () => this.leave();
  }

  /** Does work in a place; never synchronously. @throws the errors of the work */
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
    // The place is passed on, so `free` does not change.
    this.waiting.delete(next);
    next();
  }
}
