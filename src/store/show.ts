import { rm } from 'node:fs/promises';

import { onDisk } from '../model/disk-errors.ts';
import type { Manifest } from '../model/manifest.ts';
import { examineTree } from './examine.ts';
import type { Stage } from './stage.ts';

/**
 * Shows someone the whole new tree of a stage before it is published: what of it is staged and, as hard links, what is published
 * already and stays. It is to be read only.
 * @param look is given the folder, which is gone when this returns
 * @returns whether the tree still is what its manifest says, as far as `lstat` tells; if not, the stage is of no use any more
 * @throws whatever `look` throws; MirrorError `disk.*`
 */
export async function showStage(
  stage: Stage,
  { files }: Manifest,
  look: (folder: string) => Promise<void>,
  signal: AbortSignal,
): Promise<boolean> {
  const folder = await stage.makeView(files.map((file) => file.path));
  try {
    await look(folder);
    return (await examineTree(folder, files, { depth: 'facts', signal })).differences.length === 0;
  } finally {
    await onDisk('removing a view', () => rm(folder, { recursive: true, force: true }));
  }
}
