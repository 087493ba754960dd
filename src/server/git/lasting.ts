import { open, readdir } from 'node:fs/promises';
import { join } from 'node:path';

import { syncDirectory } from './registry-index.ts';

/**
 * Settings with which git writes everything through to the disk before it goes on (git-config(1), `core.fsync`): what was
 * answered is there after a power cut.
 */
export const LASTING_SETTINGS: readonly string[] = ['-c', 'core.fsync=all', '-c', 'core.fsyncMethod=fsync'];

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
  await Promise.all(objects.map(syncIfThere));
  await Promise.all([...references, gitDirectory].map(syncIfThere));
}

/** Makes the content of a file last across a power cut, whoever wrote it. */
export async function syncFile(path: string): Promise<void> {
  const file = await open(path, 'r');
  try {
    await file.sync();
  } finally {
    await file.close();
  }
}

/** Git removes folders that have become empty at any time. */
async function syncIfThere(folder: string): Promise<void> {
  try {
    await syncDirectory(folder);
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ENOENT')) throw error;
  }
}
