import { setTimeout as sleep } from 'node:timers/promises';

import { systemCode } from '../errors/disk-errors.ts';

/** For so long what a name led to is taken for what it leads to, in milliseconds: GlusterFS caches for 1 s unless told otherwise. */
const CACHED_MS = 3000;

const TRY_EVERY_MS = 50;

/** Whether a network file system looked in vain for what a name led to before another machine replaced or removed it (open(2), NFS). */
export function isStale(error: unknown): boolean {
  return systemCode(error) === 'ESTALE';
}

/**
 * Reads by a name what other machines replace or remove at any time, again for as long as the file system mistakes the old for the new.
 * @param read reads from the beginning
 */
export async function againWhileStale<T>(read: () => Promise<T>): Promise<T> {
  const startedAtMs = performance.now();
  for (;;) {
    try {
      return await read();
    } catch (error) {
      if (!isStale(error) || performance.now() - startedAtMs > CACHED_MS) throw error;
      await sleep(TRY_EVERY_MS);
    }
  }
}
