import { lstat, readdir } from 'node:fs/promises';
import { join, relative } from 'node:path';

/** Inode, size, mode, mtime and ctime of everything below a folder: equal stamps mean that nothing changed. */
export async function stampsOf(folder: string): Promise<Record<string, string>> {
  const stamps: Record<string, string> = {};
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name);
    const { ino, size, mode, mtimeNs, ctimeNs } = await lstat(path, { bigint: true });
    stamps[relative(folder, path)] = [ino, size, mode, mtimeNs, ctimeNs].join(' ');
  }
  return stamps;
}
