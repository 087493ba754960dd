import { rm } from 'node:fs/promises';

import { onDisk } from '../../../lib/errors/disk-errors.ts';
import type { Manifest } from '../manifest.ts';
import { examineTree } from '../verify/examine.ts';
import type { Disk } from '../disk.ts';
import { removeLinked } from './gate.ts';
import type { Stage } from './stage.ts';

/**
 * Shows someone the whole new tree of a stage before it is published: what of it is staged and, as hard links, what is published
 * already and stays. It is to be read only. Links are made and removed behind the gate, as readers may notice them; where a lease
 * is taken meanwhile they stay until the next pass.
 * @param look is given the folder, which is gone when this returns, unless a lease holds
 * @returns whether the tree still is what its manifest says, as far as `lstat` tells; if not, the stage is of no use any more
 * @throws whatever `look` throws; MirrorError `publish.leased`, `disk.*`
 */
export async function showStage(
  { gate }: Pick<Disk, 'gate'>,
  stage: Stage,
  { files }: Manifest,
  look: (folder: string) => Promise<void>,
  signal: AbortSignal,
): Promise<boolean> {
  const folder = await gate.pass(() => stage.makeView(files.map((file) => file.path)), signal);
  try {
    await look(folder);
    return (await examineTree(folder, files, { depth: 'facts', signal })).differences.length === 0;
  } finally {
    await onDisk('removing a view', () =>
      removeLinked(gate, () => rm(folder, { recursive: true, force: true })),
    );
  }
}
