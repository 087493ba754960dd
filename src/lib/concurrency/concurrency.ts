/** Calls `work` for every item, so many at a time; after the first failure no more begin, and it is thrown. */
export async function forEachConcurrently<T>(
  items: Iterable<T>,
  concurrency: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const queue = items[Symbol.iterator]();
  const failures: unknown[] = [];
  const worker = async (): Promise<void> => {
    for (let next = queue.next(); next.done !== true && failures.length === 0; next = queue.next()) {
      try {
        await work(next.value);
      } catch (error) {
        failures.push(error);
      }
    }
  };
  await Promise.all(Array.from({ length: concurrency }, worker));
  if (failures.length > 0) throw failures[0];
}

/**
 * Joins two signals: the given one fires with whichever fires first. Call `leave` when nothing listens any more: a signal that
 * lives as long as the program would otherwise keep the result of `AbortSignal.any` in memory.
 */
export function joinSignals(
  one: AbortSignal,
  other: AbortSignal,
): { readonly signal: AbortSignal; readonly leave: () => void } {
  const joined = new AbortController();
  const left = new AbortController();
  for (const signal of [one, other]) {
    const fire = (): void => joined.abort(signal.reason);
    if (signal.aborted) fire();
    else signal.addEventListener('abort', fire, { signal: left.signal });
  }
  return { signal: joined.signal, leave: () => left.abort() };
}

/** Waits for work that others may wait for too, until a signal fires. @throws the reason of `signal`; the errors of the work */
export function unlessAborted<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return work;
  return new Promise((resolve, reject) => {
    const leave = (): void => reject(signal.reason);
    if (signal.aborted) leave();
    signal.addEventListener('abort', leave, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', leave));
  });
}

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
    else {
      const { promise, resolve: enter } = Promise.withResolvers<void>();
      this.waiting.add(enter);
      await unlessAborted(promise, signal).catch((error: unknown) => {
        // The place may have been passed on in the same moment.
        if (!this.waiting.delete(enter)) this.leave();
        throw error;
      });
    }
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
