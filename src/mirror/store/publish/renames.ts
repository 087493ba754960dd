import { lstat, rename } from 'node:fs/promises';
import { dirname } from 'node:path';

import { makeFolders } from '../../../lib/disk/durable.ts';
import { isMissing, unlessMissing } from '../../../lib/errors/disk-errors.ts';

/** So often it is tried to rename something into a folder that other instances make, and remove while it is empty. */
const RENAME_TRIES = 10;

/**
 * Renames where the source exists, making the destination's folders where they are missing.
 * @throws system errors, also where the source is there and the folders went away at each try
 */
export async function renameIfThere(from: string, to: string): Promise<boolean> {
  for (let tries = 1; ; tries += 1) {
    try {
      await rename(from, to);
      return true;
    } catch (error) {
      if (!isMissing(error)) throw error;
      if (!(await exists(from))) return false;
      if (tries === RENAME_TRIES) throw error;
    }
    await makeFolders(dirname(to));
  }
}

/** As {@link renameIfThere}, of what must be there. */
export async function renameInto(from: string, to: string): Promise<void> {
  await makeFolders(dirname(to));
  if (!(await renameIfThere(from, to))) await rename(from, to);
}

/** Whether anything stands at a path, be it a link that leads nowhere. @throws system errors */
async function exists(path: string): Promise<boolean> {
  return (await unlessMissing(lstat(path))) !== null;
}
