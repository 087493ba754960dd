import { mkdirSync } from 'node:fs';
import { dirname } from 'node:path';

import { systemCode } from '../../lib/errors/disk-errors.ts';

/** Makes something at a path, and the folders around it where they are missing. */
export function makingFolder<T>(path: string, make: (path: string) => T): T {
  try {
    return make(path);
  } catch (error) {
    if (systemCode(error) !== 'ENOENT') throw error;
    mkdirSync(dirname(path), { recursive: true });
    return make(path);
  }
}
