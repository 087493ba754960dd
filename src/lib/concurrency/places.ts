/** All places are taken, and as many wait as may. */
export class CrowdedError extends Error {
  override readonly name = 'CrowdedError';
}

/** A limit on how much work is under way at once; the rest waits in the order it came. */
export class Places {
  private readonly waiting = new Set<() => void>();
  private readonly seats: number;
  private free: number;

  /**
   * @param count how much runs at once, at least 1
   * @param seats how much may wait
   */
  constructor(count: number, seats = Number.POSITIVE_INFINITY) {
    this.free = count;
    this.seats = seats;
  }

  /**
   * Waits for a place.
   * @returns gives the place back; to be called once
   * @throws CrowdedError, and the reason of `signal`
   */
  async take(signal?: AbortSignal): Promise<() => void> {
    signal?.throwIfAborted();
    if (!this.enter()) await this.wait(signal);
    return () => this.leave();
  }

  /** Does work in a place, at once where one is free. @throws CrowdedError, and what the work throws */
  async run<T>(work: () => Promise<T>): Promise<T> {
    if (!this.enter()) await this.wait();
    try {
      return await work();
    } finally {
      this.leave();
    }
  }

  private enter(): boolean {
    if (this.free > 0) {
      this.free -= 1;
      return true;
    }
    if (this.waiting.size >= this.seats) throw new CrowdedError('too many are waiting');
    return false;
  }

  private wait(signal?: AbortSignal): Promise<void> {
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
