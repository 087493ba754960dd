import { mkdir, readdir, stat, utimes, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';

import { type BenchFile, contentOf, versionTimeMs } from './data-set.ts';

/** Writes files as they are in their present versions, with the times of these. @returns the folder */
export async function writeTree(folder: string, files: readonly BenchFile[]): Promise<string> {
  const made = new Set<string>();
  for (const file of files) {
    const path = join(folder, file.path);
    if (!made.has(dirname(path))) {
      await mkdir(dirname(path), { recursive: true });
      made.add(dirname(path));
    }
    await writeFile(path, contentOf(file));
    const at = versionTimeMs(file.version) / 1000;
    await utimes(path, at, at);
  }
  return folder;
}

/** The inode of every file below a folder, by path. */
export async function inodesOf(folder: string): Promise<Map<string, number>> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const inodes = new Map<string, number>();
  for (const entry of entries) {
    if (!entry.isFile()) continue;
    const path = join(entry.parentPath, entry.name);
    inodes.set(path, (await stat(path)).ino);
  }
  return inodes;
}

/** How many files lie below a folder, and their bytes. */
export async function sizeOfTree(
  folder: string,
): Promise<{ readonly files: number; readonly sizeBytes: number }> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  let files = 0;
  let sizeBytes = 0;
  for (const entry of entries) {
    if (!entry.isFile()) continue;
    files += 1;
    sizeBytes += (await stat(join(entry.parentPath, entry.name))).size;
  }
  return { files, sizeBytes };
}
