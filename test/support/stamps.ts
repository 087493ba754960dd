import { lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';

/** Inode, size, mode, mtime and ctime of a folder and everything below it: equal stamps mean that nothing changed. */
export async function stampsOf(folder: string): Promise<Record<string, string>> {
  const stamps: Record<string, string> = {};
  for (const path of ['', ...(await readdir(folder, { recursive: true }))]) {
    const { ino, size, mode, mtimeNs, ctimeNs } = await lstat(join(folder, path), { bigint: true });
    stamps[path] = [ino, size, mode, mtimeNs, ctimeNs].join(' ');
  }
  return stamps;
}
