import { rmSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/**
 * Works in a folder that no other user may enter, below TMPDIR, and removes it with everything in it: at the end of the work, or if
 * the process ends before.
 * @param purpose a word for its name
 * @throws system errors, and the errors of the work
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
