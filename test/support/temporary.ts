import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { onTestFinished } from 'vitest';

/** Takes what is to be undone at an end, which is done in the opposite order. */
export type AtEnd = (undo: () => Promise<void> | void) => void;

/** A folder that is gone at the end, by default when the running test is finished. */
export async function temporaryFolder(atEnd: AtEnd = onTestFinished): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'workbook-mirror-test-'));
  atEnd(() => rm(folder, { recursive: true, force: true }));
  return folder;
}
