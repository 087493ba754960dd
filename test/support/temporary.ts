import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { onTestFinished } from 'vitest';

/** Registers cleanups, which run in reverse order. */
export type AtEnd = (undo: () => Promise<void> | void) => void;

/** A temporary folder, removed by default when the running test ends. */
export async function temporaryFolder(atEnd: AtEnd = onTestFinished): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'workbook-mirror-test-'));
  atEnd(() => rm(folder, { recursive: true, force: true }));
  return folder;
}
