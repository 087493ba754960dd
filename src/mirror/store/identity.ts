import type { Published } from '../plan/published.ts';
import { knownDirectoryId, makeDirectoryId, usable } from './directory.ts';
import type { Inventory } from './inventory.ts';
import type { DirectoryLayout } from './layout.ts';
import type { Disk, MirrorStore } from './disk.ts';
import { otherInstances } from './shards/other-instances.ts';
import { DriftedTrees, readDriftNote, writeDriftNote } from './verify/drifted-trees.ts';
import { findAllDrifted } from './verify/examine.ts';

/**
 * Finds out which directory this is, and what in it is to be put right. A directory that was copied or restored is looked at as a
 * whole: a backup taken while something was published may hold a tree and a manifest that do not belong together.
 */
export async function identify(
  disk: Disk,
  inventory: Inventory,
  onScanned: ((doneTargets: number, targets: number) => void) | undefined,
): Promise<Pick<MirrorStore, 'id' | 'drifted'>> {
  const { layout } = disk;
  const knownId = await usable(layout.root, () => knownDirectoryId(layout));
  const noted = await usable(layout.root, () => readDriftNote(layout));
  const suspects =
    knownId === null ? (await inventory.read()).published : await notedElsewhere(layout, inventory);
  const found = suspects.length === 0 ? [] : await findAllDrifted(disk, suspects, onScanned);
  const drifted = new DriftedTrees(layout, disk.lock.check, [...noted, ...found]);
  await usable(layout.root, () => writeDriftNote(layout, drifted.paths()));
  return { id: knownId ?? (await usable(layout.root, () => makeDirectoryId(layout))), drifted };
}

/** The trees of this instance that others noted as changed, which may have mirrored them before. */
async function notedElsewhere(layout: DirectoryLayout, inventory: Inventory): Promise<readonly Published[]> {
  const noted = new Set<string>();
  for (const other of await otherInstances(layout))
    for (const path of await usable(layout.root, () => readDriftNote(other))) noted.add(path);
  // Without what is remembered of trees, which comes later, all manifests are read for it.
  if (noted.size === 0) return [];
  return (await inventory.read()).published.filter(({ path }) => noted.has(path));
}
