import { setTimeout as sleep } from 'node:timers/promises';

import { systemCode } from '../errors/disk-errors.ts';

/** How long a network file system may use an old meaning of a name, in milliseconds: GlusterFS caches for 1 s by default. */
const CACHED_MS = 3000;

const TRY_EVERY_MS = 50;

/**
 * Reads by name a file that other machines may replace or remove; repeats it while the file system uses the old meaning of the name.
 * @param read reads from the beginning
 */
export async function againWhileStale<T>(read: () => Promise<T>): Promise<T> {
  const startedAtMs = performance.now();
  for (;;) {
    try {
      return await read();
    } catch (error) {
      // The former file of a name that another machine has replaced or removed (open(2), NFS).
      if (systemCode(error) !== 'ESTALE' || performance.now() - startedAtMs > CACHED_MS) throw error;
      await sleep(TRY_EVERY_MS);
    }
  }
}
