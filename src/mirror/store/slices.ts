import { setImmediate } from 'node:timers/promises';

/** How long the program may be kept from everything else at a time, in milliseconds. */
const SLICE_MS = 5;

/**
 * Takes a short step for every item, one after the other, and lets others have their turn in between. System calls that the disk
 * answers from memory cost several times as much when each is waited for by itself.
 * @param items may grow while it is gone through
 */
export async function forEachInSlices<T>(items: Iterable<T>, step: (item: T) => void): Promise<void> {
  let endMs = performance.now() + SLICE_MS;
  for (const item of items) {
    step(item);
    if (performance.now() < endMs) continue;
    await setImmediate();
    endMs = performance.now() + SLICE_MS;
  }
}
