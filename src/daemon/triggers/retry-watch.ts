/** Waits for persons to ask for a retry. */
export interface RetryWatch {
  readonly close: () => void;
}

/** How often requests are looked for, in milliseconds: another process writes them. */
const LOOK_EVERY_MS = 2000;

/**
 * Has what a person wants tried at once be tried, rather than at the next tick of the schedule. A request that a pass could not carry
 * out waits for the next one, and is told of once.
 * @param retries the targets that are asked for
 */
export function watchRetries(retries: () => Promise<ReadonlySet<string>>, onRequest: () => void): RetryWatch {
  let known: ReadonlySet<string> = new Set();
  let isLooking = false;
  const look = async (): Promise<void> => {
    if (isLooking) return;
    isLooking = true;
    // What cannot be read now is looked for again.
    const found = await retries().catch(() => known);
    if ([...found].some((target) => !known.has(target))) onRequest();
    known = found;
    isLooking = false;
  };
  const timer = setInterval(() => void look(), LOOK_EVERY_MS);
  timer.unref();
  return { close: () => clearInterval(timer) };
}
