import { closeSync, openSync, readFileSync } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';

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
    try {
      closeSync(fd);
    } catch {
      // As above.
    }
  }
}
