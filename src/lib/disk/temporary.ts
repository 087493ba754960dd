import { rmSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/**
 * Works in a folder that nobody else may enter, below TMPDIR, and removes it with all that is in it: at the end of the work, or where
 * the process ends before.
 * @param purpose a word for its name
 * @throws system errors, and what the work throws
 */
export async function withTemporaryFolder<T>(
  purpose: string,
  work: (folder: string) => Promise<T>,
): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), `workbook-mirror-${purpose}-`));
  const removeNow = (): void => rmSync(folder, { recursive: true, force: true });
  process.on('exit', removeNow);
  try {
    return await work(folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
    process.off('exit', removeNow);
  }
}
