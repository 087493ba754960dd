import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { basename, dirname } from 'node:path';

/** The longest path that an address of a Unix socket holds, in bytes (unix(7), `sun_path`, without its NUL). */
const LONGEST_PATH_BYTES = 107;

/**
 * Returns a path of a socket that fits into its address, until it is closed: a long one leads through its opened folder.
 * @throws system errors
 */
export async function openSocketPath(file: string) {
  if (Buffer.byteLength(file) <= LONGEST_PATH_BYTES) return { path: file, close: () => Promise.resolve() };
  const folder = await open(dirname(file), constants.O_RDONLY | constants.O_DIRECTORY);
  return { path: `/proc/self/fd/${folder.fd}/${basename(file)}`, close: () => folder.close() };
}
