/** Returns the result of a piece of work; it is no older than the agreed age. */
export type SharedWork<Value> = () => Promise<Value>;

/**
 * Shares work between callers: a call within `maxAgeMs` of its beginning gets the same result, and the work never runs twice at
 * once. A later call during the work gets the result of the next run, which starts when this one is over; so each result was
 * true at most `maxAgeMs` before the call.
 * @param maxAgeMs in milliseconds
 */
export function shareWork<Value>(work: () => Promise<Value>, maxAgeMs = 0): SharedWork<Value> {
  let latest: Promise<Value> | null = null;
  let following: Promise<Value> | null = null;
  let startedAtMs = 0;
  let isRunning = false;
  const end = (): void => {
    isRunning = false;
  };
  const start = (): Promise<Value> => {
    following = null;
    latest = work();
    startedAtMs = performance.now();
    isRunning = true;
    latest.then(end, end);
    return latest;
  };
  return () => {
    if (latest === null) return start();
    if (performance.now() - startedAtMs < maxAgeMs) return latest;
    if (following !== null) return following;
    if (!isRunning) return start();
    following = latest.then(start, start);
    return following;
  };
}

/**
 * Waits for a promise, with a time limit.
 * @param timeoutMs in milliseconds
 * @returns null if it took longer
 */
export async function waitAtMost<Value>(promise: Promise<Value>, timeoutMs: number): Promise<Value | null> {
  const { promise: late, resolve } = Promise.withResolvers<null>();
  const timer = setTimeout(resolve, timeoutMs, null);
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** Works with something, and closes it at the end. */
export async function closing<T extends { readonly close: () => Promise<void> }, Result>(
  opened: T,
  work: (opened: T) => Promise<Result>,
): Promise<Result> {
  try {
    return await work(opened);
  } finally {
    await opened.close();
  }
}
