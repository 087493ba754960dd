import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';

/** Adds up the sizes of all files in a folder and below it, in bytes; what goes meanwhile counts as nothing. */
export async function sizeOfFolder(folder: string): Promise<number> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => []);
  let sizeBytes = 0;
  for (const entry of entries) {
    if (!entry.isFile()) continue;
    const found = await stat(join(entry.parentPath, entry.name)).catch(() => null);
    sizeBytes += found?.size ?? 0;
  }
  return sizeBytes;
}
