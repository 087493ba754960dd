import { readdir } from 'node:fs/promises';
import { join } from 'node:path';

import { unlessMissing } from '../../../lib/errors/disk-errors.ts';
import { MirrorError } from '../../../lib/errors/errors.ts';
import { ownCommand } from '../../../lib/text/own-command.ts';
import type { DirectoryLayout } from '../layout.ts';
import type { TreeChanges } from '../manifest.ts';
import { folderAt, type TreePlace } from '../published-tree.ts';
import type { Stage } from './stage.ts';

/**
 * Makes sure that what stands at a path is the tree that a stage was compared with: the files that the stage lacks are taken from it.
 * @throws MirrorError `disk.changed` where someone put something else there meanwhile; `internal.defect` for another path
 */
export function refuseOtherTree(
  layout: DirectoryLayout,
  { target, published }: Pick<Stage, 'target' | 'published'>,
  path: string,
  place: TreePlace,
): void {
  if (target !== path)
    throw new MirrorError('internal.defect', `A stage of ${target} was to be published as ${path}.`);
  if (folderAt(layout, path, place) !== published) throw replacedMeanwhile(path);
}

/**
 * Makes sure that a stage holds all files that the published tree does not, and no others: with links to the rest, of which each is
 * made or fails, it is exactly the new tree. It is not where the published tree is gone since the stage was compared with it.
 * @throws MirrorError `disk.changed`
 */
export function refuseIncomplete(
  { staged }: Pick<Stage, 'staged'>,
  path: string,
  { added, changed }: TreeChanges,
): void {
  const wanted = new Set([...added, ...changed]);
  if (wanted.size === staged.size && [...wanted].every((file) => staged.has(file))) return;
  throw replacedMeanwhile(path);
}

/** Refuses to take the place of a folder in which other targets are published. */
export async function refuseNested(layout: DirectoryLayout, path: string): Promise<void> {
  const below = (await unlessMissing(readdir(join(layout.manifests, path), { recursive: true }))) ?? [];
  const nested = below.find((name) => name.endsWith('.json'));
  if (nested === undefined) return;
  throw new MirrorError(
    'disk.changed',
    `mirror/${path} holds another target, ${path}/${nested.slice(0, -5)}.`,
    {
      hint: `Move one of them away; \`${ownCommand('status')}\` lists all targets.`,
    },
  );
}

export function changedMeanwhile(file: string, path: string): MirrorError {
  return new MirrorError(
    'disk.changed',
    `Someone changed ${JSON.stringify(file)} of ${path} while the new tree was made ready.`,
    { hint: 'Nothing was published.' },
  );
}

function replacedMeanwhile(path: string): MirrorError {
  return new MirrorError(
    'disk.changed',
    `Someone removed or replaced mirror/${path} while the new tree was made ready.`,
    { hint: 'Nothing was published.' },
  );
}
