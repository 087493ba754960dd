import { constants } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';

import type { z } from 'zod';

import { systemCode, unlessMissing } from '../errors/disk-errors.ts';
import { MirrorError } from '../errors/errors.ts';
import { withOpen } from './read.ts';
import { againWhileStale } from './stale.ts';

/**
 * The program's own files at places that others can foresee. The owner of the directory may have put a link there, to a file
 * that only this process may read or write.
 */

/** Opened without following a link, and without waiting for the other end of a possible pipe (open(2)). */
export const READ_FLAGS = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

/** The errors of opening a link or a socket without following it (open(2)). */
const NO_FILE: ReadonlySet<string | undefined> = new Set(['ELOOP', 'EMLINK', 'ENXIO']);

/**
 * Reads a small file; null if there is none. Anything else in its place, a link or a larger file, counts as an empty one.
 * @throws system errors of reading
 */
export function readOwnText(path: string, maxBytes: number): Promise<string | null> {
  return againWhileStale(async () => {
    try {
      return await unlessMissing(withOpen(path, READ_FLAGS, (handle) => readText(handle, maxBytes)));
    } catch (error) {
      if (NO_FILE.has(systemCode(error))) return '';
      throw error;
    }
  });
}

async function readText(handle: FileHandle, maxBytes: number): Promise<string> {
  const stats = await handle.stat();
  return stats.isFile() && stats.size <= maxBytes ? handle.readFile('utf8') : '';
}

/** Reads a small JSON document; null for anything that does not fit its schema. @throws system errors of reading */
export async function readOwnDocument<T>(
  path: string,
  maxBytes: number,
  schema: z.ZodType<T>,
): Promise<T | null> {
  const text = await readOwnText(path, maxBytes);
  try {
    return schema.parse(JSON.parse(text ?? ''));
  } catch {
    return null;
  }
}

/**
 * Opens a file for reading and writing, and makes it if it is missing, for its owner alone.
 * @throws MirrorError `directory.unusable` if something else is there
 */
export async function openOwnFile(path: string): Promise<FileHandle> {
  const flags = constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW | constants.O_NONBLOCK;
  const handle = await open(path, flags, 0o600).catch((error: unknown) => {
    throw NO_FILE.has(systemCode(error)) ? foreign(path, error) : error;
  });
  if ((await handle.stat()).isFile()) return handle;
  await handle.close();
  throw foreign(path);
}

/**
 * Restricts the permissions of a file, also of one from another version; another user's file stays as it is.
 * @param allowed the permission bits that may stay
 */
export async function restrict(handle: FileHandle, allowed: number): Promise<void> {
  const { mode } = await handle.stat();
  if ((mode & 0o777 & ~allowed) !== 0) await handle.chmod(mode & allowed).catch(() => {});
}

function foreign(path: string, cause?: unknown): MirrorError {
  return new MirrorError('directory.unusable', `${path} is not a plain file.`, {
    cause,
    hint: 'Remove it: workbook-mirror makes the file again.',
  });
}
