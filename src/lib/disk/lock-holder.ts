import { readFile } from 'node:fs/promises';
import { hostname } from 'node:os';

import { systemCode } from '../errors/disk-errors.ts';
import { readOwnText } from './own-file.ts';

/** Who took the lock of a directory last. */
export interface LockHolder {
  readonly pid: number;
  /** When it took the lock. Milliseconds since the epoch. */
  readonly sinceMs: number;
  /** Whether there is a process of that number. */
  readonly isAlive: boolean;
}

const MAX_TEXT_BYTES = 4096;
const FORM = /^pid (\d{1,10}) on (\S+) since (\S+)\n$/;

/**
 * Reads who took a lock, without a try for it: that would get in the way of whoever starts just now.
 * @returns null where that cannot be told: the file cannot be read, is another machine's, or is of none yet
 */
export async function readLockHolder(lockFile: string): Promise<LockHolder | null> {
  const text = await readOwnText(lockFile, MAX_TEXT_BYTES).catch(() => null);
  const [, pid = '', host = '', since = ''] = FORM.exec(text ?? '') ?? [];
  const sinceMs = Date.parse(since);
  if (host !== hostname() || Number.isNaN(sinceMs)) return null;
  return { pid: Number(pid), sinceMs, isAlive: isAlive(Number(pid)) && (await mayBeOurs(pid)) };
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // It is there, and somebody else's (kill(2)).
    return systemCode(error) === 'EPERM';
  }
}

/** Whether a process may be one of this program: its number may have been given to another since (proc(5)). */
async function mayBeOurs(pid: string): Promise<boolean> {
  const command = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => null);
  return command === null || /workbook-mirror|main\.[jt]s/.test(command);
}
