import { statfsSync } from 'node:fs';

/** Tests flush thousands of times, which is free in memory: attacks prove durability. */
const FOLDER = '/dev/shm';
const ENOUGH_BYTES = 2e9;

function freeBytes(folder: string): number {
  try {
    const { bavail, bsize } = statfsSync(folder);
    return bavail * bsize;
  } catch {
    return 0;
  }
}

if (freeBytes(FOLDER) > ENOUGH_BYTES) process.env['TMPDIR'] = FOLDER;
