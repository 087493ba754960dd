import { readdir } from 'node:fs/promises';
import { join } from 'node:path';

import { syncDirectory } from '../../lib/disk/durable.ts';
import { unlessMissing } from '../../lib/errors/disk-errors.ts';

/**
 * Settings with which git writes everything through to the disk before it goes on (git-config(1), `core.fsync`): what was
 * answered is there after a power cut.
 */
export const LASTING_SETTINGS: readonly string[] = ['-c', 'core.fsync=all', '-c', 'core.fsyncMethod=fsync'];

/** For whole files: fsync(2) tells them and directories not apart. */
export const syncFile = syncDirectory;

/** The folders in a folder; none where it has vanished. */
async function foldersIn(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => []);
  return entries.filter((entry) => entry.isDirectory()).map(({ name }) => join(folder, name));
}

/** All folders below a folder, itself among them. */
async function foldersBelow(folder: string): Promise<string[]> {
  const inner = await foldersIn(folder);
  return [folder, ...(await Promise.all(inner.map(foldersBelow))).flat()];
}

/**
 * Makes what git has written into a bare repository last across a power cut: git syncs the files, but not the folders that
 * name them, nor HEAD (git 2.39 to 2.51).
 */
export async function syncFolders(gitDirectory: string): Promise<void> {
  const store = join(gitDirectory, 'objects');
  const objects = [...(await foldersIn(store)), store];
  const references = await foldersBelow(join(gitDirectory, 'refs'));
  // What is named goes first.
  await syncFile(join(gitDirectory, 'HEAD'));
  // Git removes folders that have become empty at any time.
  const syncIfThere = (folder: string): Promise<unknown> => unlessMissing(syncDirectory(folder));
  await Promise.all(objects.map(syncIfThere));
  await Promise.all([...references, gitDirectory].map(syncIfThere));
}
