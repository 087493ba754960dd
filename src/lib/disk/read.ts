import { closeSync, lstatSync, openSync, readFileSync, readlinkSync, type Stats } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';

import { systemCode, unlessMissingNow } from '../errors/disk-errors.ts';

/**
 * Opens a file, and closes it after the work, whatever that says: it tells of what was written (close(2)). On GlusterFS it fails with ENOENT
 * or ESTALE where another machine removed or replaced the file meanwhile, which must not pass for a file that was not there.
 * @throws system errors of opening, and what the work throws
 */
export async function withOpen<T>(
  path: string,
  flags: number,
  work: (handle: FileHandle) => Promise<T>,
): Promise<T> {
  const handle = await open(path, flags);
  try {
    return await work(handle);
  } finally {
    await handle.close().catch(() => {});
  }
}

/** Reads a file while everything else waits; as {@link withOpen}. @throws system errors of opening and reading */
export function readNow(path: string): Buffer {
  const fd = openSync(path, 'r');
  try {
    return readFileSync(fd);
  } finally {
    closeAnyway(fd);
  }
}

/** Closes a file that was read or locked, whatever that says: it is closed then, and its locks are gone (close(2)). */
export function closeAnyway(fd: number): void {
  try {
    closeSync(fd);
  } catch {
    // A file server that was away does not know it any more.
  }
}

/**
 * What stands at a path, be it a link; null where nothing does. Everything else waits: a call that waits for a thread costs many times
 * what the look itself does.
 * @throws system errors but those of what is not there
 */
export function statsNow(path: string): Stats | null {
  return unlessMissingNow(() => lstatSync(path, { throwIfNoEntry: false }) ?? null);
}

/** The text of a link; null where none stands at the path (EINVAL, readlink(2)). @throws other system errors */
export function linkNow(path: string): string | null {
  try {
    return unlessMissingNow(() => readlinkSync(path));
  } catch (error) {
    if (systemCode(error) === 'EINVAL') return null;
    throw error;
  }
}
