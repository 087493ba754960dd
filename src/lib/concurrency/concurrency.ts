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
  const links = [one, other].map((signal) => ({ signal, fire: () => joined.abort(signal.reason) }));
  for (const { signal, fire } of links) {
    if (signal.aborted) fire();
    else signal.addEventListener('abort', fire);
  }
  return {
    signal: joined.signal,
    leave: () => {
      for (const { signal, fire } of links) signal.removeEventListener('abort', fire);
    },
  };
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
