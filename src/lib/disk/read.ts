import {
  closeSync,
  constants,
  fstatSync,
  lstatSync,
  openSync,
  readFileSync,
  readlinkSync,
  type Stats,
} from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';

import { systemCode, unlessMissingNow } from '../errors/disk-errors.ts';

/**
 * Opens a file, closes it after the work, and ignores errors of closing, which are about writing (close(2)). GlusterFS gives ENOENT
 * or ESTALE if another machine removed or replaced the file since; that must not pass for a missing file.
 * @throws system errors of opening, and the errors of the work
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

const IS_NO_FILE = { code: 'EISDIR', errno: -21, syscall: 'read' };

/**
 * Reads a plain file and its facts synchronously; as {@link withOpen}. Does not wait for the other end of a pipe (open(2)).
 * @throws system errors of opening and reading; EISDIR also for a device or a pipe, which may have no end
 */
export function readNow(path: string): { readonly stats: Stats; readonly bytes: Buffer } {
  const fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const stats = fstatSync(fd);
    if (!stats.isFile())
      throw Object.assign(new Error(`EISDIR: no plain file, read '${path}'`), { ...IS_NO_FILE, path });
    return { stats, bytes: readFileSync(fd) };
  } finally {
    closeAnyway(fd);
  }
}

/** Closes a file that was read or locked, and ignores errors: it is closed then, and its locks are gone (close(2)). */
export function closeAnyway(fd: number): void {
  try {
    closeSync(fd);
  } catch {
    // A file server that was away no longer knows it.
  }
}

/**
 * The entry at a path, which may be a link; null for none. Synchronous: a call that waits for a thread costs many times
 * as much as the look itself.
 * @throws system errors except those for a missing entry
 */
export function statsNow(path: string): Stats | null {
  return unlessMissingNow(() => lstatSync(path, { throwIfNoEntry: false }) ?? null);
}

/** The text of a link; null if there is no link at the path (EINVAL, readlink(2)). @throws other system errors */
export function linkNow(path: string): string | null {
  try {
    return unlessMissingNow(() => readlinkSync(path));
  } catch (error) {
    if (systemCode(error) === 'EINVAL') return null;
    throw error;
  }
}
